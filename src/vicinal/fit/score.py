"""The score of a learnt map on rows that its model does not hold."""

from __future__ import annotations

from vicinal.core.problem import Problem
from vicinal.core.types import Array
from vicinal.fit.method import Method


def scores_of(
    method: Method, problem: Problem, theta: Array, queries: Array, references: Array, rule: str
) -> Array:
    """The score of each query, predicted from the references alone; higher is better."""
    Z, target = problem.embed(theta), problem.target
    model = method.make_model(Z[references], target.take(references), problem.objective)
    return model.scores(Z[queries], target.between(queries, references), rule)
