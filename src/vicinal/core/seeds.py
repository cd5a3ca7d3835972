"""A random generator for each step of a fit.

What a step draws depends on the seed of the fit and on the name of the step alone: not on the steps
before it.  A step of a resumed fit, or one that runs next to others, draws what it always does.
"""

from __future__ import annotations

import zlib

import numpy as np


def step_seed(seed: int, *step: str | int) -> int:
    """The seed of a step, from the seed of the fit and the name of the step."""
    words = [zlib.crc32(word.encode()) if isinstance(word, str) else int(word) for word in step]
    return int(np.random.SeedSequence([seed, *words]).generate_state(1)[0])


def rng_for(seed: int, *step: str | int) -> np.random.RandomState:
    """The generator of a step: ``rng_for(seed, "start", 2)`` is that of the third start."""
    return np.random.RandomState(step_seed(seed, *step))
