"""Reports on all kinds of estimators and tables, and what they refuse."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

import vicinal
from vicinal import ITML, KSNE, MLKR, NCA, RCA, Chi2LMNN, FromLabels, make_learner
from vicinal.fit.report import HAS_CALLBACKS
from vicinal.learner.preparation import options_of
from vicinal.plotting import MetricDisplay
from vicinal.reporting import Recorder

report = functools.partial(vicinal.report, rivals=["euclidean"])  # the others take their time
needs_callbacks = pytest.mark.skipif(not HAS_CALLBACKS, reason="scikit-learn < 1.9")


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::2], y[::2]


def quick(**options):
    return NCA(2, alpha=0.01, max_iter=5, tol=None, random_state=0, **options)


def test_rows_for_testing_are_the_only_ones_that_are_scored(iris):
    X, y = iris
    model = quick().fit(X[::3], y[::3])
    contents = report(model, X[::3], y[::3], X_test=X[1::3], y_test=y[1::3]).contents
    shown = contents.embedding
    assert shown.held_out.sum() == len(X[1::3])
    assert not shown.held_out[: len(X[::3])].any()
    assert f"Scored on {len(X[1::3])} rows" in contents.scores_note
    np.testing.assert_array_equal(shown.predicted[shown.held_out], model.predict(X[1::3]))
    learnt, voted = contents.scores[-2:]
    assert learnt.learnt
    assert learnt.mean == model.score(X[1::3], y[1::3])
    near = contents.neighbors.after[shown.held_out][:, :5]
    votes = np.stack([(shown.codes[near] == c).sum(axis=1) for c in range(3)])
    clear = np.sort(votes, axis=0)[-1] > np.sort(votes, axis=0)[-2]
    right = votes.argmax(axis=0) == shown.codes[shown.held_out]
    assert abs(voted.mean - right.mean()) <= np.mean(~clear) + 1e-12


def test_a_fitted_estimator_is_cross_validated_and_has_no_slider(iris):
    X, y = iris
    contents = report(quick().fit(X, y), X, y).contents
    assert "Cross-validation of 75 rows in 5 folds" in contents.scores_note
    assert not contents.embedding.held_out.any()
    assert len(contents.embedding.frames) == 1
    assert contents.history.score_iteration == []


@needs_callbacks
def test_a_recorder_gives_a_fitted_estimator_its_slider(iris):
    X, y = iris
    recorder = Recorder()
    model = quick().set_callbacks(recorder).fit(X, y)
    contents = report(model, X, y, frames=recorder).contents
    assert [frame.iteration for frame in contents.embedding.frames] == [1, 2, 3, 5]


@needs_callbacks
@pytest.mark.filterwarnings("ignore:NCA did not converge")
def test_iterations_of_a_search_are_not_recorded(iris):
    recorder = Recorder()
    NCA(2, max_iter=4, random_state=0).set_callbacks(recorder).fit(*iris)  # alpha is searched for
    assert [one.iteration for one in recorder.frames] == [1, 2, 3]


def test_numbers_are_scored_by_r2(rng):
    X = rng.normal(size=(60, 3))
    contents = report(
        MLKR(1, alpha=0.01, max_iter=5, tol=None, random_state=0), X, X[:, 0]
    ).contents
    assert contents.score_name == "R²"
    assert contents.history.score_name == "5-NN R²"
    assert contents.title == "Predicting a number from 3 columns"
    assert {"mean absolute error"} == set(contents.scores[0].more)
    assert contents.confusion is None
    assert len(contents.mistakes.rows) == 12
    assert contents.embedding.classes == []
    assert contents.embedding.values.shape == (60,)
    assert "only spreads the points" in contents.embedding.after_title
    assert contents.embedding.frames[-1].points.shape == (60, 2)


def test_labels_only_colour_what_does_not_learn_from_them(iris):
    X, y = iris
    model = KSNE(perplexity=10, k=3, max_iter=30, random_state=0)
    contents = report(model, X, y).contents
    assert contents.score_name == "neighbours kept"
    assert not contents.embedding.held_out.any()
    assert len(contents.embedding.frames) > 5 or not HAS_CALLBACKS
    assert np.isnan(contents.neighbors.after_p).all()
    alone = report(model, X).contents
    assert alone.embedding.classes == []
    np.testing.assert_array_equal(
        alone.embedding.frames[-1].points, contents.embedding.frames[-1].points
    )


@pytest.mark.parametrize(
    "estimator", [RCA(), FromLabels(ITML(max_iter=5)), Chi2LMNN(2, max_iter=3)]
)
@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_methods_without_picks_have_no_probabilities(iris, estimator):
    contents = report(estimator, *iris).contents
    assert np.isnan(contents.neighbors.after_p).all()
    assert contents.metric.importances.sum() == pytest.approx(1)
    first = contents.scores[0].name
    assert first == ("χ² distance" if isinstance(estimator, Chi2LMNN) else "Euclidean distance")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_with_categories_and_gaps(rng, library):
    frames = pytest.importorskip(library)
    y = np.repeat(["</script>", "b"], 30)
    size = rng.normal(size=60) + (y == "b")
    size[7] = np.nan
    colour = np.where(y == "b", "red", "<b>").astype(object)
    X = frames.DataFrame({"<i>size": size, "colour_of": colour.tolist()})
    learner = make_learner(X, y, n_components=1, alpha=0.1, random_state=0)
    contents = report(learner, X, y).contents
    assert contents.embedding.classes == ["</script>", "b"]
    assert contents.table.columns[0] == "colour_of"  # the importances of its categories add up
    texts = contents.table.cells[contents.table.columns.index("<i>size")]
    assert texts.count("") == 1
    assert set(contents.table.cells[0]) == {"red", "<b>"}


def test_sparse_tables_are_cross_validated(iris):
    X, y = iris
    rivals = ["euclidean", "lda"]
    contents = vicinal.report(quick(), sp.csr_matrix(X), y, rivals=rivals).contents
    assert "Cross-validation of 75 rows" in contents.scores_note
    assert contents.table.cells[0].count("") == 0


def test_the_other_distances_leave_out_what_the_learner_leaves_out(rng):
    pandas = pytest.importorskip("pandas")
    y = np.repeat(["a", "b"], 30)
    X = pandas.DataFrame({
        "id": [f"A-{i}" for i in range(60)],  # refused, unless it is dropped
        "size": rng.normal(size=60) + (y == "b"),
        "grade": rng.choice(["low", "high"], size=60),
        "code": rng.integers(3, size=60),
    })  # fmt: skip
    options = {"drop": ["id"], "ordinal": {"grade": ["low", "high"]}, "categorical": ["code"]}
    learner = make_learner(X, y, n_components=1, alpha=0.1, random_state=0, **options)
    contents = report(learner, X, y).contents
    assert [score.name for score in contents.scores if not score.learnt]  # cross-validated
    assert options_of(learner.named_steps["prepare"], X) == {
        **options, "numeric": ["size"], "text": []
    }  # fmt: skip


def test_few_rows_of_many_classes(rng):
    y = np.repeat(np.arange(30), 2)
    X = rng.normal(size=(60, 4)) + y[:, None]
    contents = report(quick(), X, y).contents  # no row can be held out, but folds can be made
    assert contents.scores
    assert not contents.embedding.held_out.any()


def test_saves_the_page_and_the_model(iris, tmp_path):
    pytest.importorskip("plotly")
    X, y = iris
    page = report(quick(), X, y, title="On irises")
    page.save(tmp_path / "page.html", model=tmp_path / "irises.vic")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "On irises" in text
    assert page.contents.model.file == "irises.vic"
    assert "vicinal.load('irises.vic')" in page.contents.model.code
    loaded = vicinal.load(tmp_path / "irises.vic")
    np.testing.assert_array_equal(loaded.predict(X), page.model.predict(X))
    assert "srcdoc" in page._repr_html_()


def test_what_is_refused(iris):
    X, y = iris
    with pytest.raises(ValueError, match=r"ITML learns from pairs.*FromLabels\(ITML\(\)\)"):
        report(ITML(), X, y)
    with pytest.raises(ValueError, match="metric='precomputed'"):
        report(KSNE(metric="precomputed"), X)
    with pytest.raises(TypeError, match="must be an estimator of vicinal"):
        report(NCA, X, y)
    with pytest.raises(ValueError, match=r"one label for each of the 75 rows. Got shape \(74,\)"):
        report(quick(), X, y[1:])
    with pytest.raises(ValueError, match=r"number of columns, 4, or an array. Got \(3, 3\)"):
        report(quick(), X, y, images=(3, 3))
    with pytest.raises(ValueError, match="'y_test' parameter of report is missing"):
        report(quick(), X, y, X_test=X)


def test_words_tell_columns_from_features_and_weigh_them_as_the_display_does(rng):
    pandas = pytest.importorskip("pandas")
    y = np.repeat(["a", "b"], 40)
    size = rng.normal(size=80) + (y == "b")
    size[:8] = np.nan
    X = pandas.DataFrame({
        "id": range(80), "size": size, "colour": rng.choice(["red", "green", "blue"], size=80)
    })  # fmt: skip
    learner = make_learner(X, y, n_components=1, alpha=0.1, random_state=0, drop=["id"])
    made = report(learner.fit(X, y), X, y)
    assert "the 2 columns (5 features after encoding) to one dimension" in " ".join(
        made.contents.sentences
    )
    metric = made.contents.metric
    assert set(metric.features) == {"size", "colour"}
    assert metric.importances.sum() == pytest.approx(1)
    assert "red" in metric.parts[metric.features.index("colour")]
    assert "missing" in metric.parts[metric.features.index("size")]
    pytest.importorskip("matplotlib")
    shown = MetricDisplay.from_estimator(learner, X).importances  # size, its gaps, three colours
    own = metric.importances[metric.features.index("size")]
    np.testing.assert_allclose(own, shown[:2].sum(), rtol=1e-6)
    assert made.contents.left_out == {"id": "as was asked for"}
