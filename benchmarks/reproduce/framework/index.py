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
    for each in experiments:
        if not (folder / f"{each.name}.md").exists():
            continue
        found = claims_of(each, folder)
        if each.paper != "own":
            outcomes.update(claim.outcome for claim in found)
        rows = lines.setdefault(each.paper, [])
        link = f"[{each.name}]({each.name}.md)"
        rows += [[claim.says, claim.outcome, claim.figure, link] for claim in found]
        if not found:
            rows.append([each.title, "", "see the page", link])
    blocks = ["# Results", _summary(outcomes)]
    for paper, rows in lines.items():
        first = "question" if paper == "own" else "claim"
        heads = [first, "" if paper == "own" else "seen?", "our figure ± error", "page"]
        if paper == "own":
            rows = [[says, figure, link] for says, _, figure, link in rows]
            heads = [first, *heads[2:]]
        blocks += [f"## {PAPERS.get(paper, 'Others')}", table(heads, rows)]
    (folder / "README.md").write_text("\n\n".join(blocks) + "\n", "utf-8")


def _summary(outcomes: Counter[str]) -> str:
    """What the evidence adds up to, in one paragraph."""
    total = sum(outcomes[each] for each in OUTCOMES[:3])
    counts = (
        f"Of {total} claims of the papers, {outcomes['seen']} are seen in our runs, "
        f"{outcomes['partly']} in part (on some data, or within the error only), and "
        f"{outcomes['not seen']} are not. "
        if total
        else ""
    )
    return (
        f"{counts}Figures are means ± standard errors; differences are paired over the same "
        "splits. Each page has the papers' tables beside ours, the protocol, and the commit of the "
        "library; `python benchmarks/reproduce NAME` computes it, its numbers are in "
        "`data/NAME.csv`, and `make check-results` computes a few jobs of each page again."
    )
