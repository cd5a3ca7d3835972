"""No fit ends at the zero map, which is stationary and classifies nothing.

Well separated classes are the easiest data, and the likeliest to collapse: over many scales the
loss is flat, and only the penalty has a gradient.
"""

import warnings
from functools import partial

import numpy as np
import pytest

from vicinal import KNCA, LMNN, MCML, NCA, Chi2LMNN
from vicinal.fit.method import is_collapsed

SEPARATIONS = (1e-3, 1.0, 10.0, 1e3, 1e8)
ESTIMATORS = [
    NCA(alpha=3e-3),
    NCA(1, alpha=3e-3),
    NCA(alpha=3e-3, objective="accuracy"),
    NCA(alpha=3e-3, kernel="student"),
    NCA(alpha=3e-3, kernel="laplace"),
    NCA(alpha=3e-3, kernel="compact"),
    NCA(alpha=3e-3, mapping="diagonal"),
    NCA(alpha=0.1),
    NCA(alpha=0.0),
    NCA(alpha="scaled"),
    NCA(alpha=3e-3, early_stopping=True),
    KNCA(k=3),
    KNCA(k=3, alpha=0.0),
    MCML(),
    MCML(alpha=3e-3),
    LMNN(k=3),
    LMNN(k=3, alpha=1e-3),
]
STARTS = ("identity", "random", "pca", "lda", "rca", "whiten", "annealing")


def clusters(separation, unit=1.0):
    """Three clusters of 20 rows in four columns, whose centres are some ``separation`` apart."""
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(3), 20)
    centres = rng.standard_normal((3, 4))
    return unit * (separation * centres[y] + rng.standard_normal((60, 4))), y


def fitted(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.set_params(random_state=0).fit(X, y)


def check(model, X, y, separation):
    model = fitted(model, X, y)
    assert not is_collapsed(model._model.Z)
    if separation >= 10.0:
        assert model.score(X, y) == 1.0


@pytest.mark.parametrize("separation", SEPARATIONS)
@pytest.mark.parametrize("model", ESTIMATORS, ids=repr)
def test_no_estimator_collapses(model, separation):
    check(model, *clusters(separation), separation)


@pytest.mark.parametrize("separation", [10.0, 1e8])
@pytest.mark.parametrize(
    "options", [{"sampling": "mini_batches", "max_iter": 50}, {"neighborhood": "nearest"}], ids=repr
)
def test_no_cheaper_way_collapses(options, separation):
    check(NCA(2, alpha=3e-3, **options), *clusters(separation), separation)


@pytest.mark.parametrize("separation", [1e-3, 1e3, 1e8])
@pytest.mark.parametrize(
    ("estimator", "start"),
    [*((partial(NCA, alpha=3e-3), start) for start in STARTS), (NCA, "pca"),  # which searches
     *((LMNN, start) for start in STARTS[:-1])],  # which does not anneal
)  # fmt: skip
def test_no_start_collapses(estimator, start, separation):
    check(estimator(2, init=start), *clusters(separation), separation)


@pytest.mark.parametrize("scaling", ["standard", "global", None])
@pytest.mark.parametrize("unit", [1e-150, 1e-8, 1e8, 1e150])
def test_units_do_not_matter(unit, scaling):
    check(NCA(2, scaling=scaling, alpha=3e-3), *clusters(1e3, unit), 1e3)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_a_given_map_is_rescaled_if_the_loss_is_flat_there(scale):
    X, y = clusters(10.0)
    check(NCA(init=scale * np.eye(4), n_components=4, alpha=3e-3), X, y, 10.0)


def test_a_tiny_given_map_is_told_of():
    with pytest.warns(UserWarning, match="The fit began again at another scale"):
        NCA(init=1e-9 * np.eye(4), n_components=4).fit(*clusters(10.0))


@pytest.mark.parametrize(
    ("model", "advice"),
    [(NCA(alpha=100.0), "alpha=100.*Decrease 'alpha'"),
     (KNCA(k=3, alpha=100.0), "alpha=100.*Decrease 'alpha'"),
     (NCA(alpha=100.0, sampling="mini_batches"), "Decrease 'alpha'"),
     (MCML(alpha=100.0), "alpha=100.*Decrease 'alpha'"),
     (LMNN(k=3, mu=1e-9), "Increase 'mu'"),
     (LMNN(k=3, alpha=1e9), "decrease 'alpha'")],
    ids=repr,
)  # fmt: skip
def test_the_start_is_kept_if_the_penalty_wins_everywhere(model, advice):
    X, y = clusters(10.0)
    with pytest.warns(UserWarning, match=f"collapsed.*{advice}.*The start is kept instead"):
        model.set_params(random_state=0).fit(X, y)
    assert not is_collapsed(model._model.Z)
    assert model.score(X, y) == 1.0


def test_histograms_keep_their_start():
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(3), 20)
    X = rng.poisson(np.where(np.arange(6) // 2 == y[:, None], 20, 1))
    with pytest.warns(UserWarning, match="collapsed.*Increase 'mu' or 'margin'.*start is kept"):
        model = Chi2LMNN(3, mu=1e-9, random_state=0).fit(X, y)
    assert model.score(X, y) == 1.0


def test_a_resumed_fit_does_not_collapse_either():
    X, y = clusters(10.0)
    model = fitted(NCA(alpha=100.0, max_iter=1, warm_start=True), X, y)
    assert fitted(model, X, y).score(X, y) == 1.0
