"""kNCA as an estimator: neighbourhood components analysis for the k that will vote."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from vicinal._callback_support import with_callbacks
from vicinal._validation import check_number, check_option, warn
from vicinal.core.cost import Work
from vicinal.core.types import Array, Pairs
from vicinal.estimators._base import NeighbourMetric
from vicinal.estimators._metric import LearntMahalanobisMixin
from vicinal.estimators._online import can_stream
from vicinal.estimators._plan import Plan
from vicinal.models.votes import NeighbourRules
from vicinal.neighbourhoods import LeftOut, Nearest, RandomPairs, sets_left_out
from vicinal.objectives._votes import SAFE_K, large_k
from vicinal.objectives.knca import knca
from vicinal.objectives.knca_rules import knca_posterior
from vicinal.targets import Labels

__all__ = ["KNCA"]

_LISTED = 10  # times k rows at least, of lists asked for by name


class KNCA(LearntMahalanobisMixin, NeighbourMetric):
    r"""Learn the linear map in which k neighbours, voting together, are right.

    Each row picks a set of k others at once, the nearer the likelier, and these vote on its
    label; the map A makes them win as often as possible, each row itself left out [Tarlow2013]_:

    .. math:: p_i(s) = \frac{\prod_{j \in s} e^{-\|Ax_i - Ax_j\|^2}}
              {\sum_{|t| = k} \prod_{j \in t} e^{-\|Ax_i - Ax_j\|^2}},
              \qquad p_i = \sum_{s\ \text{right}} p_i(s),
              \qquad \min_A\ \mathrm{mean}_i\,(-\log p_i \text{ or } -p_i) + \alpha\|A\|_F^2 .

    A set is right where the class of row i has more of its votes than any other ("majority"), or
    all of them ("all").  For k = 1 this is :class:`NCA`, whose parameters mean the same here: what
    its docstring says at length is not repeated.  The sums over all sets are exact and take O(n k)
    time a row; memory is O(n (D + d)).

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Rank d of the map.  None: min(D, 32).  "auto" grows it from 2 while that helps.
    k : int, default=5
        How many rows vote.  Where there are too few rows to learn from for any to win such a vote,
        ``k_`` is the largest number at which one can, with a warning.
    vote : {"majority", "all"}, default="majority"
        When a vote is won: by more votes than any other class has (a tie is lost), or by all k.
        "all" asks for more, and is quicker with many classes.
    objective : {"log", "accuracy"}, default="log"
        Mean log-probability of a won vote, or expected share of votes won.
    mapping : {"linear", "diagonal"} or map, default="linear"
        A full matrix, or one weight for each feature.
    init : {"auto", "identity", "random", "pca", "lda", "rca", "whiten", "annealing"}, part or \
            array, default="auto"
        The start; its scale, unless it is an array, is the best for "log" at this k on a sample.
    solver : {"auto", "lbfgs", "cg", "bold_driver", "sgd", "momentum", "adam"} or part, \
            default="auto"
        How to descend: L-BFGS on all rows, Adam on batches.
    sampling : {"auto", "full", "subsample", "mini_batches", "stochastic"} or part, default="auto"
        Which rows an iteration sees.  "stochastic", a few rows against all, is how the paper
        learnt.  In batches and subsets rows pick among themselves: a class needs more than k
        rows in each, and a warning tells of those that have fewer.  "auto" is "full" as long as
        that takes some 20 s on two cores, and batches of 3,000 random rows beyond.
    pairs : {"auto", "all", "nearest", "random"} or part, default="auto"
        Which rows each row may pick.  "nearest" and "random" are lists of 100 rows (10 k, where
        that is more), renewed every few iterations.  A list of the nearest always holds k of the
        own class: where its part says ``own`` less than k, k is taken.  Random ones hold half of
        the own class, and so must be longer than 2 k.
    alpha : float, "scaled" or "auto", default=3e-3
        Weight of the squared norm of the map beside the mean loss.
    scaling : {"standard", "global", None}, default="standard"
        Scaling of the columns before learning, folded into ``components_``.
    rule : {"posterior", "knn"}, default="posterior"
        How to classify: by the probability that each class wins the vote, over the sum of these
        (ties are nobody's), or by votes of the nearest training rows.
    n_neighbors : int, "auto" or None, default=None
        Number of voters of ``rule="knn"``.  None: ``k_``; "auto" chooses it by leave-one-out.
    early_stopping : bool, default=False
        Hold rows out, stop when their score no longer improves, and go back to the best map.
    validation_fraction : float, default=0.1
        Share of the rows held out.
    n_iter_no_change : int, default=10
        Iterations (with batches: scores) without improvement before stopping.
    cv : int, splitter or iterable, default=5
        What "auto" judges ``n_components`` and ``alpha`` on.
    max_iter : int or "auto", default="auto"
        The most iterations; "auto" is 200, and 300 with batches.
    tol : float, default=1e-5
        Stop when no entry of the gradient exceeds it, or the loss falls by less.
    time_budget : float or None, default=None
        Seconds that ``fit`` may take, roughly.
    reservoir_size : int, default=10_000
        The most rows that ``partial_fit`` remembers.
    warm_start : bool, default=False
        Let ``fit`` go on where the last one stopped, solver memory included.
    random_state : int, RandomState or None, default=None
        For random starts, batches, lists, held-out rows, folds and samples that set a scale.
    verbose : int, default=0
        Print the plan and its cost, and a line for each iteration.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The map; ``transform(X) = X @ components_.T``.
    k_ : int
        How many rows vote: ``k``, or fewer where the rows are too few.
    n_components_, alpha_, cv_results_, classes_, n_iter_, objective_, plan_, history_, \
            feature_importances_, n_samples_seen_, n_features_in_, feature_names_in_
        As of :class:`NCA`; ``plan_.kernel`` is None.
    rounds_ : dict of lists
        With lists, for each time they were made ``n_pairs``, ``mean_left_out`` and
        ``max_left_out``: shares of the weight of all sets of k that are not wholly in a row's
        list (:func:`vicinal.neighbourhoods.sets_left_out`), on a sample of rows.
    n_neighbors_ : int
        Number of voters of ``rule="knn"``.

    Notes
    -----
    There is no ``sample_weight`` and there are no priors: a vote of k weighted rows is another
    model.  A row that can never win (with "all", one of a class of k rows or fewer) is left out of
    "log" and counts as lost for "accuracy", with a warning that names its class; it still votes on
    others.

    References
    ----------
    .. [Tarlow2013] D. Tarlow, K. Swersky, L. Charlin, I. Sutskever, R. Zemel, "Stochastic
       k-neighborhood selection for supervised and unsupervised learning", ICML 2013.
    .. [Oneata2011] D. Oneață, "Fast low-rank metric learning", MSc thesis, University of
       Edinburgh, 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import train_test_split
    >>> from vicinal import KNCA
    >>> X, y = load_iris(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
    >>> model = KNCA(n_components=2, k=5, rule="knn", random_state=0).fit(X_train, y_train)
    >>> model.n_neighbors_
    5
    >>> bool(model.score(X_test, y_test) > 0.9)
    True
    """

    _trees: ClassVar[bool] = False
    _weighs: ClassVar[bool] = False
    _voters: ClassVar[tuple[Any, ...]] = (None, "auto")
    _settled: ClassVar[tuple[str, ...]] = ("objective", "k", "vote")
    _rules: KNCARules

    def __init__(
        self,
        n_components: int | str | None = None,
        *,
        k: int = 5,
        vote: str = "majority",
        objective: str = "log",
        mapping: Any = "linear",
        init: Any = "auto",
        solver: Any = "auto",
        sampling: Any = "auto",
        pairs: Any = "auto",
        alpha: float | str = 3e-3,
        scaling: str | None = "standard",
        rule: str = "posterior",
        n_neighbors: int | str | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        cv: Any = 5,
        max_iter: int | str = "auto",
        tol: float = 1e-5,
        time_budget: float | None = None,
        reservoir_size: int = 10_000,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.k = k
        self.vote = vote
        self.objective = objective
        self.mapping = mapping
        self.init = init
        self.solver = solver
        self.sampling = sampling
        self.pairs = pairs
        self.alpha = alpha
        self.scaling = scaling
        self.rule = rule
        self.n_neighbors = n_neighbors
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.cv = cv
        self.max_iter = max_iter
        self.tol = tol
        self.time_budget = time_budget
        self.reservoir_size = reservoir_size
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any) -> KNCA:
        """Learn the map.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows; float32 stays float32.
        y : array-like of shape (n_samples,)
            Class labels.

        Returns
        -------
        self : KNCA
        """
        return self._fit(X, y)

    @available_if(can_stream)
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> KNCA:
        """Learn from the next batch of a stream, as :meth:`NCA.partial_fit` does.

        Of all rows of the stream so far a uniform sample of ``reservoir_size`` is remembered, the
        classes in the proportions of the stream: a vote of k has no weights by which rows of a
        common class could stand for those that were not remembered.  As long as these are too few
        for a vote of k, fewer vote (``k_``).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), default=None
            All classes that the stream may show; needed at the first call, unless they are those
            of a ``fit`` before.

        Returns
        -------
        self : KNCA
        """
        return self._partial_fit(X, y, classes)

    def _begin_stream(self, X: Any, codes: Array, weight: Array) -> None:
        if self.reservoir_size <= self.k:
            raise ValueError(
                f"The 'reservoir_size' parameter of {type(self).__name__} must be more than "
                f"k={self.k}: of the rows remembered, so many vote. Got {self.reservoir_size!r} "
                "instead."
            )
        super()._begin_stream(X, codes, weight)

    @property
    def k_(self) -> int:
        """How many rows vote: k, or fewer where the rows are too few."""
        check_is_fitted(self, "components_")
        return self._rules.k

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number(self, "reservoir_size", 2, integer=True)
        check_number(self, "k", 1, integer=True)
        check_option(self, "vote", ("majority", "all"))
        check_option(self, "objective", ("log", "accuracy"))

    def _objective(self) -> Callable[..., tuple[float, Array]]:
        return partial(knca, k=int(self.k), vote=self.vote, objective=self.objective, warn=False)

    def _scale_objective(self) -> Callable[..., tuple[float, Array]]:
        return partial(knca, k=int(self.k), vote=self.vote, objective="log", warn=False)

    def _options(self, targets: Labels) -> dict[str, Any]:
        return {"k": _usable(_counts(targets), int(self.k), self.vote)}

    def _make_rules(self, Z: Array, labels: Labels, options: Mapping[str, Any]) -> KNCARules:
        # the k that was learnt for; a stream has no other than that of the rows it remembers
        k = options["k"] if "k" in options else self._options(labels)["k"]
        return KNCARules(Z, labels, self.n_neighbors, k, self.vote)

    def _neighbourhood(self) -> Any:
        part, k, by_name = super()._neighbourhood(), int(self.k), isinstance(self.pairs, str)
        if isinstance(part, Nearest | RandomPairs) and by_name:
            part = replace(part, m=max(part.m, _LISTED * k))
        least = {Nearest: k, RandomPairs: 2 * k}.get(type(part), 0)
        if getattr(part, "m", least + 1) <= least:
            raise ValueError(
                f"The 'pairs' parameter of {type(self).__name__} must list more than {least} rows "
                f"where k={k}. Got {part!r} instead."
            )
        # otherwise truncation alone would decide votes, and -log p_i be infinite
        return replace(part, own=max(part.own, k)) if isinstance(part, Nearest) else part

    def _left_out(
        self, Z: Array, targets: Labels, pairs: Pairs, references: Array | None
    ) -> LeftOut:
        rng = np.random.RandomState(0)
        return sets_left_out(Z, pairs, int(self.k), references, random_state=rng)

    def _work(self) -> Work:
        k = int(self.k)
        # Nanoseconds, beside those of NCA: k steps of the chain forwards and k of Horner's rule
        # back, and the votes of ten classes; a pair serves one row only.
        single, double = (1.5 + 0.3 * k, 0.27), (3.2 + 0.95 * k, 0.65)
        return Work(single, double, (45.0 + 8.0 * k, 5.0), both_ways=False)

    def _warn_of(self, targets: Labels, plan: Plan) -> None:
        name, asked, counts = type(self).__name__, int(self.k), _counts(targets)
        k = _usable(counts, asked, self.vote)
        if k < asked:
            others = len(targets) - 1
            why = "no row could win a vote of so many"
            if others < asked:
                why = f"a row has only {others} others to pick"
            warn(f"The 'k' parameter of {name} is {asked}, but {why}: k={k} is used.")
        if k > SAFE_K:
            warn(large_k(k))
        able = _can_win(counts, k, self.vote)
        if not able.all():
            warn(
                f"Rows of these classes have too few others of their class to win any vote of "
                f"k={k} by vote={self.vote!r}: {self._named(~able)}. As queries they add nothing "
                "to the objective."
            )
        rows = plan.rows_together(len(targets))
        thin = able & ~_can_win(counts * rows // len(targets), k, self.vote)
        if thin.any():
            warn(
                f"Of {rows} rows at a time, as {plan.sampling!r} deals them, few are of these "
                f"classes: too few to win a vote of k={k} as a rule, and little is learnt from "
                f"them: {self._named(thin)}. Use larger batches, or sampling='stochastic', in "
                "which all rows may be picked."
            )


class KNCARules(NeighbourRules):
    """The rules of kNCA: who wins the vote of k, and hard votes of k unless told otherwise."""

    def __init__(self, Z: Array, labels: Labels, n_neighbors: Any, k: int, vote: str) -> None:
        super().__init__(Z, labels, n_neighbors)
        self.k, self.vote = k, vote

    def _posterior(self, Z: Array) -> Array:
        return knca_posterior(Z, self.Z, self.labels, self.k, self.vote)

    def _n_voters(self, asked: Any) -> int:
        return super()._n_voters(self.k if asked is None else asked)


def _counts(labels: Labels) -> Array:
    return np.bincount(labels.codes, minlength=len(labels.classes))


def _usable(counts: Array, k: int, vote: str) -> int:
    """The largest number of voters up to k by which a row of some class can win."""
    for fewer in range(min(k, int(counts.sum()) - 1), 1, -1):
        if _can_win(counts, fewer, vote).any():
            return fewer
    return 1


def _can_win(counts: Array, k: int, vote: str) -> Array:
    """Whether there are k others of a row among which its class wins, for each class.

    The more votes of its own it has, the fewer are left to the others and the more each of them
    may have: all that are there, then, up to k.
    """
    own = np.minimum(counts - 1, k)
    if vote == "all":
        return own == k
    values, at = np.unique(own, return_inverse=True)
    room = np.array([np.minimum(counts, votes - 1).sum() for votes in values])[at]
    room -= np.minimum(counts, own - 1)
    return (own >= 1) & (room >= k - own)
