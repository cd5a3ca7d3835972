"""NCA of label distributions and of matches: what it learns, predicts, scores and refuses."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from common.checks import unfinished
from common.soft import matching, softened
from sklearn import config_context
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vicinal import KNCA, LMNN, NCA, starts
from vicinal.densities import Compact, Gaussian
from vicinal.engines import choose
from vicinal.models.soft import DistributionModel, MatchModel
from vicinal.neighborhoods import Nearest, RandomPairs, Tree
from vicinal.samplers import MiniBatches, StochasticQueries
from vicinal.targets import LabelDistributions, Matches
from vicinal.targets.groups import matching_groups

X, y = (part[::2] for part in load_wine(return_X_y=True))
T = np.asarray(softened(y))
M = matching(y)
EITHER = {"distributions": {"y": T}, "matches": {"matches": M}}
either = pytest.mark.parametrize("soft", EITHER.values(), ids=EITHER)
pytestmark = [
    unfinished,
    pytest.mark.filterwarnings("ignore:The .size. parameter of"),
    pytest.mark.filterwarnings("ignore:n_components="),
]


def nca(n_components=2, **settings):
    return NCA(n_components, **{"alpha": 3e-3, "random_state": 0, "max_iter": 15, **settings})


def plain_share(Z_query, Z, M, weight=None):
    """The share of matches among the picks, term by term."""
    v = np.ones(len(Z)) if weight is None else weight
    kernel = v * np.exp(-np.sum((Z_query[:, None] - Z) ** 2, axis=2))
    return np.sum(M * kernel, axis=1) / kernel.sum(axis=1)


# Labels, written softly


@pytest.mark.parametrize("objective", ["log", "accuracy"])
def test_labels_as_distributions_or_matches_give_the_map_of_the_labels(objective):
    model = nca(init="pca", objective=objective, max_iter=100)
    labels = model.fit(X, y).components_
    size = np.abs(labels).max()
    for soft in ({"y": np.eye(3)[y]}, {"matches": y[:, None] == y}):
        np.testing.assert_allclose(model.fit(X, **soft).components_, labels, atol=1e-6 * size)
    both = [nca().fit(X, soft) for soft in (y, np.eye(3)[y])]
    np.testing.assert_allclose(*(m.components_ for m in both), atol=1e-6 * size)
    np.testing.assert_allclose(*(m.predict_proba(X) for m in both), atol=1e-6)
    for rule in ({"rule": "knn"}, {"rule": "knn", "n_neighbors": "local"}, {"rule": "draw"}):
        same = [m.set_params(**rule).predict(X) for m in both]
        np.testing.assert_array_equal(*same)


def test_label_noise_is_told_by_distributions(rng):
    """Annotators who err: their votes say more than the label that most of them gave."""
    true = np.repeat(np.arange(3), 50)
    rows = rng.normal(size=(150, 6)) + 2.2 * np.eye(3, 6)[true]
    votes = np.array([rng.multinomial(5, 0.4 * np.eye(3)[c] + 0.2) for c in true])
    hard, soft = votes.argmax(axis=1), votes / 5
    assert np.mean(hard != true) > 0.1
    test = rng.normal(size=(300, 6)) + 2.2 * np.eye(3, 6)[np.repeat(np.arange(3), 100)]
    accuracy = [
        nca(max_iter=100).fit(rows, labels).score(test, np.repeat(np.arange(3), 100))
        for labels in (hard, soft)
    ]
    assert accuracy[1] > accuracy[0]


def test_temporal_neighbours_recover_their_order(rng):
    """Two of eight columns follow a slow walk; rows match those just before and after."""
    n = 200
    time = np.linspace(0, 3 * np.pi, n)
    rows = rng.normal(size=(n, 8))
    rows[:, 2], rows[:, 5] = np.cos(time / 3), time / 10
    rows[:, [2, 5]] += 0.02 * rng.normal(size=(n, 2))
    near = sp.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1])
    model = nca(1, max_iter=200).fit(rows, matches=near)
    z = model.transform(rows)[:, 0]
    assert abs(np.corrcoef(z, time)[0, 1]) > 0.95
    share = model.feature_importances_[[2, 5]].sum()
    assert share > 0.9
    plain = nca(8, alpha=0.0, max_iter=1, init="identity").fit(rows, matches=near)
    assert model.score(rows, matches=near) > 2 * plain.score(rows, matches=near)


# Predictions and scores


def test_posterior_is_the_mean_distribution_of_the_picks(rng):
    weight = rng.uniform(0.1, 2, len(X))
    model = nca().fit(X, T, weight)
    Z = model._map.embed(X)
    kernel = weight * np.exp(-np.sum((Z[:, None] - Z) ** 2, axis=2))
    P = kernel @ T / kernel.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), P, rtol=1e-9)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(P), rtol=1e-9)
    np.testing.assert_array_equal(model.predict(X), P.argmax(axis=1))
    model.set_params(rule="knn", n_neighbors=4)
    near = model.kneighbors(X, return_distance=False)
    votes = np.array([np.average(T[rows], axis=0, weights=weight[rows]) for rows in near])
    np.testing.assert_allclose(model.predict_proba(X), votes, rtol=1e-9)
    expected = np.average(T[np.arange(len(X)), votes.argmax(axis=1)], weights=weight)
    assert model.score(X, T, weight) == pytest.approx(expected)
    assert model.score(X, y) == np.mean(votes.argmax(axis=1) == y)


def test_k_is_chosen_by_the_expected_accuracy_of_rows_left_out(rng):
    weight = rng.uniform(0.5, 2, len(X))
    model = nca(rule="knn", n_neighbors="auto").fit(X, T, weight)
    near = model.kneighbors(n_neighbors=50, return_distance=False)
    running = np.cumsum(weight[near][:, :, None] * T[near], axis=1)
    found = np.take_along_axis(T[:, None], running.argmax(axis=2)[:, :, None], axis=2)[:, :, 0]
    assert model.n_neighbors_ == 1 + np.average(found, axis=0, weights=weight).argmax()


def test_score_of_matches_is_their_share_among_the_picks(rng):
    weight = rng.uniform(0.1, 2, len(X))
    model = nca().fit(X, matches=M, sample_weight=weight)
    Z = model._map.embed(X)
    share = plain_share(Z[:20], Z, M[:20].toarray(), weight)
    assert model.score(X[:20], matches=M[:20]) == pytest.approx(share.mean(), rel=1e-9)
    weighted = model.score(X[:20], matches=M[:20].toarray(), sample_weight=weight[:20])
    assert weighted == pytest.approx(np.average(share, weights=weight[:20]), rel=1e-9)
    assert model.score(X[:20], matches=sp.csr_array((20, len(X)))) == 0
    model.set_params(rule="knn", n_neighbors=3)
    near = model.kneighbors(X[:20], return_distance=False)
    dense = M.toarray()
    votes = [np.average(dense[i, rows], weights=weight[rows]) for i, rows in enumerate(near)]
    assert model.score(X[:20], matches=M[:20]) == pytest.approx(np.mean(votes))
    model.set_params(n_neighbors="local")
    assert 0 < model.score(X[:20], matches=M[:20]) <= 1
    model.set_params(n_neighbors="auto").fit(X, matches=M)
    near = model.kneighbors(n_neighbors=50, return_distance=False)
    running = np.cumsum(dense[np.arange(len(X))[:, None], near], axis=1) / np.arange(1, 51)
    assert model.n_neighbors_ == 1 + running.mean(axis=0).argmax()


@pytest.mark.parametrize("scale", [0.0, 1e-6, 1.0, 40.0, 1e6])
def test_models_of_any_scale(rng, scale):
    """Also where compiled loops take over, and far from all references."""
    Z, Z_query = scale * rng.normal(size=(60, 3)), scale * rng.normal(size=(20, 3))
    few = np.asarray(softened(np.arange(60) % 3))
    matches = rng.uniform(size=(20, 60)) < 0.2
    small = choose.DENSE_UP_TO
    for limit in (0, small):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(choose, "DENSE_UP_TO", limit)
            P = DistributionModel(Z, LabelDistributions(few), 5).probabilities(Z_query, "posterior")
            model = MatchModel(Z, Matches(np.ones((60, 60))), 5)
            shares = [model.scores(Z_query, of, "posterior") for of in (matches, ~matches)]
        np.testing.assert_allclose(P.sum(axis=1), 1.0)
        assert (P >= 0).all()
        # squared distances of 1e12 have four digits after the point
        np.testing.assert_allclose(np.sum(shares, axis=0), 1.0, rtol=1e-9 * max(1, scale))
    if scale <= 1:
        np.testing.assert_allclose(shares[0], plain_share(Z_query, Z, matches), rtol=1e-9)


def test_a_fit_to_matches_has_no_classes():
    model = nca().fit(X, y).fit(X, matches=M)
    for name in ("classes_", "predict", "predict_proba", "predict_log_proba",
                 "estimate_predict_cost"):  # fmt: skip
        assert not hasattr(model, name)
    with pytest.raises(AttributeError, match="predict") as error:
        model.predict(X)
    assert "after a fit to matches, which have no classes. Use transform" in str(
        error.value.__cause__
    )
    assert model.kneighbors(X, 3)[1].shape == (len(X), 3)
    assert model.effective_n_neighbors().shape == model.local_n_neighbors(X).shape == (len(X),)
    assert model.get_metric()(X[0], X[1]) > 0
    assert model.background_ is None
    assert hasattr(model.fit(X, y), "predict")
    assert model.classes_.tolist() == [0, 1, 2]
    # a stream that follows matches needs to be told the classes
    model = nca().fit(X, matches=M)
    with pytest.raises(ValueError, match="classes must be passed"):
        model.partial_fit(X, y)
    assert model.partial_fit(X, y, classes=[0, 1, 2]).predict(X).shape == (len(X),)


def test_columns_of_a_frame_name_the_classes():
    pandas = pytest.importorskip("pandas")
    model = nca().fit(X, pandas.DataFrame(T, columns=["rot", "gelb", "blau"]))
    assert model.classes_.tolist() == ["rot", "gelb", "blau"]
    assert set(model.predict(X)) == {"rot", "gelb", "blau"}
    assert model.score(X, np.array(["rot", "gelb", "blau"])[y]) > 0.9
    assert model.score(X, T) == nca().fit(X, T).score(X, T)
    assert nca().fit(X, T).classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(
        nca().fit(X, sp.csr_array(T)).components_, nca().fit(X, T.tolist()).components_
    )


# What may be combined


@either
@pytest.mark.parametrize("init", ["auto", "identity", "random", "pca", "whiten", "annealing", "lda",
                                  "rca", starts.Annealing(init="rca")], ids=str)  # fmt: skip
def test_every_start(soft, init):
    model = nca(init=init, max_iter=5)
    needs = "lda" in str(init) or "rca" in str(init)
    if "matches" in soft and needs:
        message = "'init' parameter of NCA must be 'auto', 'pca', .*rows have none. Got (LDA|RCA)"
        with pytest.raises(ValueError, match=message):
            model.fit(X, **soft)
        return
    assert np.isfinite(model.fit(X, **soft).components_).all()


@either
def test_rows_of_weight_zero_are_left_out(soft, rng):
    weight = rng.uniform(0.5, 2, len(X))
    weight[::4] = 0
    kept = np.flatnonzero(weight)
    few = {"y": T[kept]} if "y" in soft else {"matches": M[kept][:, kept]}
    model = nca().fit(X, **soft, sample_weight=weight)
    part = nca().fit(X[kept], **few, sample_weight=weight[kept])
    np.testing.assert_array_equal(model.components_, part.components_)
    assert not np.allclose(model.components_, nca().fit(X, **soft).components_)
    assert set(kept[part.kneighbors(n_neighbors=2)[1].ravel()]) == set(
        model.kneighbors(n_neighbors=2)[1].ravel()
    )
    if "matches" in soft:
        assert model.score(X, matches=M) == part.score(X, matches=M[:, kept])


@either
def test_a_search_scores_held_out_rows(soft, capsys):
    model = nca("auto", alpha="auto", cv=2, max_iter=8, verbose=1).fit(X[:, :5], **soft)
    name = "expected accuracy" if "y" in soft else "share of matches"
    said = capsys.readouterr().out
    assert f"held-out {name} 0." in said
    assert f"{name} is 0." in said
    assert set(model.cv_results_["stage"]) == {"n_components", "alpha"}
    best = model.cv_results_["mean_test_score"].max()
    assert (0.5 if "y" in soft else 0.3) < best < 1


def test_a_search_of_many_rows_keeps_matches_together(rng):
    n = 5000
    near = sp.csr_array(sp.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1]))
    rows = np.arange(0, n, 1)
    drawn = matching_groups(near, rows, 2000, np.random.RandomState(0))
    assert len(np.unique(drawn)) == 2000
    part = near[drawn][:, drawn]
    assert np.mean(np.diff(part.indptr) == 2) > 0.9
    assert drawn[0] < 500
    assert drawn[-1] > 4500
    # of rows that match nothing, any; and never rows that it may not take
    alone = matching_groups(sp.csr_array((n, n)), rows[::2], 2000, np.random.RandomState(0))
    assert len(np.unique(alone)) == 2000
    assert not (alone % 2).any()


@either
def test_a_resumed_fit_knows_its_target(soft):
    whole = nca(max_iter=8, tol=0.0).fit(X, **soft)
    half = nca(max_iter=4, tol=0.0, warm_start=True).fit(X, **soft).fit(X, **soft)
    np.testing.assert_array_equal(half.components_, whole.components_)
    from vicinal.fit.resume import row_fingerprint

    data = [nca()._check_data(X, None, None, M), nca()._check_data(X, T, None)]
    other = [nca()._check_data(X, None, None, M * 0.5), nca()._check_data(X, T[:, ::-1], None)]
    assert len({row_fingerprint(d) for d in (*data, *other)}) == 4


@either
def test_lists(soft):
    """Lists of the nearest, to which matches belong however far they are."""
    near, whole = (
        nca(neighborhood=pairs, max_iter=40).fit(X, **soft) for pairs in (Nearest(60), "all")
    )
    assert near.rounds_["mean_left_out"][-1] < 0.1
    assert near.loss_ == pytest.approx(whole.loss_, rel=0.05)
    short = nca(neighborhood=Nearest(1), max_iter=3)
    with pytest.warns(UserWarning, match="leave out"):
        assert np.isfinite(short.fit(X, **soft).loss_)


def test_plans():
    """Batches bring matches along, or queries meet all rows; which, depends on their number."""
    n = 60_000
    rows = np.empty((n, 30), np.float32)
    few = sp.csr_array(sp.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1]))
    many = sp.csr_array((np.ones(20 * n), np.arange(20 * n) % n, np.arange(0, 20 * n + 1, 20)))

    def plan(**soft):
        from vicinal.fit.method import Config, Data
        from vicinal.fit.plan import make_plan

        model = NCA(2)
        data = Data(rows, *soft.values())
        method = model._method(data)
        return make_plan(method, Config.of(model), model._size(data, method, rows))

    found = plan(matches=Matches(few))
    assert isinstance(found.sampling, MiniBatches)
    found = plan(matches=Matches(many))
    assert isinstance(found.sampling, StochasticQueries)
    assert "batches of 3000 with their matches would hold 60000" in found.reason
    T = np.full((n, 4), 0.25)
    assert isinstance(plan(T=LabelDistributions(T)).sampling, MiniBatches)
    costs = [NCA(2).estimate_cost(rows, T), NCA(2).estimate_cost(rows, matches=few)]
    assert all(cost.memory_bytes > 0 and cost.seconds_per_evaluation > 0 for cost in costs)
    labels = NCA(2).estimate_cost(rows, np.arange(n) % 4)
    assert labels.seconds_per_evaluation < costs[0].seconds_per_evaluation


def test_routing_of_matches():
    with config_context(enable_metadata_routing=True):
        model = nca().set_fit_request(matches=True).set_score_request(matches=True)
        pipe = make_pipeline(StandardScaler(), model).fit(X, matches=M)
        assert pipe.score(X, matches=M) == pytest.approx(
            nca().fit(X, matches=M).score(X, matches=M), abs=0.02
        )
    assert nca().fit_transform(X, matches=M).shape == (len(X), 2)


# Warnings and errors


def test_rows_without_a_match_are_counted():
    some = M.toarray()
    some[:3] = 0
    with pytest.warns(UserWarning, match="3 of 89 rows match no other row") as record:
        nca().fit(X, matches=some)
    assert len([w for w in record if "match no other" in str(w.message)]) == 1
    alone = np.eye(5)[np.concatenate([[3, 4], y[2:]])]
    with pytest.warns(UserWarning, match="2 of 89 rows match no other row"):
        nca().fit(X, alone)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        nca(max_iter=200).fit(X, T)


@either
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "compact"}, "'kernel' .* 'student' or 'laplace' .*no match in range"),
        ({"kernel": Compact(background=False), "objective": "accuracy"}, "'kernel' .* must be"),
        ({"kernel": Gaussian(background=True)}, "'kernel' .* without a background .* of a class"),
        ({"priors": "uniform"}, "'priors' parameter of NCA must be None .*Got 'uniform'"),
        ({"priors": [0.2, 0.3, 0.5]}, "'priors' parameter of NCA must be None"),
        (
            {"neighborhood": "tree"},
            "'neighborhood' .* 'nearest' .* trees sum over the rows of a class. Got",
        ),
        (
            {"neighborhood": Tree(0.1)},
            "'neighborhood' parameter of NCA must be 'auto', 'all' or 'nearest'",
        ),
        ({"neighborhood": RandomPairs(20)}, "random lists are drawn from each class. Got Random"),
    ],
)
def test_what_needs_classes_is_refused(soft, settings, message):
    with pytest.raises(ValueError, match=message):
        nca(**settings).fit(X, **soft)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (2 * T, r"y of NCA.fit must hold a label dist.* Got a sum of 2 in row 0 .*y / y.sum"),
        (T - 0.1, r"not negative and summing to one. Got -0.0666667 instead"),
        (np.full((89, 3), np.nan), "y contains NaN"),
        (T[:50], "inconsistent numbers of samples"),
        (np.full((89, 3), 1 / 3), "needs rows of different label distributions. Got 89 rows"),
        (np.eye(89), "needs a class that has a positive probability in at least 2 samples. Got 89"),
        (T[:, :, None], "y should be a 1d array|dim 3"),
        (np.array([["a", "b"]] * 89), "could not convert string|must be numbers|dtype"),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_distributions_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        nca().fit(X, wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"matches": M, "y": y}, "NCA.fit takes exactly one of y and 'matches'. Got both"),
        ({}, "requires y to be passed, but the target y is None"),
        ({"matches": M[:50]}, r"'matches' .* shape \(89, 89\). Got \(50, 89\) instead"),
        ({"matches": 4 * M}, r"'matches' parameter of NCA.fit must be .* in \[0, 1\].* Got [34].0"),
        ({"matches": -M}, r"numbers in \[0, 1\].* Got -1.0|Got -0.75"),
        ({"matches": np.full((89, 89), np.nan)}, r"numbers in \[0, 1\].* Got nan"),
        ({"matches": M.astype(complex)}, "numbers. Got the type complex128"),
        ({"matches": "all"}, r"'matches' .* shape \(89, 89\)"),
        ({"matches": np.eye(89)}, "must match at least one row with another row"),
    ],
    ids=str,
)
def test_wrong_matches_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        nca().fit(X, **wrong)


def test_wrong_scores_are_named():
    labelled, matched = nca().fit(X, T), nca().fit(X, matches=M)
    for model, given, message in [
        (labelled, {"matches": M}, "NCA.score takes y and no 'matches' after a fit to classes"),
        (labelled, {}, "takes y and no 'matches'"),
        (matched, {"y": y}, "NCA.score takes 'matches' and no y after a fit to matches"),
        (matched, {"matches": M[:, :40]}, r"'matches' parameter of NCA.score .* \(89, 89\). Got"),
        (labelled, {"y": T[:, :2] / T[:, :2].sum(axis=1, keepdims=True)}, r"shape \(89, 3\). Got"),
        (labelled, {"y": 3 * T}, "matrix y of NCA.score must hold a label distribution"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.score(X, **given)


def test_labels_only():
    """A stream, and the methods that know labels alone, say so."""
    with pytest.raises(ValueError, match=r"NCA.partial_fit must be one-dim.*Got shape \(89, 3\)"):
        nca().partial_fit(X, T, classes=[0, 1, 2])
    for model in (KNCA(2, k=2, max_iter=2), LMNN(2, max_iter=2)):
        with pytest.raises(ValueError, match="y should be a 1d array"):
            model.fit(X, T)
    from sklearn.exceptions import DataConversionWarning

    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
        column = nca().fit(X, y[:, None])
    np.testing.assert_array_equal(column.components_, nca().fit(X, y).components_)


def test_matches_know_what_a_search_asks():
    """Rows that stay together in a sample, and the score of a map that knows nothing."""
    target = Matches(M, np.arange(1.0, 90.0))
    drawn = target.draw(np.arange(89), 30, np.random.RandomState(1))
    assert len(np.unique(drawn)) == 30
    assert target.take(drawn).counts.min() > 0
    v = target.sample_weight
    shares = [np.average(np.delete(row, i), weights=np.delete(v, i))
              for i, row in enumerate(target.matrix.toarray())]  # fmt: skip
    assert target.chance == pytest.approx(np.average(shares, weights=v))
