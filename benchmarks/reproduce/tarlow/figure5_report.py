"""What the page of figure 5 says: objectives of NCA by what was optimised, and differences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done
from reproduce.framework.pages import bullets, table
from reproduce.framework.pictures import picture, plain_frame, pyplot
from reproduce.framework.statistics import TESTED, Summary
from reproduce.tarlow.common import (
    FAMILIES,
    LEARNERS,
    PASS,
    colour,
    findings,
    gap_outcome,
    points,
    words,
)

#: what is optimised: objective, method and k
LOG_NCA, OWN = ("log", "NCA", 1), ("accuracy", "NCA", 1)


#: the k of which the claims speak: the largest
LARGEST = 10


#: variants of the start, as in the index
STARTS = {"": "good start", "large starts": "large", "authors' descent": "SGD"}


#: results by objective, method and k, then by fold
Found = dict[tuple[str, str, int], dict[int, Any]]


def by_variant(done: list[Done]) -> dict[str, Found]:
    """Results by pixels and start."""
    found: dict[str, Found] = {}
    for each in done:
        job = each.job
        key = job["objective"], job["method"], job["k"]
        of = found.setdefault(job["variant"], {})
        of.setdefault(key, {})[job["split"]] = each.result
    return found


def values(runs: dict[int, Any], what: str = "right") -> Any:
    """A measure over the folds."""
    return np.array([run[what] for run in runs.values()])


def gaps(found: Found, one: Any, other: Any, what: str = "right") -> Any:
    """Differences over the folds that both have; None where there is none."""
    first, second = found.get(one, {}), found.get(other, {})
    both = [first[fold][what] - second[fold][what] for fold in first if fold in second]
    return np.array(both) if both else None


def parts(done: list[Done]) -> dict[str, Any]:
    """What was found, tables for each variant, and numbers of the protocol."""
    found = by_variant(done)
    return {
        "finding": findings(claims(done)),
        "tables": "\n\n".join(
            f"## {_title(name)}\n\n{_table(of, 'descent' in name)}\n\n{_differences(of)}"
            for name, of in found.items()
        ),
        "largest": LARGEST,
        **_protocol(done),
    }


def _title(variant: str) -> str:
    """A variant in words."""
    size, _, more = variant.partition(", ")
    return f"{size} pixels" + (f", {more}" if more else "")


def claims(done: list[Done]) -> Iterator[Claim]:
    """The paper's claims, for each size of the images over all starts."""
    found = by_variant(done)
    learnt = {vote: ("log", vote, LARGEST) for vote in FAMILIES}
    pairs = {
        f'kNCA ("{vote}", k = {LARGEST}) reaches a better objective of NCA than NCA does': (
            key, LOG_NCA,
        )
        for vote, key in learnt.items()
    }  # fmt: skip
    says = f'"all" reaches a better objective of NCA than "majority", k = {LARGEST}'
    pairs[says] = learnt["all"], learnt["majority"]
    for says, pair in pairs.items():
        for size in ("8 x 8", "16 x 16"):
            some, cut = {}, set()
            for start, label in STARTS.items():
                of = found.get(f"{size}, {start}" if start else size, {})
                each = gaps(of, *pair)
                if each is not None:
                    some[label] = each
                    if any(_mostly_cut_off(of[key]) for key in pair):
                        cut.add(label)
            if some:
                marked = {
                    label: f"{points(each)}{'*' * (label in cut)}" for label, each in some.items()
                }
                figure = "; ".join(f"{label} {each}" for label, each in marked.items())
                figure += "; *cut off" if cut else ""
                yield Claim(f"{size} pixels: {says}", gap_outcome(*some.values()), figure)


def _mostly_cut_off(runs: Any) -> bool:
    """Whether most fits by L-BFGS ended at the limit of iterations."""
    from reproduce.tarlow.figure5 import MAX_ITER, STEPS

    iterations = values(runs, "iterations")
    by_descent = bool(np.all(iterations == STEPS))
    return not by_descent and float(np.mean(iterations >= MAX_ITER)) > 0.5


def _table(found: Found, by_passes: bool) -> str:
    """One line for each objective; the authors' descent is counted in passes over the rows."""
    rows = []
    order = sorted(found, key=lambda key: (key == OWN, list(LEARNERS).index(key[1]), key[2]))
    for key in order:
        runs = found[key]
        above = gaps(found, key, LOG_NCA)
        shown = [
            f"{100 * each.mean():.2f} ± {100 * each.std():.2f}"
            for each in (values(runs), values(runs, "right, best scale"))
        ]
        log = values(runs, "log")
        rows.append([
            words(*key[1:]) + (" by eq. (2)" if key == OWN else ""), *shown,
            f"{log.mean():.3f} ± {log.std():.3f}",
            None if key == LOG_NCA or above is None else f"{np.sum(above > 0)} of {len(above)}",
            f"{values(runs, 'to 99 %').mean():.0f}",
            f"{values(runs, 'iterations').mean() / (PASS if by_passes else 1):.0f}",
        ])  # fmt: skip
    header = [
        "optimised", "mean of p_i, per cent", "at the best scale", "mean of log p_i", "above NCA",
        "iterations to 99 %", "in all",
    ]  # fmt: skip
    return table(header, rows)


def _differences(found: Found) -> str:
    """Paired differences, a row for each k."""
    rows = []
    names = ("all − NCA", "majority − NCA", "all − majority", "all − NCA by eq. (2)")
    for k in sorted({key[2] for key in found if key[2] > 1}):
        one, other = (("log", vote, k) for vote in FAMILIES)
        cells = [
            _gap(gaps(found, *pair, what))
            for pair in ((one, LOG_NCA), (other, LOG_NCA), (one, other), (one, OWN))
            for what in ("right", "right, best scale")
        ]
        if any(cells):
            rows.append([k, *cells])
    header = ["k", *(f"{name}{also}" for name in names for also in ("", ", best scale"))]
    return table(header, rows)


def _gap(found: Any) -> str | None:
    return None if found is None else f"{Summary(found, TESTED):+.2f}"


def _protocol(done: list[Done]) -> dict[str, Any]:
    lines = []
    for name in by_variant(done):
        of = [each for each in done if each.job["variant"] == name]
        at_start = 100 * np.mean([each.result["start"] for each in of])
        lines.append(
            f"{_title(name)}: {len({each.job['split'] for each in of})} folds; mean of p_i at the "
            f"starts {at_start:.1f} %; {_lengths(name, [e.result['iterations'] for e in of])}."
        )
    return {
        "folds": bullets(*lines),
        "n_folds": len({each.job["split"] for each in done}),
        "n_rows": f"{done[0].result['rows']:,}",
    }


def _lengths(variant: str, iterations: list[int]) -> str:
    """How many fits were cut off, in words; the authors' descent has a fixed number of steps."""
    from reproduce.tarlow.figure5 import MAX_ITER, STEPS

    if "descent" in variant:
        return f"every fit has {STEPS} steps"
    cut = sum(n >= MAX_ITER for n in iterations)
    if cut:
        return f"{cut} of {len(iterations)} fits were cut off at {MAX_ITER} iterations"
    return f"no fit was cut off, and the longest had {max(iterations)} iterations"


def draw(done: list[Done], folder: Path) -> None:
    """A panel for each variant."""
    plt, found = pyplot(), by_variant(done)
    columns = min(3, len(found))
    height = -(-len(found) // columns)
    figure, axes = plt.subplots(
        height, columns, figsize=(4.6 * columns, 3.8 * height), layout="constrained", squeeze=False
    )
    for ax in axes.ravel()[len(found) :]:
        ax.set_axis_off()
    for ax, (name, of) in zip(axes.ravel(), found.items(), strict=False):
        for shift, vote in zip((-0.06, 0.06), FAMILIES, strict=True):
            keys = [key for key in of if key == LOG_NCA or key[1] == vote]
            shown = [100 * values(of[key]) for key in keys]
            if keys:
                ax.errorbar(
                    [key[2] + shift for key in keys], [each.mean() for each in shown],
                    [each.std() for each in shown], color=colour(vote), capsize=3, marker="o", ms=4,
                    label=f"kNCA, {vote}",
                )  # fmt: skip
        if OWN in of:
            own = 100 * values(of[OWN])
            ax.axhline(own.mean(), color="0.3", lw=1, ls="--", label="NCA by eq. (2) itself")
            ax.axhspan(own.mean() - own.std(), own.mean() + own.std(), color="0.3", alpha=0.1)
        ax.set(xlabel="k learnt for (1: NCA)")
        ax.set_title(_title(name), fontsize=10)
        plain_frame(ax)
    for row in axes:
        row[0].set_ylabel("mean of p_i, per cent")
    picture(figure, folder, "tarlow-figure-5")
