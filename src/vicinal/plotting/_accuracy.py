"""Accuracy of nearest neighbours against their number k, and against the rank of the map."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.decomposition import PCA
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing as take_rows

from vicinal._search import finder
from vicinal.core.types import Array
from vicinal.metrics.embedding import nearest_others, winners
from vicinal.plotting._colours import MARKS, line_colours
from vicinal.plotting._fitted import Fitted
from vicinal.plotting._matplotlib import Display, bad, plain_axes

_OWNER = "AccuracyDisplay"
_STYLES = ("-", "--", "-.", ":")
_EUCLIDEAN = "Euclidean, scaled columns"


class AccuracyDisplay(Display):
    """How well the nearest neighbours predict, for several k or several ranks of the map.

    Make it with :meth:`from_estimator`, against k, or with :meth:`from_ranks`, against the rank.

    Parameters
    ----------
    x : array-like of shape (m,)
        The numbers of neighbours, or the ranks.
    scores : mapping of str to array-like of shape (m,)
        Scores of each method; of shape (): one that does not depend on x.
    errors : mapping of str to array-like, default=None
        Their standard errors.
    x_name : str, default="k"
        Label of the horizontal axis.
    score_name : str, default="accuracy"
        Label of the vertical axis.
    title : str, default=""

    Attributes
    ----------
    x : ndarray
    scores, errors : dict of str to ndarray
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import NCA
    >>> from vicinal.plotting import AccuracyDisplay
    >>> X, y = load_wine(return_X_y=True)
    >>> nca = NCA(2, random_state=0).fit(X[::2], y[::2])
    >>> AccuracyDisplay.from_estimator(
    ...     nca, X[::2], y[::2], X_test=X[1::2], y_test=y[1::2]
    ... )  # doctest: +SKIP
    """

    def __init__(
        self,
        x: Any,
        scores: Mapping[str, Any],
        errors: Mapping[str, Any] | None = None,
        *,
        x_name: str = "k",
        score_name: str = "accuracy",
        title: str = "",
    ) -> None:
        self.x = np.asarray(x)
        self.scores = {name: np.asarray(each) for name, each in scores.items()}
        self.errors = {name: np.asarray(each) for name, each in (errors or {}).items()}
        for name, each in {**self.scores, **self.errors}.items():
            if each.shape not in ((), self.x.shape):
                raise ValueError(
                    f"The scores and errors of {name!r} must have shape {self.x.shape} or (). "
                    f"Got {each.shape} instead."
                )
        self.x_name, self.score_name, self.title = x_name, score_name, title

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        X_test: Any = None,
        y_test: Any = None,
        n_neighbors: Iterable[int] = range(1, 31),
        ax: Any = None,
    ) -> AccuracyDisplay:
        """Draw the accuracy of k nearest neighbours under the learnt and the Euclidean metric.

        Of classes with equally many votes the first one wins, as in scikit-learn; numbers are
        predicted by means, and the score is R².

        Parameters
        ----------
        estimator : estimator or Pipeline
            Fitted; a pipeline must end in an estimator with ``transform``.
        X, y : array-like of shape (n_samples, n_features) and (n_samples,)
            The rows that were learnt from, which vote.
        X_test, y_test : as X and y, default=None
            Rows that were held out, to be predicted.  None: each row of X is predicted by the
            others; since they were learnt from, this flatters the learnt metric, and the title
            says so.
        n_neighbors : iterable of int, default=range(1, 31)
            The values of k; those above the number of rows that vote are left out.
        ax : matplotlib Axes, default=None
            None makes a new figure.
        """
        fitted = Fitted(estimator, _OWNER)
        if (X_test is None) != (y_test is None):
            raise bad(_OWNER, "y_test", "given if and only if X_test is", y_test)
        y = np.asarray(y)
        numbers = bool(fitted.numbers)
        ks = _checked(n_neighbors, "n_neighbors", len(y) - (X_test is None))
        scores, errors = {}, {}
        for name, embed in ((fitted.name, fitted.embed), (_EUCLIDEAN, fitted.scaled(X))):
            others = None if X_test is None else embed(X_test)
            found = _neighbour_scores(embed(X), y, others, y_test, ks, numbers)
            scores[name] = found.mean(axis=0)
            errors[name] = found.std(axis=0) / np.sqrt(len(found))
        title = f"{len(y) if y_test is None else len(y_test):,} held-out rows"
        if X_test is None:
            title = f"{len(y):,} rows that were learnt from, each left out"
        kind = "R² of the mean of k" if numbers else "accuracy of k-NN"
        return cls(ks, scores, errors, score_name=kind, title=title).plot(ax)

    @classmethod
    def from_ranks(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        ranks: Iterable[int] = (1, 2, 3, 5, 8),
        cv: Any = 5,
        n_neighbors: int = 5,
        ax: Any = None,
    ) -> AccuracyDisplay:
        """Fit maps of several ranks in each fold, and draw their accuracy on the rows left out.

        Compared with PCA of the same ranks and all scaled columns, on the same folds.

        Parameters
        ----------
        estimator : estimator or Pipeline
            Cloned for each fit; a pipeline must end in an estimator with ``n_components``.
        X, y : array-like of shape (n_samples, n_features) and (n_samples,)
        ranks : iterable of int, default=(1, 2, 3, 5, 8)
            The values of ``n_components``; those above the number of columns are left out.
        cv : int, splitter or iterable of splits, default=5
            An int makes stratified folds for classes.
        n_neighbors : int, default=5
            The k of the nearest neighbours that predict.
        ax : matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        display : AccuracyDisplay
            ``errors`` are standard errors over the folds.
        """
        last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        if "n_components" not in last.get_params(deep=False):
            raise ValueError(
                f"The 'estimator' parameter of {_OWNER}.from_ranks must have 'n_components'. "
                f"{type(last).__name__} has none."
            )
        name, numbers = type(last).__name__, is_regressor(last)
        y = np.asarray(y)
        splits = list(check_cv(cv, y, classifier=not numbers).split(X, y))
        ks = _checked([n_neighbors], "n_neighbors", min(len(train) for train, _ in splits))
        ranks = _checked(ranks, "ranks", np.shape(X)[1])
        found: dict[str, list[Any]] = {name: [], _EUCLIDEAN: [], "PCA": []}
        for train, test in splits:
            rows = take_rows(X, train)
            fold = rows, y[train], take_rows(X, test), y[test], ks, numbers
            learnt, principal = [], []
            for rank in map(int, ranks):
                fitted = Fitted(_of_rank(estimator, rank).fit(rows, y[train]), _OWNER)
                learnt.append(_score(fitted.embed, *fold))
                scaled = fitted.scaled(rows)
                principal.append(_score(_components(scaled, rows, rank), *fold))
            found[name].append(learnt)
            found["PCA"].append(principal)
            found[_EUCLIDEAN].append(_score(scaled, *fold))
        scores = {method: np.mean(each, axis=0) for method, each in found.items()}
        errors = {
            method: np.std(each, axis=0, ddof=1) / np.sqrt(len(splits))
            for method, each in found.items()
        }
        kind = f"R² of the mean of {ks[0]}" if numbers else f"accuracy of {ks[0]}-NN"
        title = f"means and standard errors over {len(splits)} folds"
        return cls(
            ranks, scores, errors, x_name="rank of the map", score_name=kind, title=title
        ).plot(ax)

    def plot(self, ax: Any = None) -> AccuracyDisplay:
        """Draw the curves, with bands of one standard error, into ``ax`` or a new figure."""
        [ax] = self._open(ax, 1, (5.4, 3.7))
        marked, colours = len(self.x) <= 12, line_colours(ax)
        for at, (name, score) in enumerate(self.scores.items()):
            colour = colours[at % len(colours)]
            look = {"color": colour, "linestyle": _STYLES[at % len(_STYLES)], "linewidth": 1.7}
            whole = np.broadcast_to(score, self.x.shape)
            if marked and score.ndim:
                look["marker"] = MARKS[at % len(MARKS)]
            ax.plot(self.x, whole, label=name, **look)
            if name in self.errors:
                error = self.errors[name]
                ax.fill_between(
                    self.x, whole - error, whole + error, color=colour, alpha=0.15, linewidth=0
                )
        plain_axes(ax)
        ax.set(xlabel=self.x_name, ylabel=self.score_name)
        if marked:
            ax.set_xticks(self.x)
        else:
            ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_title(self.title, fontsize="medium")
        ax.legend(frameon=False, fontsize="small")
        return self


def _of_rank(estimator: Any, rank: int) -> Any:
    """A clone of another rank."""
    copy = clone(estimator)
    name = f"{copy.steps[-1][0]}__n_components" if isinstance(copy, Pipeline) else "n_components"
    return copy.set_params(**{name: rank})


def _components(scaled: Callable[[Any], Array], X: Any, rank: int) -> Callable[[Any], Array]:
    """The function that takes rows to the principal components of the scaled columns of X."""
    Z = scaled(X)
    pca = PCA(min(rank, *Z.shape), random_state=0).fit(Z)
    return lambda rows: pca.transform(scaled(rows))


def _score(
    embed: Callable[[Any], Array], X: Any, y: Array, X_test: Any, y_test: Array, ks: Array,
    numbers: bool,
) -> float:  # fmt: skip
    """The mean score of a map in a fold, for a single k."""
    return float(np.mean(_neighbour_scores(embed(X), y, embed(X_test), y_test, ks, numbers)))


def _neighbour_scores(
    Z: Array, y: Array, others: Array | None, y_others: Any, ks: Array, numbers: bool
) -> Array:
    """Scores of each query for each k, (n_queries, len(ks)), whose mean is accuracy or R².

    Without other rows, each row is predicted by the rest.
    """
    Z, most = np.ascontiguousarray(Z), int(np.max(ks))
    if others is None:
        near, right = nearest_others(Z, most), y
    else:
        near, _ = finder("exact", Z)(np.ascontiguousarray(others, dtype=Z.dtype), most)
        right = np.asarray(y_others)
    if numbers:
        means = np.cumsum(y[near], axis=1) / np.arange(1.0, most + 1)
        error = (means[:, ks - 1] - right[:, None]) ** 2
        return 1.0 - error / (np.var(right) or 1.0)
    classes, codes = np.unique(y, return_inverse=True)
    predicted = classes[winners(codes[near], len(classes), ties="first")]
    return (predicted == right[:, None])[:, ks - 1].astype(np.float64)


def _checked(values: Iterable[int], name: str, most: int) -> Array:
    """Whole numbers from 1 on; those above ``most`` are left out."""
    listed = list(values)
    whole = all(isinstance(v, int | np.integer) and not isinstance(v, bool) for v in listed)
    kept = sorted({int(v) for v in listed if v <= most}) if whole else []
    if not kept or kept[0] < 1:
        raise bad(_OWNER, name, f"ints in [1, {most}]", listed)
    return np.array(kept)
