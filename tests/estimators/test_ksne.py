"""kSNE and kt-SNE as an estimator: what is special to it; see also contracts/test_embeddings."""

import numpy as np
import pytest
import scipy.sparse as sp
from common.checks import needs_callbacks
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.manifold import TSNE, trustworthiness
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import kneighbors_graph

from vicinal import KSNE, _threads
from vicinal.affinities import affinities
from vicinal.callbacks import Frames
from vicinal.fit import cost
from vicinal.fit.embedding import NoProgress, SmallGradientNorm
from vicinal.objectives.ksne import KSNELoss
from vicinal.solvers import LBFGS, Adam, Momentum

DIGITS = load_digits().data[:150]
IRIS = load_iris().data[::2]
DIVERGENCE, TRUSTWORTHINESS = {1: 0.49, 5: 2.62}, 0.9955  # of 600 digits
SHORT = {"perplexity": 10, "max_iter": 8, "early_exaggeration_iter": 4}


@pytest.mark.parametrize(("X", "k"), [(DIGITS, 4), (IRIS, 1)], ids=["digits", "iris"])
def test_keeps_neighbours_as_well_as_t_sne(X, k):
    model = KSNE(k=k, perplexity=10, max_iter=350, early_exaggeration_iter=100).fit(X)
    peer = TSNE(perplexity=10, init="pca", max_iter=500, random_state=0).fit_transform(X)
    assert trustworthiness(X, model.embedding_) > trustworthiness(X, peer) - 0.005
    assert model.n_iter_ == 350


def test_the_divergence_is_that_of_the_picture():
    start = IRIS[:, :2]
    model = KSNE(k=3, exaggeration=3, init=start, **SHORT).fit(IRIS)
    loss = KSNELoss(3)(model.embedding_, affinities(IRIS, 10, 3)).value
    assert model.kl_divergence_ == pytest.approx(loss, rel=1e-12)
    # what is minimised is exaggerated
    exaggerated = KSNELoss(3, exaggeration=3.0)(model.embedding_, model.affinities_).value
    assert min(model.history_["loss"][5:]) == pytest.approx(exaggerated, rel=1e-12)
    assert abs(exaggerated - loss) > 1e-3 * loss
    only = KSNE(k=3, init=start, **{**SHORT, "early_exaggeration_iter": 50}).fit(IRIS)
    loss = KSNELoss(3)(only.embedding_, affinities(IRIS, 10, 3)).value
    assert only.kl_divergence_ == pytest.approx(loss, rel=1e-12)


def test_a_picture_that_early_exaggeration_has_shrunk_grows_again(rng):
    """A round cloud has no clusters: exaggeration pulls all of it into a point."""
    X = rng.standard_normal((120, 20))
    model = KSNE(k=5, perplexity=30, max_iter=400, random_state=0).fit(X)
    assert model.n_iter_ == 400
    assert model.embedding_.std() > 1.0
    assert trustworthiness(X, model.embedding_) > 0.6


@needs_callbacks
def test_early_exaggeration_does_not_shrink_a_picture_to_nothing(rng):
    X = rng.standard_normal((120, 20))
    frames = Frames()
    model = KSNE(perplexity=30, early_exaggeration_iter=390, max_iter=400)
    model.set_callbacks(frames).fit(X)
    assert min(Z.std(axis=0).max() for Z in frames.embeddings) > 1e-8
    assert model.embedding_.std() > 1.0


@pytest.mark.parametrize("k", [1, 5])
def test_other_last_digits_give_another_picture_that_is_as_good(rng, k):
    """What another kind of processor does: the tolerances are those of the docstring."""
    X = load_digits().data[:600]
    changed = X * (1 + 1e-13 * rng.standard_normal(X.shape))
    model, other = (KSNE(k=k, max_iter=400, random_state=0).fit(rows) for rows in (X, changed))
    assert not np.allclose(model.embedding_, other.embedding_, atol=1e-3)
    for fit in model, other:
        assert fit.kl_divergence_ == pytest.approx(DIVERGENCE[k], rel={1: 0.08, 5: 0.02}[k])
        assert trustworthiness(X, fit.embedding_) == pytest.approx(TRUSTWORTHINESS, abs=0.005)


# Few rows


def test_k_beyond_the_rows_is_lowered_with_a_warning(rng):
    with pytest.warns(UserWarning, match="k=5 is too large for 6 rows.* k=4 is used") as told:
        model = KSNE(k=5, perplexity=1.5, max_iter=5).fit(rng.standard_normal((6, 3)))
    assert model.k_ == 4
    assert np.isfinite(model.embedding_).all()
    assert told[0].filename == __file__


def test_a_k_beyond_what_sets_allow_is_refused(rng):
    with pytest.raises(ValueError, match=r"'k' parameter of KSNE must be .* \[1, 700\]. Got 900"):
        KSNE(k=900).fit(rng.standard_normal((1000, 2)))


def test_a_perplexity_beyond_the_rows_is_lowered_with_a_warning(rng):
    with pytest.warns(UserWarning, match="perplexity=30 is too large for 31 rows: 10 is used"):
        model = KSNE(k=2, max_iter=5).fit(rng.standard_normal((31, 3)))
    assert model.perplexity_ == 10.0


@pytest.mark.filterwarnings("ignore:(k|perplexity)=.* is too large")
@pytest.mark.parametrize("n", [2, 3, 4])
def test_very_few_rows_have_a_picture(n, rng):
    X = rng.standard_normal((n, 3))
    model = KSNE(max_iter=20).fit(X)
    assert model.embedding_.shape == (n, 2)
    assert np.isfinite(model.embedding_).all()
    assert np.isfinite(model.transform(X + 0.1)).all()
    if n == 2:  # each row chooses the other one: nothing is left to be learnt
        assert model.kl_divergence_ == pytest.approx(0.0, abs=1e-14)


def test_rows_that_are_all_equal():
    model = KSNE(k=2, random_state=0, **SHORT).fit(np.ones((40, 3)))
    assert np.isfinite(model.embedding_).all()
    np.testing.assert_array_equal(model.transform(np.ones((2, 3))), model.embedding_[[0, 0]])


# Stages, rates and solvers


def test_automatic_rates_go_by_rows_exaggeration_and_k():
    model = KSNE(k=3, **SHORT).fit(IRIS)
    assert model.learning_rate_ == 75 / (4 * 3)
    assert KSNE(k=3, exaggeration=2, **SHORT).fit(IRIS).learning_rate_ == 75 / (4 * 3 * 2)
    assert KSNE(k=3, learning_rate=7, **SHORT).fit(IRIS).learning_rate_ == 7.0


def test_early_exaggeration_is_a_stage_of_its_own():
    start = IRIS[:, :2]
    model = KSNE(k=3, init=start, **SHORT).fit(IRIS)
    early, loss = model.history_["loss"], KSNELoss(3, exaggeration=12.0)
    assert early[0] == pytest.approx(loss(start, model.affinities_).value, rel=1e-9)
    assert early[4] > 1.3 * early[5]  # the factor of the attraction is gone
    without = KSNE(k=3, early_exaggeration=1, **SHORT).fit(IRIS)
    none = KSNE(k=3, **{**SHORT, "early_exaggeration_iter": 0}).fit(IRIS)
    np.testing.assert_array_equal(without.embedding_, none.embedding_)


def test_any_solver_can_be_used():
    for solver in ("lbfgs", "bold_driver", Adam(0.1), Momentum(3.0, 0.5)):
        model = KSNE(k=2, solver=solver, **SHORT).fit(IRIS)
        assert model.history_["loss"][-1] < model.history_["loss"][5]
    assert KSNE(k=2, solver=Adam(0.1), **SHORT).fit(IRIS).learning_rate_ == 0.1
    with pytest.raises(ValueError, match="'learning_rate' parameter of KSNE must be 'auto' if"):
        KSNE(solver="adam", learning_rate=3.0).fit(IRIS)


class Progress:
    """As much of a running stage as the rules look at."""

    def __init__(self, losses, grad=(1.0,), theta=(-3.0, 3.0)):
        self.losses, self.lowest = losses, np.minimum.accumulate(losses).tolist()
        self.state = type("State", (), {"grad": np.array(grad), "theta": np.array(theta)})


@pytest.mark.parametrize(
    ("settings", "rate"),
    [
        ({"learning_rate": 1e300}, "'learning_rate'"),
        ({"solver": Momentum(1e300)}, "the rate of 'solver'"),
    ],
)
def test_an_infinite_loss_names_parameters_of_ksne(settings, rate):
    advice = f"became infinite or NaN; decrease {rate} or 'early_exaggeration'. The best picture"
    with pytest.warns(ConvergenceWarning, match=advice):
        model = KSNE(**SHORT, **settings).fit(IRIS)
    assert np.isfinite(model.embedding_).all()


def test_rules_that_end_a_fit():
    rule = NoProgress(3)
    assert not rule(Progress([5.0, 4.0, 4.5, 4.1]))
    assert rule(Progress([5.0, 4.0, 4.5, 4.1, 4.2]))
    assert not rule(Progress([5.0, 4.0, 4.5, 4.1, 3.9]))
    assert SmallGradientNorm(1.5)(Progress([1.0], grad=(0.9, 1.2)))
    assert not SmallGradientNorm(1.4)(Progress([1.0], grad=(0.9, 1.2)))
    stopped = KSNE(k=2, min_grad_norm=1e3, **SHORT).fit(IRIS)
    assert stopped.n_iter_ < 8


# Starts


def test_starts_have_the_usual_scale():
    frames = {}
    for init in ("pca", "spectral", "random"):
        model = KSNE(k=2, init=init, learning_rate=1e-12, random_state=0, **SHORT).fit(IRIS)
        frames[init] = model.embedding_
        assert model.embedding_[:, 0].std() == pytest.approx(1e-4, rel=0.25)
    auto = KSNE(k=2, learning_rate=1e-12, random_state=0, **SHORT).fit(IRIS)
    np.testing.assert_array_equal(auto.embedding_, frames["pca"])
    centred = IRIS - IRIS.mean(axis=0)
    scores = centred @ np.linalg.svd(centred)[2][0]
    assert abs(np.corrcoef(scores, frames["pca"][:, 0])[0, 1]) == pytest.approx(1.0, abs=1e-6)


def test_a_start_may_be_given(rng):
    start = rng.standard_normal((75, 2))
    model = KSNE(k=2, init=start, learning_rate=1e-12, **SHORT).fit(IRIS)
    np.testing.assert_allclose(model.embedding_, start, atol=1e-9)
    for wrong, got in [
        (start[:, :1], r"an array of shape \(75, 1\)"),
        (np.full((75, 2), np.nan), "entries that are not finite"),
        ("umap", "'umap'"),
    ]:
        message = rf"'init' parameter of KSNE must be one of 'auto', .*\(75, 2\).* Got {got}"
        with pytest.raises(ValueError, match=message):
            KSNE(init=wrong).fit(IRIS)


# Other data than rows


def test_given_distances_and_weights_say_the_same_as_rows():
    rows = KSNE(k=2, init="spectral", random_state=0, **SHORT)
    expected = rows.fit(IRIS)
    D = pairwise_distances(IRIS)
    given = KSNE(k=2, metric="precomputed", random_state=0, **SHORT).fit(D)
    np.testing.assert_allclose(given.embedding_, expected.embedding_, atol=1e-9)
    assert given.__sklearn_tags__().input_tags.pairwise
    with pytest.raises(ValueError, match="must be square"):
        KSNE(metric="precomputed").fit(D[:, :9])
    with pytest.raises(ValueError, match="without rows there are no principal components"):
        KSNE(metric="precomputed", init="pca").fit(D)
    with pytest.raises(ValueError, match="without rows there is nothing to map"):
        KSNE(metric="precomputed", mapping="linear").fit(D)


def test_graphs_of_neighbours_and_weights(rng):
    graph = kneighbors_graph(IRIS, 30, mode="distance")
    model = KSNE(k=2, metric="precomputed", **{**SHORT, "max_iter": 200}).fit(graph)
    assert trustworthiness(IRIS, model.embedding_) > 0.95
    W = sp.csr_array(np.exp(-(pairwise_distances(IRIS) ** 2)))
    model = KSNE(k=2, metric="precomputed_affinities", **SHORT).fit(W)
    np.testing.assert_array_equal(model.transform(W), model.embedding_)


def test_other_metrics():
    one = KSNE(k=2, metric="cosine", **SHORT).fit(IRIS)
    other = KSNE(k=2, metric="cosine", **SHORT).fit(IRIS * np.linspace(0.5, 2, 75)[:, None])
    np.testing.assert_allclose(one.affinities_.marginals, other.affinities_.marginals, atol=1e-9)
    cubic = KSNE(k=2, metric="minkowski", metric_params={"p": 3}, **SHORT).fit(IRIS)
    assert not np.allclose(cubic.embedding_, one.embedding_)


# Maps


def test_a_linear_map_is_learnt():
    X = DIGITS[:, DIGITS.std(axis=0) > 0]
    model = KSNE(k=3, mapping="linear", perplexity=10, max_iter=60).fit(X)
    assert model.components_.shape == (2, X.shape[1])
    np.testing.assert_allclose(model.embedding_, X @ model.components_.T, rtol=1e-9, atol=1e-9)
    assert model.kl_divergence_ < 0.8 * model.history_["loss"][0]
    assert model.learning_rate_ is None  # of L-BFGS
    again = KSNE(k=3, mapping="linear", perplexity=10, max_iter=1, init=model.components_).fit(X)
    assert again.history_["loss"][0] == pytest.approx(model.kl_divergence_, rel=1e-9)
    assert not hasattr(KSNE(k=2, **SHORT).fit(X), "components_")


def test_maps_that_do_not_fit_are_refused():
    with pytest.raises(
        ValueError, match=r"'n_components' parameter of KSNE must be an int in \[1, 4"
    ):
        KSNE(5, mapping="linear").fit(IRIS)
    with pytest.raises(ValueError, match="must be 4 if 'mapping' is 'diagonal'"):
        KSNE(2, mapping="diagonal").fit(IRIS)
    with pytest.raises(ValueError, match="'mapping' parameter of KSNE must be 'points', 'linear'"):
        KSNE(mapping="umap").fit(IRIS)
    with pytest.raises(ValueError, match="the eigenvectors of a graph have no map"):
        KSNE(mapping="linear", init="spectral").fit(IRIS)
    weights = KSNE(4, 2, mapping="diagonal", **SHORT).fit(IRIS)
    assert weights.embedding_.shape == (75, 4)


def test_the_solver_of_a_map_goes_by_the_roughness_of_the_loss(monkeypatch):
    from vicinal.fit.embedding import make_solver

    model = KSNE(mapping="linear")
    assert isinstance(make_solver(model, 1.0, 500), LBFGS)
    assert isinstance(make_solver(model, 1.0, 50_000), Adam)
    assert isinstance(make_solver(KSNE(mapping="linear", learning_rate=2.0), 2.0, 500), Momentum)


# Size


def test_slow_exact_sums_are_refused_with_their_cost(monkeypatch):
    monkeypatch.setattr(cost, "MOST_SECONDS", 1e-4)
    X = np.random.default_rng(0).standard_normal((600, 4))
    for settings in ({"kernel": "gaussian"}, {"kappa": 0.1}, {"n_components": 3}):
        with pytest.raises(
            ValueError, match=r"all 3.6e\+05 pairs of 600 rows: about .* s for each"
        ):
            KSNE(**settings, **SHORT).fit(X)
    accepted = KSNE(k=2, kernel="gaussian", method="exact", **{**SHORT, "max_iter": 2}).fit(X)
    assert np.isfinite(accepted.embedding_).all()
    cost.check_cost(KSNE(), 1_000_000)  # interpolated
    monkeypatch.undo()
    cost.check_cost(KSNE(kernel="gaussian"), 10_000)
    with pytest.raises(ValueError, match="method='exact' accepts that"):
        cost.check_cost(KSNE(kernel="gaussian"), 200_000)
    with pytest.raises(ValueError, match="method='fft' of KSNE needs the kernel 'cauchy'"):
        KSNE(kernel="gaussian", method="fft").fit(X)


def test_cost_grows_as_the_engine_does():
    def seconds(n, **settings):
        rows = np.broadcast_to(np.float32(0), (n, 20))
        return KSNE(**settings).estimate_cost(rows).seconds_per_evaluation

    exact = [seconds(n, kernel="gaussian") for n in (10**4, 10**5)]
    fast = [seconds(n) for n in (10**4, 10**5)]
    assert 80 < exact[1] / exact[0] < 110
    assert 8 < fast[1] / fast[0] < 12
    assert fast[1] < exact[1] / 10


def test_the_fast_way_ends_near_the_exact_one(rng):
    X = rng.standard_normal((700, 5)) + 4 * rng.standard_normal((3, 5))[np.arange(700) % 3]
    exact, fast = (
        KSNE(k=2, method=method, **{**SHORT, "max_iter": 60, "early_exaggeration_iter": 20}).fit(X)
        for method in ("exact", "fft")
    )
    assert fast.kl_divergence_ == pytest.approx(exact.kl_divergence_, rel=0.02)
    assert fast.history_["loss"].index(min(fast.history_["loss"])) == 60  # no old picture


@needs_callbacks
def test_frames_of_a_fit():
    frames = Frames(every=2)
    model = KSNE(k=2, **SHORT).set_callbacks(frames).fit(IRIS)
    assert frames.iterations == [2, 4, 6, 8]
    centred = model.embedding_ - model.embedding_.mean(axis=0)
    np.testing.assert_allclose(frames.embeddings[-1], centred, rtol=1e-5)


@needs_callbacks
@pytest.mark.parametrize(("n_jobs", "most"), [(1, 1), (2, 2), (-1, None), (None, None)])
def test_n_jobs_caps_the_threads_and_changes_no_bits(n_jobs, most, rng, monkeypatch):
    monkeypatch.setattr(_threads, "_cores_and_openmp", lambda: (8, []))
    seen = set()

    class Watch:
        def setup(self, estimator, context): ...

        on_fit_task_begin = teardown = setup

        def on_fit_task_end(self, estimator, context):
            if context.parent is not None:  # an iteration, not the end of the whole fit
                seen.add(_threads.n_threads())

    X = rng.normal(size=(60, 5))
    model = KSNE(k=2, perplexity=10, max_iter=20, n_jobs=n_jobs, random_state=0)
    Z = model.set_callbacks(Watch()).fit_transform(X)
    assert seen == {8 if most is None else most}
    assert _threads.n_threads() == 8
    usual = KSNE(k=2, perplexity=10, max_iter=20, random_state=0).fit(X)
    np.testing.assert_array_equal(Z, usual.embedding_)
    np.testing.assert_array_equal(model.transform(X[:9] + 1), usual.transform(X[:9] + 1))


def test_n_jobs_is_checked(rng):
    X = rng.normal(size=(30, 3))
    for bad in (0, -2, 1.5, "all"):
        with pytest.raises(ValueError, match=r"'n_jobs' parameter of KSNE must be an int in \[1"):
            KSNE(n_jobs=bad).fit(X)
