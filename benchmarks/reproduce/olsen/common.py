"""What the experiments of Olsen & Petersen share: folds, ways to prepare rows, and choices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from reproduce.framework.experiment import Claim, Done
from reproduce.framework.pages import bullets
from reproduce.framework.protocol import knn
from reproduce.framework.statistics import Summary
from vicinal import Chi2LMNN
from vicinal.metrics import Chi2Index, chi2_distances

_FOLDS = 5


class Scores:
    """Test accuracies by column (a rank, a scaling), method and split."""

    def __init__(self, done: list[Done], column: str) -> None:
        self.found: dict[Any, dict[str, dict[int, float]]] = {}
        for each in done:
            methods = self.found.setdefault(each.job[column], {})
            for method, score in each.result["scores"].items():
                methods.setdefault(method, {})[each.job["split"]] = score

    def of(self, column: Any, method: str) -> dict[int, float]:
        """Accuracy of each split; empty where there is none."""
        return self.found.get(column, {}).get(method, {})

    def mean(self, column: Any, method: str) -> FoldMean | None:
        """Mean and error of the mean, in per cent."""
        scores = list(self.of(column, method).values())
        return FoldMean(scores) if scores else None

    def splits(self, column: Any, method: str) -> int:
        """On how many folds the method was run."""
        return len(self.of(column, method))

    def gain(self, column: Any, method: str, over: Any, other: str) -> Gain | None:
        """Of a method over another one, maybe of another column, on the folds of both."""
        one, two = self.of(column, method), self.of(over, other)
        common = sorted(set(one) & set(two))
        return Gain([one[split] - two[split] for split in common]) if common else None


class FoldMean(Summary):
    """Mean over folds and its plain standard error, in per cent."""

    def __init__(self, scores: Any, tested: float = 0.0) -> None:
        super().__init__(scores, tested)
        self.splits = len(scores)


class Gain(FoldMean):
    """Paired differences in points, with the corrected error."""

    def __init__(self, scores: Any) -> None:
        super().__init__(scores, tested=1 / _FOLDS)

    def __str__(self) -> str:
        text = f"{self:+.1f}" if self.error > 5e-3 else f"{self.mean:+.1f}"
        return text.replace("-0.0", "+0.0", 1) if text.startswith("-0.0") else text


#: 5 folds, 4 times over
SPLITS = 20


#: target neighbours of a row, in all fits: the report does not say how many it has
K = 3


#: margins to choose from, in typical distances of a row to its nearest of the same class
SHARES = (0.05, 0.1, 0.2, 0.4)


#: preparations of rows for Euclidean distances, in words
PREPARED = {
    "unit": "rows of unit L2 norm",
    "sum": "rows / sum",
    "z": "z-scored columns",
    "root": "square roots of rows / sum",
}


def folds(y: Any, split: int) -> tuple[Any, Any]:
    """Positions of the training and test rows: a fold of five, class by class."""
    repeat, fold = divmod(split, _FOLDS)
    parts = StratifiedKFold(_FOLDS, shuffle=True, random_state=repeat)
    return list(parts.split(np.zeros(len(y)), y))[fold]


def histograms(X: Any) -> Any:
    """Rows divided by their sums."""
    X = np.asarray(X, dtype=float)
    return X / X.sum(axis=1, keepdims=True)


def prepared(X: Any, how: str, train: Any) -> Any:
    """Rows for Euclidean distances; what columns are scaled by is of the training rows."""
    X = np.asarray(X, dtype=float)
    if how == "unit":
        return X / np.linalg.norm(X, axis=1, keepdims=True)
    if how == "sum":
        return histograms(X)
    if how == "root":
        return np.sqrt(histograms(X))
    if how == "z":
        spread = X[train].std(axis=0)
        return (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    raise ValueError(f"rows cannot be prepared by {how!r}")


def reduced(X: Any, train: Any, r: int) -> Any:
    """PCA of the training rows to r dimensions; rows as they are where r is no reduction."""
    if r >= X.shape[1]:
        return X
    return PCA(r, svd_solver="full").fit(X[train]).transform(X)


def reduced_1nn(X: Any, y: Any, train: Any, test: Any, r: int) -> float:
    """Test accuracy of Euclidean 1-NN after PCA to r dimensions."""
    Z = reduced(X, train, r)
    return knn(Z[train], y[train], Z[test], y[test])


def chi2_1nn(Z: Any, y: Any, train: Any, test: Any) -> float:
    """Test accuracy of the nearest by χ²."""
    near = Chi2Index(Z[train]).kneighbors(Z[test], 1, return_distance=False)[:, 0]
    return float(np.mean(y[train][near] == y[test]))


def typical_distance(H: Any, y: Any) -> float:
    """Median χ² distance of a row to the nearest other one of its class."""
    distances = chi2_distances(H)
    np.fill_diagonal(distances, np.inf)
    distances[y[:, None] != y[None, :]] = np.inf
    nearest = distances.min(axis=1)
    return float(np.median(nearest[np.isfinite(nearest)]))


def choose(model: Any, grid: dict[str, Any], X: Any, y: Any, seed: int) -> Any:
    """The model fitted with the best of a grid by 3 folds of these rows; ties go to the first."""
    inner = StratifiedKFold(3, shuffle=True, random_state=seed)
    return GridSearchCV(model, grid, cv=inner, error_score="raise").fit(X, y)


def chosen_chi2(
    H: Any, y: Any, train: Any, test: Any, r: int, seed: int, mus: tuple[float, ...], **cheap: Any
) -> tuple[float, dict[str, Any]]:
    """Test accuracy of χ²-LMNN, 1-NN, its margin and μ chosen on the training rows; the choice.

    ``cheap`` are settings of the fits that the choice compares; the fit of the choice has none.
    """
    typical = typical_distance(H[train], y[train])
    grid = {"mu": list(mus), "margin": [share * typical for share in SHARES]}
    model = Chi2LMNN(r, k=K, n_neighbors=1, random_state=seed)
    search = choose(clone(model).set_params(**cheap), grid, H[train], y[train], seed)
    best = search.best_estimator_
    if cheap:
        best = clone(model).set_params(**search.best_params_).fit(H[train], y[train])
    choice = {
        "share": search.best_params_["margin"] / typical,
        "mu": search.best_params_["mu"],
        "typical": typical,
        "iterations": int(best.n_iter_),
    }
    return float(best.score(H[test], y[test])), choice


def shown(each: Summary | None) -> str | None:
    """With one decimal, as the report has it."""
    if each is None:
        return None
    return f"{each:.1f}" if each.error > 5e-3 else f"{each.mean:.1f}"


def judged(found: Summary, target: float) -> str:
    """Whether a figure of the report is reached, and how clearly.

    A gain over another method is judged by two corrected errors, a mean by three plain ones.
    """
    gap = found.mean - target
    if not found.error:
        return "reached" if gap >= 0 else "not reached"
    limit, words = (2, "two") if isinstance(found, Gain) else (3, "three")
    clear = abs(gap) > limit * found.error
    if gap >= 0:
        return "reached, clearly" if clear else f"reached, within {words} errors"
    return "**not reached**" if clear else f"not reached, within {words} errors"


def gain_words(gain: Gain | None, target: float, over: str = "") -> str | None:
    """A gain, what it is over, the report's and the verdict."""
    if gain is None:
        return None
    return f"{gain}{over} (report {target:+.1f}: {judged(gain, target)})"


def standing(gain: Gain) -> str:
    """Whether a difference is one, by two of its corrected errors."""
    if gain.splits < 2:
        return "one fold"
    if abs(gain.mean) <= 2 * gain.error:
        return "unclear"
    return "ahead" if gain.mean > 0 else "behind"


def doubt(gain: Gain) -> str:
    """Words after a gain that is not clear by two corrected errors."""
    return {"unclear": " (not clear)", "one fold": " (one fold)"}.get(standing(gain), "")


def with_doubts(gains: list[Gain]) -> str:
    """Several gains for the index; the doubt stands once where all share it."""
    doubts = [doubt(gain) for gain in gains]
    if len(set(doubts)) == 1:
        return f"{' and '.join(map(str, gains))}{doubts[0]}"
    return " and ".join(f"{gain}{words}" for gain, words in zip(gains, doubts, strict=True))


def outcome(gains: list[Gain]) -> str:
    """Whether a method is ahead by two errors: in all cases, in some or in none."""
    standings = [standing(gain) for gain in gains]
    if all(each == "ahead" for each in standings):
        return "seen"
    return "partly" if {"ahead", "one fold"} & set(standings) else "not seen"


def verdicts(claims: Iterable[Claim]) -> str:
    """The claims of the report with our verdicts, as the index has them."""
    return bullets(*(f"**{claim.outcome}**: {claim.says}." for claim in claims))


def choices(done: list[Done], key: str) -> str:
    """How often each value was chosen, in words."""
    values = [each.result["choice"][key] for each in done if "choice" in each.result]
    rounded, counts = np.unique([f"{value:.3g}" for value in values], return_counts=True)
    pairs = sorted(zip(map(float, rounded), counts, strict=True))
    return ", ".join(f"{value:g} ({count}×)" for value, count in pairs)
