"""kSNE on a GPU: sets of k, attraction and fits; without a GPU in Triton's interpreter."""

import pickle

import numpy as np
import pytest
from with_torch import gpu

from vicinal import KSNE
from vicinal.affinities import affinities
from vicinal.engines.cuda import backend
from vicinal.objectives import KSNELoss

pytestmark = [
    pytest.mark.skipif(not backend.find_spec("triton"), reason="needs triton"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.fixture(autouse=True)
def device(monkeypatch):
    gpu.stand_in(monkeypatch)


@pytest.fixture
def X(rng):
    return rng.normal(size=(90, 4))


@pytest.mark.parametrize(
    ("k", "kernel", "scale"),
    [
        (1, "cauchy", 1.0),
        (3, "cauchy", 1e-4),  # as at the start, where all weights are about 1
        (3, "cauchy", 30.0),
        (2, "gaussian", 1.0),
        (1, "gaussian", 20.0),
    ],
)
def test_loss_and_gradient_are_those_of_the_cpu(X, rng, k, kernel, scale):
    target, Z = affinities(X, 8.0, k), scale * rng.normal(size=(90, 2))
    loss = KSNELoss(k, kernel, exaggeration=3.0)
    here, found, again = loss(Z, target), loss(gpu.there(Z), target), loss(gpu.there(Z), target)
    dZ = found.dZ.tensor.cpu().numpy()
    assert found.facts["engine"] == "triton"
    assert found.value == pytest.approx(here.value, rel=1e-6)
    assert np.linalg.norm(dZ - here.dZ) <= 1e-5 * np.linalg.norm(here.dZ)
    assert found.value == again.value
    np.testing.assert_array_equal(dZ, again.dZ.tensor.cpu().numpy())
    assert loss(gpu.there(Z), target, gradient=False).dZ is None


def test_exact_sums_are_in_double_precision(X, rng):
    target, Z = affinities(X, 8.0, 2), rng.normal(size=(90, 2))
    loss = KSNELoss(2, method="exact")
    here, found = loss(Z, target), loss(gpu.there(Z), target)
    assert found.value == pytest.approx(here.value, rel=1e-12)
    np.testing.assert_allclose(found.dZ.tensor.cpu(), here.dZ, atol=1e-12)


@pytest.mark.parametrize("parameters", [{}, {"solver": "lbfgs", "max_iter": 3}])
def test_a_fit_is_that_of_the_cpu(X, parameters):
    """From a tiny start, where the loss hardly changes."""
    parameters = {"perplexity": 8.0, "max_iter": 8, "early_exaggeration_iter": 2, **parameters}
    here, there = (KSNE(device=name, **parameters).fit(X) for name in (None, "cuda"))
    np.testing.assert_allclose(there.embedding_, here.embedding_, rtol=1e-3, atol=1e-8)
    assert there.kl_divergence_ == pytest.approx(here.kl_divergence_, rel=1e-4)
    assert b"engines.cuda" not in pickle.dumps(there)
    np.testing.assert_allclose(there.transform(X[:2]), there.embedding_[:2])


def test_a_cut_fit_goes_on_to_the_same_bits(X):
    parameters = {"perplexity": 8.0, "early_exaggeration_iter": 0, "device": "cuda"}
    whole = KSNE(max_iter=4, **parameters).fit(X)
    part = KSNE(max_iter=2, warm_start=True, **parameters).fit(X)
    part = pickle.loads(pickle.dumps(part)).fit(X)
    np.testing.assert_array_equal(part.embedding_, whole.embedding_)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"kappa": 0.1}, "'kappa' parameter of KSNE must be 0 on a GPU"),
        ({"method": "fft"}, "'method' parameter of KSNE must be 'auto' or 'exact' on a GPU"),
        ({"mapping": "linear"}, "'mapping' parameter of KSNE must be 'points' on a GPU"),
        ({"k": 16}, "'k' parameter of KSNE must be at most 15 on a GPU"),
        ({"n_components": 33}, "neighbours in 33 dimensions on a GPU"),
        ({"device": "gpu"}, "'device' parameter of KSNE must be None, 'cpu', 'cuda'"),
    ],
)
def test_what_has_no_engine_is_refused_by_name(X, parameters, words):
    if "n_components" in parameters:
        parameters |= {"init": "random"}
    with pytest.raises((ValueError, NotImplementedError), match=words):
        KSNE(**{"device": "cuda", "perplexity": 8.0, **parameters}).fit(X)


def test_some_queries_are_refused_by_name(X):
    target = affinities(X, 8.0, 1)
    with pytest.raises(NotImplementedError, match="some queries or references of kSNE"):
        KSNELoss(1)(gpu.there(X[:, :2]), target, queries=np.arange(9))
