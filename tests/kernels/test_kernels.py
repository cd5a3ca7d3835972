"""The compiled parts one by one: accuracy, vector registers, the cache, and plain Python."""

from __future__ import annotations

import platform
import re
import subprocess
import sys

import formulas
import numpy as np
import pytest
from numba import config, njit

from vicinal.engines.cpu import tiles as _tiles
from vicinal.kernels import _blocks, _jit, chi2, compact
from vicinal.kernels import nca as kernels
from vicinal.objectives import nca, nca_effective_n_neighbors, nca_posterior
from vicinal.targets import Labels

compiled = pytest.mark.skipif(config.DISABLE_JIT, reason="needs compiled kernels")
OBJECTIVES = ["accuracy", "log"]


@_jit.kernel
def _exp2_of(x, out):
    for i in range(len(x)):
        out[i] = _jit.exp2(x[i])


@_jit.kernel
def _log2_of(x, out):
    for i in range(len(x)):
        out[i] = _jit.log2(x[i])


@_jit.kernel
def _extremes_of(a, b, low, high, fused):
    for i in range(len(a)):
        low[i] = _jit.minimum(a[i], b[i])
        high[i] = _jit.maximum(a[i], b[i])
        fused[i] = _jit.multiply_add(a[i], b[i], a[i])


def exp2(x):
    out = np.empty_like(x)
    _exp2_of(x, out)
    return out


@compiled
@pytest.mark.parametrize(
    ("dtype", "floor", "bound"), [(np.float32, -80, 4e-7), (np.float64, -700, 5e-16)]
)
def test_exp2_is_accurate(rng, dtype, floor, bound):
    x = np.concatenate([
        rng.uniform(floor + 1, 20, 200_000),
        rng.uniform(-2, 2, 200_000),
        np.arange(floor + 1, 21) + 0.5,  # where the integer part changes
        np.nextafter(np.arange(floor + 1, 21) + 0.5, 0),
    ]).astype(dtype)  # fmt: skip
    exact = np.exp2(x.astype(np.longdouble))
    assert np.abs(exp2(x) / exact - 1).max() < bound
    whole = np.arange(floor, 21).astype(dtype)
    np.testing.assert_array_equal(exp2(whole), 2.0**whole)  # 1 at 0, which sums rely on


@compiled
@pytest.mark.parametrize(("dtype", "floor"), [(np.float32, -80), (np.float64, -700)])
def test_exp2_ends_at_a_normal_number(dtype, floor):
    """Sums may add it for what vanishes; products with it are never denormal, hence never slow."""
    x = np.array([floor, floor - 1, floor - 0.4, 100 * floor, -1e30, -np.inf], dtype=dtype)
    np.testing.assert_array_equal(exp2(x), np.full(6, 2.0**floor))


def log2(x):
    out = np.empty_like(x)
    _log2_of(x, out)
    return out


@compiled
@pytest.mark.parametrize(
    ("dtype", "top", "bound"), [(np.float32, 120, 1.5e-7), (np.float64, 1000, 3e-16)]
)
def test_log2_is_accurate(rng, dtype, top, bound):
    """To a rounding of the result, and near 1 to a rounding of 1."""
    x = np.concatenate([
        rng.uniform(np.sqrt(0.5), 2, 200_000),
        np.exp2(rng.uniform(0, top, 200_000)),
        np.sqrt(2.0) * np.exp2(np.arange(top)),  # where the integer part changes
        np.nextafter(np.sqrt(2.0), 0) * np.exp2(np.arange(top)),
    ]).astype(dtype)  # fmt: skip
    exact = np.log2(x.astype(np.longdouble))
    assert (np.abs(log2(x) - exact) / np.maximum(np.abs(exact), 1)).max() < bound
    whole = np.arange(top)
    np.testing.assert_array_equal(log2(np.exp2(whole).astype(dtype)), whole)  # 0 at 1


@pytest.mark.nojit
@pytest.mark.parametrize(("dtype", "end"), [(np.float32, 128), (np.float64, 1024)])
def test_log2_of_infinity(dtype, end):
    np.testing.assert_array_equal(log2(np.array([np.inf, 1.0, 8.0], dtype)), [end, 0, 3])


@pytest.mark.nojit
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_operations(rng, dtype):
    a, b = rng.standard_normal((2, 15)).astype(dtype)
    a[:3], b[:3] = [np.inf, -np.inf, 1.5], [2.0, 2.0, 1.5]
    low, high, fused = np.empty((3, 15), dtype)
    _extremes_of(a, b, low, high, fused)
    np.testing.assert_array_equal(low, np.minimum(a, b))
    np.testing.assert_array_equal(high, np.maximum(a, b))
    np.testing.assert_allclose(fused, a * b + a, rtol=1e-5, atol=1e-6)
    x = np.array([-0.25, 0.0, 3.0, -2000.0], dtype)
    floor = 2.0 ** (-80 if dtype == np.float32 else -700)
    np.testing.assert_allclose(exp2(x), [2**-0.25, 1, 8, floor], rtol=1e-6)


@_jit.kernel
def _extremes_of_integers(a, b, low, high):
    for i in range(len(a)):
        low[i] = _jit.minimum(a[i], b[i])
        high[i] = _jit.maximum(a[i], b[i])


@pytest.mark.nojit
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
def test_extremes_of_integers(dtype):
    a, b = np.array([[0, 3, -1, 7], [1, 2, 5, 7]]).astype(dtype)  # -1: the largest, if unsigned
    low, high = np.empty((2, 4), dtype)
    _extremes_of_integers(a, b, low, high)
    np.testing.assert_array_equal(low, np.minimum(a, b))
    np.testing.assert_array_equal(high, np.maximum(a, b))


def assembly(kernel, itemsize):
    """The machine code of the kernel as compiled for float32 or float64."""
    dtype = np.dtype(f"f{itemsize}")
    rng = np.random.default_rng(0)
    nca(rng.standard_normal((700, 3)).astype(dtype), np.arange(700) % 2)  # compiled, not dense
    signature = next(s for s in kernel.signatures if s[-1].dtype.bitwidth == 8 * itemsize)
    if kernel.stats.cache_hits[signature]:  # from a cache of the caller's, without its assembly
        kernel = njit(**_jit._OPTIONS)(kernel.py_func)
        kernel.compile(signature)
    return kernel.inspect_asm(signature)


@compiled
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="x86 assembly")
@pytest.mark.parametrize("kernel", ["nca_stats_block", "nca_grad_block"])
@pytest.mark.parametrize(("itemsize", "suffix"), [(4, "ps"), (8, "pd")])
def test_inner_loops_are_vectorised(kernel, itemsize, suffix):
    """The polynomial of exp2 in whole registers, and hardly anything of it one by one."""
    code = assembly(getattr(kernels, kernel), itemsize)
    packed = re.findall(rf"\bvfn?m(?:add|sub)\d+{suffix}\b.*%[yz]mm", code)
    if not packed and "%ymm" not in code:
        pytest.skip("no AVX2 on this machine")
    rounded = re.findall(rf"\bvr(?:ound|ndscale){suffix}\b.*%[yz]mm", code)
    degree = {4: 5, 8: 10}[itemsize]  # multiply-adds of one exponential
    # rint, one for each vector of exponentials: the sums and their rescaling; weights and factors
    assert len(rounded) >= {"nca_stats_block": 4, "nca_grad_block": 2}[kernel]
    assert len(packed) >= degree * len(rounded)
    minima = re.findall(rf"\bvmin{suffix}\b.*%[yz]mm", code)
    assert len(minima) >= 10  # with one of them left to Python's min: 7


CACHE_CHECK = """
import numpy as np
from vicinal.kernels import nca as kernels
from vicinal.objectives import nca
nca(np.random.default_rng(0).standard_normal((600, 3)), np.arange(600) % 2)
for kernel in (kernels.nca_stats_block, kernels.nca_grad_block):
    stats = kernel.stats
    print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


@compiled
def test_second_process_compiles_nothing(rng):
    """The folder named in NUMBA_CACHE_DIR holds what this process, the first, has compiled."""
    nca(rng.standard_normal((600, 3)), np.arange(600) % 2)  # more than NumPy does
    result = subprocess.run(
        [sys.executable, "-c", CACHE_CHECK], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n")[:2] == ["1 0", "1 0"]


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles of 4 x 5 and blocks of 7: twelve points make several of each.

    Compiled kernels have their tile sizes compiled in and keep them.
    """
    blocks = _tiles.block_edges
    monkeypatch.setattr(_tiles, "block_edges", lambda n: blocks(n, 7, 1))
    if config.DISABLE_JIT:
        for module in (_blocks, kernels, compact):
            monkeypatch.setattr(module, "ROWS", 4)
            monkeypatch.setattr(module, "WIDTH", 5)
        monkeypatch.setattr(_tiles, "WIDTH", 5)
        monkeypatch.setattr(_tiles, "GRAD_WIDTH", 5)


def tiny(rng, n, d, n_classes, dtype=np.float64):
    y = np.arange(n) % n_classes
    rng.shuffle(y)
    return rng.standard_normal((n, d)).astype(dtype), y


def assert_matches_reference(Z, y, objective, rtol, weight=None, priors=None, **rows):
    value, dZ = nca(Z, Labels(y, weight, priors), objective, **rows)
    expected = formulas.nca(Z, y, objective, sample_weight=weight, priors=priors, **rows)
    assert value == pytest.approx(expected[0], rel=rtol, abs=1e-15)
    np.testing.assert_allclose(dZ, expected[1], rtol=0, atol=rtol * np.abs(expected[1]).max())


@pytest.mark.nojit
@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("d", [1, 2, 3, 6, 8, 9])
def test_few_points_in_small_tiles(rng, objective, d):
    for n, n_classes in [(12, 2), (11, 5), (9, 1), (5, 2)]:
        Z, y = tiny(rng, n, d, n_classes)
        for scale in [1.0, 30.0]:
            assert_matches_reference(scale / np.sqrt(d) * Z, y, objective, 1e-9)


@pytest.mark.nojit
@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_few_queries_and_references_in_small_tiles(rng, objective):
    Z, y = tiny(rng, 12, 3, 3)
    y = np.sort(y)[[0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]]  # every stretch has all the classes
    weight = rng.uniform(0.2, 2, 12)
    for q, r in [(np.arange(5), np.arange(3, 12)), (np.arange(12), np.arange(6)), ([7], None)]:
        for priors in [None, [0.2, 0.5, 0.3]]:
            rows = {"queries": q, "references": r}
            assert_matches_reference(Z, y, objective, 1e-10, weight, priors, **rows)


@pytest.mark.nojit
@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shifts_too_far_apart_for_one_exponential(rng, objective, dtype):
    """Twins beside loners: in one tile the rows' minima lie further apart than exp2 reaches."""
    y = np.array([0, 1, 0, 1, 2, 2, 0, 1, 2, 0, 1, 2])
    Z = 40.0 * np.arange(12.0)[:, None] * [1.0, 0.5]
    Z[1], Z[7], Z[9] = Z[0] + 0.3, Z[6] - 0.2, Z[8] + 0.5
    Z = Z.astype(dtype)
    spread = kernels._SPREAD[Z.itemsize // 8]
    d2 = formulas.squared_distances(Z) + np.diag(np.full(12, np.inf))
    assert np.ptp(d2.min(axis=1)) * np.log2(np.e) > spread
    assert_matches_reference(Z, y, objective, 1e-3 if dtype == np.float32 else 1e-10)


@pytest.mark.nojit
@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_matrix_products_in_small_tiles(rng, monkeypatch, objective):
    monkeypatch.setattr(_tiles, "BLAS_FROM", 4)
    Z, y = tiny(rng, 12, 5, 3)
    rows = {"queries": np.arange(9), "references": np.arange(2, 12)}
    for scale in [0.5, 10.0]:
        assert_matches_reference(scale * Z, y, objective, 1e-9)
        assert_matches_reference(scale * Z, y, objective, 1e-9, **rows)


@pytest.mark.nojit
@pytest.mark.usefixtures("small_tiles")
def test_posterior_and_effective_n_neighbors_in_small_tiles(rng):
    Z, y = tiny(rng, 12, 3, 3)
    new, _ = tiny(rng, 8, 3, 2)
    weight = rng.uniform(0.2, 2, 12)
    P = nca_posterior(new, Z, Labels(y, weight))
    np.testing.assert_allclose(P, formulas.posterior(new, Z, y, None, weight), rtol=1e-10)
    for v in [None, weight]:
        expected = formulas.effective_n_neighbors(Z, v)
        np.testing.assert_allclose(nca_effective_n_neighbors(Z, v), expected, rtol=1e-10)


@pytest.mark.skipif(config.DISABLE_JIT, reason="without compilation they are plain functions")
def test_python_cannot_call_what_is_compiled_into_kernels():
    for function in (chi2._to_four, _blocks.pull_four):
        with pytest.raises(TypeError, match="is compiled into kernels and cannot be called"):
            function(np.ones(3))
