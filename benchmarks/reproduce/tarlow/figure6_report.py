"""What the page of figure 6 says: the paper's claims with their numbers, and all measures."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reproduce.framework.experiment import Claim, Done
from reproduce.framework.pages import bullets, table
from reproduce.framework.pictures import picture, plain_frame, pyplot, square_frame
from reproduce.framework.statistics import Summary, lead
from reproduce.tarlow.common import SURE, findings

SETTINGS = {
    "authors": "the authors' settings",
    "exact": "their descent, perplexity 2",
    "present": "present-day settings",
}


KS = (1, 2, 5, 10)


#: the settings in the index
SHORT = {"authors": "theirs", "exact": "exact", "present": "today's"}


#: voters of the leave-one-out accuracy; section 7 of the paper has 1 to 15
VOTERS = (*range(1, 16), 20, 30, 50)


#: the most voters of the paper, with which 5t-SNE must be ahead to have overtaken, and more
PAPERS, MORE = 15, 30


SHOWN_VOTERS = (1, 3, 5, 10, 15, 30, 50)


#: iterations of the pictures; the authors' program ends at the second
EARLY, LATE = 25, 250


#: nearest rows over which the share of the own class is taken, about half of a class
REGION = 50


#: rank correlation of distances below which a picture counts as rearranged
KEPT = 0.9


#: the index: claims of the paper, and at the end a question of our own
SAYS = (
    "t-SNE is ahead of 5t-SNE with one voter, points",
    f"5t-SNE overtakes t-SNE: its lead with 1 and with {PAPERS} voters, points",
    f"5t-SNE rearranges after iteration {EARLY}: rank correlation of distances then and at the end",
    f"5t-SNE has more homogeneous regions: own class among {REGION} nearest, points",
    f"does 5t-SNE rearrange more after iteration {EARLY}? its rank correlation against t-SNE's",
)


class Judged(NamedTuple):
    """A claim or question under one setting: the verdict, the figure of the index, a sentence.

    ``error`` is that of the figure, where it is not in it.
    """

    verdict: str
    figure: str
    text: str
    error: float | None = None


def claims(done: list[Done]) -> Iterator[Claim]:
    """Each claim over all settings: seen if under all of them, partly if under some."""
    found = {s: _claims(done, s) for s in SETTINGS}
    for at, says in enumerate(SAYS):
        some = {s: said[at] for s, said in found.items() if said}
        if some:
            seen = [each.verdict == "seen" for each in some.values()]
            outcome = "seen" if all(seen) else "partly" if any(seen) else "not seen"
            figure = "; ".join(f"{SHORT[s]} {each.figure}" for s, each in some.items())
            errors = [each.error for each in some.values() if each.error is not None]
            if errors:
                figure += f"; SE ≤ {max(errors):.1f}"
            question = "?" in says
            yield Claim(f"usps pictures: {says}", "answer" if question else outcome, figure)


def _short(gap: Any) -> str:
    """A difference of shares in points."""
    each = Summary(gap)
    return f"{each:+.1f}" if len(gap) > 1 else f"{each.mean:+.1f}"


def _plain(values: Any, sign: str = "") -> str:
    """The mean of correlations, or of their differences, and its error."""
    each = Summary(values)
    return f"{each.mean / 100.0:{sign}.2f} ± {each.error / 100.0:.2f}"


def parts(done: list[Done]) -> dict[str, Any]:
    """The claims with their numbers, a table for each setting, and numbers of the protocol."""
    found = {s: _claims(done, s) for s in SETTINGS if _of(done, s, 1, "auc") is not None}
    return {
        "finding": findings(claims(done)),
        "claims": "\n\n".join(
            f"**With {SETTINGS[s]}:**\n\n{bullets(*(each.text for each in said))}"
            for s, said in found.items()
        ),
        "tables": "\n\n".join(_table(done, s) for s in found),
        "papers": PAPERS,
        "more": MORE,
        "kept": KEPT,
        **_protocol(done),
    }


def _of(done: list[Done], setting: str, k: int, what: str) -> Any:
    """A measure over the seeds that k = 1 has too; None where there is none."""
    by_seed = {
        k_: {e.job["seed"]: e.result[what] for e in done
             if e.job["setting"] == setting and e.job["k"] == k_}
        for k_ in {1, k}
    }  # fmt: skip
    common = sorted(set.intersection(*map(set, by_seed.values())))
    return np.array([by_seed[k][seed] for seed in common]) if common else None


def _difference(done: list[Done], setting: str, what: str, at: int | None = None) -> Any:
    """5t-SNE less t-SNE, seed by seed, and the two means."""
    one, five = (_of(done, setting, k, what) for k in (1, 5))
    if one is None or five is None:
        return None
    if at is not None:
        one, five = one[:, VOTERS.index(at)], five[:, VOTERS.index(at)]
    return five - one, float(one.mean()), float(five.mean())


def _claims(done: list[Done], setting: str) -> list[Judged]:
    """The paper's claims and our question, in the order of SAYS."""
    if _difference(done, setting, "auc") is None:
        return []
    return [
        _one_voter(done, setting),
        _more_voters(done, setting),
        _rearranging(done, setting),
        _regions(done, setting),
        _more_rearranging(done, setting),
    ]


def _verdict(*signs: float) -> str:
    """By the standard errors of the differences, positive on the paper's side."""
    if all(sign > SURE for sign in signs):
        return "seen"
    return "refuted" if any(sign < -SURE for sign in signs) else "not seen"


def _se(gap: Any) -> float:
    return lead(gap, np.zeros_like(gap), tested=0.0)[1]  # seeds, of the same rows


def _one_voter(done: list[Done], setting: str) -> Judged:
    gap, tsne, five = _difference(done, setting, "accuracy", 1)
    verdict = _verdict(-_se(gap))
    text = (
        f'"t-SNE performs better on 1-nearest neighbor accuracy": **{verdict}**. With one voter '
        f"5t-SNE has {100 * five:.1f} % and t-SNE {100 * tsne:.1f} %, a difference of "
        f"{Summary(gap):+.2f} points."
    )
    return Judged(verdict, _short(-gap), text)


def _more_voters(done: list[Done], setting: str) -> Judged:
    """To overtake is not to be clearly ahead with one voter, and to be so with more."""
    gaps = {v: _difference(done, setting, "accuracy", v) for v in VOTERS}
    sure = {v: _se(gap) for v, (gap, *_) in gaps.items()}
    verdict, with_more = (_overtakes(sure[1], sure[v]) for v in (PAPERS, MORE))
    shown = [
        f"{Summary(gap):+.2f} points with {v} voters ({100 * five:.1f} % against {100 * one:.1f} %)"
        for v, (gap, one, five) in ((v, gaps[v]) for v in (PAPERS, MORE))
    ]
    text = (
        f'"when k is increased, 5t-SNE overtakes t-SNE": **{verdict}**. The lead of 5t-SNE is '
        f"{Summary(gaps[1][0]):+.2f} points with one voter, {shown[0]} and {shown[1]}. It is "
        f"clearly ahead with {_counts([v for v in VOTERS if sure[v] > SURE])}, and clearly behind "
        f"with {_counts([v for v in VOTERS if sure[v] < -SURE])}."
    )
    if sure[1] > SURE:
        text += " Since it is ahead with one voter already, it overtakes nothing."
    if with_more != verdict:
        text += f" With {MORE} voters in place of {PAPERS} the claim would be {with_more}."
    both = [Summary(gaps[v][0]) for v in (1, PAPERS)]
    figure = ", ".join(f"{round(each.mean, 1) + 0.0:+.1f}" for each in both)
    return Judged(verdict, figure, text, max(each.error for each in both))


def _overtakes(one: float, more: float) -> str:
    """By the standard errors of the lead with one voter and with more."""
    if more > SURE:
        return "not seen" if one > SURE else "seen"
    return "refuted" if more < -SURE else "not seen"


def _counts(voters: list[int]) -> str:
    """Numbers of voters in words: all, none, or a list."""
    if len(voters) == len(VOTERS):
        return "any number of voters"
    return f"{', '.join(map(str, voters))} voters" if voters else "no number of voters"


def _rearranging(done: list[Done], setting: str) -> Judged:
    rows, classes = (_of(done, setting, 5, f"{what} kept") for what in ("rows", "classes"))
    verdict = _verdict(_se(KEPT - rows), _se(KEPT - classes))
    text = (
        f'"Note the global rearrangement that occurs even after iteration {EARLY} when k = 5": '
        f"**{verdict}**. For 5t-SNE the rank correlation of the distances at iteration {EARLY} "
        f"with those at the end is {_plain(rows)} between rows and {_plain(classes)} between the "
        "middles of the classes."
    )
    return Judged(verdict, _plain(rows), text)


def _more_rearranging(done: list[Done], setting: str) -> Judged:
    """A question of our own: the paper says nothing of t-SNE here."""
    rows, classes = (_difference(done, setting, f"{what} kept") for what in ("rows", "classes"))
    shape = _difference(done, setting, "procrustes")
    signs = [_se(rows[0]), _se(classes[0])]
    more, less = any(sign < -SURE for sign in signs), any(sign > SURE for sign in signs)
    answer = "no clear difference" if more == less else "yes" if more else "no, less"
    text = (
        f"Our question: does 5t-SNE rearrange more than t-SNE? **{answer[0].upper()}{answer[1:]}**."
        f" For t-SNE these correlations are {rows[1]:.2f} and {classes[1]:.2f}; those of 5t-SNE "
        f"are higher by {_plain(rows[0], '+')} and {_plain(classes[0], '+')}. The Procrustes "
        f"distance of the two pictures is {shape[1]:.2f} for t-SNE and {shape[2]:.2f} for 5t-SNE."
    )
    return Judged(answer, _plain(rows[0], "+"), text)


def _regions(done: list[Done], setting: str) -> Judged:
    share, parts = (_difference(done, setting, what) for what in ("same class", "pieces"))
    verdict = _verdict(_se(share[0]), -_se(parts[0]))
    text = (
        f'"more homogeneous and interpretable regions" (abstract): **{verdict}**. Of the {REGION} '
        f"nearest rows {100 * share[1]:.1f} % are of the own class with t-SNE and "
        f"{100 * share[2]:.1f} % with 5t-SNE (a difference of {Summary(share[0]):+.2f} points). "
        f"The classes fall into {parts[1]:.0f} and {parts[2]:.0f} regions."
    )
    return Judged(verdict, _short(share[0]), text)


def _table(done: list[Done], setting: str) -> str:
    header = ["k", *(f"{v}-NN" for v in SHOWN_VOTERS), f"own class of {REGION}", "regions",
              "R_NX AUC", "rows kept", "classes kept"]  # fmt: skip
    rows = []
    for k in KS:
        accuracy = _of(done, setting, k, "accuracy")
        if accuracy is None:
            continue
        cells = [f"{Summary(accuracy[:, VOTERS.index(v)]):.1f}" for v in SHOWN_VOTERS]
        rest = {w: _of(done, setting, k, w) for w in
                ("same class", "pieces", "auc", "rows kept", "classes kept")}  # fmt: skip
        cells += [f"{Summary(rest['same class']):.1f}", f"{rest['pieces'].mean():.0f}"]
        cells += [f"{rest[w].mean():.3f}" for w in ("auc", "rows kept", "classes kept")]
        rows.append([k, *cells])
    n = len(_of(done, setting, 1, "auc"))
    words = SETTINGS[setting]
    return f"**{words[0].upper()}{words[1:]}, {n} seeds**\n\n{table(header, rows)}"


def _protocol(done: list[Done]) -> dict[str, Any]:
    return {
        "rows": f"{max(e.result.get('rows', 0) for e in done):,}",
        "effect": _range(done, "perplexity"),
        "effect_of_others": _range(done, "of others"),
        "seeds": len({e.job["seed"] for e in done}),
        "last": max(e.result["iterations"] for e in done),
        "early": EARLY,
        "late": LATE,
    }


def _range(done: list[Done], what: str) -> str:
    """The least, the largest and the median of quantiles over the rows."""
    found = [e.result[what] for e in done if what in e.result]
    if not found:
        return ""
    least, middle, most = np.array(found).T
    return f"{least.min():.1f} to {most.max():.1f}, {np.median(middle):.1f} in the median"


def draw(done: list[Done], folder: Path) -> None:
    """For each setting the pictures of the first seed, and accuracies by the number of voters."""
    plt = pyplot()
    shown = [s for s in SETTINGS if _of(done, s, 1, "auc") is not None]
    figure = plt.figure(figsize=(16.0, 3.2 * len(shown)), layout="constrained")
    for part, setting in zip(np.ravel(figure.subfigures(len(shown), 1)), shown, strict=True):
        first = {e.job["k"]: e.result for e in done
                 if e.job["setting"] == setting and e.job["seed"] == 0}  # fmt: skip
        times = sorted({int(at) for result in first.values() for at in result["Z"]})
        wide = len(times) * 2
        grid = part.add_gridspec(1, wide + 1, width_ratios=[1] * wide + [1.3])
        for column, (k, when) in enumerate(product((1, 5), times)):
            ax = part.add_subplot(grid[0, column])
            _panel(ax, first.get(k), when)
            ax.set_title(f"k = {k}, iteration {when}", fontsize=10)
            if column == 0:
                ax.set_ylabel(SETTINGS[setting])
        _curves(part.add_subplot(grid[0, wide]), done, setting)
    picture(figure, folder, "tarlow-figure-6")


def _curves(ax: Any, done: list[Done], setting: str) -> None:
    for k, colour in zip(KS, ("black", "#9ecae1", "#0072B2", "#08306b"), strict=True):
        accuracy = _of(done, setting, k, "accuracy")
        if accuracy is not None:
            ax.plot(VOTERS, 100 * accuracy.mean(axis=0), color=colour, label=f"k = {k}")
    ax.set(xlabel="voters", ylabel="leave-one-out accuracy, %", xscale="log")
    plain_frame(ax)


def _panel(ax: Any, result: dict[str, Any] | None, when: int) -> None:
    if result is None or "Z" not in result:
        ax.set_axis_off()
        return
    from vicinal.plotting import scatter

    Z = np.array(result["Z"][str(when)])
    scatter(Z, result["y"], ax, legend=False, size=9.0)
    square_frame(ax, Z)
