"""What the report on the small sets counts: accuracies of a set at a rank, and differences."""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduce.framework.experiment import Done
from reproduce.framework.statistics import Summary, lead
from reproduce.tarlow.common import WITHOUT_K

SETS = ("wine", "iris", "ionosphere", "balance", "glass", "ecoli")


TEST_K = range(1, 16)


#: objective and penalty: the paper's, its other objective, and ours; the tables are of the first
SETTINGS = (("log", 0.0), ("accuracy", 0.0), ("log", 0.003))


RANKS = {"2": "d = 2", "full": "full rank"}


SHOWN_K = (1, 3, 5, 9, 15)


#: at which test k methods are compared: one, that of training, or the best by leave-one-out
OWN, CHOSEN = "own", "chosen"


#: corrected errors over the splits beyond which a set is called ahead or behind
CLEAR = 2.0


class Cell:
    """A set at a rank under a setting: accuracies in per cent over the splits that are whole."""

    def __init__(self, done: list[Done]) -> None:
        by_split: dict[int, dict[tuple[str, int], Any]] = {}
        for each in done:
            key = each.job["method"], each.job["k"]
            by_split.setdefault(each.job["split"], {})[key] = each.result
        most = max(map(len, by_split.values()))
        whole = {s: found for s, found in sorted(by_split.items()) if len(found) == most}
        self.splits = list(whole)
        names = list(next(iter(whole.values())))
        names = [name for name in names if all(name in found for found in whole.values())]

        def gather(what: str) -> dict[tuple[str, int], Any]:
            return {
                name: 100.0 * np.array([found[name][what] for found in whole.values()])
                for name in names
            }

        self.test, self.train = gather("test"), gather("train")

    def ks(self, method: str) -> list[int]:
        """Training k of a method."""
        return sorted(k for name, k in self.test if name == method)

    def at(self, method: str, k: int, test_k: int | str) -> Any:
        """Accuracy of each split, at a test k or at the one that leave-one-out chooses."""
        scores = self.test[method, k]
        if test_k == CHOSEN:
            return scores[np.arange(len(scores)), _last_best(self.train[method, k])]
        return scores[:, int(test_k) - 1]

    def best(self, methods: tuple[str, ...]) -> Any:
        """Accuracy of each split with training k and test k both chosen by leave-one-out."""
        names = [name for name in self.test if name[0] in methods]
        train = np.concatenate([self.train[name] for name in names], axis=1)
        test = np.concatenate([self.test[name] for name in names], axis=1)
        return test[np.arange(len(test)), _last_best(train)]

    def growth(self, method: str, high: int, low: int = 1) -> Any:
        """What a larger test k is worth, on average over the training k."""
        gaps = [self.at(method, k, high) - self.at(method, k, low) for k in self.ks(method)]
        return np.mean(gaps, axis=0) if gaps else None

    def gap(self, one: str, other: str, test_k: int | str) -> Any:
        """One method less another at equal training k and test k, mean over those k.

        A method without a k is the same at each of them.
        """
        gaps = []
        for k in self.ks(one):
            partner = other, 1 if other in ("NCA", *WITHOUT_K) else k
            if partner in self.test:
                voters = k if test_k == OWN else test_k
                gaps.append(self.at(one, k, voters) - self.at(*partner, voters))
        return np.mean(gaps, axis=0) if gaps else None


def _last_best(scores: Any) -> Any:
    """Position of the best of each row; of equally good ones the last, of most neighbours."""
    return scores.shape[1] - 1 - scores[:, ::-1].argmax(axis=1)


class Verdict(Summary):
    """A difference over the sets, in points, and how many sets are clearly ahead or behind."""

    def __init__(self, gaps: list[Any]) -> None:
        super().__init__([float(np.mean(gap)) / 100.0 for gap in gaps])
        errors = [lead(gap, np.zeros(len(gap)))[1] for gap in gaps]
        self.ahead = sum(z > CLEAR for z in errors)
        self.behind = sum(z < -CLEAR for z in errors)

    def __str__(self) -> str:
        return f"{self:+.2f} ({self.ahead} up, {self.behind} down)"

    @property
    def judged(self) -> str:
        """Whether the difference is there, in words."""
        if abs(self.mean) <= 2.0 * self.error:
            return "no clear difference"
        return "seen" if self.mean > 0 else "the reverse is seen"


Cells = dict[tuple[tuple[str, float], str, str], Cell]


def verdict(gaps: list[Any]) -> Verdict | None:
    """Of the differences of each set, an array over its splits."""
    gaps = [gap for gap in gaps if gap is not None]
    return Verdict(gaps) if gaps else None


def of_rank(cells: Cells, setting: tuple[str, float], rank: str) -> dict[str, Cell]:
    """The sets at a setting and rank, by name."""
    return {name: cells[setting, rank, name] for name in SETS if (setting, rank, name) in cells}
