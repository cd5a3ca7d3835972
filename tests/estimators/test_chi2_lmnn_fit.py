"""What Chi2LMNN says, and is asked, during a fit: lines, budgets, interrupts, callbacks."""

from __future__ import annotations

import numpy as np
import pytest
from common.histograms import counts

from vicinal import Chi2LMNN
from vicinal.fit.report import HAS_CALLBACKS

needs_callbacks = pytest.mark.skipif(not HAS_CALLBACKS, reason="needs scikit-learn >= 1.9")


@pytest.fixture
def rows(rng):
    return counts(rng)


def test_verbose_and_cost(rows, capsys):
    model = Chi2LMNN(3, verbose=1, random_state=0).fit(*rows)
    lines = capsys.readouterr().out.splitlines()
    assert "MiB beyond the input" in lines[0]
    assert len(lines) == 2 + len(model.history_["loss"])  # the plan and a heading
    assert all(line.startswith("[Chi2LMNN]") for line in lines)
    small = Chi2LMNN(3).estimate_cost(rows[0])
    large = Chi2LMNN(20).estimate_cost(np.broadcast_to(np.float32(0), (10_000, 800)))
    assert small.seconds_per_evaluation < 0.1
    assert 10 * small.seconds_per_evaluation < large.seconds_per_evaluation
    assert 1e7 < large.memory_bytes < 1e9
