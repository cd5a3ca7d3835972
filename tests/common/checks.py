"""Comparisons, and settings inside the library that tests change: threads and block sizes."""

from __future__ import annotations

import sys

import numpy as np
import pytest

__all__ = [
    "assert_close",
    "assert_same_bits",
    "each_dtype",
    "needs_callbacks",
    "set_block_size",
    "set_threads",
    "unfinished",
]

each_dtype = pytest.mark.parametrize("dtype", [np.float32, np.float64])
unfinished = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def _has_callbacks():
    try:
        import sklearn.callback  # noqa: F401
    except ImportError:
        return False
    return True


needs_callbacks = pytest.mark.skipif(not _has_callbacks(), reason="needs scikit-learn >= 1.9")


def assert_close(got, expected, rtol, atol=0.0):
    """Compare values by relative error, gradients relative to the largest entry."""
    (value, dZ), (value_expected, dZ_expected) = got, expected
    assert value == pytest.approx(value_expected, rel=rtol, abs=max(1e-14 * rtol, atol))
    size = np.abs(dZ_expected).max(initial=0.0)
    np.testing.assert_allclose(dZ, dZ_expected, rtol=0, atol=rtol * size + max(1e-30, atol))


def assert_same_bits(got, expected):
    """Compare a value and an array, or any number of arrays, bit by bit."""
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def set_threads(monkeypatch, threads):
    """Use that many threads in every module, even more than there are cores."""
    _replace(monkeypatch, "n_threads", lambda: threads)


def set_block_size(monkeypatch, size, multiple):
    """Use blocks of that many rows in every module that cuts rows into blocks."""
    from vicinal._threads import block_edges

    _replace(monkeypatch, "block_edges", lambda n, *_: block_edges(n, size, multiple))


def _replace(monkeypatch, name, function):
    found = [
        module
        for place, module in list(sys.modules.items())
        if place.startswith("vicinal.") and hasattr(module, name)
    ]
    assert found, f"no module of vicinal has {name!r}"
    for module in found:
        monkeypatch.setattr(module, name, function)
