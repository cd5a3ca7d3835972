"""kt-SNE against openTSNE: whole fits, memory, faithfulness, and growth with the number of rows.

    python benchmarks/environments.py openTSNE           # once
    python benchmarks/ksne_speed.py                      # some five minutes on two cores
    python benchmarks/ksne_speed.py --only 20000         # one size, or several, or "growth"
    python benchmarks/ksne_speed.py --quick              # small data, a minute
    python benchmarks/ksne_speed.py --output             # also benchmarks/results/ksne_speed.md

The rows are mnist's, reduced to 50 principal components, if ``VICINAL_DATA`` names a folder with
mnist.npz, and synthetic otherwise.  Every fit runs in a process of its own, after a short one that
compiles.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _common import add_output, blobs, facts, progress, read_options, table, write
from environments import python_of
from sklearn.decomposition import PCA

FOLDER = Path(__file__).parent
SIZES = (20_000,)
GROWTH = (10_000, 20_000, 60_000)
COLUMNS, JOBS = 50, os.cpu_count()
ITERATIONS, EXAGGERATED = 750, 250
#: iterations of a fit that shows growth; half of them with early exaggeration
GROWTH_ITERATIONS = 200
#: the goals: at most this many times k = 1, and as trustworthy as openTSNE within so much
MOST_K5, CLOSE = 3.5, 0.005
JUDGED_ROWS = 2000  # by which trustworthiness is measured

Fit = dict[str, Any]


def fits(sizes: tuple[int, ...], growth: tuple[int, ...]) -> Iterator[Fit]:
    """All fits, in the order of their turns."""
    for n in sizes:
        usual = {"n": n, "iterations": ITERATIONS, "exaggerated": EXAGGERATED}
        yield {"tool": "vicinal", "k": 1, **usual}
        yield {"tool": "openTSNE", "k": 1, "method": "fft", **usual}
        yield {"tool": "vicinal", "k": 5, **usual}
    for n in growth:
        few = {"n": n, "iterations": GROWTH_ITERATIONS, "exaggerated": GROWTH_ITERATIONS // 2}
        yield {"tool": "vicinal", "k": 1, **few}
        yield {"tool": "openTSNE", "k": 1, "method": "fft", **few}


def pictured_rows(n: int, folder: Path, name: str = "mnist") -> Path:
    """A file with n rows: the first of a set, or rows drawn from it with a little noise."""
    path = folder / f"{name}-{n}.npy"
    if path.exists():
        return path
    base = folder / f"{name}.npy"
    if not base.exists():
        np.save(base, _reduced(name))
    X = np.load(base)
    if n <= len(X):
        X = X[:n]
    else:
        rng = np.random.default_rng(0)
        X = X[rng.integers(0, len(X), n)]
        X += 0.1 * X.std(axis=0) * rng.standard_normal(X.shape).astype(np.float32)
    np.save(path, X)
    return path


def _reduced(name: str) -> Any:
    progress("data")
    data = os.environ.get("VICINAL_DATA")
    if data is None:
        return blobs(60_000, COLUMNS, dtype=np.float32)[0]
    file = np.load(Path(data) / f"{name}.npz")
    order = np.random.RandomState(0).permutation(len(file["X"]))
    X = file["X"][order].astype(np.float32)
    X /= X.max()
    return PCA(COLUMNS, random_state=0).fit_transform(X).astype(np.float32)


def run(fit: Fit, folder: Path, peer: str, name: str = "mnist") -> Fit:
    """One fit in a process of its own, and how trustworthy it is."""
    from vicinal.metrics import trustworthiness

    out = folder / "embedding.npy"
    given = pictured_rows(fit["n"], folder, name)
    arguments = {**fit, "rows": str(given), "out": str(out), "jobs": JOBS}
    del arguments["n"]
    words = f"{fit['tool']}, {fit['n']:,} rows, k = {fit['k']}, {fit['iterations']} iterations"
    progress(words)
    python = peer if fit["tool"] == "openTSNE" else sys.executable
    done = subprocess.run(
        [python, str(FOLDER / "_ksne_worker.py"), json.dumps(arguments)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{words} failed:\n{done.stderr}")
    found = json.loads(done.stdout.splitlines()[-1])
    if fit["iterations"] == ITERATIONS:  # a picture that is cut short is not judged
        X, Z = np.load(given), np.load(out)
        some = {"sample_size": min(JUDGED_ROWS, len(X)), "random_state": 0}
        found["trustworthiness"] = trustworthiness(X, Z, n_neighbors=12, **some)
    progress(f"{found['seconds']:.1f} s, {found['cpu']:.1f} s of the processor")
    return found


def has_peer(python: str) -> bool:
    """Whether an interpreter has openTSNE."""
    command = [python, "-c", "import openTSNE"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def report(done: list[tuple[Fit, Fit]]) -> str:
    """The page: machine, the fits side by side, verdicts, growth."""
    source = "mnist" if os.environ.get("VICINAL_DATA") else "synthetic"
    versions = {found["version"] for fit, found in done if fit["tool"] == "openTSNE"}
    head = [
        "# kt-SNE against openTSNE: speed and memory",
        f"{facts()}\n- openTSNE {', '.join(sorted(versions)) or '–'}, by the FFT",
        f"Rows: {source}, {COLUMNS} columns, float32. Perplexity 30, {JOBS} threads or jobs.",
    ]
    whole = [each for each in done if each[0]["iterations"] == ITERATIONS]
    growth = [each for each in done if each[0]["iterations"] == GROWTH_ITERATIONS]
    parts = [_fits(whole)] if whole else []
    parts += [_growth(growth)] if growth else []
    return "\n\n".join([*head, *parts])


def _find(done: list[tuple[Fit, Fit]], **wanted: Any) -> Fit | None:
    for fit, found in done:
        if all(fit.get(name) == value for name, value in wanted.items()):
            return found
    return None


def _fits(done: list[tuple[Fit, Fit]]) -> str:
    lines = []
    for fit, found in done:
        name = f"vicinal, k = {fit['k']}" if fit["tool"] == "vicinal" else "openTSNE"
        lines.append([
            f"{fit['n']:,}", name, f"{found['seconds']:.1f}", f"{found['cpu']:.1f}",
            _mebibytes(found["peak"]), f"{found['trustworthiness']:.4f}",
        ])  # fmt: skip
    header = ["rows", "fit", "seconds", "seconds of the processor", "peak memory beyond the rows",
              "trustworthiness"]  # fmt: skip
    notes = [
        line for n in dict.fromkeys(fit["n"] for fit, _ in done) for line in _verdicts(done, n)
    ]
    heading = f"## Whole fits, {ITERATIONS} iterations, {EXAGGERATED} of them exaggerated"
    return f"{heading}\n\n{table(header, lines, notes)}"


def _mebibytes(value: float | None) -> str:
    return "" if value is None else f"{value / 2**20:,.0f} MiB"


def _verdicts(done: list[tuple[Fit, Fit]], n: int) -> Iterator[str]:
    """The goals at one size: met or missed, with the numbers."""
    ours, five = (_find(done, n=n, tool="vicinal", k=k) for k in (1, 5))
    theirs = [found for fit, found in done if fit["tool"] == "openTSNE" and fit["n"] == n]
    if ours and theirs:
        best = min(theirs, key=lambda found: found["seconds"])
        ratio = best["seconds"] / ours["seconds"]
        apart = ours["trustworthiness"] - best["trustworthiness"]
        yield (
            f"{n:,} rows: openTSNE takes {ratio:.2f} times as long as vicinal at k = 1 "
            f"({'met' if ratio >= 1 else 'missed'}: no slower); trustworthiness {apart:+.4f} "
            f"({'met' if apart >= -CLOSE else 'missed'}: no worse by more than {CLOSE})."
        )
    if ours and five:
        ratio = five["seconds"] / ours["seconds"]
        yield (
            f"{n:,} rows: k = 5 takes {ratio:.2f} times as long as k = 1 "
            f"({'met' if ratio <= MOST_K5 else 'missed'}: at most {MOST_K5})."
        )


def _growth(done: list[tuple[Fit, Fit]]) -> str:
    ordered = sorted(done, key=lambda each: each[0]["n"])
    lines = [
        [f"{fit['n']:,}", fit["tool"], f"{found['seconds']:.1f}", f"{found['cpu']:.1f}",
         f"{1e3 * found['cpu'] / fit['n']:.2f}", _mebibytes(found["peak"]),
         "" if found["peak"] is None else f"{found['peak'] / fit['n']:,.0f}"]
        for fit, found in ordered
    ]  # fmt: skip
    header = ["rows", "library", "seconds", "seconds of the processor", "milliseconds of it a row",
              "peak memory beyond the rows", "bytes a row"]  # fmt: skip
    notes = []
    for tool in dict.fromkeys(fit["tool"] for fit, _ in ordered):
        own = [(fit["n"], found["seconds"]) for fit, found in ordered if fit["tool"] == tool]
        if len(own) > 1:
            n, took = np.log(own).T
            notes.append(
                f"{tool}: seconds grow with the power {np.polyfit(n, took, 1)[0]:.2f} of the "
                "number of rows."
            )
    heading = f"## Growth, k = 1, {GROWTH_ITERATIONS} iterations, half of them exaggerated"
    return f"{heading}\n\n{table(header, lines, notes)}"


def main() -> None:
    """Do the fits, and print the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=None, help='sizes of whole fits, or "growth"')
    parser.add_argument(
        "--peer", default=python_of("openTSNE") or sys.executable,
        help="Python that has openTSNE (default: that of environments.py)",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="1,000 rows, few iterations")
    add_output(parser, "ksne_speed")
    options = read_options(parser)
    sizes, growth = SIZES, GROWTH
    if options.quick:
        global ITERATIONS, EXAGGERATED, GROWTH_ITERATIONS
        sizes, growth = (1000,), (1000, 2000)
        ITERATIONS, EXAGGERATED, GROWTH_ITERATIONS = 60, 30, 20
    planned = list(fits(sizes, growth))
    chosen = planned
    if options.only:
        chosen = [
            fit for fit in planned
            if ("growth" if fit["iterations"] == GROWTH_ITERATIONS else str(fit["n"]))
            in options.only
        ]  # fmt: skip
        if not chosen:
            parser.error(f"--only must name sizes of {sizes}, or 'growth'. Got {options.only}.")
    if not has_peer(options.peer):
        progress("openTSNE is not installed (environments.py): its fits are left out")
        chosen = [fit for fit in chosen if fit["tool"] == "vicinal"]
    with tempfile.TemporaryDirectory() as folder:
        done = [(fit, run(fit, Path(folder), options.peer)) for fit in chosen]
    text = report(done)
    print(text)
    write(text, options.output)


if __name__ == "__main__":
    main()
