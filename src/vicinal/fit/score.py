"""The score of a learnt map on rows that its model does not hold."""

from __future__ import annotations

from typing import Any

from vicinal.core.problem import Problem
from vicinal.core.types import Array
from vicinal.fit.method import Method

__all__ = ["score_name", "scores_of"]


def scores_of(
    method: Method, problem: Problem, theta: Array, queries: Array, references: Array, rule: str
) -> Array:
    """The score of each query, predicted from the references alone; higher is better.

    A target whose entries refer to other rows has ``between(queries, references)``, what is right
    for the queries among the references; any other has ``take``.
    """
    Z, target = problem.embed(theta), problem.target
    model = method.make_model(Z[references], target.take(references), problem.objective)
    between = getattr(target, "between", None)
    right = target.take(queries) if between is None else between(queries, references)
    return model.scores(Z[queries], right, rule)


def score_name(target: Any) -> str:
    """What the score of a prediction is called, for messages."""
    return str(getattr(target, "score_name", "score"))
