"""Pickles, files of joblib and files of skops: what they hold, and who may read them.

That every estimator says the same after such a file is in ``tests/contracts/test_estimators.py``.
"""

import copy
import inspect
import os
import pickle
import pickletools
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.datasets import load_iris
from sklearn.exceptions import InconsistentVersionWarning
from skops.io.exceptions import UntrustedTypesFoundException

import vicinal
from vicinal import maps
from vicinal.compat import metric_learn
from vicinal.models import stored

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

_X, _Y = (part[::2] for part in load_iris(return_X_y=True))
_QUICK = {"alpha": 1e-2, "max_iter": 2, "random_state": 0}
ESTIMATORS = [
    getattr(vicinal, name)
    for name in vicinal.__all__
    if inspect.isclass(getattr(vicinal, name)) and name != "FromLabels"
]


def through_skops(model):
    return skops.io.loads(skops.io.dumps(model), trusted=vicinal.TRUSTED_TYPES)


def pairs():
    rng = np.random.RandomState(1)
    left = rng.randint(len(_X), size=60)
    right = (left + rng.randint(1, len(_X), size=60)) % len(_X)
    return np.stack([_X[left], _X[right]], axis=1), np.where(_Y[left] == _Y[right], 1, -1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: vicinal.NCA(mapping=maps.Periodic(then=maps.MLP(3)), **_QUICK).fit(_X, _Y),
        lambda: vicinal.NCA(warm_start=True, solver="adam", **_QUICK).fit(_X, _Y),
        lambda: vicinal.NCA(alpha=1e-2, random_state=0).partial_fit(_X, _Y, classes=[0, 1, 2]),
        lambda: vicinal.KSNE(perplexity=5, max_iter=3, random_state=0).fit(_X),
        lambda: vicinal.KSNE(mapping="linear", perplexity=5, max_iter=3, random_state=0).fit(_X),
        lambda: vicinal.PairNCA(**_QUICK).fit(*pairs()),
        lambda: metric_learn.NCA(max_iter=2, random_state=0).fit(_X, _Y),
        lambda: metric_learn.ITML_Supervised(max_iter=2, random_state=0).fit(_X, _Y),
    ],
    ids=["bent", "warm", "stream", "picture", "picture-map", "pairs", "compat", "compat-pairs"],
)
def test_skops_reads_what_contracts_do_not_cover(make):
    model = make()
    for twin in (through_skops(model), copy.deepcopy(model)):
        np.testing.assert_array_equal(twin.transform(_X), model.transform(_X))


def test_skops_reads_the_pipeline_of_a_table():
    rng = np.random.RandomState(0)
    words = "a mild and sunny day with some clouds and no rain at all".split()
    table = pd.DataFrame({
        "length": np.where(rng.uniform(size=75) < 0.1, np.nan, _X[:, 0]),
        "colour": rng.choice(["red", "blue"], size=75),
        "note": [" ".join(rng.choice(words, size=6)) for _ in _Y],
    })  # fmt: skip
    model = vicinal.make_learner(table, _Y, text=["note"], **_QUICK).fit(table, _Y)
    np.testing.assert_array_equal(through_skops(model).predict(table), model.predict(table))


def test_no_trusted_type_runs_code_from_a_file():
    assert len(set(vicinal.TRUSTED_TYPES)) == len(vicinal.TRUSTED_TYPES) > 50
    for name in vicinal.TRUSTED_TYPES:
        module, _, kind = name.rpartition(".")
        found = getattr(import_module(module), kind)
        assert inspect.isclass(found), name  # no function, which a file could call
        assert found.__module__ == module, name
        assert module.startswith("vicinal.") or name == "numpy.dtype"
        # made as any object is, without a call that the file chooses
        assert found.__reduce__ in (object.__reduce__, np.dtype.__reduce__), name
        assert not hasattr(found, "__del__"), name
    hostile = vicinal.NCA(kernel=os.system)
    with pytest.raises(UntrustedTypesFoundException, match="system"):
        through_skops(hostile)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: estimator.__name__)
def test_a_pickle_of_another_version_warns(estimator, monkeypatch, recwarn):
    data = pickle.dumps(estimator())
    assert vicinal.__version__ in {
        argument for _, argument, _ in pickletools.genops(data) if isinstance(argument, str)
    }
    assert "_vicinal_version" not in vars(pickle.loads(data))
    assert not recwarn
    monkeypatch.setattr(vicinal, "__version__", "99.0")
    told = rf"This {estimator.__name__} was pickled by vicinal 0.*, and is loaded by 99.0"
    with pytest.warns(InconsistentVersionWarning, match=told) as caught:
        pickle.loads(data)
    assert len(caught) == 1
    assert caught[0].filename == __file__


@pytest.mark.parametrize("own_search", [False, True])
def test_searches_are_not_pickled(own_search, monkeypatch):
    monkeypatch.setattr(stored, "_OWN_SEARCH_FROM", 0 if own_search else 2**40)
    model = vicinal.NCA(rule="knn", n_neighbors=3, **_QUICK).fit(_X, _Y)
    size = len(pickle.dumps(model))
    predicted = model.predict(_X)
    assert {"find" if own_search else "index"} <= vars(model._model).keys()
    data = pickle.dumps(model)
    assert len(data) < size + 100
    np.testing.assert_array_equal(pickle.loads(data).predict(_X), predicted)
    np.testing.assert_array_equal(through_skops(model).predict(_X), predicted)
