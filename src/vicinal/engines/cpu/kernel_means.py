"""Kernel-weighted means of numbers at new points, by the compiled blocks of MLKR."""

from __future__ import annotations

import numpy as np

from vicinal.core.points import with_range
from vicinal.core.types import Array
from vicinal.densities import Kernel
from vicinal.engines.base import Data
from vicinal.engines.cpu.charged import BlockChargedSums
from vicinal.targets.labels import plain_mass


def kernel_means(
    Z: Array, Z_reference: Array, charges: Array, mass: Array | None, kernel: Kernel
) -> Array:
    """The weighted mean of the references' charges at each point, (n, q); see `Backend`."""
    n, everyone = len(Z), np.arange(len(Z) + len(Z_reference))
    weight = np.ones(len(everyone))
    if mass is not None:
        weight[n:] = mass
    masses = plain_mass(weight, everyone[n:])
    references = everyone[n:][masses[n:] > 0]  # those so light that no sum changes are left out
    Z_reference = with_range(Z_reference, masses[references], Z)
    points = np.concatenate([Z, Z_reference], dtype=Z_reference.dtype)
    # a common constant changes nothing else, and without it float32 keeps more digits
    centre = charges.mean(axis=0)
    everything = np.zeros((len(everyone), charges.shape[1]))
    everything[n:] = charges - centre
    classes = np.zeros(len(everyone), dtype=np.intp)
    data = Data(points, classes, masses, everyone[:n], references)
    return BlockChargedSums(data, everything, kernel).sums().means + centre
