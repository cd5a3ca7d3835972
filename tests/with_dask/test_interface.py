"""What users see: laziness, plain copies, refusals, and what is imported."""

import pickle
import subprocess
import sys

import dask
import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from with_dask.tables import lazy, rows

import vicinal
import vicinal.dask
from vicinal.densities import Compact
from vicinal.samplers import MiniBatches

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, y = rows(1200)
LETTERS = np.array(list("abcde"))[y]


def never(block):
    raise AssertionError("this block was computed")


def unread(rows=X):
    return lazy(rows).map_blocks(never, meta=rows[:0])


@pytest.fixture(scope="module")
def model(cluster):
    from distributed import Client

    with Client(cluster) as client:
        made = vicinal.dask.NCA(2, alpha=1e-3, max_iter=5, random_state=0, client=client)
        return made.fit(lazy(X), lazy(LETTERS))


def test_nothing_is_computed_before_it_is_asked_for(model):
    for lazily, shape in (
        (model.transform(unread()), (1200, 2)),
        (model.predict(unread()), (1200,)),
        (model.predict_proba(unread()), (1200, 5)),
        (model.kneighbors(unread(), 3)[1], (1200, 3)),
        (vicinal.dask.predict(model.to_local(), unread()), (1200,)),
    ):
        assert isinstance(lazily, da.Array)
        assert lazily.shape == shape
        assert lazily.chunks[0] == unread().chunks[0]
        with pytest.raises(AssertionError, match="this block was computed"):
            lazily.compute(scheduler="synchronous")


@pytest.mark.parametrize("method", ["transform", "predict", "predict_proba"])
def test_predictions_have_the_bits_of_one_machine(client, model, method):
    there, here = getattr(model, method)(lazy(X)), getattr(model.to_local(), method)(X)
    assert there.dtype == here.dtype
    np.testing.assert_array_equal(there.compute(), here)
    np.testing.assert_array_equal(there.compute(scheduler="threads"), here)
    np.testing.assert_array_equal(getattr(model, method)(X), here)  # NumPy in, NumPy out


@pytest.mark.parametrize("rule", ["posterior", "knn"])
def test_scores_are_numbers(client, model, rule):
    model = clone(model).set_params(rule=rule, n_neighbors="auto").fit(lazy(X), LETTERS)
    score = model.score(lazy(X), lazy(LETTERS))
    assert isinstance(score, float)
    assert score == model.to_local().score(X, LETTERS)


def test_any_fitted_model_predicts(client):
    pipeline = make_pipeline(StandardScaler(), vicinal.NCA(2, alpha=1e-3, max_iter=5)).fit(X, y)
    regressor = vicinal.MLKR(2, alpha=1e-3, max_iter=5).fit(X, X[:, :2])
    picture = vicinal.KSNE(max_iter=50, random_state=0).fit(X[:300])
    for fitted, function in (
        (pipeline, "transform"),
        (pipeline, "predict"),
        (pipeline, "predict_proba"),
        (regressor, "predict"),
        (picture, "transform"),
        (vicinal.LMNN(2, max_iter=5).fit(X, y), "transform"),
    ):
        found = getattr(vicinal.dask, function)(fitted, lazy(X))
        expected = getattr(fitted, function)(X)
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(found.compute(), expected, rtol=0, atol=1e-6)


def test_empty_and_unknown_blocks(client, model):
    dX = lazy(X, (500, 0, 700))
    np.testing.assert_array_equal(model.predict(dX).compute(), model.predict(X))
    unknown = dX[da.from_array(y < 3, chunks=(dX.chunks[0],))]
    np.testing.assert_array_equal(model.predict(unknown).compute(), model.predict(X[y < 3]))
    again = clone(model).fit(unknown, LETTERS[y < 3])
    np.testing.assert_array_equal(again.classes_, ["a", "b", "c"])


def test_a_plain_copy_needs_no_dask(model, tmp_path):
    local = model.to_local()
    assert type(local) is vicinal.NCA
    local.save(tmp_path / "model.vic")
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(local))
    code = (
        "import sys; sys.modules.update(dask=None, distributed=None)\n"
        "import numpy, pickle, vicinal\n"
        "X = numpy.load('X.npy')\n"
        "for model in (vicinal.load('model.vic'), pickle.load(open('model.pkl', 'rb'))):\n"
        "    assert type(model) is vicinal.NCA\n"
        "    print(''.join(model.predict(X)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["".join(local.predict(X))] * 2


def test_a_model_holds_no_client(model):
    assert model.client is not None
    held = pickle.dumps(model)
    assert b"Client" not in held
    assert b"distributed" not in held
    assert pickle.loads(held).client is None
    assert clone(model).client is None
    assert "client" not in model.get_params()
    assert "client" not in repr(model)


def test_importing_vicinal_loads_no_dask():
    code = (
        "import sys, vicinal; vicinal.NCA, vicinal.KSNE\n"
        "assert not {'dask', 'distributed'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def refused(match, error=ValueError, dX=None, target=LETTERS, **settings):
    kind = settings.pop("kind", "NCA")
    with pytest.raises(error, match=match):
        getattr(vicinal.dask, kind)(2, **settings).fit(unread() if dX is None else dX, target)


def test_refusals_come_before_any_block_is_read(client):
    refused(
        r"must hold whole rows.*Got 2 blocks.*rechunk\(\{1: -1\}\)", dX=unread().rechunk((600, 6))
    )
    refused(r"'neighborhood'.*must be 'auto' or 'all'.*Got 'nearest'", neighborhood="nearest")
    refused("'neighborhood'.*must be 'auto' or 'all'", neighborhood="tree")
    refused("'kernel'.*without a background", kernel=Compact(background=True), objective="log")
    refused("'sampling'.*clusters='random'.*Got MiniBatches", sampling=MiniBatches(300))
    refused("must be one-dimensional.*vicinal.NCA", target=np.eye(5)[y])
    for name in ("LMNN", "Chi2LMNN", "KSNE"):
        with pytest.raises(
            AttributeError, match=rf"Fit vicinal.{name} to a sample.*transform\(mod"
        ):
            getattr(vicinal.dask, name)
    with pytest.raises(ValueError, match=r"'rule'.*must be 'posterior' or 'knn'.*Got 'draw'"):
        vicinal.dask.predict(vicinal.NCA(2, rule="draw", max_iter=2).fit(X, y), unread())


def test_frames_and_gaps(client):
    dd = pytest.importorskip("dask.dataframe")
    import pandas as pd

    frame = dd.from_pandas(pd.DataFrame(X, columns=[f"x{j}" for j in range(12)]), npartitions=3)
    refused(
        r"must be a dask array. Got a DataFrame.*to_dask_array\(lengths=True\)", TypeError, frame
    )
    model = vicinal.NCA(2, alpha=1e-3, max_iter=3).fit(frame.compute(), y)
    found = vicinal.dask.predict_proba(model, frame)
    np.testing.assert_array_equal(found.compute(), model.predict_proba(frame.compute()))
    broken = X.copy()
    broken[700, 3] = np.nan
    refused("Input X contains NaN", dX=lazy(broken))


def test_all_pairs_of_very_many_rows_are_refused(client, monkeypatch):
    monkeypatch.setattr(vicinal.dask._engines, "ALL_PAIRS_UP_TO", 1000)
    refused("All pairs are computed for at most 1,000 rows.*Got 1,200.*StochasticQueries",
            dX=lazy(X), alpha=1e-3, sampling="full")  # fmt: skip


def test_plain_estimators_refuse_dask_arrays_and_name_this_module():
    for estimator in (vicinal.NCA(), vicinal.LMNN(), vicinal.KSNE()):
        with pytest.raises(TypeError, match=r"Got a dask Array instead.*vicinal.dask learns"):
            estimator.fit(unread(), y)
    assert dask.is_dask_collection(unread())


def test_no_client_is_an_error_with_a_remedy():
    refused("needs the client of a cluster. Got none.*client = Client()")
