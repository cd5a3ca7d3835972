"""Sums over all sets of k: the memory of an evaluation, and rows that are no queries."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from formulas import set_marginals

from vicinal.engines import choose
from vicinal.engines.newton import newton


@pytest.mark.parametrize(
    ("kernel", "k", "d"), [("cauchy", 1, 2), ("cauchy", 8, 3), ("gaussian", 4, 2)]
)
def test_memory_is_linear(rng, kernel, k, d):
    def evaluate(Z):
        rows = np.arange(len(Z))
        engine = choose.backend(Z, len(Z)).set_sums(Z, k, kernel, 0.0, rows, rows, "exact")
        engine.sums()
        engine.pull(np.full(len(Z), 1 / len(Z)))
        return engine

    for n in (1000, 2000):
        Z = 5 * rng.standard_normal((n, d))
        evaluate(Z)  # compiles
        tracemalloc.start()
        engine = evaluate(Z)
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert engine.name == "tiles"
        assert taken < 0.1 * 8 * n * n


def test_newton_says_which_rows_are_safe(rng):
    """Those it calls safe have marginals to 1e-12; a row that one weight dominates is not safe."""
    k, w = 5, rng.random((50, 40))
    w[:10, 0] = 10.0 ** np.arange(1, 11)
    S = np.stack([np.sum(w**m, axis=1) for m in range(1, k + 1)], axis=1)
    log_total, c, safe = newton(S)
    marginals, expected = set_marginals(np.log(w), k)
    q = sum(c[:, m - 1 : m] * w**m for m in range(1, k + 1))
    assert safe[10:].all()
    assert not safe[2:10].any()
    assert not c[~safe].any()
    np.testing.assert_allclose(log_total[safe], expected[safe], rtol=0, atol=1e-12)
    np.testing.assert_allclose(q[safe], marginals[safe], rtol=0, atol=1e-12)
