"""A fresh numba cache, seeds by fixture, and hypothesis without chance."""

import atexit
import os
import shutil
import sys
import tempfile

# What is tested is compiled here: each run starts with an empty cache, which must be named before
# numba is imported. A cache named by the caller is kept; so the
# workers of xdist, which inherit it from the process that starts them, share one.
if "NUMBA_CACHE_DIR" not in os.environ:
    assert "numba" not in sys.modules, "a pytest plugin imported numba before its cache was set"
    os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(prefix="vicinal-numba-")
    atexit.register(shutil.rmtree, os.environ["NUMBA_CACHE_DIR"], ignore_errors=True)
os.environ.setdefault("MPLBACKEND", "Agg")
# Threads of OpenMP and of OpenBLAS that have nothing to do sleep instead of turning in circles: the
# workers of xdist have as many threads each as there are cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

import hypothesis
import numpy as np
import pytest
import sklearn

# The same examples in every run; `--hypothesis-profile=explore` looks for new ones.
hypothesis.settings.register_profile(
    "default_run", derandomize=True, deadline=None, max_examples=30, database=None
)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=500)
hypothesis.settings.load_profile("default_run")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that hypothesis draws examples for are `fuzz`: `make test-long` draws many more.

    Tests of the dense engine that say nothing new are left out.
    """
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("fuzz")
    left_out = [item for item in items if _is_dense_again(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not _is_dense_again(item)]


def _is_dense_again(item: pytest.Item) -> bool:
    """Whether the dense engine runs another option, or more rows than it is for.

    tests/engines/test_dense.py and test_matches.py compare the engines for each kernel, vote,
    distance and target.
    """
    values = getattr(getattr(item, "callspec", None), "params", {})
    if values.get("engine") != "dense":
        return False
    n = values.get("n", 0)
    return item.get_closest_marker("options") is not None or (type(n) is int and n > 500)


def _seeds() -> range:
    """The seeds that VICINAL_TEST_SEEDS names: "42", or "0-9"."""
    first, _, last = os.environ.get("VICINAL_TEST_SEEDS", "42").partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.fixture(scope="session", params=_seeds())
def global_random_seed(request: pytest.FixtureRequest) -> int:
    """A seed that no test may depend on."""
    return request.param


@pytest.fixture
def rng(global_random_seed: int) -> np.random.Generator:
    """A generator that starts anew in every test."""
    return np.random.default_rng(global_random_seed)


@pytest.fixture(autouse=True)
def no_traces():
    """What a test leaves changed in this process is not seen by the next one.

    Open figures, environment variables, scikit-learn's settings, NumPy's global generator.
    """
    environment, settings = dict(os.environ), sklearn.get_config()
    np.random.seed(0)  # noqa: NPY002 - the one that random_state=None draws from
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
    sklearn.set_config(**settings)
    pytest_own = {"PYTEST_CURRENT_TEST": os.environ["PYTEST_CURRENT_TEST"]}
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment | pytest_own)


@pytest.fixture
def interrupted_nca():
    """``interrupted_nca(call)`` is NCA, or another, interrupted in that call of its objective."""
    from common.hooks import hooked

    from vicinal import NCA

    def make(call: int, method: type = NCA) -> type:
        calls = []

        def interrupt(Z, kwargs):
            if calls or kwargs.get("gradient", True):  # after those that chose the scale of a start
                calls.append(kwargs)
            if len(calls) == call:
                raise KeyboardInterrupt

        return hooked(method, interrupt)

    return make
