"""The sequence of batches of a run, and the position in it that a result carries."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vicinal.core.types import Array, Batch, Sampler, Sampling, Solver, Source

_AHEAD = 64  # batches whose rows the source may begin to fetch


class BatchStream:
    """Hands out the batches of a run; ``at`` is the position in their sequence."""

    def __init__(
        self,
        solver: Solver,
        sampler: Sampler | None,
        source: Source | None,
        random_state: int | np.random.RandomState | None,
        at: Sampling | None,
    ) -> None:
        self.fixed = sampler is None or sampler.fixed
        self.at: Sampling | None = None
        # The batches of the current pass, and of the next one, once it is known.
        self.batches: list[Batch] = [Batch()] if sampler is None else []
        self.following: list[Batch] | None = None
        if sampler is None:
            return
        _check_fits(solver, sampler)
        if source is None:
            raise ValueError("source must be a Source if a sampler is given. Got None instead.")
        if at is None:
            if not isinstance(random_state, np.random.RandomState):
                random_state = np.random.RandomState(random_state)
            at = Sampling(int(random_state.randint(2**31 - 1)))
        self.at, self.expect = at, source.expect
        self.sampler, self.known = sampler, 0
        self.deal = sampler.dealer(source, np.random.RandomState([at.seed, 0]))
        if at.theta is not None:  # resumed in the middle of a pass
            self.batches = self.deal(at.theta, np.random.RandomState([at.seed, at.n_pass]))

    def next(self, theta: Array) -> Batch:
        """The next batch; a pass that begins here sees the parameters ``theta``."""
        at = self.at
        if at is None:
            return self.batches[0]
        if self.fixed:
            self.batches = self.batches or self.deal(theta, np.random.RandomState([at.seed, 1]))
            return self.batches[0]
        if at.position >= len(self.batches):
            theta = np.array(theta, dtype=np.float64)
            at = Sampling(at.seed, at.n_pass + 1, 0, theta)
            self.batches = self.following or self._pass(theta, at)
            self.following = None
        if self.expect is not None:
            self._tell(self.expect, at, theta)
        self.at = at._replace(position=at.position + 1)
        return self.batches[at.position]

    def _pass(self, theta: Array, at: Sampling) -> list[Batch]:
        return self.deal(theta, np.random.RandomState([at.seed, at.n_pass]))

    def _tell(self, expect: Callable[[list[Array]], None], at: Sampling, theta: Array) -> None:
        """Tell the source which rows come, as soon as it knows half as many as it might."""
        self.known -= 1
        if self.known > _AHEAD // 2:
            return
        ahead = self.batches[at.position : at.position + _AHEAD]
        if len(ahead) < _AHEAD and self.sampler.deals_ahead:
            if self.following is None:
                self.following = self._pass(theta, at._replace(n_pass=at.n_pass + 1))
            ahead = ahead + self.following[: _AHEAD - len(ahead)]
        expect([batch.rows for batch in ahead if batch.rows is not None])
        self.known = len(ahead)


def fixed_batch(sampler: Sampler, source: Source, sampling: Sampling) -> Batch:
    """The one batch of a run with a fixed sampler, for evaluations outside the loop.

    Parameters
    ----------
    sampler : Sampler
        Its ``fixed`` must be True.
    source : Source
    sampling : Sampling
        ``Result.sampling`` of the run.

    Returns
    -------
    Batch
    """
    deal = sampler.dealer(source, np.random.RandomState([sampling.seed, 0]))
    return deal(np.empty(0), np.random.RandomState([sampling.seed, 1]))[0]


def _check_fits(solver: Solver, sampler: Sampler) -> None:
    if solver.needs_fixed_batch and not sampler.fixed:
        raise ValueError(
            f"The solver {type(solver).__name__} needs the same batch at every step, but the "
            f"sampler {type(sampler).__name__} changes it. Use Adam, SGD or Momentum with this "
            "sampler, or use the sampler Full."
        )
