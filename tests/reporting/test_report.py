"""``vicinal.report``: what it computes from estimators and tables."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from small_contents import HOSTILE, small_contents

from vicinal.reporting import make
from vicinal.reporting.contents import Score
from vicinal.reporting.history import parting_of
from vicinal.reporting.picture import Axes, thinned
from vicinal.reporting.scores import Comparison, Gain
from vicinal.reporting.spaces import Space, pick_probabilities
from vicinal.reporting.thumbnails import make_thumbnails, png, shape_in_names
from vicinal.reporting.words import verdict


@pytest.fixture(scope="module")
def contents():
    return small_contents()


def test_all_parts_agree_about_the_points(contents):
    shown = contents.embedding
    n = len(shown.names)
    assert n == 75
    assert shown.held_out.sum() == 15
    for frame in shown.frames:
        assert frame.points.shape == (n, 2)
        assert frame.points.dtype == np.float32
    assert [frame.iteration for frame in shown.frames] == [1, 2, 3, 5, 8]
    assert shown.before.shape == (n, 2)
    assert all(len(column) == n for column in contents.table.cells)
    assert contents.neighbors.after.shape == contents.neighbors.before_p.shape == (n, 10)
    assert (shown.predicted[shown.held_out] >= 0).all()
    assert (shown.predicted[~shown.held_out] == -1).all()


def test_neighbours_are_training_rows_and_never_the_row_itself(contents):
    for near in (contents.neighbors.before, contents.neighbors.after):
        assert not contents.embedding.held_out[near].any()
        assert (near != np.arange(len(near))[:, None]).all()


def test_pick_probabilities_match_the_formula(rng):
    Z = rng.normal(size=(30, 3))
    train = np.arange(5, 30)
    d2 = np.sum((Z[:, None] - Z[train]) ** 2, axis=2)
    d2[train, np.arange(25)] = np.inf
    near = np.argsort(d2, axis=1)[:, :4]
    weight = np.exp(-d2)
    P = weight / weight.sum(axis=1, keepdims=True)
    found = pick_probabilities(Z, train, np.take_along_axis(d2, near, axis=1))
    np.testing.assert_allclose(found, np.take_along_axis(P, near, axis=1), rtol=1e-4)


def test_text_of_the_data_stays_as_it_is(contents):
    plain, contents = contents, small_contents(hostile=True)
    for a, b in zip(plain.embedding.frames, contents.embedding.frames, strict=True):
        np.testing.assert_array_equal(a.points, b.points)  # the same random_state, the same picture
    assert contents.title == HOSTILE
    assert all(name.startswith(HOSTILE) for name in contents.embedding.classes)
    assert HOSTILE + "0" in contents.table.columns


def test_png_has_the_pixels(rng):
    pixels = rng.integers(0, 256, (5, 7)).astype(np.uint8)
    data = png(pixels)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body = 8, b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, chunk = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (sum_,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        assert sum_ == zlib.crc32(kind + chunk)
        body += chunk if kind == b"IDAT" else b""
        at += 12 + length
    lines = np.frombuffer(zlib.decompress(body), np.uint8).reshape(5, 8)
    np.testing.assert_array_equal(lines[:, 1:], pixels)


def test_thumbnails_are_bounded(rng):
    made = make_thumbnails(rng.uniform(size=(40, 100, 70)))
    assert (made.height, made.width) == (25, 17)
    assert len(made.points) == 40


def test_pixels_are_recognised_by_their_names_alone():
    names = [f"pixel_{i}_{j}" for i in range(2) for j in range(3)]
    assert shape_in_names(names) == (2, 3)
    assert shape_in_names(names[::-1]) is None
    assert shape_in_names([f"column {j}" for j in range(64)]) is None


def words(gain, error, over_all=None):
    scores = [Score("PCA, 2 dimensions", 0.9, 0.01), Score("Euclidean", 0.95, 0.01)]
    scores.append(Score("NCA", 0.9 + gain, 0.01, learnt=True))
    gains = [Gain("PCA, 2 dimensions", gain, error)]
    if over_all is not None:
        gains.append(Gain("Euclidean", over_all, error))
    return " ".join(verdict(Comparison(scores, "", "accuracy", gains), 2, 13))


def test_words_say_better_only_beyond_the_error():
    assert "NCA is better by 5.0 ± 1.0 points" in words(0.05, 0.01)
    unclear = words(0.05, 0.03)
    assert "within the error: NCA is not shown to be better than PCA, 2 dimensions" in unclear
    assert "NCA is worse than PCA, 2 dimensions by 10.0 ± 1.0 points" in words(-0.1, 0.01)
    worse = words(0.02, 0.005, -0.03)
    assert "all 13 columns reaches 95.0 % ± 1.0. Two dimensions do not hold all of it" in worse


def test_over_fitting_is_found_where_there_is_nothing_to_learn(rng):
    y = rng.integers(0, 2, 200)
    told = rng.normal(size=(200, 2))
    told[:150] += 3.0 * y[:150, None]  # a map that knows the classes of the training rows only
    parting = parting_of([(7, Space(told))], np.arange(150), np.arange(150, 200), y)
    assert parting.wide
    assert "over-fits" in " ".join(parting.sentences())
    honest = parting_of([(7, Space(told))], np.arange(100), np.arange(100, 150), y)
    assert not honest.wide


def test_pictures_do_not_turn_or_grow_between_frames(rng):
    Z = rng.normal(size=(50, 5)) * np.arange(5, 0, -1)
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    axes = Axes(Z, np.arange(40), 2)
    np.testing.assert_allclose(axes.show(3.0 * Z @ turn + 1.0), axes.show(Z), atol=1e-4)
    assert "5 dimensions" in axes.title


def test_frames_are_bounded_by_the_number_of_points():
    assert len(thinned(range(100), 1_000)) == 29
    assert len(thinned(range(100), 60_000)) == 9
    assert len(thinned(range(100), 100_000)) == 5
    assert thinned([1, 2, 3], 10) == [1, 2, 3]


def test_a_large_table_is_sampled_by_class(monkeypatch):
    monkeypatch.setattr(make, "_MOST_POINTS", 50)
    contents = small_contents()
    assert contents.warnings == ["A sample of 50 of 75 rows is shown."]
    held_out = contents.embedding.held_out
    assert held_out.sum() == 10
    assert contents.facts["Rows"] == "60 learnt from, 15 held out"
    assert np.bincount(contents.embedding.codes[~held_out]).tolist() == [14, 13, 13]
