"""``vicinal.report``: what it computes from estimators and tables."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from small_contents import HOSTILE, small_contents

from vicinal import NCA, report
from vicinal.model_selection._comparison import MethodScores, Predictions
from vicinal.reporting import make
from vicinal.reporting.contents import Score
from vicinal.reporting.history import parting_of
from vicinal.reporting.picture import Axes, thinned
from vicinal.reporting.scores import _verdict
from vicinal.reporting.spaces import Space, pick_probabilities
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
    assert contents.neighbors.after.shape == contents.neighbors.before_p.shape == (n, 10)
    assert (shown.predicted >= 0).all()  # by the models of the folds


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


def test_every_figure_is_that_of_predict(contents):
    """The headline, the confusion matrix, the list of wrong rows and the filter agree."""
    learnt = next(score for score in contents.scores if score.learnt)
    shown, counts = contents.embedding, contents.confusion.counts
    assert counts.sum() == 75
    assert np.trace(counts) / 75 == pytest.approx(learnt.mean)
    assert np.mean(shown.predicted == shown.codes) == pytest.approx(learnt.mean)
    assert learnt.more["balanced accuracy"] == pytest.approx(
        np.mean(np.diag(counts) / counts.sum(axis=1))
    )
    wrong = {row.point for row in contents.mistakes.rows}
    assert wrong == set(np.flatnonzero(shown.predicted != shown.codes))
    sure = [row.sureness for row in contents.mistakes.rows]
    assert sure == sorted(sure, reverse=True)
    others = [score for score in contents.scores if not score.learnt]
    best = max(others[:-1], key=lambda score: score.mean)
    assert best.best
    assert others[-1].name == "5 nearest neighbours in the space of NCA"
    assert f"from {best.name}, the best of the usual methods" in contents.verdict.text
    assert contents.verdict.text == contents.sentences[1]


def test_title_and_first_sentence_name_label_file_rows_and_columns():
    contents = small_contents(target_name="species", source="iris.csv", rivals=["majority"])
    assert contents.title == "Telling species apart from 4 columns of iris.csv"
    assert contents.sentences[0] == (
        "This page is about telling the 3 values of species (setosa, versicolor, virginica) apart "
        "from 4 columns of iris.csv; 60 rows were learnt from and 15 held out."
    )
    assert contents.verdict.kind == "better"
    assert "NCA is better than the most frequent class" in contents.sentences[1]
    assert contents.sentences[2].startswith("NCA, neighbourhood components analysis, learnt a line")
    assert contents.embedding.target == "species"


def verdict(difference, error):
    learnt = MethodScores(
        "NCA", False, np.array([0.9]), 0.9, 0.01, {}, None, None, None, difference, error, 2, 1.0,
        None, None, Predictions(np.arange(1)),
    )  # fmt: skip
    return _verdict(learnt, Score("Random forest", 0.9 - difference, 0.01, best=True), "accuracy")


def test_words_say_better_only_beyond_two_errors():
    clear = verdict(0.05, 0.01)
    assert clear.kind == "better"
    assert "NCA is better than random forest" in clear.text
    assert "a difference of 5.0 ± 1.0 points" in clear.text
    unclear = verdict(-0.05, 0.03)
    assert unclear.kind == "level"
    assert "No clear difference from random forest" in unclear.text
    assert "5.0 ± 3.0 points, is within two standard errors" in unclear.text
    assert "NCA is worse than random forest" in verdict(-0.1, 0.01).text


def test_the_picture_is_flat_unless_three_dimensions_were_asked_for(rng):
    X, y = rng.normal(size=(40, 3)), np.repeat(["a", "b"], 20)
    for asked, d in ((None, 2), (3, 3)):
        model = NCA(asked, alpha=0.01, max_iter=3, tol=None, random_state=0)
        shown = report(model, X, y, rivals=["majority"]).contents.embedding
        assert shown.frames[-1].points.shape == shown.before.shape == (40, d)


def test_rare_classes_do_not_force_a_single_split(rng):
    y = np.repeat(["often", "seldom", "once"], [60, 3, 1])
    X = rng.normal(size=(64, 2)) + 3.0 * (y == "seldom")[:, None]
    model = NCA(2, alpha=0.01, max_iter=3, tol=None, random_state=0)
    contents = report(model, X, y, rivals=["majority"]).contents
    assert "Cross-validation of 64 rows in 5 folds" in contents.scores_note
    assert contents.confusion.counts.sum() == 64


def test_rows_without_a_label_are_left_out(rng):
    y = np.array(["a", "b", None] * 10, dtype=object)
    model = NCA(1, alpha=0.01, max_iter=3, tol=None, random_state=0)
    contents = report(model, rng.normal(size=(30, 2)), y, rivals=["majority"]).contents
    assert contents.warnings[-1] == "10 of 30 rows have no label and are left out."
    assert len(contents.embedding.names) == 20


def test_only_parameters_that_were_set_or_chosen_are_listed(rng):
    X, y = rng.normal(size=(40, 3)), np.repeat(["a", "b"], 20)
    model = NCA(max_iter=3, tol=None, random_state=0)
    parameters = report(model, X, y, rivals=["majority"]).contents.model.parameters
    assert set(parameters) >= {"alpha", "max_iter", "n_components"}
    assert parameters["alpha"].endswith("chosen by 'auto'")
    assert "kernel" not in parameters


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
