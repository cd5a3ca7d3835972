"""What all sections share: clocks that take turns, tables, data, and facts about the machine."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _idle import BUSY, busy_cores, wait_until_idle
from reproduce.framework.code import present_commit

#: the mean squared distance of two embedded points: the state early in learning that is timed
MEAN_SQUARED_DISTANCE = 4.0

#: glibc gives large arrays back to the system and faults every page again; these keep them
ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": "68719476736",
    "MALLOC_MMAP_MAX_": "0",  # older releases of glibc cap the threshold
    "MALLOC_TRIM_THRESHOLD_": "68719476736",
    "MALLOC_TOP_PAD_": "67108864",
}


RESULTS = Path(__file__).parent / "results"

#: seconds to wait for other programs to end
_PATIENCE = 60.0


class Options(NamedTuple):
    """What the command line asked for."""

    quick: bool = False
    large: bool = False


class Times(NamedTuple):
    """Seconds of the repeated runs of one contender."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def best(self) -> float:
        return min(self.samples)

    def __str__(self) -> str:
        return f"{seconds(self.median)} ({seconds(self.best)})"


def progress(words: str) -> None:
    """Say on standard error what is going on."""
    print(f"[bench] {words}", file=sys.stderr, flush=True)


def clock(function: Callable[[], Any]) -> float:
    """Seconds that one call takes."""
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


#: seconds: OpenBLAS threads of the contender before keep a core busy for some tens of milliseconds
_REST = 0.15


def take_turns(
    contenders: dict[str, Callable[[], Any]],
    repeats: int = 5,
    budget: float = 6.0,
    warm: Iterable[str] = (),
) -> dict[str, Times]:
    """Time several functions in turns, so that a drift of the machine hits them all.

    Parameters
    ----------
    contenders : dict of callables
    repeats : int
        The most timed calls of each.
    budget : float
        Seconds after which a contender is not called again.
    warm : names
        Those that need no call to warm up, or whose first call counts when it takes longer than
        the budget (no allocator or compiler to warm up).

    Returns
    -------
    times : dict of Times
    """
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for name, function in contenders.items():
        first = clock(function)
        if name in warm and first > budget / 2:
            samples[name].append(first)
    for _ in range(repeats):
        for name, function in contenders.items():
            if sum(samples[name]) < budget and len(samples[name]) < repeats:
                time.sleep(_REST)
                samples[name].append(clock(function))
    return {name: Times(tuple(values)) for name, values in samples.items()}


def seconds(value: float) -> str:
    """A duration with three digits and its unit."""
    unit, factor = next(
        ((unit, factor) for unit, factor in (("s", 1.0), ("ms", 1e3)) if value * factor >= 1.0),
        ("µs", 1e6),
    )
    return f"{value * factor:#.3g}".rstrip(".") + f" {unit}"


def ratio(slow: float, fast: float) -> str:
    """How many times faster."""
    value = slow / fast
    if value < 0.095:
        return f"{value:.1g}×"
    return f"{value:.0f}×" if value >= 9.95 else f"{value:.1f}×"


def table(header: Iterable[str], rows: Iterable[Iterable[Any]], notes: Iterable[str] = ()) -> str:
    """A markdown table with notes beneath."""
    header = list(header)
    lines = [f"| {' | '.join(header)} |", f"|{'|'.join(['---'] * len(header))}|"]
    lines += [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join([*lines, "", *(f"- {note}" for note in notes)]).rstrip()


def blobs(n: int, n_features: int = 50, n_classes: int = 10, dtype: Any = np.float64) -> Any:
    """Overlapping Gaussian classes: X of shape (n, n_features), and y.

    Made in blocks: what is left over of making it must not hide in a measurement of memory.
    """
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    y[:n_classes] = np.arange(n_classes)
    centres = rng.standard_normal((n_classes, n_features)).astype(dtype)
    X = np.empty((n, n_features), dtype)
    for first in range(0, n, 1024):
        part = X[first : first + 1024]
        rng.standard_normal(out=part, dtype=dtype)
        part += centres[y[first : first + 1024]]
    return X, y


def early_map(X: Any, d: int) -> np.ndarray:
    """A random map of shape (d, D) that puts two points MEAN_SQUARED_DISTANCE apart on average."""
    A = np.random.default_rng(1).standard_normal((d, X.shape[1])) / np.sqrt(X.shape[1])
    Z = X[:2000].astype(np.float64) @ A.T
    return A * np.sqrt(MEAN_SQUARED_DISTANCE / (2.0 * Z.var(axis=0).sum()))


class ExactProblem:
    """``fun(theta) -> value, dtheta`` of an objective of embedded points and a linear map."""

    def __init__(self, X: Any, y: Any, d: int, dtype: Any, objective: Any = None) -> None:
        from vicinal.objectives import nca
        from vicinal.targets import Labels

        self.X, self.labels, self.d = np.ascontiguousarray(X, dtype), Labels(y), d
        self.objective = objective or partial(nca, objective="accuracy")

    def _embedded(self, theta: Any) -> Any:
        return self.X @ theta.reshape(self.d, -1).T.astype(self.X.dtype)

    def __call__(self, theta: Any, batch: Any = None) -> tuple[float, Any]:
        value, dZ = self.objective(self._embedded(theta), self.labels)
        return value, (dZ.T @ self.X).ravel().astype(np.float64)

    def value(self, theta: Any, batch: Any = None) -> float:
        return self.objective(self._embedded(theta), self.labels, gradient=False)[0]


def compile_kernels() -> None:
    """Have both precisions compiled before anything is timed."""
    X, y = blobs(300)
    for dtype in (np.float32, np.float64):
        fun, theta = ExactProblem(X.astype(dtype), y, 2, dtype), early_map(X, 2).ravel()
        fun(theta)
        fun.value(theta)


def available_memory() -> float:
    """Bytes that can be had without swapping; infinity where the system does not say."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return float("inf")
    return 1024.0 * int(text.split("MemAvailable:")[1].split()[0])


def processor_name() -> str:
    """The model of the processor, as the system names it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _simd() -> str:
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2"), ("neon", "NEON")):
        if features.get(flag):
            return name
    return "none known"


def version(package: str) -> str:
    """Installed version, or a dash."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "–"


def machine_facts() -> str:
    """Processor, cores, vector width, versions and date; nothing that names the machine."""
    import joblib

    import vicinal

    names = ("numpy", "scipy", "scikit-learn", "numba")
    versions = [f"vicinal {vicinal.__version__}", *(f"{n} {version(n)}" for n in names)]
    model = processor_name()
    return "\n".join(
        [
            f"- {datetime.date.today().isoformat()}, {platform.system()}, "
            f"Python {platform.python_version()}",
            f"- {model}, {joblib.cpu_count()} cores used, vector instructions: {_simd()}",
            f"- {', '.join(versions)}",
        ]
    )


def commit() -> str:
    """The last one that changed the library, with ``-dirty`` if files of it are changed."""
    return present_commit()


#: cores that other programs kept busy at the start; None: not asked yet
_load: float | None = None


def load_at_start() -> float:
    """Cores that other programs kept busy when this was asked for the first time."""
    global _load
    if _load is None:
        _load = busy_cores()
    return _load


def add_output(parser: argparse.ArgumentParser, name: str) -> None:
    """The option ``--output``, by default the file of that name in results/, and ``--busy``."""
    parser.add_argument(
        "--output", nargs="?", type=Path, const=RESULTS / f"{name}.md", metavar="PATH",
        help=f"write the report to PATH too (without a PATH: benchmarks/results/{name}.md); "
        "refused if the machine is busy",
    )  # fmt: skip
    parser.add_argument(
        "--busy", action="store_true", help="write it even if other programs are at work"
    )


def read_options(
    parser: argparse.ArgumentParser, arguments: list[str] | None = None
) -> argparse.Namespace:
    """The command line; a report of times is not begun on a machine that stays busy."""
    global _load
    options = parser.parse_args(arguments)
    if options.output and not options.busy:
        _load = wait_until_idle(_PATIENCE)
        if _load >= BUSY:
            parser.exit(
                3,
                f"{parser.prog}: other programs keep {_load:.1f} cores busy, so that times would "
                "be too long. Wait, leave out --output, or write the report with --busy.\n",
            )
    return options


def facts() -> str:
    """Facts about the machine, the commit of the library, and the load at the start."""
    load, cores = load_at_start(), os.cpu_count()
    return (
        f"{machine_facts()}\n- library of commit `{commit()}`; other programs kept {load:.2f} of "
        f"{cores} cores busy at the start"
    )


def write(report: str, output: Path | None) -> None:
    """Write a report where the command line asks for it."""
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(report.rstrip() + "\n", encoding="utf-8")


def report_sections(
    title: str, sections: Iterable[tuple[str, Callable[[], str]]], output: Path | None
) -> None:
    """Print the title, the facts and each section as soon as it is there; then write them all."""
    began = time.perf_counter()
    parts = [f"# {title}", facts()]
    print("\n\n".join(parts) + "\n", flush=True)
    for heading, section in sections:
        parts.append(f"## {heading}\n\n{section()}")
        print(f"{parts[-1]}\n", flush=True)  # at once: what is there is not lost
    progress(f"done in {time.perf_counter() - began:.0f} s")
    write("\n\n".join(parts), output)
