"""Estimators that were pickled by vicinal 0.1."""

from __future__ import annotations

from typing import Any

from vicinal._old_names import Memory
from vicinal._validation import warn
from vicinal.core.state import Best, FitState
from vicinal.estimators._neighbours import RowNumbers
from vicinal.estimators._resume import Resumable
from vicinal.maps.fitted import FittedLinear

__all__ = ["present_state"]


def present_state(state: dict[str, Any]) -> dict[str, Any]:
    """The attributes of an estimator pickled by vicinal 0.1, under their present names."""
    if "_rules" not in state:
        return state
    state = dict(state)
    state["_model"] = state.pop("_rules")
    state["_rows"] = RowNumbers(None, len(state["_model"].Z))
    shift, scale = state.pop("_shift"), state.pop("_scale")
    state["_map"] = FittedLinear(state["components_"], shift, scale)
    memory = state.pop("_memory", None)
    state["_resumable"] = None if memory is None else _resumable(memory)
    if state.pop("_stream", None) is not None:
        warn("The stream of this estimator was saved by vicinal 0.1 and cannot be continued.")
    return state


def _resumable(memory: Memory) -> Resumable:
    result = memory.result
    state = FitState(
        0 if memory.single else 1,
        memory.solver,
        result.state,
        result.sampling,
        Best(result.theta, result.value),
        result.history,
        memory.kept,
    )
    return Resumable(memory.plan, memory.mapping, memory.scale, state)
