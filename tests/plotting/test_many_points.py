"""Colours, and points so many that they are shown by shades."""

import time
import tracemalloc

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from vicinal.plotting import EmbeddingDisplay, scatter
from vicinal.plotting._colours import (
    COLOURS,
    MARKS,
    Classes,
    Numbers,
    class_colours,
    class_marks,
    linear,
    srgb,
)
from vicinal.plotting._points import density_image

# Machado, Oliveira, Fernandes (2009): what is seen of linear RGB with each kind of blindness
SEEN = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                              [-0.011820, 0.042940, 0.968881]]),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                            [0.004733, 0.691367, 0.303900]]),
}  # fmt: skip


def cielab(light):
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
              [0.0193339, 0.1191920, 0.9503041]]  # fmt: skip
    xyz = np.clip(light, 0, 1) @ np.transpose(to_xyz) / [0.95047, 1.0, 1.08883]
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], 1)


@pytest.mark.parametrize("vision", SEEN)
@pytest.mark.parametrize(("count", "least"), [(4, 40.0), (6, 35.0), (8, 22.0), (10, 18.0)])
def test_colours_differ_for_the_colour_blind(vision, count, least):
    seen = cielab(linear([to_rgb(c) for c in COLOURS[:count]]) @ SEEN[vision].T)
    apart = np.linalg.norm(seen[:, None] - seen, axis=2)[np.triu_indices(count, 1)]
    assert apart.min() >= least


def test_colours_differ_from_light_and_dark_pages():
    for dark, page in ((False, 1.0), (True, 0.0)):
        lightness = cielab(linear(class_colours(10, dark)))[:, 0]
        assert np.abs(lightness - 100 * page).min() > 20


def test_no_two_of_eighty_classes_look_alike():
    looks = zip(np.arange(80) % len(COLOURS), class_marks(80, distinct=False), strict=True)
    assert len(set(looks)) == 80
    assert len(set(class_marks(8, distinct=True))) == len(MARKS)  # in grey, too
    assert set(class_marks(10, distinct=False)) == {"o"}


def test_light_is_the_inverse_of_srgb(rng):
    colours = rng.uniform(size=(20, 3))
    np.testing.assert_allclose(srgb(linear(colours)), colours, atol=1e-12)


def test_a_million_points_take_seconds_and_bounded_memory(rng):
    n = 1_000_000
    Z, codes = rng.normal(size=(n, 2)), rng.integers(50, size=n)
    view = Z.min(axis=0), Z.max(axis=0)
    palette = class_colours(50)
    start = time.process_time()
    tracemalloc.start()
    image = density_image(Z, Classes(codes, [str(c) for c in range(50)]), palette, view)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.process_time() - start < 10.0
    assert peak < 60e6  # a third of which are the points of a block
    assert max(image.shape[:2]) <= 420
    assert np.isfinite(image).all()
    assert image.min() >= 0
    assert image.max() <= 1


def test_many_points_are_one_image_and_no_markers(rng):
    Z, y = rng.normal(size=(20_000, 2)), rng.integers(3, size=20_000)
    ax = scatter(Z, y)
    assert len(ax.images) == 1
    assert not ax.collections
    assert len(ax.get_legend().get_texts()) == 3
    assert not scatter(Z, y, size=3.0).images  # asked for


def test_shades_say_how_many_and_colours_of_what(rng):
    """Two heaps of one class each, one of them ten times as full, and an even mixture."""
    heaps = np.array([[0.0, 0.0], [4.0, 0.0], [8.0, 0.0]])
    counts = [20_000, 2_000, 20_000]
    codes = np.concatenate([np.zeros(20_000), np.ones(2_000), np.arange(20_000) % 2]).astype(int)
    Z = np.repeat(heaps, counts, axis=0) + 0.5 * rng.normal(size=(42_000, 2))
    palette = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    view = np.array([-2.0, -2.0]), np.array([10.0, 2.0])
    image = density_image(Z, Classes(codes, ["a", "b"]), palette, view)
    height, width = image.shape[:2]
    at = [image[height // 2, int((x + 2) / 12 * width)] for x in (0, 4, 8)]
    np.testing.assert_allclose(at[0][:3], palette[0], atol=0.02)
    np.testing.assert_allclose(at[1][:3], palette[1], atol=0.02)
    np.testing.assert_allclose(linear(at[2][:3]), [0.5, 0.0, 0.5], atol=0.15)
    assert at[0][3] > 1.2 * at[1][3] > 0.3
    assert image[0, 0, 3] == 0  # nothing is there


def test_numbers_are_shown_by_their_mean(rng):
    Z, values = rng.uniform(size=(30_000, 2)), rng.normal(size=30_000)
    values += np.where(Z[:, 0] < 0.5, 0.0, 50.0)
    numbers = Numbers(values, 0.0, 50.0)
    image = density_image(Z, numbers, None, (np.zeros(2), np.ones(2)))
    ends = numbers.of(np.array([0.0, 50.0]))
    half = image.shape[1] // 2
    np.testing.assert_allclose(np.median(image[:, : half - 3, :3], axis=(0, 1)), ends[0], atol=0.05)
    np.testing.assert_allclose(np.median(image[:, half + 3 :, :3], axis=(0, 1)), ends[1], atol=0.05)


def test_three_dimensions_draw_a_sample_and_say_so(rng):
    display = EmbeddingDisplay.from_embeddings({"a": rng.normal(size=(30_000, 3))})
    drawn = sum(part.get_offsets().shape[0] for part in display.ax_.collections)
    assert drawn == 20_000
    assert [t.get_text() for t in display.ax_.texts] == ["20,000 of 30,000 rows, drawn at random"]


def test_dark_pages_get_lighter_colours_and_names(rng):
    with plt.style.context("dark_background"):
        ax = scatter(rng.normal(size=(60, 2)), np.arange(60) % 12)
    colours = np.concatenate([part.get_facecolor() for part in ax.collections])[:, :3]
    assert linear(colours).max(axis=1).min() > 0.1
    assert all(np.mean(text.get_color()) > 0.5 for text in ax.texts)
