"""Displays: the numbers they hold, what they draw, and what they refuse."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import r2_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vicinal import KSNE, LFDA, LMNN, NCA, RCA, make_learner, plotting
from vicinal.metrics import r_nx_auc


def pipeline(wine, **options):
    chosen = make_column_transformer(
        (StandardScaler(), wine.names[:6]), verbose_feature_names_out=False
    )
    return make_pipeline(chosen, NCA(2, alpha=0.01, random_state=0, **options)).fit(wine.X, wine.y)


class TestEmbedding:
    def test_before_and_after_hold_the_points(self, wine):
        display = plotting.EmbeddingDisplay.from_estimator(
            wine.nca, wine.X, wine.y, **wine.held_out
        )
        before, after = display.embeddings.values()
        n = len(wine.X)
        np.testing.assert_array_equal(after[:n], wine.nca.transform(wine.X))
        np.testing.assert_array_equal(after[n:], wine.nca.transform(wine.X_test))
        scaler = StandardScaler().fit(wine.X)
        expected = PCA(2, random_state=0).fit(scaler.transform(wine.X))
        np.testing.assert_allclose(before[n:], expected.transform(scaler.transform(wine.X_test)))
        np.testing.assert_array_equal(display.held_out, np.arange(len(after)) >= n)
        assert len(display.axes_) == 2
        assert display.ax_ is display.axes_[-1]
        assert display.ax_.figure is display.figure_
        assert "held-out" in display.axes_[0].get_xlabel()

    def test_held_out_rows_alone(self, wine):
        display = plotting.EmbeddingDisplay.from_estimator(
            wine.nca, wine.X, wine.y, **wine.held_out, show="held-out", before=None
        )
        [(title, Z)] = display.embeddings.items()
        assert title == "after: NCA"
        np.testing.assert_array_equal(Z, wine.nca.transform(wine.X_test))
        np.testing.assert_array_equal(display.y, wine.y_test)

    def test_a_pipeline_and_three_dimensions(self, wine):
        model = pipeline(wine, mapping="linear").set_params(nca__n_components=3)
        model.fit(wine.X, wine.y)
        display = plotting.EmbeddingDisplay.from_estimator(model, wine.X, wine.y)
        assert [Z.shape[1] for Z in display.embeddings.values()] == [3, 3]
        assert display.ax_.name == "3d"

    @pytest.mark.parametrize(("rank", "words"), [(1, "one dimension"), (5, "2 principal of 5")])
    def test_other_ranks_say_what_is_drawn(self, wine, rank, words):
        model = NCA(rank, alpha=0.01, random_state=0).fit(wine.X, wine.y)
        display = plotting.EmbeddingDisplay.from_estimator(model, wine.X, wine.y)
        assert words in display.ax_.get_title()
        assert display.embeddings[display.ax_.get_title()].shape == (len(wine.X), 2)

    def test_another_before(self, wine):
        lda = LFDA(2).fit(wine.X, wine.y)
        for before in (lda, lda.transform(wine.X)):
            display = plotting.EmbeddingDisplay.from_estimator(
                wine.nca, wine.X, wine.y, before=before
            )
            np.testing.assert_array_equal(
                next(iter(display.embeddings.values())), lda.transform(wine.X)
            )

    def test_numbers_get_a_colour_bar(self, diabetes):
        display = plotting.EmbeddingDisplay.from_estimator(
            diabetes.mlkr, diabetes.X, diabetes.y, target_name="progression"
        )
        assert [ax.get_ylabel() for ax in display.figure_.axes][2:] == ["progression"]

    def test_without_labels(self, rng):
        X = rng.normal(size=(40, 4))
        model = KSNE(perplexity=5, max_iter=20, random_state=0).fit(X)
        display = plotting.EmbeddingDisplay.from_estimator(model, X)
        np.testing.assert_array_equal(display.embeddings["after: KSNE"], model.embedding_)
        assert display.ax_.get_legend() is None


class TestDecisionRegions:
    def test_regions_are_the_predictions(self, wine):
        """Rows that lie at points of the grid are predicted as ``predict_proba`` does."""
        display = plotting.DecisionRegionsDisplay.from_estimator(
            wine.nca, wine.X, wine.y, **wine.held_out, grid_resolution=9
        )
        assert display.response.shape == (9, 9, 3)
        np.testing.assert_allclose(display.response.sum(axis=2), 1.0)
        offset = wine.nca.transform(wine.X[:1]) - display.points[:1]
        corner = np.array([[display.x[3], display.y[5]]])
        row = wine.nca.inverse_transform(corner + offset)
        with pytest.warns(UserWarning, match="feature names"):
            expected = wine.nca.predict_proba(row)[0]
        np.testing.assert_allclose(display.response[5, 3], expected, atol=1e-6)

    def test_the_plane_of_two_columns_and_of_a_classifier_behind(self, wine):
        two = wine.X[["alcohol", "flavanoids"]]
        model = LogisticRegression().fit(two, wine.y)
        display = plotting.DecisionRegionsDisplay.from_estimator(
            model, two, wine.y, grid_resolution=5
        )
        assert display.ax_.get_xlabel() == "alcohol"
        assert display.response.shape == (5, 5, 3)
        behind = make_pipeline(LFDA(2), KNeighborsClassifier()).fit(wine.X, wine.y)
        display = plotting.DecisionRegionsDisplay.from_estimator(
            behind, wine.X, wine.y, grid_resolution=5
        )
        np.testing.assert_array_equal(display.points, behind[:-1].transform(wine.X))

    def test_numbers(self, diabetes):
        display = plotting.DecisionRegionsDisplay.from_estimator(
            diabetes.mlkr, diabetes.X, diabetes.y, grid_resolution=6
        )
        assert display.response.shape == (6, 6)
        assert (
            diabetes.y.min() <= display.response.min() < display.response.max() <= diabetes.y.max()
        )

    def test_a_map_without_plane_is_refused(self, wine):
        with pytest.raises(ValueError, match="LFDA predicts nothing; put a classifier behind it"):
            plotting.DecisionRegionsDisplay.from_estimator(LFDA(2).fit(wine.X, wine.y), wine.X)
        model = NCA(3, alpha=0.01, random_state=0).fit(wine.X, wine.y)
        with pytest.raises(ValueError, match="of NCA has 3 dimensions, and X has 13 columns"):
            plotting.DecisionRegionsDisplay.from_estimator(model, wine.X)


class TestConvergence:
    def test_training_and_held_out_losses_and_the_chosen_iteration(self, wine):
        model = NCA(2, alpha=1e-4, early_stopping=True, random_state=0).fit(wine.X, wine.y)
        display = plotting.ConvergenceDisplay.from_estimator(model)
        history = model.history_
        np.testing.assert_array_equal(display.loss, history["loss"])
        np.testing.assert_array_equal(display.held_out, -np.array(history["validation_score"]))
        assert display.chosen == history["iteration"][int(np.argmax(history["validation_score"]))]
        labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
        assert labels == ["training", "held-out", f"kept: iteration {display.chosen}"]

    def test_stages_of_an_embedding(self, rng):
        X = rng.normal(size=(40, 4))
        model = KSNE(perplexity=5, max_iter=40, early_exaggeration_iter=15, random_state=0).fit(X)
        display = plotting.ConvergenceDisplay.from_estimator(model)
        assert [first for first, _ in display.stages] == [0, 15]
        assert display.chosen > 15

    def test_closed_forms_have_none(self, wine):
        with pytest.raises(ValueError, match=r"'history_' of its fit. RCA has none"):
            plotting.ConvergenceDisplay.from_estimator(RCA(2).fit(wine.X, wine.y))


class TestMetric:
    def test_the_diagonal_holds_the_importances(self, wine):
        display = plotting.MetricDisplay.from_estimator(wine.nca)
        np.testing.assert_allclose(display.importances, wine.nca.feature_importances_)
        np.testing.assert_allclose(
            np.diag(display.matrix) / np.trace(display.matrix), display.importances
        )
        assert display.feature_names == wine.names
        assert (np.diff(display.importances[display.shown_]) <= 0).all()
        heat = display.axes_[1].images[0].get_array()
        np.testing.assert_allclose(np.diag(heat), display.importances[display.shown_])

    def test_the_rest_is_summed_and_named(self, wine):
        display = plotting.MetricDisplay.from_estimator(wine.nca, max_features=4)
        names = [label.get_text() for label in display.ax_.get_yticklabels()]
        assert names[-1] == "the other 9 together"
        widths = [bar.get_width() for bar in display.ax_.patches]
        assert sum(widths) == pytest.approx(100.0)
        assert display.axes_[1].images[0].get_array().shape == (4, 4)

    def test_pipelines_other_maps_and_units_of_rows(self, wine):
        display = plotting.MetricDisplay.from_estimator(pipeline(wine))
        assert display.feature_names == wine.names[:6]
        bent = NCA(2, mapping="periodic", max_iter=3, tol=1e3, random_state=0).fit(wine.X, wine.y)
        display = plotting.MetricDisplay.from_estimator(bent)
        assert display.matrix is None
        assert len(display.axes_) == 1
        lfda = LFDA(2).fit(wine.X, wine.y)
        display = plotting.MetricDisplay.from_estimator(lfda, wine.X)
        A = lfda.components_ * np.std(wine.X.to_numpy(), axis=0)
        np.testing.assert_allclose(display.importances, (A**2).sum(0) / (A**2).sum())


class TestNeighbours:
    def test_p_is_that_of_the_model(self, wine):
        display = plotting.NeighborsDisplay.from_estimator(
            wine.nca, wine.X, wine.y, query=wine.X_test[5:6], label=wine.y_test[5]
        )
        before, after = display.sides.values()
        P = wine.nca.predict_proba(wine.X_test[5:6])[0]
        for c, label in enumerate(wine.nca.classes_):
            assert after.p[wine.y == label].sum() == pytest.approx(P[c], abs=1e-9)
        assert display.own_class["after: NCA"] == pytest.approx(
            P[list(wine.nca.classes_).index(wine.y_test[5])]
        )
        distances, rows = wine.nca.kneighbors(wine.X_test[5:6], 10)
        np.testing.assert_array_equal(after.rows, rows[0])
        np.testing.assert_array_equal(after.values, after.p[after.rows])

        def perplexity(p):
            return np.exp(-np.sum(p[p > 0] * np.log(p[p > 0])))

        assert before.p.sum() == pytest.approx(1.0)
        assert perplexity(before.p) == pytest.approx(perplexity(after.p), rel=1e-6)

    def test_a_row_is_not_its_own_neighbour(self, wine):
        display = plotting.NeighborsDisplay.from_estimator(wine.nca, wine.X, wine.y, row=7)
        for side in display.sides.values():
            assert side.p[7] == 0
            assert 7 not in side.rows
        assert "row #7" in display.figure_.get_suptitle()

    def test_weights_count(self, wine):
        weight = np.where(wine.y == "class_0", 0.0, 2.0)
        weight[:40:3] = 1.0
        model = NCA(2, alpha=0.01, random_state=0).fit(wine.X, wine.y, weight)
        display = plotting.NeighborsDisplay.from_estimator(
            model, wine.X, wine.y, query=wine.X_test[5:6]
        )
        after = display.sides["after: NCA"]
        np.testing.assert_array_equal(after.p[weight == 0], 0.0)
        P = [after.p[wine.y == label].sum() for label in model.classes_]
        np.testing.assert_allclose(P, model.predict_proba(wine.X_test[5:6])[0], atol=1e-9)

    def test_methods_without_p_show_distances(self, wine):
        model = LMNN(n_components=2, random_state=0).fit(wine.X, wine.y)
        display = plotting.NeighborsDisplay.from_estimator(
            model, wine.X, wine.y, row=3, n_neighbors=4
        )
        side = display.sides["after: LMNN"]
        assert side.p is None
        assert display.own_class == {}
        np.testing.assert_array_equal(side.rows, model.kneighbors(n_neighbors=4)[1][3])

    def test_thumbnails(self, rng):
        X, y = rng.uniform(size=(30, 12)), np.arange(30) % 2
        model = NCA(2, alpha=0.1, random_state=0).fit(X, y)
        display = plotting.NeighborsDisplay.from_estimator(
            model, X, y, row=3, n_neighbors=5, images=(3, 4)
        )
        assert len([a for a in display.ax_.artists if hasattr(a, "offsetbox")]) == 6
        np.testing.assert_array_equal(display.image, X[3].reshape(3, 4))


class TestAccuracy:
    def test_against_k_equals_score(self, wine):
        display = plotting.AccuracyDisplay.from_estimator(
            wine.nca, wine.X, wine.y, **wine.held_out, n_neighbors=[1, 4, 7, 500]
        )
        np.testing.assert_array_equal(display.x, [1, 4, 7])
        scaler = StandardScaler().fit(wine.X)
        for at, k in enumerate(display.x):
            plain = KNeighborsClassifier(k).fit(scaler.transform(wine.X), wine.y)
            expected = plain.score(scaler.transform(wine.X_test), wine.y_test)
            assert display.scores["Euclidean, scaled columns"][at] == pytest.approx(expected)
            Z = wine.nca.transform(wine.X)
            learnt = KNeighborsClassifier(k).fit(Z, wine.y)
            expected = learnt.score(wine.nca.transform(wine.X_test), wine.y_test)
            assert display.scores["NCA"][at] == pytest.approx(expected)
            error = np.sqrt(expected * (1 - expected) / len(wine.X_test))
            assert display.errors["NCA"][at] == pytest.approx(error)

    def test_rows_that_were_learnt_from_are_left_out(self, wine):
        display = plotting.AccuracyDisplay.from_estimator(wine.nca, wine.X, wine.y, n_neighbors=[1])
        near = wine.nca.kneighbors(n_neighbors=1)[1][:, 0]
        assert display.scores["NCA"][0] == np.mean(wine.y[near] == wine.y)
        assert "learnt from" in display.ax_.get_title()

    def test_numbers(self, diabetes):
        display = plotting.AccuracyDisplay.from_estimator(
            diabetes.mlkr, diabetes.X, diabetes.y, X_test=diabetes.X_test, y_test=diabetes.y_test,
            n_neighbors=[3],
        )  # fmt: skip
        model = KNeighborsRegressor(3).fit(diabetes.mlkr.transform(diabetes.X), diabetes.y)
        expected = r2_score(
            diabetes.y_test, model.predict(diabetes.mlkr.transform(diabetes.X_test))
        )
        assert display.scores["MLKR"][0] == pytest.approx(expected)

    def test_against_the_rank(self, wine):
        splits = [(np.arange(0, 60), np.arange(60, 89)), (np.arange(29, 89), np.arange(0, 29))]
        rng = np.random.RandomState(0)
        order = rng.permutation(89)
        splits = [(order[a], order[b]) for a, b in splits]
        display = plotting.AccuracyDisplay.from_ranks(
            RCA(), wine.X, wine.y, ranks=[1, 3, 99], cv=splits, n_neighbors=3
        )
        np.testing.assert_array_equal(display.x, [1, 3])
        scores = []
        for train, test in splits:
            model = make_pipeline(RCA(3), KNeighborsClassifier(3))
            model.fit(wine.X.iloc[train], wine.y[train])
            scores.append(model.score(wine.X.iloc[test], wine.y[test]))
        assert display.scores["RCA"][1] == pytest.approx(np.mean(scores))
        assert display.errors["RCA"][1] == pytest.approx(np.std(scores, ddof=1) / np.sqrt(2))
        assert display.scores["Euclidean, scaled columns"].shape == ()


def test_every_display_takes_a_learner_for_data_frames(wine):
    X = wine.X.assign(taste=np.where(wine.X["hue"] > 1, "dry", "sweet"))
    X.loc[X.index[::9], "ash"] = np.nan
    model = make_learner(X, wine.y, n_components=2, alpha=0.01, random_state=0).fit(X, wine.y)
    for name in ("Embedding", "DecisionRegions", "Convergence", "Accuracy", "EmbeddingQuality"):
        display = getattr(plotting, f"{name}Display").from_estimator(model, X, wine.y)
        assert display.figure_ is display.ax_.figure
        plt.close("all")
    plotting.NeighborsDisplay.from_estimator(model, X, wine.y, row=2)
    names = plotting.MetricDisplay.from_estimator(model).feature_names
    assert {"ash", "taste_dry", "taste_sweet"} <= set(names)


def test_quality_of_a_map_beside_pca(wine):
    display = plotting.EmbeddingQualityDisplay.from_estimator(wine.nca, wine.X, wine.y)
    scaled = StandardScaler().fit_transform(wine.X)
    assert display.areas["NCA"] == pytest.approx(r_nx_auc(scaled, wine.nca.transform(wine.X)))
    assert list(display.curves) == ["PCA", "NCA"]
    assert len(display.axes_) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d, w: d.EmbeddingDisplay.from_estimator(w.nca, w.X, w.y, show="test"),
         "'show' parameter of EmbeddingDisplay must be 'all' or 'held-out'. Got 'test'"),
        (lambda d, w: d.EmbeddingDisplay.from_estimator(w.nca, w.X, w.y, before="umap"),
         "'before' parameter"),
        (lambda d, w: d.EmbeddingDisplay.from_estimator(w.nca, w.X, w.y, X_test=w.X_test),
         "'y_test' parameter"),
        (lambda d, w: d.EmbeddingDisplay.from_estimator(w.nca, w.X, w.y, names="all"),
         "'names' parameter of EmbeddingDisplay must be one of 'auto'"),
        (lambda d, w: d.EmbeddingDisplay.from_estimator(w.nca, w.X, w.y, ax=plt.gca()),
         "EmbeddingDisplay draws 2 panels. Got 1 axes"),
        (lambda d, w: d.EmbeddingDisplay({"a": w.X[["hue", "ash"]]}, w.y, held_out=[True]),
         "'held_out' parameter"),
        (lambda d, w: d.MetricDisplay.from_estimator(w.nca, max_features=0),
         r"'max_features' parameter of MetricDisplay must be an int in \[1, inf\). Got 0"),
        (lambda d, w: d.NeighborsDisplay.from_estimator(w.nca, w.X, w.y),
         "needs either 'row' or 'query'"),
        (lambda d, w: d.NeighborsDisplay.from_estimator(w.nca, w.X, w.y, row=89),
         r"'row' parameter of NeighborsDisplay must be an int in \[0, 88\]. Got 89"),
        (lambda d, w: d.AccuracyDisplay.from_estimator(w.nca, w.X, w.y, n_neighbors=[0]),
         r"'n_neighbors' parameter of AccuracyDisplay must be ints in \[1, 88\]"),
        (lambda d, w: d.DecisionRegionsDisplay.from_estimator(w.nca, w.X, plane="z"),
         "'plane' parameter"),
        (lambda d, w: d.ConvergenceDisplay([0, 1], [0.5]), "of one length"),
        (lambda d, w: d.EmbeddingDisplay.from_estimator(KNeighborsClassifier().fit(w.X, w.y), w.X),
         "must be an estimator with 'transform'.* Got KNeighborsClassifier"),
    ],
)  # fmt: skip
def test_bad_input(call, message, wine):
    with pytest.raises(ValueError, match=message):
        call(plotting, wine)
