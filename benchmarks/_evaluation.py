"""Time of one value-and-gradient, and the memory it takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from _common import (
    ALLOCATOR,
    MEAN_SQUARED_DISTANCE,
    ExactProblem,
    Options,
    Times,
    available_memory,
    blobs,
    early_map,
    progress,
    ratio,
    seconds,
    table,
    take_turns,
)

SKLEARN, SINGLE, DOUBLE = "scikit-learn", "float32", "float64"
#: bytes per pair that scikit-learn holds at its peak: some four arrays of float64
_SKLEARN_BYTES = 32


def sklearn_function(X: Any, y: Any) -> Any:
    """scikit-learn's ``fun(theta) -> value, gradient``, sums to minimise."""
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    peer = NeighborhoodComponentsAnalysis()
    peer.n_iter_ = 1  # it prints a header at 0
    mask = y[:, np.newaxis] == y[np.newaxis, :]
    return lambda theta: peer._loss_grad_lbfgs(theta, X, mask, -1.0)


def _skip(n: int, name: str, d: int, options: Options) -> str:
    """Why not to run this one, or nothing."""
    if name == SKLEARN:
        if n > 20_000 or (n > 10_000 and not options.large):
            return "too large"
        if 1.3 * _SKLEARN_BYTES * n * n > available_memory():
            return "no memory"
    if name == DOUBLE and n * n * d > 60_000**2 * 5 and not options.large:
        return "--large"
    return ""


@cache
def evaluation_times(n: int, d: int, options: Options) -> tuple[dict[str, Times], dict[str, str]]:
    """Times of vicinal in both precisions and of scikit-learn, and how well they agree."""
    progress(f"evaluation: N = {n}, d = {d}")
    X, y = blobs(n)
    A = early_map(X, d)
    theta = A.ravel()
    functions: dict[str, Any] = {}
    if not _skip(n, SKLEARN, d, options):
        functions[SKLEARN] = sklearn_function(X, y)
    for name in (SINGLE, DOUBLE):
        if not _skip(n, name, d, options):
            functions[name] = ExactProblem(X.astype(name), y, d, np.dtype(name))
    calls = {name: lambda fun=fun: fun(theta) for name, fun in functions.items()}
    times = take_turns(calls, repeats=3 if options.quick else 5, warm=(SINGLE, DOUBLE))
    agreement = _agreement(functions, theta, n) if n <= 5000 else {}
    return times, agreement


def _agreement(functions: dict[str, Any], theta: Any, n: int) -> dict[str, str]:
    """The larger of the relative errors of value and gradient against scikit-learn's."""
    if SKLEARN not in functions:
        return {}
    value, gradient = (part / n for part in functions[SKLEARN](theta))
    found = {}
    for name in (SINGLE, DOUBLE):
        if name in functions:
            ours, dtheta = functions[name](theta)
            error = np.linalg.norm(dtheta - gradient) / np.linalg.norm(gradient)
            found[name] = f"{max(abs(ours / value - 1.0), error):.0e}"
    return found


def evaluation_section(options: Options) -> str:
    """The table of times per value-and-gradient, and of the same late in learning."""
    sizes = (500, 2000) if options.quick else (500, 2000, 10_000, 60_000)
    dimensions = (2, 5) if options.quick else (2, 32)
    rows = []
    for n in sizes:
        for d in dimensions:
            times, agreement = evaluation_times(n, d, options)
            cells = [
                times[name] if name in times else f"– ({_skip(n, name, d, options)})"
                for name in (SKLEARN, SINGLE, DOUBLE)
            ]
            ratios = [
                ratio(times[SKLEARN].median, times[name].median)
                if SKLEARN in times and name in times
                else "–"
                for name in (SINGLE, DOUBLE)
            ]
            agree = " / ".join(agreement.get(name, "–") for name in (SINGLE, DOUBLE))
            rows.append([f"{n:,}", d, cells[0], cells[1], ratios[0], cells[2], ratios[1], agree])
    header = ["N", "d", "scikit-learn (float64)", "vicinal float32", "ratio",
              "vicinal float64", "ratio", "error float32 / float64"]  # fmt: skip
    notes = [
        "One value and gradient of the exact accuracy objective as a function of the map, "
        "X → A → value and dA; D = 50 features, 10 classes. Median (least) of the repeats, which "
        "take turns; the ratios are of the medians.",
        f"The map is random and of such a scale that two embedded points are "
        f"√{MEAN_SQUARED_DISTANCE:.0f} apart in the root mean square (unit variance in each of "
        "two dimensions; that variance divided by d / 2 in general): a state early in learning.",
        "scikit-learn is called in the same process with an allocator that keeps its memory "
        "(MALLOC_* variables, see `man mallopt`). With glibc's defaults the page faults of its "
        "N × N arrays make it slower still, by half or so.",
        "Error: the larger of the relative differences of value and gradient from scikit-learn.",
    ]
    return table(header, rows, notes) + "\n\n" + _late_table(options)


def _late_table(options: Options) -> str:
    """Time as the map grows: late in learning the rows' shifts differ more."""
    n = 1000 if options.quick else 10_000
    factors = (1, 3, 10, 100)
    rows = []
    X, y = blobs(n)
    for d in (2, 5):
        progress(f"evaluation, late in learning: N = {n}, d = {d}")
        for name in (SINGLE, DOUBLE):
            fun = ExactProblem(X.astype(name), y, d, np.dtype(name))
            theta = early_map(X, d).ravel()
            calls = {str(f): lambda fun=fun, t=theta * f: fun(t) for f in factors}
            times = take_turns(calls, repeats=3, budget=2.0)
            rows.append([f"{n:,}", d, name, *(seconds(times[str(f)].median) for f in factors)])
    header = ["N", "d", "precision", *(f"map × {f}" for f in factors)]
    return table(header, rows, ["vicinal alone; the same map enlarged, as learning does it."])


def _worker(task: str, **spec: Any) -> dict[str, Any]:
    """Run a task of ``_workers.py`` in a process of its own, with the plain allocator."""
    environment = {k: v for k, v in os.environ.items() if k not in ALLOCATOR}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("_workers.py")), task, json.dumps(spec)],
        env={**environment, **spec.get("environment", {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["killed"])[-1]}
    return json.loads(done.stdout)


def has_mnist() -> bool:
    """Whether the environment names a folder with the handwritten digits."""
    folder = os.environ.get("VICINAL_DATA")
    return bool(folder) and (Path(folder) / "mnist.npz").is_file()


def memory_section(options: Options) -> str:
    """Time and peak memory on 60,000 rows of 784 features, against scikit-learn on fewer rows."""
    shape = (2000, 100) if options.quick else (60_000, 784)
    sources = ["mnist" if has_mnist() and not options.quick else "synthetic"]
    rows = []
    for source in sources:
        for d in (2,):
            progress(f"memory: {source}, N = {shape[0]}, d = {d}")
            found = _worker("memory", source=source, n=shape[0], n_features=shape[1], d=d)
            rows += _memory_rows(f"{source} {shape[0]:,} × {shape[1]}", d, "vicinal", found)
    peer_sizes = [1000] if options.quick else [10_000]
    for n in [*peer_sizes, *([20_000] if options.large else [])]:
        if 1.3 * _SKLEARN_BYTES * n * n < available_memory():
            progress(f"memory: scikit-learn, N = {n}")
            found = _worker("sklearn_memory", n=n, n_features=50, d=2)
            rows += _memory_rows(f"synthetic {n:,} × 50", 2, SKLEARN, found)
    header = ["data", "d", "library", "what", "seconds", "peak memory beyond the input"]
    notes = [
        "float32 for vicinal, float64 for scikit-learn; each line group in a fresh process, "
        "after compilation, with the standard allocator. The peak is the kernel's high-water mark "
        "of the resident set less what was resident when the data stood ready.",
        "`value`: the first of the two passes. `value, gradient`: both. `fit`: three iterations "
        "of `NCA().fit`, start, checks and stored projections included.",
        "scikit-learn's seconds here include its mask and the page faults of the first call; the "
        "table above has them without.",
    ]
    if not has_mnist():
        notes.append("The real MNIST is measured when VICINAL_DATA names a folder with mnist.npz.")
    return table(header, rows, notes)


def _memory_rows(data: str, d: int, library: str, found: dict[str, Any]) -> list[list[Any]]:
    if "error" in found:
        return [[data, d, library, "failed", "–", found["error"]]]
    lines = []
    for what, (took, peak) in found.items():
        size = "unknown" if peak is None else f"{peak / 1e6:,.0f} MB"
        lines.append([data, d, library, what, seconds(took), size])
    return lines


def first_use_section(options: Options) -> str:
    """``NCA().fit`` on wine in a fresh process: without compiled code on disk, then with it."""
    import tempfile

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for label in ("empty cache", "second process", "third process"):
            progress(f"first use: {label}")
            found = _worker("first_use", environment={"NUMBA_CACHE_DIR": folder})
            if "error" in found:
                rows.append([label, "failed", found["error"], "–"])
            else:
                took, fit = found["import"], found["fit"]
                rows.append([label, seconds(took), seconds(fit), seconds(took + fit)])
    notes = ["`NCA().fit` on wine (178 × 13, 3 classes), all defaults, each in a fresh process."]
    return table(["process", "import", "fit", "together"], rows, notes)
