"""Training rows that stay on the workers: the answers of a model that has them all."""

import numpy as np
import pytest
import scipy.sparse as sp
from with_dask.tables import lazy, rows

import vicinal
import vicinal.dask
from vicinal.callbacks import Checkpoint
from vicinal.dask import _shards
from vicinal.samplers import MiniBatches

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, y = rows(1500)
FOUR = (500, 130, 600, 270)
NEW, NEW_Y = rows(700, seed=1)
NUMBERS = np.stack([X[:, 0] * X[:, 1], X[:, 2]], axis=1)


def fitted(client, kind="NCA", where="shards", target=y, weight=None, **settings):
    settings = {"alpha": 1e-3, "max_iter": 3, "sampling": "full", "random_state": 0, **settings}
    model = getattr(vicinal.dask, kind)(2, references=where, client=client, **settings)
    more = {} if weight is None else {"sample_weight": weight}
    return model.fit(lazy(X, FOUR), target, **more)


def pair(client, *args, **settings):
    """A model with its rows on the workers, and the same with them in memory."""
    there = fitted(client, *args, **settings)
    assert not there._model.is_here
    return there, there.to_local()


def assert_same(there, here, method, *args, tolerance=1e-9):
    for new in (lazy(NEW, (400, 0, 300)), NEW):
        found, expected = getattr(there, method)(new, *args), getattr(here, method)(NEW, *args)
        for a, b in zip(*(part if isinstance(part, tuple) else (part,)
                          for part in (found, expected)), strict=True):  # fmt: skip
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(np.asarray(a), b, rtol=0, atol=tolerance)


WEIGHT = np.random.default_rng(0).uniform(0.2, 3.0, len(y))
WEIGHT[::7] = 0.0


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_classes(client, weight):
    there, here = pair(client, weight=weight)
    for rule in ("posterior", "knn"):
        for model in (there, here):
            model.set_params(rule=rule, n_neighbors=7)
        assert_same(there, here, "predict_proba")
        assert_same(there, here, "predict")
        assert there.score(lazy(NEW), NEW_Y) == here.score(NEW, NEW_Y) == there.score(NEW, NEW_Y)
    assert_same(there, here, "kneighbors", 9)
    assert_same(there, here, "kneighbors")
    assert_same(there, here, "transform")
    assert type(here) is vicinal.NCA
    here = fitted(client, where="gather", weight=weight)
    np.testing.assert_array_equal(here._model.Z, there.references_.compute())


@pytest.mark.parametrize("kind", ["MLKR", "NCARegressor"])
def test_numbers(client, kind):
    there, here = pair(client, kind, target=NUMBERS, weight=WEIGHT)
    assert_same(there, here, "predict")
    for model in (there, here):
        model.set_params(rule="knn")
    assert_same(there, here, "predict")
    assert there.score(lazy(NEW), NEW[:, :2]) == pytest.approx(here.score(NEW, NEW[:, :2]))


def test_votes_of_k(client):
    batches = MiniBatches(100, clusters="random")
    there, here = pair(client, "KNCA", rule="knn", k=3, sampling=batches)
    assert_same(there, here, "predict_proba")
    there.set_params(rule="posterior")
    with pytest.raises(ValueError, match=r"must be 'knn' where.*set_params.rule='knn'"):
        there.predict(lazy(NEW))


def test_equal_rows_count_in_the_order_of_their_numbers(client):
    twice = np.concatenate([X[:300], X[:300], X[:300]])
    model = vicinal.dask.NCA(
        2, alpha=1e-3, sampling="full", max_iter=1, references="shards", client=client
    ).fit(lazy(twice, (250, 450, 200)), y[:300].tolist() * 3)
    _, near = model.kneighbors(X[:300], 2)
    np.testing.assert_array_equal(near, np.arange(300)[:, None] + [0, 300])


def test_pieces_and_chunks_and_unknown_lengths(client, monkeypatch):
    """Blocks of new rows are cut where the results of a task would be large."""
    there, here = pair(client)
    whole = there.predict_proba(lazy(NEW, (400, 300))).compute()
    monkeypatch.setattr(_shards, "_PIECE_BYTES", 16 * 5 * 90)
    monkeypatch.setattr(_shards, "_TOGETHER", 2)
    assert_same(there, here, "predict_proba")
    assert_same(there, here, "kneighbors", 4)
    np.testing.assert_allclose(there.predict_proba(lazy(NEW)).compute(), whole, atol=1e-12)
    dX = lazy(NEW, (400, 300))
    some = dX[lazy(NEW_Y < 3, (400, 300))]
    np.testing.assert_array_equal(there.predict(some).compute(), here.predict(NEW[NEW_Y < 3]))
    blocks = lazy(NEW).map_blocks(sp.csr_matrix)
    np.testing.assert_array_equal(there.predict(blocks).compute(), here.predict(NEW))


def test_nothing_is_gathered_or_computed(client, monkeypatch):
    there = fitted(client)
    monkeypatch.setattr(_shards, "_embedded_block", None)
    for found in (there.predict(lazy(NEW)), vicinal.dask.predict_proba(there, lazy(NEW))):
        assert found.chunks[0] == lazy(NEW).chunks[0]
    assert there.references_.shape == (1500, 2)
    assert there.references_.chunks[0] == FOUR
    kept = there.references_.persist(scheduler=client)
    np.testing.assert_array_equal(kept.compute(), there.to_local()._model.Z)


def test_what_needs_all_rows_in_one_place_is_refused_by_name(client, monkeypatch):
    there = fitted(client, rule="knn", n_neighbors="auto")
    with pytest.raises(ValueError, match=r"'n_neighbors'.*must be an int.*Got 'auto'.*=5"):
        there.predict(lazy(NEW))
    with pytest.raises(ValueError, match=r"1,500 embedded training rows.*stay on a cluster.*to_lo"):
        there.set_params(n_neighbors=3).predict_log_proba(NEW)
    with pytest.raises(ValueError, match=r"'rule'.*must be 'posterior' or 'knn'.*Got 'draw'"):
        there.set_params(rule="draw").predict(lazy(NEW))
    monkeypatch.setattr(vicinal.dask._estimators, "_free_memory", lambda: 40_000.0)
    with pytest.raises(MemoryError, match=r"need 4.8e-05 GB.*of 4e-05 GB.*Leave them"):
        there.to_local()
    with pytest.raises(ValueError, match=r"'references'.*one of 'auto', 'gather', 'shards'"):
        fitted(client, where="elsewhere")


def test_a_checkpoint_holds_no_training_rows(client, tmp_path):
    path, settings = tmp_path / "fit.vic", {"sampling": "full", "alpha": 1e-3, "random_state": 0}
    model = vicinal.dask.NCA(2, max_iter=4, references="shards", client=client, **settings)
    model.set_callbacks(Checkpoint(path, every=2)).fit(lazy(X, FOUR), y)
    held = vicinal.load(path)
    assert not held._model.is_here
    np.testing.assert_array_equal(held.transform(NEW), model.transform(NEW))
    with pytest.raises(ValueError, match="stay on a cluster"):
        held.predict(NEW)
    again = vicinal.dask.NCA(2, max_iter=4, references="shards", client=client, **settings)
    again.fit(lazy(X, FOUR), y, resume_from=path)
    np.testing.assert_array_equal(again.predict_proba(NEW), model.predict_proba(NEW))
