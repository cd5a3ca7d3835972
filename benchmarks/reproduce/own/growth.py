"""The cost of one evaluation as the rows grow in number, and the memory of whole fits."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.pictures import picture, plain_frame, pyplot

#: one evaluation: words for each path
PATHS = {
    "exact": "exact, far tiles left out",
    "nearest": "lists of the 100 nearest",
    "compact": "compact kernel",
    "tree": "trees, tolerance 0.01",
}


#: fits at the largest size
FITS = ("defaults", "stochastic", "nearest", "compact", "exact")


COLOURS = {"exact": "#0072B2", "nearest": "#E69F00", "compact": "#009E73", "tree": "#D55E00"}


#: of an evaluation with lists, their renewal every ten iterations
REFRESH = 10


SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)


COLUMNS = 50


SIDE = 6  # classes along either side of the sheet


NEIGHBOURS = 8.0  # effective ones of a row


LARGEST = SIZES[-1]


REPEATS = {10_000: 5, 30_000: 4, 100_000: 2, 300_000: 2, 1_000_000: 2}


def jobs(splits: int | None) -> Iterator[Job]:
    """One evaluation of each path at each size, then fits at the largest."""
    for n, path, d in product(SIZES, PATHS, (2, 3)):
        if not (path == "tree" and n == LARGEST and d == 3):  # minutes each
            yield {"part": "evaluation", "path": path, "n": n, "d": d}
    for fit in FITS:
        yield {"part": "fit", "path": fit, "n": LARGEST, "d": 2}


def work(part: str, path: str, n: int, d: int) -> dict[str, Any]:
    """Seconds, peak memory beyond the input, and how much of the pairs was computed."""
    busy = os.getloadavg()[0]
    found = _evaluation(path, n, d) if part == "evaluation" else _fit(path, n, d)
    return {**found, "load": busy}


def sheet(n: int, d: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Class clusters on a curved sheet in many columns; and a map that lays it out in d."""
    rng = np.random.default_rng(seed)
    y = rng.integers(SIDE * SIDE, size=n)
    centres = np.stack(np.divmod(np.arange(SIDE * SIDE), SIDE), axis=1) / (SIDE - 1.0)
    centres += 0.03 * rng.standard_normal(centres.shape)
    place = centres[y] + 0.07 * rng.standard_normal((n, 2))
    waves, phases = rng.normal(scale=2.0, size=(2, COLUMNS)), rng.uniform(0, 6.3, COLUMNS)
    X = np.sin(place @ waves + phases)
    X += 0.01 * rng.standard_normal(X.shape)
    # the best linear view of the sheet, from some of its rows; then what else varies most
    some = slice(0, 10_000)
    middle = X[some].mean(axis=0)
    B = np.linalg.lstsq(X[some] - middle, place[some] - place[some].mean(axis=0), rcond=None)[0]
    A = B.T
    if d > 2:
        rest = (X[some] - middle) - (X[some] - middle) @ np.linalg.pinv(A) @ A
        extra = np.linalg.svd(rest, full_matrices=False)[2][: d - 2]
        extra *= 0.1 / np.std(rest @ extra.T, axis=0)[:, None]
        A = np.concatenate([A, extra])
    return X.astype(np.float32), y, A


def late_scale(Z: Any, kernel: Any) -> float:
    """The factor at which the rows consult as many neighbours as late in learning."""
    from vicinal.objectives import nca_effective_n_neighbors

    few = Z[np.random.default_rng(1).permutation(len(Z))[:100]]

    def neighbours(s: float) -> float:
        found = nca_effective_n_neighbors(s * Z, Z_query=s * few, kernel=kernel)
        return float(np.mean(found)) - 1.0  # a query is among the rows, and picks itself too

    low, high = 1.0, 1.0
    while neighbours(high) > NEIGHBOURS:
        low, high = high, 4.0 * high
    for _ in range(8):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if neighbours(middle) > NEIGHBOURS else (low, middle)
    return (low * high) ** 0.5


def _problem(path: str, n: int, d: int) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    from vicinal.densities import Compact, Gaussian

    compact = path == "compact"
    kernel = Compact(background=False) if compact else Gaussian()
    X, y, A = sheet(n, d)
    Z = X @ A.T.astype(np.float32)
    Z -= Z.mean(axis=0)
    s = late_scale(Z, kernel)
    options = {"objective": "accuracy" if compact else "log", "kernel": kernel}
    return X, y, s * A, np.ascontiguousarray(s * Z, dtype=np.float32), options


def _evaluation(path: str, n: int, d: int) -> dict[str, Any]:
    from _memory import give_back, measure, resident

    from vicinal.objectives import nca
    from vicinal.targets import Labels

    # compiled, and in the cache, before anything is timed
    _, y, _, Z, options = _problem(path, 5000, d)
    nca(Z, y, warn=False, **options, **_lists(path, Z, y))
    X, y, _, Z, options = _problem(path, n, d)
    del X
    labels = Labels(y)
    give_back()
    baseline = resident()
    lists: dict[str, Any] = {}
    told: dict[str, Any] = {}
    search, search_cpu, search_peak = 0.0, 0.0, 0
    if path == "nearest":
        worked = time.process_time()
        search, search_peak = measure(lambda: lists.update(_lists(path, Z, labels.codes)), baseline)
        search_cpu = time.process_time() - worked
    else:
        lists.update(_lists(path, Z, labels.codes))
    seconds, cpu, peak = [], [], []
    repeats = 1 if path == "tree" and n > 100_000 else REPEATS.get(n, 3)
    for _ in range(repeats):
        worked = time.process_time()
        took, most = measure(
            lambda: nca(Z, labels, warn=False, report=told, **options, **lists), baseline
        )
        seconds.append(took)
        cpu.append(time.process_time() - worked)
        peak.append(most or 0)
    return {
        "seconds": min(seconds),
        "cpu": min(cpu),
        "all seconds": seconds,
        "search": search,
        "search cpu": search_cpu,
        "memory": max(*peak, search_peak or 0),
        "share": float(told.get("share_of_pairs", np.nan)),
    }


def _lists(path: str, Z: Any, codes: Any) -> dict[str, Any]:
    from vicinal import neighbourhoods

    part = {"nearest": neighbourhoods.Nearest(), "tree": neighbourhoods.Tree()}.get(path)
    return {} if part is None else {"pairs": part.pairs(Z, codes)}


def _fit(path: str, n: int, d: int) -> dict[str, Any]:
    """A whole fit: with defaults as it comes; by each path two iterations from a late map."""
    from _memory import give_back, measure, resident

    from vicinal import NCA
    from vicinal.solvers import SGD

    def estimator(A: Any) -> NCA:
        if path == "defaults":
            return NCA(d, random_state=0)
        late: dict[str, Any] = {"init": A, "scaling": None, "alpha": 0.0, "max_iter": 2}
        # so short a step leaves the map where it is: late in learning
        late |= {"sampling": "full", "solver": SGD(learning_rate=1e-9), "random_state": 0}
        if path == "stochastic":
            late["sampling"] = "stochastic"
        elif path == "compact":
            late |= {"kernel": _compact(), "objective": "accuracy"}
        elif path == "nearest":
            late["pairs"] = path
        return NCA(d, **late)

    small, y, A, _, _ = _problem(path, 5000, d)
    estimator(A).fit(small, y)
    X, y, A, _, _ = _problem(path, n, d)
    model = estimator(A)
    give_back()
    baseline = resident()
    worked = time.process_time()
    seconds, peak = measure(lambda: model.fit(X, y), baseline)
    return {
        "seconds": seconds,
        "cpu": time.process_time() - worked,
        "memory": peak or 0,
        "plan": str(model.plan_),
        "iterations": int(model.n_iter_),
    }


def _compact() -> Any:
    from vicinal.densities import Compact

    return Compact(background=False)


def _evaluations(done: list[Done]) -> dict[Any, Any]:
    """Results of single evaluations by path, d and n."""
    return {
        (each.job["path"], each.job["d"], each.job["n"]): each.result
        for each in done
        if each.job["part"] == "evaluation"
    }


def parts(done: list[Done]) -> dict[str, Any]:
    """Exponents, curves, tables."""
    evaluations = _evaluations(done)
    fits = {each.job["path"]: each.result for each in done if each.job["part"] == "fit"}
    loads = [each.result["load"] for each in done]
    return {
        "finding": _finding(evaluations, fits),
        "exponents": _exponents(evaluations),
        **_times(evaluations),
        **_fits(fits),
        **_protocol(loads),
    }


def _clock(found: dict[Any, Any]) -> str:
    """The wall-clock; where the machine was busy with other things, the time of the cores."""
    busy = float(np.median([result["load"] for result in found.values()]))
    return "cpu" if busy > 1.5 * (os.cpu_count() or 1) else "seconds"


def _seconds(path: str, result: dict[str, Any], clock: str) -> float:
    """Of one evaluation, with its share of the search for lists; by the wall or of all cores."""
    search = result["search" if clock == "seconds" else "search cpu"]
    return result[clock] + (search / REFRESH if path == "nearest" else 0.0)


def exponent(found: dict[Any, Any], path: str, d: int, clock: str) -> tuple[float, int, int] | None:
    """Slope of log seconds by log n, least squares; and the sizes it goes over."""
    points = sorted(
        (n, _seconds(path, r, clock)) for (p, k, n), r in found.items() if (p, k) == (path, d)
    )
    if len(points) < 3:
        return None
    n, seconds = np.log(np.array(points)).T
    return float(np.polyfit(n, seconds, 1)[0]), points[0][0], points[-1][0]


def _finding(found: dict[Any, Any], fits: dict[str, Any]) -> str:
    slopes = []
    for path, words in PATHS.items():
        each = [(d, exponent(found, path, d, _clock(found))) for d in (2, 3)]
        told = " and ".join(f"{e[0]:.2f} (d = {d})" for d, e in each if e is not None)
        if told:
            slopes.append(f"{words} {told}")
    text = (
        "Late in learning the time of one value and gradient grows with the number of rows n as "
        f"n to the power: {'; '.join(slopes) or 'not run yet'}."
    )
    if "defaults" in fits:
        fit = fits["defaults"]
        under = "under" if fit["memory"] < 2e9 else "above"
        text += (
            f" `NCA(2)` on 1,000,000 × 50 takes {_spent(fit)} and "
            f"{fit['memory'] / 1e9:.2f} GB beyond the input, {under} the 2 GB that were asked for."
        )
    return text


def _spent(fit: dict[str, Any]) -> str:
    if fit["load"] <= 1.5 * (os.cpu_count() or 1):
        return f"{fit['seconds']:.0f} s"
    return f"{fit['cpu']:.0f} CPU s" if "cpu" in fit else f"{fit['seconds']:.0f} s (busy)"


def draw(done: list[Done], folder: Path) -> None:
    """The picture."""
    plt, found = pyplot(), _evaluations(done)
    clock = _clock(found)
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained", sharey=True)
    for ax, d in zip(axes, (2, 3), strict=True):
        for path, words in PATHS.items():
            points = sorted(
                (n, _seconds(path, r, clock))
                for (p, k, n), r in found.items()
                if (p, k) == (path, d)
            )
            if points:
                ax.plot(*np.transpose(points), "o-", ms=4, color=COLOURS[path], label=words)
        sizes = np.array(sorted({n for _, k, n in found if k == d}), dtype=float)
        if len(sizes):
            first = [(p, r) for (p, k, n), r in found.items() if (k, n) == (d, sizes[0])]
            least = min(_seconds(p, r, clock) for p, r in first)
            ax.plot(sizes, 0.4 * least * sizes / sizes[0], ":", color="0.5", label="proportional")
        ax.set(xscale="log", yscale="log", xlabel="rows", title=f"d = {d}")
        plain_frame(ax)
    unit = "seconds" if clock == "seconds" else "CPU seconds"
    axes[0].set_ylabel(f"{unit}, one value and gradient")
    picture(figure, folder, "nca-growth")


def _exponents(found: dict[Any, Any]) -> str:
    rows = []
    for path, d in product(PATHS, (2, 3)):
        fitted = exponent(found, path, d, _clock(found))
        if fitted is not None:
            rows.append([PATHS[path], d, f"{fitted[0]:.2f}", f"{fitted[1]:,} – {fitted[2]:,}"])
    return table(["path", "d", "exponent", "rows"], rows)


def _times(found: dict[Any, Any]) -> dict[str, Any]:
    sizes, clock = sorted({n for _, _, n in found}), _clock(found)
    unit = "seconds" if clock == "seconds" else "CPU seconds"
    rows = []
    for path, d in product(PATHS, (2, 3)):
        results = [found.get((path, d, n)) for n in sizes]
        if any(results):
            cells = [r and f"{_seconds(path, r, clock):.3g}" for r in results]
            rows.append([PATHS[path], d, unit, *cells])
            if path == "nearest":
                key = "search" if clock == "seconds" else "search cpu"
                rows.append(["", "", "of the search", *(r and f"{r[key]:.3g}" for r in results)])
            rows.append(["", "", "pairs, %", *(r and _share(r["share"]) for r in results)])
            memory = [r and f"{r['memory'] / 1e6:.0f}" for r in results]
            rows.append(["", "", "memory, MB", *memory])
    return {"times": table(["path", "d", "", *(f"{n:,}" for n in sizes)], rows), "refresh": REFRESH}


def _share(share: float) -> str:
    return "" if share != share else f"{100 * share:.3g}"


def _fits(fits: dict[str, Any]) -> dict[str, Any]:
    if not fits:
        return {}
    rows = [
        [
            name,
            _spent(fit),
            f"{fit['memory'] / 1e9:.2f}",
            fit["iterations"],
            fit["plan"].split("; about")[0].replace("|", "\\|"),
        ]
        for name in FITS
        if (fit := fits.get(name)) is not None
    ]
    return {"fits": table(["fit", "time", "GB beyond the input", "iterations", "plan"], rows)}


def _protocol(loads: list[float]) -> dict[str, Any]:
    return {
        "cpu_count": os.cpu_count(),
        "min_loads": f"{min(loads):.1f}",
        "max_loads": f"{max(loads):.1f}",
    }


EXPERIMENTS = (
    Experiment(
        "nca-growth",
        "Time and memory as the rows grow in number",
        jobs,
        work,
        parts,
        draw,
        threads=None,
    ),
)
