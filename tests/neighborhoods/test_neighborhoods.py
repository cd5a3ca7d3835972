"""Candidate lists: the nearest by brute force, samples without bias, the mass they leave out."""

from __future__ import annotations

import builtins
import warnings
from itertools import combinations

import numpy as np
import pytest
from formulas import squared_distances

from vicinal import _search
from vicinal.densities import Compact, Gaussian, Laplace, Student
from vicinal.engines.cpu.trees import Bounded
from vicinal.neighborhoods import (
    Nearest,
    RandomPairs,
    Tree,
    mass_left_out,
    parts,
    resolve,
    sets_left_out,
)
from vicinal.objectives import nca
from vicinal.targets import Labels


def points(rng, n, d, n_classes=3, dtype=np.float64):
    y = np.arange(n) % n_classes
    rng.shuffle(y)
    return (rng.standard_normal((n, d)) + 0.5 * y[:, None]).astype(dtype), y


def as_lists(pairs):
    assert pairs.indptr.dtype == np.int64
    assert pairs.indices.dtype == np.int32
    assert pairs.indptr[-1] == len(pairs.indices)
    return np.split(pairs.indices, pairs.indptr[1:-1])


def searches():
    return ["auto", "tree", "brute", pytest.param("faiss", marks=needs_faiss)]


def has_faiss():
    try:
        import faiss  # noqa: F401
    except ImportError:
        return False
    return True


needs_faiss = pytest.mark.skipif(not has_faiss(), reason="faiss is not installed")


def plain_nearest(Z, y, m, radius, references):
    """Lists by sorting all distances."""
    d2 = squared_distances(Z)
    lists = []
    for i in range(len(Z)):
        others = references[references != i]
        near = others[np.argsort(d2[i, others], kind="stable")]
        kept = near[:m] if radius is None else near[:m][d2[i, near[:m]] <= radius**2]
        own = near[y[near] == y[i]]
        if len(own) and own[0] not in kept and not (y[kept] == y[i]).any():
            kept = np.append(kept, own[0])
        lists.append(kept)
    return lists


@pytest.mark.parametrize("search", searches())
@pytest.mark.parametrize("radius", [None, 0.6])
@pytest.mark.parametrize("n_classes", [3, 30])
def test_nearest(rng, search, radius, n_classes):
    """Of 30 classes of a few rows each, many need their own class's nearest in addition."""
    Z, y = points(rng, 150, 3, n_classes)
    for references in [np.arange(150), np.arange(30, 140)]:
        pairs = Nearest(7, radius, search).pairs(Z, y, references)
        expected = plain_nearest(Z, y, 7, radius, references)
        for got, rows in zip(as_lists(pairs), expected, strict=True):
            np.testing.assert_array_equal(got, rows)


@pytest.mark.nojit
@pytest.mark.parametrize("least", [0.3, 0.02])
def test_lists_by_a_threshold_on_the_probability(rng, least):
    Z, y = points(rng, 24, 2, 3)
    Z[5] = 40.0  # far from all others: its probabilities are those of its nearest all the same
    d2 = squared_distances(Z)
    np.fill_diagonal(d2, np.inf)
    kernel = np.exp(d2.min(axis=1, keepdims=True) - d2)
    p = kernel / kernel.sum(axis=1, keepdims=True)
    lists = as_lists(Nearest(23, min_probability=least).pairs(Z, y))
    for i, rows in enumerate(lists):
        probable = np.flatnonzero(p[i] >= least)
        appended = np.setdiff1d(rows, probable)  # the nearest of its class, if there is none
        assert np.isin(probable, rows).all()
        assert len(appended) == (not (y[probable] == y[i]).any())
        assert (y[appended] == y[i]).all()
    assert sum(map(len, lists)) < 24 * 23


@pytest.mark.nojit
def test_no_row_above_the_threshold_is_dropped_by_short_lists(rng):
    Z, y = points(rng, 24, 2, 3)
    short, long = (as_lists(Nearest(m, min_probability=0.05).pairs(Z, y)) for m in (8, 23))
    for few, many in zip(short, long, strict=True):
        assert np.isin(many[:8], few).all()


@pytest.mark.nojit
def test_lists_of_a_few_rows(rng):
    Z, y = points(rng, 12, 2, 4)
    expected = plain_nearest(Z, y, 2, None, np.arange(12))
    for got, rows in zip(as_lists(Nearest(2).pairs(Z, y)), expected, strict=True):
        np.testing.assert_array_equal(got, rows)
    for i, rows in enumerate(as_lists(RandomPairs(4).pairs(Z, y, random_state=0))):
        assert len(set(rows) | {i}) == 5
        assert np.sum(y[rows] == y[i]) == 2


@pytest.mark.nojit
@pytest.mark.parametrize("radius", [None, 1e-3])
def test_lists_hold_so_many_of_the_own_class(rng, radius):
    """The nearest of them, beside the nearest of all; a class too small is listed whole."""
    Z, y = points(rng, 24, 2, 3)
    y[:3] = 7
    Z[10:14] = Z[10]  # two searches need not agree on twins
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nobody is within the radius
        one, four = (Nearest(5, radius, own=own).pairs(Z, y) for own in (1, 4))
    d2 = squared_distances(Z)
    for i, (short, long) in enumerate(zip(as_lists(one), as_lists(four), strict=True)):
        assert len(set(long)) == len(long) <= 9
        assert i not in long
        members = np.flatnonzero((y == y[i]) & (np.arange(24) != i))
        held = np.intersect1d(long, members)
        assert len(held) >= min(4, len(members))
        assert {*short} <= {*long} | {*np.flatnonzero(d2[i] == d2[i, short].max(initial=0))}
        assert d2[i, held].max() <= np.sort(d2[i, members])[len(held) - 1]


def test_a_class_of_one_row_has_nobody_to_append(rng):
    Z, y = points(rng, 30, 2)
    y[4] = 9
    lists = as_lists(Nearest(3).pairs(Z, y))
    assert len(lists[4]) == 3
    lists = as_lists(Nearest(3).pairs(Z, y, references=np.delete(np.arange(30), 4)))
    assert len(lists[4]) == 3


def test_radius_too_small(rng):
    Z, y = points(rng, 30, 2)
    with pytest.warns(UserWarning, match=r"No two rows are within the radius of Nearest.*1e-09"):
        lists = as_lists(Nearest(3, radius=1e-9).pairs(Z, y))
    expected = plain_nearest(Z, y, 3, 1e-9, np.arange(30))
    for got, rows in zip(lists, expected, strict=True):
        np.testing.assert_array_equal(got, rows)  # one of the own class is left


@needs_faiss
def test_faiss_on_many_rows(rng, monkeypatch):
    """The inverted file: nearly all that a tree finds, the same bits for any number of threads."""
    Z, y = points(rng, 12_000, 4, dtype=np.float32)
    tree = as_lists(Nearest(20, search="tree").pairs(Z, y))
    results = []
    for threads in [1, 2]:
        monkeypatch.setattr(_search, "n_threads", lambda threads=threads: threads)
        results.append(Nearest(20, search="faiss").pairs(Z, y))
    np.testing.assert_array_equal(results[0].indices, results[1].indices)
    found = np.mean(
        [len(np.intersect1d(a, b)) / 20 for a, b in zip(as_lists(results[0]), tree, strict=True)]
    )
    assert found > 0.999


def test_auto_search(monkeypatch):
    chosen = []
    for name in ["tree", "brute", "faiss"]:
        monkeypatch.setattr(_search, f"_{name}", lambda points, name=name: chosen.append(name))
    for installed in [True, False]:
        monkeypatch.setattr(
            _search, "find_spec", lambda name, installed=installed: installed or None
        )
        for n, d in [(100, 5), (100, 9), (60_000, 5), (60_000, 8), (60_000, 9)]:
            _search.finder("auto", np.empty((n, d)))
    assert chosen == [
        "tree", "brute", "tree", "faiss", "faiss", "tree", "brute", "tree", "tree", "brute",
    ]  # fmt: skip


def test_faiss_missing(rng, monkeypatch):
    real = builtins.__import__

    def hide(name, *args, **kwargs):
        if name == "faiss":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", hide)
    Z, y = points(rng, 20, 2)
    with pytest.raises(ImportError, match="pip install faiss-cpu"):
        Nearest(5, search="faiss").pairs(Z, y)


def test_random_pairs(rng, monkeypatch):
    Z, y = points(rng, 5000, 2, 4)
    y[:7] = 9  # too few for their half
    references = np.arange(4900)
    results = []
    for threads in [1, 2, 3]:
        monkeypatch.setattr(parts, "n_threads", lambda threads=threads: threads)
        results.append(RandomPairs(20).pairs(Z, y, references, random_state=3))
    for other in results[1:]:
        np.testing.assert_array_equal(other.indices, results[0].indices)
    assert not np.array_equal(
        results[0].indices, RandomPairs(20).pairs(Z, y, references, 4).indices
    )
    for i, rows in enumerate(as_lists(results[0])):
        assert len(set(rows)) == 20
        assert i not in rows
        assert max(rows) < 4900
        own = np.sum(y[rows] == y[i])
        n_own = np.sum((y[references] == y[i]) & (references != i))
        assert own == min(10, n_own)
        rates = np.exp2(results[0].log2_rates[:, i])
        n_other = np.sum(y[references] != y[i])
        np.testing.assert_allclose(rates, [(20 - own) / n_other, own / n_own])


@pytest.mark.parametrize("priors", [None, "uniform"])
def test_sums_of_random_pairs_have_no_bias(rng, priors):
    """Over many draws, own and other sums average to the full ones within their standard error."""
    n, draws = 40, 400
    Z, y = points(rng, n, 2, 3)
    y[:3] = 5
    v = rng.uniform(0.5, 2, n)
    W = v * np.exp(-squared_distances(Z))
    np.fill_diagonal(W, 0)
    same = y[:, None] == y
    full = np.stack([(W * ~same).sum(axis=1), (W * same).sum(axis=1)])
    sums = np.zeros((draws, 2, n))
    for t in range(draws):
        pairs = RandomPairs(6).pairs(Z, y, random_state=t)
        for i, rows in enumerate(as_lists(pairs)):
            own = y[rows] == y[i]
            parts = np.array([W[i, rows[~own]].sum(), W[i, rows[own]].sum()])
            sums[t, :, i] = parts / np.exp2(pairs.log2_rates[:, i])
    error = sums.std(axis=0) / np.sqrt(draws)
    off = np.abs(sums.mean(axis=0) - full)
    assert (off <= 4.5 * error + 1e-12).all()
    assert np.mean(off <= 2 * error + 1e-12) > 0.9
    # and the objective takes the rates: what it sees is the odds of these sums
    value, _ = nca(Z, Labels(y, v, priors), "accuracy", pairs=pairs)
    assert -1 < value < 0


@pytest.mark.nojit
@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sets_left_out(rng, scale, dtype):
    """By enumeration; one minus what the sets within the lists weigh."""
    Z, y = points(rng, 11, 2, 2, dtype=dtype)
    Z *= dtype(scale)
    references = np.arange(1, 10)
    pairs = Nearest(4, own=2).pairs(Z, y, references)
    d2 = squared_distances(Z.astype(float))
    for k in (1, 2, 4):
        share = []
        for i, rows in enumerate(as_lists(pairs)):
            sums = [
                sum(np.exp(-(d2[i, list(s)] - d2[i, rows].min()).sum()) for s in combinations(J, k))
                for J in (rows, np.setdiff1d(references, i))
            ]
            share.append(1 - sums[0] / sums[1])
        left = sets_left_out(Z, pairs, k, references)
        tolerance = 1e-5 if dtype == np.float32 else 1e-12
        assert left.mean == pytest.approx(np.mean(share), abs=tolerance)
        assert left.largest == pytest.approx(np.max(share), abs=tolerance)
    assert sets_left_out(Z, Nearest(1).pairs(Z, 0 * y), 3).mean == 1.0  # too short for any
    everything = sets_left_out(Z, pairs, 99, references)  # no more than can be picked
    assert everything.mean == pytest.approx(sets_left_out(Z, pairs, 8, references).mean)
    some = sets_left_out(Z, pairs, 2, references, n_queries=5, random_state=0)
    assert some.n_queries == 5


def test_sets_of_one_are_single_rows(rng):
    for scale in (1.0, 100.0):
        Z, y = points(rng, 70, 3)
        pairs = Nearest(6).pairs(scale * Z, y)
        one = sets_left_out(scale * Z, pairs, 1)
        assert one.mean == pytest.approx(mass_left_out(scale * Z, y, pairs).mean, abs=1e-12)
        assert one.mean <= sets_left_out(scale * Z, pairs, 3).mean


@pytest.mark.parametrize("kernel", [None, Gaussian(), Student(), Laplace(), Compact()])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mass_left_out(rng, kernel, dtype):
    Z, y = points(rng, 90, 3, dtype=dtype)
    references = np.arange(80)
    pairs = Nearest(4).pairs(Z, y, references)
    d2 = squared_distances(Z)[:, references]
    W = {
        Student: lambda: (1 + d2) ** -2.0,
        Laplace: lambda: np.exp(-np.sqrt(d2)),
        Compact: lambda: np.maximum(1 - d2, 0) ** 2,
    }.get(type(kernel), lambda: np.exp(-d2))()
    W[references, references] = 0
    kept = np.array([W[i, rows].sum() for i, rows in enumerate(as_lists(pairs))])
    share = 1 - np.divide(kept, W.sum(axis=1), np.ones(90), where=W.sum(axis=1) > 0)
    left = mass_left_out(Z, y, pairs, references, kernel)
    assert left.n_queries == 90
    assert left.mean == pytest.approx(share.mean(), abs=1e-5 if dtype == np.float32 else 1e-12)
    assert left.largest == pytest.approx(share.max(), abs=1e-5 if dtype == np.float32 else 1e-12)
    some = mass_left_out(Z, y, pairs, references, kernel, n_queries=20, random_state=0)
    assert some.n_queries == 20
    assert some.largest <= left.largest + 1e-12
    assert some == mass_left_out(Z, y, pairs, references, kernel, n_queries=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        everything = Nearest(80).pairs(Z, y, references)
    assert mass_left_out(Z, y, everything, references, kernel).largest < 1e-5


def test_mass_left_out_counts_masses(rng):
    Z, y = points(rng, 60, 2)
    mass = rng.uniform(0.01, 1.0, 60)
    pairs = Nearest(5).pairs(Z, y)
    W = np.exp(-squared_distances(Z)) * mass
    np.fill_diagonal(W, 0)
    kept = np.array([W[i, rows].sum() for i, rows in enumerate(as_lists(pairs))])
    left = mass_left_out(Z, y, pairs, mass=mass)
    assert left.mean == pytest.approx(np.mean(1 - kept / W.sum(axis=1)), abs=1e-12)
    assert left.mean != pytest.approx(mass_left_out(Z, y, pairs).mean, rel=1e-3)


def test_longer_lists_leave_out_less(rng):
    Z, y = points(rng, 300, 3)
    left = [mass_left_out(Z, y, Nearest(m).pairs(Z, y)).mean for m in [5, 20, 80, 299]]
    assert left == sorted(left, reverse=True)
    exact = nca(Z, y)[0]
    errors = [abs(nca(Z, y, pairs=Nearest(m).pairs(Z, y))[0] - exact) for m in [20, 80, 299]]
    assert errors[-1] < 1e-12 < errors[1] < errors[0]


def test_names_and_parts():
    assert resolve("all") is None
    assert resolve("nearest") == Nearest()
    assert resolve("random") == RandomPairs()
    assert resolve("tree") == Tree()
    part = Nearest(m=5)
    assert resolve(part) is part
    assert Tree(0.1).pairs(None, None) == Bounded(0.1, always=False)
    assert Tree(0.1, always=True).pairs(None, None) == Bounded(0.1, always=True)
    assert Tree().refresh is None
    with pytest.raises(
        ValueError, match=r"'neighborhood' parameter of X .* \['all', .* Got 'near' inst"
    ):
        resolve("near", "X")
    for wrong in [Nearest, 3, None]:
        with pytest.raises(TypeError, match=r"'neighborhood' parameter of NCA must be a str among"):
            resolve(wrong)
