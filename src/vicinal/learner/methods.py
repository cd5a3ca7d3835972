"""Every method by a short name: its class, what it learns from, and one line about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class MethodInfo:
    """A method as people choose it.

    Parameters
    ----------
    name : str
        The short name, such as "nca".
    estimator : str
        The name of its class in ``vicinal``.
    target : {"classes", "numbers", "pairs", "histograms", "none"}
        What it learns from: a class label for each row; a number for each row; pairs or
        quadruplets, which are drawn from class labels; class labels for rows that are histograms;
        nothing but the rows.
    summary : str
        One line for lists of methods.
    predicts : bool
        Whether it has ``predict``.  A method without one gives ``transform`` alone.
    presets : mapping
        Parameters in which the method differs from the defaults of its class.
    """

    name: str
    estimator: str
    target: str
    summary: str
    predicts: bool = True
    presets: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> type:
        """The class."""
        found: type = getattr(import_module("vicinal"), self.estimator)
        return found

    def parameters(self) -> list[str]:
        """The names of its parameters; "n_constraints" is that of :class:`vicinal.FromLabels`."""
        names: list[str] = self.load()._get_param_names()  # type: ignore[attr-defined]
        return sorted([*names, "n_constraints"] if self.target == "pairs" else names)


_ALL = (
    MethodInfo("nca", "NCA", "classes",
               "neighbourhood components analysis: near rows share a label"),
    MethodInfo("nca-diagonal", "NCA", "classes", "NCA with one weight for each column",
               presets={"mapping": "diagonal"}),
    MethodInfo("nca-periodic", "NCA", "classes", "NCA with a nonlinear map: learnt waves of each "
               "column", presets={"mapping": "periodic"}),
    MethodInfo("vote", "MetricVote", "classes", "a vote of several learnt metrics, weighed by rows "
               "that they did not learn from: the most accurate, and no single map"),
    MethodInfo("knca", "KNCA", "classes",
               "NCA for a vote of k neighbours; for labels that may be wrong"),
    MethodInfo("lmnn", "LMNN", "classes", "large margins: other classes are kept at a distance"),
    MethodInfo("mcml", "MCML", "classes", "each class collapses towards a point"),
    MethodInfo("rca", "RCA", "classes", "whitens the scatter within the classes; closed form",
               predicts=False),
    MethodInfo("lfda", "LFDA", "classes", "local Fisher discriminant analysis: classes of several "
               "clusters; closed form", predicts=False),
    MethodInfo("chi2-lmnn", "Chi2LMNN", "histograms",
               "large margins with the χ² distance; every row is a histogram"),
    MethodInfo("itml", "ITML", "pairs", "information-theoretic metric learning from similar and "
               "dissimilar pairs", predicts=False),
    MethodInfo("mmc", "MMC", "pairs", "similar pairs near, dissimilar pairs not; convex",
               predicts=False),
    MethodInfo("sdml", "SDML", "pairs", "a sparse metric from similar and dissimilar pairs",
               predicts=False),
    MethodInfo("lsml", "LSML", "pairs",
               "a metric from comparisons: a is nearer to b than c is to d", predicts=False),
    MethodInfo("pair-nca", "PairNCA", "pairs", "NCA from pairs that belong together",
               predicts=False),
    MethodInfo("mlkr", "MLKR", "numbers",
               "metric learning for kernel regression: near rows have near numbers"),
    MethodInfo("nca-regressor", "NCARegressor", "numbers",
               "NCA for numbers: rows match to the degree that their numbers are near"),
    MethodInfo("vote-regressor", "MetricVoteRegressor", "numbers",
               "a vote of several learnt metrics for numbers"),
    MethodInfo("kt-sne", "KSNE", "none",
               "a picture without labels: t-SNE, or with k > 1 neighbourhoods of k",
               predicts=False),
    MethodInfo("ksne", "KSNE", "none",
               "a picture without labels: SNE, or with k > 1 neighbourhoods of k",
               predicts=False, presets={"kernel": "gaussian"}),
    MethodInfo("covariance", "Covariance", "none",
               "the inverse of the covariance as a metric: a baseline without labels",
               predicts=False),
)  # fmt: skip

#: every method by its name, in the order in which lists show them
METHODS: Mapping[str, MethodInfo] = MappingProxyType({info.name: info for info in _ALL})

#: for what is learnt: the most accurate method (benchmarks/results/tables_accuracy.md), and the
#: single metric, which has a number of dimensions, a penalty and the like
_VOTES = {"classes": "vote", "numbers": "vote-regressor"}
_SINGLE = {"classes": "nca", "numbers": "nca-regressor"}


def usual_method(target: str, asked: Iterable[str] = ()) -> str:
    """The method if none is named: a vote, or a single metric if that alone has what is asked for.

    ``asked`` are names of parameters, such as "n_components".
    """
    vote = _VOTES[target]
    return vote if set(asked) <= set(METHODS[vote].parameters()) else _SINGLE[target]


def find_method(name: str) -> MethodInfo:
    """The method of a name; the error names the nearest ones."""
    if name in METHODS:
        return METHODS[name]
    near = difflib.get_close_matches(str(name).lower().replace("_", "-"), METHODS, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise ValueError(
        f"The 'method' parameter must be one of {', '.join(METHODS)}. Got {name!r} instead.{hint}"
    )
