"""Every experiment by name: an entry here and a module beside it make a new one."""

from __future__ import annotations

from reproduce.experiment import Experiment

__all__ = ["experiments"]


def experiments() -> dict[str, Experiment]:
    """All experiments, in the order in which they should be read."""
    from reproduce import (
        annealing,
        comparison,
        defaults,
        goldberger_figure1,
        goldberger_figure2,
        growth,
        lmnn_defaults,
        lmnn_large,
        mnist_targets,
        olsen_figure2,
        olsen_figure3,
        olsen_starts,
        olsen_webcam,
        olsen_wine,
        oneata_batches,
        oneata_compact,
        oneata_compact_figures,
        oneata_compact_large,
        oneata_decay,
        oneata_details,
        oneata_dimensions,
        oneata_figures,
        oneata_linear,
        oneata_projections,
        oneata_solvers,
        oneata_starts,
        oneata_stochastic,
        oneata_subsampling,
        oneata_tables,
        oneata_times,
        oneata_trees,
        tarlow_figure3,
        tarlow_figure4,
        tarlow_figure5,
        tarlow_uci,
    )

    modules = (
        oneata_tables,
        oneata_details,
        oneata_linear,
        oneata_batches,
        oneata_stochastic,
        oneata_trees,
        oneata_compact,
        oneata_compact_large,
        oneata_solvers,
        oneata_starts,
        oneata_figures,
        oneata_subsampling,
        oneata_decay,
        oneata_dimensions,
        oneata_times,
        oneata_projections,
        oneata_compact_figures,
        goldberger_figure1,
        goldberger_figure2,
        tarlow_uci,
        lmnn_defaults,
        tarlow_figure3,
        tarlow_figure4,
        tarlow_figure5,
        olsen_wine,
        olsen_webcam,
        olsen_starts,
        olsen_figure2,
        olsen_figure3,
        defaults,
        comparison,
        annealing,
        mnist_targets,
        lmnn_large,
        growth,
    )
    return {experiment.name: experiment for module in modules for experiment in module.EXPERIMENTS}
