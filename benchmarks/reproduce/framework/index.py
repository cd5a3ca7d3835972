"""The index of the results: claims, whether we saw them, our figures, and links to the pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from reproduce.framework.catalogue import PAPERS
from reproduce.framework.experiment import Claim, Experiment
from reproduce.framework.numbers import read, table
from reproduce.framework.statistics import with_minus

__all__ = ["claims_of", "write_index"]

#: outcomes of a claim, as the index shows them; answers are for questions of our own
OUTCOMES = ("seen", "partly", "not seen", "answer")
#: what a claim about a table of published scores says of them
_SCORES = re.compile(r"(\d+) of (\d+) at most three errors below")
#: the folder of our own questions
OWN = "own"
#: how to read the tables, in short above them and in full below
SHORT = (
    "*Seen*: our figures are clearly on the paper's side in every case that we ran; *partly*: in "
    "some; *not seen*: in none. A published figure counts as seen if ours is not clearly below it "
    "([how we judge](#judging)). Figures are means ± standard errors; the papers' tables stand "
    "next to ours on the pages."
)
READING = (
    "A difference of two methods is paired over the same splits. The splits of one set share rows, "
    "so its error is corrected as Nadeau and Bengio (2003) do: for splits into 70 and 30 % it is "
    "about twice the plain one for ten splits, three times for 20, four times for 40. A difference "
    "is clear if it is more than two of these errors. If a claim says that two are alike, *partly* "
    "can also mean that the error is too large to tell. A single split decides nothing.",
    "A published score is that of the same method on the same rows: there both errors are plain, "
    "of means over the splits, and ours is clearly below if it is so by more than three errors of "
    "the difference. Means of single methods have plain errors everywhere, errors over several "
    "sets or over seeds need no correction, and a figure or its page says where it has one.",
    "Each page has its protocol and the commit of the library that it was computed with. "
    "`python benchmarks/reproduce NAME` computes it, its numbers are in `data/NAME.csv`, and "
    "`make check-results` computes a few jobs of each page again.",
)
#: letters that a cell of the index may have, so that it stays on a line
LONGEST = {"says": 110, "figure": 82}


def claims_of(experiment: Experiment, folder: Path) -> list[Claim]:
    """What the numbers in ``folder/data`` say of an experiment's claims; empty without rows."""
    done = read(folder / "data" / f"{experiment.name}.csv").done
    if not done or experiment.claims is None:
        return []
    found = [Claim(*map(with_minus, claim)) for claim in experiment.claims(done)]
    for claim in found:
        if claim.outcome not in OUTCOMES:
            raise ValueError(f"{experiment.name}: {claim.outcome!r} is not one of {OUTCOMES}")
        for part, longest in LONGEST.items():
            if len(getattr(claim, part)) > longest:
                raise ValueError(f"{experiment.name}: more than {longest} letters in {claim}")
    return found


def write_index(experiments: Iterable[Experiment], folder: Path) -> None:
    """A table of claims for each paper, then our own questions; on top what they add up to."""
    lines: dict[str, list[list[str]]] = {}
    outcomes: Counter[str] = Counter()
    scores: list[tuple[int, int]] = []
    for each in experiments:
        if not (folder / f"{each.name}.md").exists():
            continue
        link = f"[{each.name}]({each.name}.md)"
        found = claims_of(each, folder)
        scores += [
            (int(reached[1]), int(reached[2]))
            for claim in found
            if claim.outcome != "answer" and (reached := _SCORES.match(claim.figure))
        ]
        for claim in found or [Claim(each.title, "", "see the page")]:
            answer = claim.outcome == "answer"  # also on a page against those of a paper
            outcomes[claim.outcome] += 1
            row = [claim.says, "" if answer else claim.outcome, claim.figure, link]
            lines.setdefault(OWN if answer else each.paper, []).append(row)
    papers = sorted(lines, key=lambda paper: paper == OWN)
    blocks = ["# Results", _headline(outcomes, scores), _links(papers), SHORT]
    for paper in papers:
        rows = lines[paper]
        heads = ["claim", "seen?", "our figure ± error", "page"]
        if paper == OWN:
            heads = ["question", *heads[2:]]
            rows = [[says, figure, link] for says, _, figure, link in rows]
        blocks += [f'<a id="{paper}"></a>', f"## {_title(paper)}", table(heads, rows)]
    blocks += ['<a id="judging"></a>', "## How we judge", *READING]
    (folder / "README.md").write_text("\n\n".join(filter(None, blocks)) + "\n", "utf-8")


def _title(paper: str) -> str:
    return PAPERS.get(paper, "Others")


def _links(papers: list[str]) -> str:
    """A line that leads to the tables."""
    return " · ".join(f"[{_title(paper)}](#{paper})" for paper in papers)


def _headline(outcomes: Counter[str], scores: list[tuple[int, int]]) -> str:
    """What the evidence adds up to: published scores first, then all claims."""
    told = []
    if scores:
        reached, known = map(sum, zip(*scores, strict=True))
        told.append(
            f"**Of {known} published test scores, {reached} are reached:** our mean is at most "
            "three standard errors below."
        )
    if total := sum(outcomes[each] for each in OUTCOMES[:3]):
        told.append(
            f"Of all {total} claims of the papers, {outcomes['seen']} are seen in our runs, "
            f"{outcomes['partly']} in part (on some data or in some settings), and "
            f"{outcomes['not seen']} are not "
            "([where we disagree, and why](../evidence/disagreements.md))."
        )
    return " ".join(told)
