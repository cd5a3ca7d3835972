"""What figure 3 says: the figures of each plane, and whether its coordinates are polar."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from reproduce.framework.experiment import Claim, Done
from reproduce.framework.pages import bullets, table
from reproduce.framework.pictures import picture, pyplot, square_frame

HEIGHTS = (25.0, 35.0)  # pixels
#: half the height and half the width of what is cut out of a picture of 64 x 64
CUTS = {"ellipse": (31.0, 25.0), "circle": (31.0, 31.0)}
LINEAR, WEAK, NETWORK = "linear, α = 1", "linear, α = 0.01", "network, α = 0.03"
#: what is measured, and what is drawn
PLANES = ("PCA", LINEAR, WEAK, NETWORK)
DRAWN = ("PCA", LINEAR, NETWORK)
PERSONS = ("training", "test")

#: figures of a plane: keys of the results, and headings
COLUMNS = {
    "angle": "angle, rotation",
    "radius": "radius, height",
    "turn": "turn",
    "straight angle": "straight, rotation",
    "straight height": "straight, height",
    "near angle": "near, rotation",
    "near height": "near, height",
}
#: rank correlations from which on coordinates count as polar: of the angle with the rotation, and
#: of the radius with the height; and degrees around the centre for a degree of rotation
POLAR, TURN = 0.9, 1.0


def parts(done: list[Done]) -> dict[str, Any]:
    """The figures of each plane, and what they say of the paper's claim."""
    if not done:
        return {}
    rows = []
    for cut, name, persons in product(CUTS, PLANES, PERSONS):
        runs = _runs(done, cut, name, persons)
        if runs:
            rows.append([cut, name, persons, *(_cell(runs, key) for key in COLUMNS)])
    return {
        "finding": _finding(done),
        "verdicts": _verdicts(done),
        "polar": f"{POLAR:g}",
        "table": table(["cut", "plane", "persons", *COLUMNS.values()], rows),
        "n_seeds": max(sum(each.job["cut"] == cut for each in done) for cut in CUTS),
    }


def _runs(done: list[Done], cut: str, name: str, persons: str = "test") -> list[Any]:
    return [e.result[name][persons] for e in done if e.job["cut"] == cut and name in e.result]


def _finding(done: list[Done]) -> str:
    """What the network does with either cut."""
    told = []
    for cut in CUTS:
        runs = _runs(done, cut, NETWORK)
        if runs:
            where = "in" if is_polar(runs) else "not in"
            told.append(
                f"{where} polar coordinates if faces are cut out by the {cut} (rank correlation of "
                f"angle and rotation {_cell(runs, 'angle')}, of radius and height "
                f"{_cell(runs, 'radius')})"
            )
    others = [
        f"{name} ({cut})"
        for cut, name in product(CUTS, (LINEAR, WEAK))
        if (runs := _runs(done, cut, name)) and is_polar(runs)
    ]
    too = f" Linear maps with polar coordinates: {', '.join(others) or 'none'}."
    return (
        "Learnt from pairs of faces of different persons with the same rotation and height, a "
        f"network puts the faces of test persons {', and '.join(told)}.{too}"
    )


def is_polar(runs: list[Any]) -> bool:
    """Whether angle and radius tell rotation and height, and straight coordinates do worse."""
    gap = np.array([run["radius"] - run["straight height"] for run in runs])
    error = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else 0.0
    return bool(
        _mean(runs, "turn") > TURN
        and min(_mean(runs, "angle"), _mean(runs, "radius")) > POLAR
        and gap.mean() > 2.0 * error
    )


def _verdicts(done: list[Done]) -> str:
    """A line for each plane: polar or not, and what near faces tell."""
    lines = []
    for cut, name in product(CUTS, PLANES):
        runs = _runs(done, cut, name)
        if runs:
            word = "polar" if is_polar(runs) else "not polar"
            lines.append(
                f"{cut}, {name}: {word}; the plane, whatever its shape, tells the rotation with a "
                f"rank correlation of {_cell(runs, 'near angle')} and the height with "
                f"{_cell(runs, 'near height')}."
            )
    return bullets(*lines)


def claims(done: list[Done]) -> Iterator[Claim]:
    """The paper's claim: seen if it holds for either way to cut out a face."""
    found = {cut: runs for cut in CUTS if (runs := _runs(done, cut, NETWORK))}
    if not found:
        return
    polar = [is_polar(runs) for runs in found.values()]
    several = all(len(runs) > 1 for runs in found.values())
    outcome = "seen" if all(polar) and several else "partly" if any(polar) else "not seen"
    told = [f"{cut} {_cell(r, 'angle')}, {_cell(r, 'radius')}" for cut, r in found.items()]
    yield Claim(
        "The network discovers polar coordinates (rank correlations of angle and of radius)",
        outcome,
        "; ".join(told),
    )


def _mean(runs: list[Any], key: str) -> float:
    return float(np.mean([run[key] for run in runs]))


def _cell(runs: list[Any], key: str) -> str:
    values = np.array([run[key] for run in runs])
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{values.mean():.2f} ± {error:.2f}"


def draw(done: list[Done], folder: Path) -> None:
    """The planes with segments for orientation above, and with circles for size below."""
    plt = pyplot()
    drawn = {each.job["cut"]: each.result for each in done if "shown" in each.result}
    figure, axes = plt.subplots(
        2 * len(drawn),
        len(DRAWN),
        figsize=(3.4 * len(DRAWN), 6.8 * len(drawn)),
        layout="constrained",
        squeeze=False,
    )
    for row, (cut, result) in enumerate(drawn.items()):
        angle, height = np.deg2rad(result["shown"]["angle"]), result["shown"]["height"]
        half = 0.035 * np.column_stack([np.sin(angle), np.cos(angle)])
        size = 0.6 * (np.array(height) - HEIGHTS[0] + 3.0) ** 2
        for column, name in enumerate(DRAWN):
            above, below = axes[2 * row : 2 * row + 2, column]
            Z = np.array(result[name]["Z"])
            above.plot(*np.stack([Z - half, Z + half]).transpose(2, 0, 1), color="k", lw=1.0)
            below.scatter(*Z.T, s=size, facecolors="none", edgecolors="k", lw=0.7)
            above.set_title(f"{name} ({cut})")
            for ax in (above, below):
                square_frame(ax, Z)
                ax.set(xticks=[], yticks=[])
    picture(figure, folder, "goldberger-figure-3")
