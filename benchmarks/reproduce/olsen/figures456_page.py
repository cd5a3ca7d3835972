"""The page of Olsen & Petersen's figures 4 to 6, from the rows of `figures456`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done, Experiment
from reproduce.framework.pages import bullets, table
from reproduce.framework.pictures import picture, plain_frame, pyplot
from reproduce.olsen.common import FoldMean, K, shown, verdicts
from reproduce.olsen.figures456 import (
    AUTO,
    FIGURES,
    ITERATIONS,
    MARGINS,
    OWN,
    RATES,
    SHOWN,
    STARTS,
    jobs,
    work,
)

#: the least entry with a colour
LEAST = 1e-4

#: a map "deviates only slightly from the identity" if a bin keeps this share of itself, our reading
CLOSE = 0.9

#: the report's impostors: more than 200,000 and "several hundreds", read as less than this share
FEW = 1000 / 200_000

#: iterations whose impostors the table shows
_SHOWN_AT = (0, 1, 2, 5, 10, ITERATIONS)

_COLOURS = {10.0: "#0072B2", 100.0: "#D55E00", OWN: "black"}
_LINES = dict(zip(MARGINS, ("-", "--", ":"), strict=True))


def _of(done: list[Done], **where: Any) -> list[dict[str, Any]]:
    return [each.result for each in done if where.items() <= each.job.items()]


def _cases(done: list[Done]) -> list[tuple[int, str, list[dict[str, Any]]]]:
    """Figures and starts of which something is done."""
    found = [
        (figure, start, _of(done, kind="map", figure=figure, start=start))
        for figure in FIGURES
        for start in STARTS
    ]
    return [case for case in found if case[2]]


def _ways(done: list[Done]) -> list[tuple[Any, Any, list[dict[str, Any]]]]:
    """Margins and rates of which something is done."""
    found = [
        (margin, rate, _of(done, kind="impostors", margin=margin, rate=rate))
        for margin in MARGINS
        for rate in RATES
    ]
    return [case for case in found if case[2]]


def _words(figure: int, start: str) -> str:
    name, rank = FIGURES[figure]
    return f"{name}, {start}" if rank is None else f"{name}, r = {rank}, {start}"


def _way(margin: Any, rate: Any) -> str:
    size = "default margin" if margin == AUTO else f"margin {margin:g} of a typical distance"
    return f"{size}, " + ("spectral steps" if rate == OWN else f"rate {rate:g}")


def parts(done: list[Done]) -> dict[str, Any]:
    """What was found, a table of the maps, the impostors, and numbers of the protocol."""
    splits = len({each.job["split"] for each in done})
    return {
        "finding": _finding(done),
        "table": _table(done),
        "impostors": _impostors(done),
        "of_maps": _of_maps(done),
        "verdicts": verdicts(claims(done)),
        "splits": splits,
        "close": f"{100 * CLOSE:g}",
        "few": f"{100 * FEW:g}",
        "k": K,
        "shown": SHOWN,
        "least": f"{LEAST:g}",
        "iterations": ITERATIONS,
        "triples": " to ".join(f"{count:,}" for count in _span(done)),
    }


def _span(done: list[Done]) -> list[int]:
    """The least and the largest number of triples of a fold of webcam; one if they are the same."""
    counts = {result["triples"] for result in _of(done, data="webcam")}
    return sorted({min(counts), max(counts)}) if counts else []


def _summary(results: list[dict[str, Any]], key: str) -> FoldMean:
    """Mean and error, in per cent."""
    return FoldMean([result[key] for result in results])


def _mean(results: list[dict[str, Any]], key: str) -> float:
    return float(np.mean([result[key] for result in results]))


def _at(result: dict[str, Any], iteration: int) -> float:
    """Impostors at an iteration, as a share of all triples; of the last one if there are fewer."""
    counts = result["impostors"]
    return float(counts[min(iteration, len(counts) - 1)] / result["triples"])


def _shares(results: list[dict[str, Any]], iteration: int) -> FoldMean:
    return FoldMean([_at(result, iteration) for result in results])


def _first_steps(done: list[Done]) -> list[tuple[Any, Any, FoldMean, FoldMean]]:
    """Ways to step, with the impostors before and after the first step, fewest first."""
    found = [(m, r, _shares(of, 0), _shares(of, 1)) for m, r, of in _ways(done)]
    return sorted(found, key=lambda way: way[3].mean)


def _outcome(room: float, found: FoldMean) -> str:
    """By how much a limit of ours is kept: by more than three errors, or broken by them."""
    if found.splits < 2 or abs(room) <= 3 * found.error:
        return "partly"
    return "seen" if room > 0 else "not seen"


def _close(kept: FoldMean) -> str:
    """Whether a map is close to the identity."""
    return _outcome(kept.mean - 100 * CLOSE, kept)


def _few(left: FoldMean) -> str:
    """Whether the impostors that are left are as few as the report's."""
    return _outcome(100 * FEW - left.mean, left)


def _finding(done: list[Done]) -> str:
    told = []
    wine = _of(done, kind="map", figure=4)
    if wine:
        kept = _summary(wine, "kept")
        words = {"seen": "close", "partly": "about as close as we ask", "not seen": "not close"}
        told.append(
            "The report's map of wine deviates only slightly from the identity; here a bin keeps "
            f"{kept:.1f} % of itself on average over bins, and the least of them "
            f"{_summary(wine, 'kept at least'):.1f} %: that is {words[_close(kept)]} to the "
            "identity."
        )
    steps = _first_steps(done)
    if steps:
        margin, rate, before, after = steps[0]
        words = {"seen": "reached", "partly": "within three errors", "not seen": "not reached"}
        told.append(
            "The report's first step on webcam leaves several hundreds of more than 200,000 "
            f"impostors, less than {100 * FEW:g} %. Here the best first step "
            f"({_way(margin, rate)}) takes them from {before:.1f} to {after:.1f} % of all triples: "
            f"{words[_few(after)]}."
        )
    for figure in (5, 6):
        of = _of(done, kind="map", figure=figure, start="groups")
        if of:
            told.append(
                f"On webcam at r = {FIGURES[figure][1]} a column has "
                f"{_summary(of, 'zeros'):.1f} % zeros and is spread over "
                f"{_mean(of, 'bins a column'):.1f} bins."
            )
    return bullets(*told) if told else "Not all is run yet."


def _table(done: list[Done]) -> str:
    header = ["figure", "data, bins and start", "zeros, %", "bins a column", "kept, %",
              "largest bin, %", "1-NN held out, %"]  # fmt: skip
    rows = [
        [figure, _words(figure, start), f"{_summary(of, 'zeros'):.1f}",
         f"{_mean(of, 'bins a column'):.2f}",
         f"{_summary(of, 'kept'):.1f}" if figure == 4 else None,
         f"{_summary(of, 'largest bin'):.1f}", shown(_summary(of, "held out"))]
        for figure, start, of in _cases(done)
    ]  # fmt: skip
    return table(header, rows)


def _impostors(done: list[Done]) -> str:
    rows = [
        [_way(margin, rate), *(f"{_shares(of, at).mean:.2f}" for at in _SHOWN_AT)]
        for margin, rate, of in _ways(done)
    ]
    return table(["step", *(f"at {at}" for at in _SHOWN_AT)], rows) if rows else ""


def _of_maps(done: list[Done]) -> str:
    rows = [
        [_words(figure, start), *(f"{_shares(of, at).mean:.2f}" for at in (0, 1, 10_000)),
         f"{np.mean([len(result['impostors']) - 1 for result in of]):.0f}"]
        for figure, start, of in _cases(done)
    ]  # fmt: skip
    return table(["map", "at the start", "after one step", "at the end", "iterations"], rows)


def draw(done: list[Done], folder: Path) -> None:
    """The maps of the first fold that is done, and the impostors by iteration."""
    from matplotlib.colors import LogNorm

    plt, found = pyplot(), {}
    for each in sorted(done, key=lambda each: each.job["split"]):
        if each.job["kind"] == "map":
            found.setdefault((each.job["figure"], each.job["start"]), each.result)
    _draw_impostors(done, folder)
    if not found:
        return
    figure, axes = plt.subplots(
        len(found), 1, figsize=(9.6, 2.4 * len(found)), layout="constrained", squeeze=False
    )
    for ax, (number, start) in zip(axes[:, 0], sorted(found), strict=True):
        L = np.array(found[number, start]["matrix"])
        shown = np.ma.masked_less(L, LEAST)
        norm = LogNorm(LEAST, 1.0)
        image = ax.imshow(shown, norm=norm, cmap="viridis", aspect="auto", interpolation="nearest")
        ax.set(ylabel="bin of the map", title=f"figure {number}: {_words(number, start)}")
    axes[-1, 0].set_xlabel("bin of the data")
    figure.colorbar(image, ax=axes[:, 0].tolist(), shrink=0.6)
    picture(figure, folder, "olsen-petersen-figures-4-6")


def _draw_impostors(done: list[Done], folder: Path) -> None:
    ways = _ways(done)
    if not ways:
        return
    plt = pyplot()
    figure, ax = plt.subplots(figsize=(9.6, 4.0), layout="constrained")
    for margin, rate, of in ways:
        means = [_shares(of, at).mean for at in range(ITERATIONS + 1)]
        ax.plot(means, color=_COLOURS[rate], ls=_LINES[margin], lw=1.4, label=_way(margin, rate))
    ax.axhline(100 * FEW, color="0.6", lw=1)
    ax.set(yscale="log", xlabel="iteration", ylabel="impostors, per cent of all triples")
    plain_frame(ax)
    ax.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    picture(figure, folder, "olsen-petersen-impostors")


def claims(done: list[Done]) -> Iterator[Claim]:
    """Of the map of wine, and of the first step on webcam."""
    wine = _of(done, kind="map", figure=4)
    if wine:
        kept = _summary(wine, "kept")
        says = "The map learnt on wine deviates only slightly from the identity"
        yield Claim(says, _close(kept), f"a bin keeps {kept:.1f} % of itself, {len(wine)} folds")
    steps = _first_steps(done)
    if steps:
        *_, after = steps[0]
        says = "The first step on webcam cuts impostors from more than 200,000 to several hundreds"
        yield Claim(says, _few(after), f"at best {after:.1f} % of all triples are left")


EXPERIMENTS = (
    Experiment(
        "olsen-petersen-figures-4-6",
        "Olsen & Petersen figures 4 to 6: the maps learnt on wine and webcam",
        jobs,
        work,
        parts,
        draw,
        drawn=("matrix",),
        claims=claims,
    ),
)
