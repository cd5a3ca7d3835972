"""The index of the results: claims, whether we saw them, our figures, and links to the pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from reproduce.framework.catalogue import PAPERS
from reproduce.framework.experiment import Claim, Experiment
from reproduce.framework.numbers import read, table

__all__ = ["claims_of", "write_index"]

#: outcomes of a claim, as the index shows them; answers are for questions of our own
OUTCOMES = ("seen", "partly", "not seen", "answer")
#: page, claim and words of what the first paragraph tells
HEADLINES = (
    ("defaults", 0, "`NCA()` less scikit-learn's NCA"),
    ("maps", 1, "a periodic map less a random forest"),
    ("tarlow-figure-4", 1, "kNCA less NCA on usps in two dimensions with 15 voters"),
    ("olsen-petersen-table-2", 0, "χ²-LMNN on webcam with 10 and 20 bins and a chosen margin"),
)
#: the folder of our own questions
OWN = "own"
#: letters that a cell of the index may have, so that it stays on a line
LONGEST = {"says": 110, "figure": 70}


def claims_of(experiment: Experiment, folder: Path) -> list[Claim]:
    """What the numbers in ``folder/data`` say of an experiment's claims; empty without rows."""
    done = read(folder / "data" / f"{experiment.name}.csv").done
    if not done or experiment.claims is None:
        return []
    found = list(experiment.claims(done))
    for claim in found:
        if claim.outcome not in OUTCOMES:
            raise ValueError(f"{experiment.name}: {claim.outcome!r} is not one of {OUTCOMES}")
        for part, longest in LONGEST.items():
            if len(getattr(claim, part)) > longest:
                raise ValueError(f"{experiment.name}: more than {longest} letters in {claim}")
    return found


def write_index(experiments: Iterable[Experiment], folder: Path) -> None:
    """A table of claims for each paper, and on top what they add up to."""
    lines: dict[str, list[list[str]]] = {}
    outcomes: Counter[str] = Counter()
    told: dict[str, list[Claim]] = {}
    for each in experiments:
        if not (folder / f"{each.name}.md").exists():
            continue
        link = f"[{each.name}]({each.name}.md)"
        found = told[each.name] = claims_of(each, folder)
        for claim in found or [Claim(each.title, "", "see the page")]:
            answer = claim.outcome == "answer"  # also on a page beside those of a paper
            outcomes[claim.outcome] += 1
            row = [claim.says, "" if answer else claim.outcome, claim.figure, link]
            lines.setdefault(OWN if answer else each.paper, []).append(row)
    blocks = ["# Results", _summary(outcomes, told)]
    for paper, rows in lines.items():
        heads = ["claim", "seen?", "our figure ± error", "page"]
        if paper == OWN:
            heads = ["question", *heads[2:]]
            rows = [[says, figure, link] for says, _, figure, link in rows]
        blocks += [f"## {PAPERS.get(paper, 'Others')}", table(heads, rows)]
    (folder / "README.md").write_text("\n\n".join(blocks) + "\n", "utf-8")


def _summary(outcomes: Counter[str], told: dict[str, list[Claim]]) -> str:
    """What the evidence adds up to, in one paragraph; then how to read the tables."""
    total = sum(outcomes[each] for each in OUTCOMES[:3])
    counts = (
        f"Of {total} claims of the papers, {outcomes['seen']} are seen in our runs, "
        f"{outcomes['partly']} in part (on some data or in some settings), and "
        f"{outcomes['not seen']} are not. "
        if total
        else ""
    )
    figures = [
        f"{words}, {told[page][at].figure.replace(';', ',')}"
        for page, at, words in HEADLINES
        if len(told.get(page, ())) > at
    ]
    headlines = f"In test accuracy: {'; '.join(figures)}." if figures else ""
    return (
        f"{counts}{headlines}".strip() + "\n\n"
        "Figures are means ± standard errors, over splits unless they are over sets; differences "
        "are paired over the same splits. *Seen* means clearly on the paper's side wherever it was "
        "asked, *partly* in some of these cases (or, of a claim that two are alike, that the error "
        "is too large to tell), *not seen* in none; each page says how it judges. "
        "Splits of one set share rows, so that errors over ten splits are too small, by a factor "
        "of about two by the correction of Nadeau and Bengio; verdicts on χ²-LMNN use corrected "
        "errors, the others do not. "
        "Each page has the papers' tables beside ours, the protocol, and the commit of the "
        "library; `python benchmarks/reproduce NAME` computes it, its numbers are in "
        "`data/NAME.csv`, and `make check-results` computes a few jobs of each page again."
    )
