"""``vicinal.report``: what it computes from estimators and tables."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from small_contents import HOSTILE, small_contents

from vicinal.reporting.neighbours import pick_probabilities
from vicinal.reporting.thumbnails import make_thumbnails, png, shape_in_names


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
    assert contents.neighbours.after.shape == contents.neighbours.before_p.shape == (n, 10)
    assert (shown.predicted[shown.held_out] >= 0).all()
    assert (shown.predicted[~shown.held_out] == -1).all()


def test_neighbours_are_training_rows_and_never_the_row_itself(contents):
    for near in (contents.neighbours.before, contents.neighbours.after):
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


def test_text_of_the_data_stays_as_it_is():
    contents = small_contents(hostile=True)
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
