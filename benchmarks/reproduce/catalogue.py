"""Every experiment by name: an entry here and a module beside it make a new one."""

from __future__ import annotations

from reproduce.experiment import Experiment

__all__ = ["experiments"]


def experiments() -> dict[str, Experiment]:
    """All experiments, in the order in which they should be read."""
    from reproduce import comparison, defaults, goldberger_figure1, goldberger_figure2

    return {
        experiment.name: experiment
        for module in (goldberger_figure1, goldberger_figure2, comparison, defaults)
        for experiment in module.EXPERIMENTS
    }
