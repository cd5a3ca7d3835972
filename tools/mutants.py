"""Mutation tests: make a mistake in a copy of src, and check that a test fails.

``python tools/mutants.py`` tries all mutants, ``python tools/mutants.py weight resume`` those whose
names contain one of the words, ``--list`` lists them.  A mutant that survives shows a gap in the
tests; a stale mutant, whose text is no longer in src, needs updating.  ``make test-long`` runs all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Mutant(NamedTuple):
    """Replaces ``old`` by ``new`` in a file of ``src/vicinal``; one of the tests must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: str  # files, relative to tests/contracts; after a colon, an expression for -k


MUTANTS = [
    Mutant("nca: sign of the gradient", "objectives/nca.py",
           "np.stack([slope, -slope])", "np.stack([-slope, slope])",
           "test_objectives.py: few_rows and nca"),
    Mutant("nca: scale of the gradient", "engines/cpu/class_sums.py",
           "Z.dtype.type(2.0 / self.kernel", "Z.dtype.type(1.0 / self.kernel",
           "test_objectives.py: few_rows and nca"),
    Mutant("nca: a weight is dropped from the mean", "objectives/nca.py",
           "mean_loss(odds, rows.weight[sums.rows], self.kind)",
           "mean_loss(odds, np.ones(len(sums.rows)), self.kind)",
           "test_objectives.py: few_rows and weights"),
    Mutant("nca: the own class is not left out of its prior", "targets/labels.py",
           "np.log2(total / others), 0.0)", "np.log2(total / total), 0.0)",
           "test_objectives.py: few_rows and (priors or uniform)"),
    Mutant("nca: rates of samples are added", "engines/cpu/class_sums.py",
           "self.sampled - self.log2_rates", "self.sampled + self.log2_rates",
           "../neighborhoods/test_neighborhoods.py ../engines/test_lists.py: bias or rates"),
    Mutant("log: the loss in bits", "objectives/_odds.py",
           "odds, 0.0)) * np.log(2.0)", "odds, 0.0))", "test_objectives.py: few_rows"),
    Mutant("accuracy: rows without a neighbour of their class are left out", "objectives/_odds.py",
           'counts = weight if objective == "accuracy" else weight * (odds < np.inf)',
           "counts = weight * (odds < np.inf)", "test_objectives.py: classes_of_one"),
    Mutant("nca: masses of columns instead of rows", "kernels/nca.py",
           "column_sum[j] += mass_i * power_j", "column_sum[j] += points.vr[j] * power_j",
           "test_objectives.py: matches_reference and weights"),
    Mutant("lmnn: mean over all rows", "objectives/lmnn.py",
           "n_scored = int(np.count_nonzero(known.any(axis=1)))", "n_scored = len(query_rows)",
           "test_objectives.py: few_rows and lmnn"),
    Mutant("lmnn: references are ignored", "objectives/lmnn.py",
           "& is_query[:, None] & is_reference[neighbours]", "& is_query[:, None]",
           "test_objectives.py: few_rows and lmnn"),
    Mutant("lmnn: mu is left out of the pull", "engines/cpu/margins.py",
           "1.0 + t.mu * self.active, 0.0", "1.0 + self.active, 0.0",
           "test_objectives.py: finite_differences and lmnn"),
    Mutant("targets: positions are not mapped", "targets/neighbours.py",
           "part.neighbors = position[self.neighbors[rows]]",
           "part.neighbors = self.neighbors[rows]", "test_targets.py"),
    Mutant("targets: impostors of a batch are not weighted", "targets/neighbours.py",
           "1.0 / self._chances(share, train)[everyone]",
           "0.0 * self._chances(share, train)[everyone] + 1.0", "test_targets.py: bias"),
    Mutant("labels: weights are dropped", "targets/labels.py",
           "None if self.sample_weight is None else self.sample_weight[rows]", "None",
           "test_targets.py"),
    Mutant("maps: pull of the diagonal", "maps/linear.py",
           "lambda dZ: X.column_dots(dZ)", "lambda dZ: 0.5 * X.column_dots(dZ)", "test_maps.py"),
    Mutant("maps: softmax without its mean", "maps/linear.py",
           "dL = L * (dL - np.sum(L * dL, axis=0))", "dL = L * dL", "test_maps.py"),
    Mutant("lbfgs: memory holds one pair too few", "solvers/quasi_newton.py",
           "first = max(0, len(old_s) + 1 - self.memory)",
           "first = max(0, len(old_s) + 2 - self.memory)",
           "../solvers/test_solvers.py: lbfgs"),
    Mutant("lbfgs: the gradient is not copied", "solvers/quasi_newton.py",
           "value, grad = evaluate(fun, theta, batch)\n        none",
           "value, grad = fun(theta, batch)\n        none",
           "test_solvers.py: buffer"),
    Mutant("adam: steps are forgotten", "solvers/descent.py",
           "stalled, m, v, t, residual)", "stalled, m, v, state.t, residual)", "test_solvers.py"),
    Mutant("momentum: the velocity is forgotten", "solvers/descent.py",
           "stalled, rate, velocity, gains, residual)",
           "stalled, rate, 0 * velocity, gains, residual)", "../solvers/test_solvers.py: momentum"),
    Mutant("adam: moments of what the projection takes away", "solvers/descent.py",
           "return grad if residual is None else -residual", "return grad",
           "test_solvers.py: noisy"),
    Mutant("resume: the pass is drawn again", "core/batches.py",
           "if at.theta is not None:  # resumed in the middle of a pass", "if False:",
           "test_samplers.py: resume"),
    Mutant("samplers: queries with replacement", "samplers/parts.py",
           "array_split(rng.permutation(n_rows)", "array_split(rng.randint(n_rows, size=n_rows)",
           "test_samplers.py: turn"),
    Mutant("samplers: a subset with replacement", "samplers/parts.py",
           "rng.permutation(rows)[:n]", "rng.choice(rows, n)", "test_samplers.py: turn"),
    Mutant("lists: one entry too few", "neighborhoods/parts.py",
           "found(Z[rows], min(m + 1, len(references)))", "found(Z[rows], min(m, len(references)))",
           "test_neighborhoods.py: lists_hold"),
    Mutant("threads: draws by thread", "neighborhoods/parts.py",
           "default_rng([seed, block])", "default_rng([seed, thread])",
           "test_neighborhoods.py ../neighborhoods: thread or random_pairs"),
    Mutant("starts: no orientation", "starts/spectral.py",
           "def orient(", "def orient(A, *_):\n    return A\n\n\ndef _orient(",
           "test_starts.py: positive"),
]  # fmt: skip


def run(mutant: Mutant, folder: Path) -> str:
    """Apply the mutant to a copy and run the tests: "killed", "survived" or "stale"."""
    shutil.copytree(ROOT / "src", folder / "src", dirs_exist_ok=True)
    path = folder / "src" / "vicinal" / mutant.file
    text = path.read_text() if path.exists() else ""
    if text.count(mutant.old) < 1:
        return "stale"
    path.write_text(text.replace(mutant.old, mutant.new))
    files, _, expression = mutant.tests.partition(":")
    places = [os.path.normpath(ROOT / "tests" / "contracts" / name) for name in files.split()]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *places]
    command += ["-k", expression.strip()] if expression.strip() else []
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    environment["NUMBA_CACHE_DIR"] = str(folder / "numba")  # the mutant may be a kernel
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):  # no tests were run
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return "killed" if done.returncode else "survived"


def main(words: list[str]) -> int:
    """Try the mutants named by the words (none: all); return the number not killed."""
    chosen = [m for m in MUTANTS if not words or any(word in m.name for word in words)]
    if words == ["--list"]:
        print("\n".join(mutant.name for mutant in MUTANTS))
        return 0
    left = 0
    for mutant in chosen:
        with tempfile.TemporaryDirectory(prefix="vicinal-mutant-") as folder:
            verdict = run(mutant, Path(folder))
        print(f"{verdict:9}{mutant.name}", flush=True)
        left += verdict != "killed"
    return left


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
