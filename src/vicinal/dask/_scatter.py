"""Scatter matrices of blocks of rows, and of all rows."""

from __future__ import annotations

import numpy as np

from vicinal.starts.spectral import Scatter


def merged(parts: list[Scatter]) -> Scatter:
    """The scatter of all rows from those of disjoint blocks, in their order.

    Differences from the first mean of each class are added, so that a column which is constant
    within a class adds exactly nothing.
    """
    counts = np.stack([part.counts for part in parts])
    first = counts.argmax(axis=0)  # a block that has rows of the class
    base = np.stack([parts[b].means[c] for c, b in enumerate(first)])
    weight = counts.sum(axis=0)
    shares = counts / np.where(weight > 0, weight, 1.0)
    offsets = [np.where(n[:, None] > 0, part.means - base, 0.0)
               for part, n in zip(parts, counts, strict=True)]  # fmt: skip
    mean = sum(share[:, None] * offset for share, offset in zip(shares, offsets, strict=True))
    total = max(float(weight.sum()), np.finfo(float).tiny)
    within = np.zeros_like(parts[0].within)
    for part, n, offset in zip(parts, counts, offsets, strict=True):
        apart = np.sqrt(n)[:, None] * (offset - mean)
        within += part.within * (n.sum() / total) + apart.T @ apart / total
    found = Scatter(within, within, base + mean, weight)
    M = found.deviations
    return found._replace(total=within + M.T @ M)
