"""Checkpoints: what the file holds, fits that go on from it, and writes that fail."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from common import killed
from common.callbacks import Stop
from common.checks import needs_callbacks, unfinished
from sklearn import config_context
from sklearn.datasets import load_wine
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import vicinal
from vicinal import KSNE, LMNN, NCA, _features, starts
from vicinal.callbacks import Checkpoint

pytestmark = [needs_callbacks, unfinished]
needs_links = pytest.mark.skipif(os.name != "posix", reason="Windows allows links to few users")
needs_kills = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return X[::3], y[::3]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.vic"


def nca(**changes):
    return NCA(**{"n_components": 2, "alpha": 3e-3, "max_iter": 9, "tol": 0.0, **changes})


def cut(model, path, data, after=6, every=4):
    """A fit after whose power cut only the file is left."""
    model.set_callbacks(Checkpoint(path, every=every), Stop(after, RuntimeError("a power cut")))
    with pytest.raises(RuntimeError, match="a power cut"):
        model.fit(*data)
    return model.set_callbacks()


def assert_same_fit(one, other):
    one, other = killed.result(one), killed.result(other)
    assert one.keys() == other.keys()
    for name, value in other.items():
        np.testing.assert_array_equal(one[name], value, err_msg=name)


# What the file holds


@pytest.mark.parametrize("name", ["fit.vic", "fit.joblib", "new/folder/fit"])
def test_the_file_is_a_model_file_whatever_its_name(wine, tmp_path, name):
    path, lock = tmp_path / name, Stop(99)
    lock.lock = threading.Lock()  # callbacks are not saved
    model = nca().set_callbacks(Checkpoint(path, every=4), lock).fit(*wine)
    for load in (vicinal.load, Checkpoint.load):
        with warnings.catch_warnings(action="error"):
            loaded = load(path)
        assert_same_fit(loaded, model)
        np.testing.assert_array_equal(loaded.predict_proba(wine[0]), model.predict_proba(wine[0]))
    assert model._resume is None  # the state is kept in the file alone
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("every", [0, -1, 2.5, True])
def test_a_bad_period_is_refused(every):
    with pytest.raises(ValueError, match=rf"'every' parameter of Checkpoint .* Got {every} in"):
        Checkpoint("model.vic", every=every)


@needs_links
def test_a_symbolic_link_stays_and_its_file_is_replaced(wine, tmp_path):
    """The folder of the file is created, as that of a path without links."""
    file, link = tmp_path / "new" / "folder" / "fit.vic", tmp_path / "fit.vic"
    link.symlink_to(file)
    for max_iter in (3, 5):
        nca(max_iter=max_iter).set_callbacks(Checkpoint(link, every=2)).fit(*wine)
        assert link.is_symlink()
        assert list(file.parent.iterdir()) == [file]
        assert vicinal.load(link).n_iter_ == vicinal.load(file).n_iter_ == max_iter
    assert_same_fit(nca(max_iter=5).fit(*wine, resume_from=link), nca(max_iter=5).fit(*wine))


@needs_links
def test_a_link_that_cannot_be_saved_to_is_refused_before_the_work_begins(wine, tmp_path):
    link, folder = tmp_path / "fit.vic", tmp_path / "folder"
    begun = Stop(1, AssertionError("the fit has begun"))
    link.symlink_to(link)
    with pytest.raises(OSError, match="leads back to itself"):
        nca().set_callbacks(Checkpoint(link), begun).fit(*wine)
    link.unlink()
    folder.mkdir()
    link.symlink_to(folder)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        nca().set_callbacks(Checkpoint(link), begun).fit(*wine)


class OwnNCA(NCA):
    """A class of the user's."""


def test_what_cannot_be_saved_is_refused_before_the_work_begins(wine, tmp_path):
    def distance(a, b):
        raise AssertionError("the fit has begun")

    model = KSNE(metric=distance).set_callbacks(Checkpoint(tmp_path / "ksne.vic"))
    with pytest.raises(TypeError, match="'metric' parameter of KSNE is the function 'distance'"):
        model.fit(wine[0])
    with pytest.raises(TypeError, match=r"estimators of vicinal\. Got OwnNCA instead"):
        OwnNCA().set_callbacks(Checkpoint(tmp_path / "own.vic")).fit(*wine)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        nca().set_callbacks(Checkpoint(tmp_path)).fit(*wine)


# Fits that go on


@pytest.mark.parametrize("warm_start", [False, True])
def test_a_fit_goes_on_and_counts_all_its_iterations(wine, path, warm_start):
    whole = nca().fit(*wine)
    cut(nca(warm_start=warm_start), path, wine)
    again = nca(warm_start=warm_start, verbose=0).fit(*wine, resume_from=str(path))
    assert_same_fit(again, whole)
    assert again.n_iter_ == 9
    assert (again._resume is not None) == warm_start


def test_a_fit_that_was_stopped_goes_on_although_its_last_save_was_its_end(wine, path):
    """Ctrl-C keeps the best map so far, in the estimator and in the file."""
    whole = nca().fit(*wine)
    for error in (None, KeyboardInterrupt()):
        stopped = nca().set_callbacks(Checkpoint(path, every=4), Stop(6, error)).fit(*wine)
        assert_same_fit(vicinal.load(path), stopped)
        assert_same_fit(nca().fit(*wine, resume_from=path), whole)


def test_a_fit_that_had_ended_is_not_repeated(wine, path):
    whole = nca().set_callbacks(Checkpoint(path)).fit(*wine)
    ksne = KSNE(perplexity=5, max_iter=8).set_callbacks(Checkpoint(f"{path}.ksne")).fit(wine[0])
    none = Stop(1, AssertionError("an iteration"))
    assert_same_fit(nca().set_callbacks(none).fit(*wine, resume_from=path), whole)
    again = KSNE(perplexity=5, max_iter=8).set_callbacks(none)
    again.fit(wine[0], resume_from=f"{path}.ksne")
    assert_same_fit(again, ksne)
    assert again._resume is None


def test_the_last_fit_of_the_estimator_leaves_no_traces(wine, path):
    X, y = wine
    cut(nca(), path, wine)
    before = NCA("auto", alpha="auto", cv=2, max_iter=2).fit(X[:40], y[:40])
    before.set_params(**nca().get_params()).set_output(transform="default")
    again = before.fit(X, y, resume_from=path)
    assert_same_fit(again, nca().fit(X, y))
    assert not hasattr(again, "cv_results_")


def test_it_works_inside_a_pipeline(wine, path):
    def pipeline():
        return Pipeline([("scale", StandardScaler()), ("nca", nca())])

    whole = pipeline().fit(*wine)
    rows = StandardScaler().fit_transform(wine[0])
    cut(nca(), path, (rows, wine[1]))
    again = pipeline().fit(*wine, nca__resume_from=path)
    assert_same_fit(again[-1], whole[-1])
    with config_context(enable_metadata_routing=True):
        routed = pipeline()
        routed[-1].set_fit_request(resume_from=True)
        assert_same_fit(routed.fit(*wine, resume_from=path)[-1], whole[-1])


# Files that do not fit


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": 0.1}, r"parameters differ: alpha was 0\.003 and is 0\.1 now\.$"),
        ({"max_iter": 5, "rule": "knn"}, "max_iter was 9 and is 5 now; rule was 'posterior' and"),
        ({"init": np.eye(2, 13)}, r"init was 'auto' and is an array of shape \(2, 13\) now"),
    ],
)
def test_other_parameters_are_refused(wine, path, changes, words):
    cut(nca(), path, wine)
    with pytest.raises(ValueError, match=rf"NCA\.fit cannot resume from .*fit\.vic.*: .*{words}"):
        nca(**changes).fit(*wine, resume_from=path)
    nca(verbose=0, time_budget=60.0).fit(*wine, resume_from=path)


def test_an_array_as_a_parameter_is_compared(wine, path):
    """Also where its text leaves most of it out, and inside a part."""
    X = np.random.RandomState(0).standard_normal((60, 600))
    start = X[:2].copy()
    for make in (lambda: start, lambda: starts.Given(start.tolist())):
        model = nca(init=make(), max_iter=3)
        cut(model, path, (X, wine[1]), after=2, every=1)
        assert_same_fit(nca(init=make(), max_iter=3).fit(X, wine[1], resume_from=path),
                        nca(init=make(), max_iter=3).fit(X, wine[1]))  # fmt: skip
        start[1, 300] += 1e-9
        with pytest.raises(ValueError, match="init was"):
            nca(init=make(), max_iter=3).fit(X, wine[1], resume_from=path)


def test_other_rows_labels_and_weights_are_refused(wine, path):
    X, y = wine
    cut(nca(), path, wine)
    model = nca().fit(X, y)
    before = dict(vars(model))
    for rows in [(X[1:], y[1:]), (X[::-1], y), (X, np.roll(y, 1)), (X, y, np.arange(1.0, 61.0))]:
        with pytest.raises(ValueError, match=r"the rows differ: they were \(60, 13\) float64 "):
            model.fit(*rows, resume_from=path)
    assert vars(model) == before
    cut(KSNE(perplexity=5, max_iter=9), path, (X,))
    with pytest.raises(ValueError, match="the rows differ"):
        KSNE(perplexity=5, max_iter=9).fit(X[::-1], resume_from=path)


def unsorted(X):
    """The same sparse rows, each of them with its entries from the last column to the first."""
    X = sp.csr_array(X)
    order = np.concatenate(
        [np.arange(X.indptr[i], X.indptr[i + 1])[::-1] for i in range(X.shape[0])]
    )
    return sp.csr_array((X.data[order], X.indices[order], X.indptr), X.shape)


@pytest.mark.parametrize(
    ("saved", "layout"),
    [
        (np.ascontiguousarray, np.asfortranarray),
        (np.asfortranarray, np.ascontiguousarray),
        (np.ascontiguousarray, lambda X: np.repeat(X, 2, axis=0)[::2]),
        (np.ascontiguousarray, lambda X: np.asfortranarray(np.repeat(X, 2, axis=1))[:, ::2]),
        (np.ascontiguousarray, pd.DataFrame),
        (sp.csr_array, unsorted),
        (sp.csr_array, sp.csc_array),
    ],
    ids=["fortran", "c", "rows", "columns", "frame", "unsorted", "csc"],
)
def test_the_same_rows_in_another_order_in_memory_go_on(wine, path, monkeypatch, saved, layout):
    """To the same map up to rounding, because BLAS sums them differently."""
    X, y = wine
    cut(nca(), path, (saved(X), y))
    monkeypatch.setattr(_features, "_CHECKED_BYTES", 500)  # some rows at a time
    whole = nca().fit(X, y)
    again = nca().fit(layout(X), y, resume_from=path)
    assert again.n_iter_ == whole.n_iter_
    np.testing.assert_allclose(again.history_["loss"], whole.history_["loss"], rtol=1e-9)
    other = X.copy()
    other[-1, -1] += 1e-9
    with pytest.raises(ValueError, match="the rows differ"):
        nca().fit(layout(other), y, resume_from=path)


def test_files_without_a_fit_to_resume_are_refused(wine, path, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no checkpoint .*path\.exists\(\) else None"):
        nca().fit(*wine, resume_from=path)
    with pytest.raises(ValueError, match=r"'resume_from' parameter of NCA\.fit .* Got 3 instead"):
        nca().fit(*wine, resume_from=3)
    nca().fit(*wine).save(path)
    with pytest.raises(ValueError, match="without the state of its fit"):
        nca().fit(*wine, resume_from=path)
    cut(LMNN(2, max_iter=9), path, wine)
    with pytest.raises(ValueError, match="it holds a LMNN"):
        nca().fit(*wine, resume_from=path)
    path.write_bytes(b"what is this?")
    with pytest.raises(vicinal.storage.FileError, match=r"fit\.vic"):
        nca().fit(*wine, resume_from=path)


# Writes that fail


class FullDisk(Checkpoint):
    """A disk that is full at some of the saves: the system refuses to write."""

    def __init__(self, path, full):
        super().__init__(path, every=1)
        self.full, self.n = full, 0

    def _write(self, saved):
        import resource

        self.n += 1
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        if self.n in self.full:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        try:
            super()._write(saved)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of file sizes")
def test_a_full_disk_costs_neither_the_fit_nor_the_former_file(wine, path):
    whole = nca().fit(*wine)
    model = nca().set_callbacks(FullDisk(path, {1, 4, 5}), Stop(5, RuntimeError("a power cut")))
    with pytest.warns(UserWarning, match="not be saved") as told, pytest.raises(RuntimeError):
        model.fit(*wine)
    words = [str(warning.message) for warning in told]
    assert len(words) == 3
    assert all(f"The checkpoint {str(path)!r} could not be saved: [Errno 27]" in w for w in words)
    assert "There is no file yet, and the fit goes on until the next save" in words[0]
    assert "The former file is kept" in words[1]
    assert list(path.parent.iterdir()) == [path]
    assert vicinal.load(path).n_iter_ == 3
    last = FullDisk(path, set(range(2, 99)))
    with pytest.warns(UserWarning, match="could not be saved"):
        again = nca().set_callbacks(last).fit(*wine, resume_from=path)
    assert_same_fit(again, whole)
    assert vicinal.load(path).history_["iteration"][-1] == 4


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), MemoryError("no room")])
def test_a_failed_write_keeps_the_former_checkpoint(wine, path, monkeypatch, error):
    """Wherever it fails: the disk when the file is synchronised, or the encoder."""
    model = nca().set_callbacks(Checkpoint(path)).fit(*wine)
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(*((os, "fsync") if isinstance(error, OSError) else (json, "dumps")), fail)
    with pytest.warns(UserWarning, match=rf"not be saved: {re.escape(str(error))}.*former file"):
        again = nca().set_callbacks(Checkpoint(path, every=4)).fit(*wine)
    assert_same_fit(again, model)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


# Processes that are killed


def assert_ends_in_the_same_bits(kills, name, n_kills):
    expected, found = killed.fit(name), kills.to_the_end(name, n_kills)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_array_equal(found[key], value, err_msg=f"{name}: {key}")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with killed.Kills(tmp_path_factory.mktemp("killed")) as kills:
        yield kills


@pytest.fixture
def kills(server):
    server.counts.clear()
    return server


@needs_kills
def test_a_killed_fit_ends_in_the_same_bits(kills):
    while kills.counts["kills"] < 3:
        assert_ends_in_the_same_bits(kills, "nca schedule on batches", 3)


@needs_kills
@pytest.mark.long
@pytest.mark.parametrize("name", killed.CONFIGURATIONS)
def test_fits_that_are_killed_again_and_again_end_in_the_same_bits(name, kills, capsys):
    """Each four times or more, over 140 kills in all; the counts are printed."""
    n_fits = 0
    while kills.counts["kills"] < 4 or kills.counts["readable"] < 2:
        assert_ends_in_the_same_bits(kills, name, 4)
        n_fits += 1
    counted = ", ".join(f"{n} {key}" for key, n in sorted(kills.counts.items()))
    with capsys.disabled():
        print(f"\n{name}: {n_fits} fits, {counted}")
