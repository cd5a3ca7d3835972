"""Samplers choose the rows of each evaluation: passes of :class:`~vicinal.core.types.Batch`.

A sampler is a small frozen dataclass with a flag ``fixed`` (all its batches are the same) and
``dealer(source, random_state)``, called once a run, which returns ``deal(theta, random_state)``:
the batches of one pass that begins at ``theta``.  Solvers with a line search accept fixed samplers
only.

>>> import numpy as np
>>> from vicinal.core.types import Source
>>> from vicinal.samplers import StochasticQueries
>>> deal = StochasticQueries(size=3).dealer(Source(n_rows=8), np.random.RandomState(0))
>>> [len(batch.queries) for batch in deal(np.zeros(2), np.random.RandomState(1))]
[3, 3, 2]
"""

from __future__ import annotations

from typing import Any

from vicinal._public import listing as _listing
from vicinal._validation import part_of
from vicinal.core.types import Sampler
from vicinal.samplers.parts import Full, MiniBatches, StochasticQueries, Subsample

__all__ = ["Full", "MiniBatches", "StochasticQueries", "Subsample", "resolve"]
__dir__ = _listing(__name__)

_BY_NAME: dict[str, type[Any]] = {
    "full": Full,
    "subsample": Subsample,
    "mini_batches": MiniBatches,
    "stochastic": StochasticQueries,
}


def resolve(sampling: str | Sampler, owner: str = "NCA") -> Sampler:
    """Turn a name into the sampler with its default parameters; return a sampler as it is.

    Parameters
    ----------
    sampling : str or Sampler
        One of "full", "subsample", "mini_batches", "stochastic", or an object with ``dealer``,
        such as ``StochasticQueries(size=50)``.
    owner : str
        The estimator named in the error message.

    Returns
    -------
    Sampler

    Raises
    ------
    ValueError
        If ``sampling`` is an unknown name.
    TypeError
        If ``sampling`` is neither a name nor a sampler (call a class to make one).
    """
    example = "sampler such as StochasticQueries(size=500)"
    return part_of(sampling, _BY_NAME, Sampler, "sampling", owner, example)
