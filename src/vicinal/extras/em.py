"""EM for the share of the background in each class."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vicinal.core.points import check_points, check_rows, with_range
from vicinal.core.types import Array
from vicinal.densities import Gaussian, Kernel
from vicinal.engines import choose
from vicinal.engines.base import Data
from vicinal.extras.background import Normals, check_background, join
from vicinal.targets import Labels
from vicinal.targets.labels import others_of_class, reference_mass, weights

_GAUSSIAN = Gaussian()
_EDGE = 1e-6  # a share of exactly 0 or 1 would never move again


def em_background(
    Z: Array,
    y: Any,
    background: Array,
    queries: Array | None = None,
    references: Array | None = None,
    *,
    kernel: Kernel = _GAUSSIAN,
    steps: int = 1,
) -> Array:
    r"""Increase the leave-one-out likelihood of the rows within their classes by steps of EM.

    .. math:: \beta_c \leftarrow \frac{1}{V_c} \sum_{i \in c} v_i \frac{\beta_c N(z_i | \mu_c,
        \Sigma_c)}{\beta_c N(z_i | \mu_c, \Sigma_c) + (1 - \beta_c) p_{\kappa,-i}(z_i | c)}

    with :math:`p_{\kappa,-i}` the density over the *other* rows of the class: otherwise the kernel
    at the row itself would dominate.  No step lowers
    :math:`\sum_i v_i \log(\beta_c N_i + (1 - \beta_c) p_{\kappa,-i})`.

    Parameters
    ----------
    Z : array of shape (n, d)
        Embedded points.
    y : array-like of shape (n,) or Labels
        Priors are ignored.
    background : array of shape (n_classes,)
        The shares to begin with, in [0, 1).
    queries, references : int arrays, default=None
        Positions of the rows whose likelihood counts, and of the rows that make up the densities;
        None for all.
    kernel : Kernel, default=Gaussian()
    steps : int, default=1
        The densities are computed once: further steps cost next to nothing.

    Returns
    -------
    background : array of shape (n_classes,)
        New shares in [1e-6, 1 - 1e-6].  A class keeps its share if none of its queries has other
        references of the class.

    References
    ----------
    [Oneata2011]_ section 4.6 treats beta as a parameter to fit.
    """
    Z = check_points(Z)
    labels = y if isinstance(y, Labels) else Labels(y)
    if len(labels) != len(Z):
        raise ValueError(f"Z has {len(Z)} rows but there are {len(labels)} labels.")
    beta = check_background(background, len(labels.classes), "em_background").copy()
    queries = check_rows(queries, len(Z), "queries", "em_background")
    references = check_rows(references, len(Z), "references", "em_background")
    plain = Labels(labels.classes[labels.codes], labels.sample_weight, classes=labels.classes)
    weight = weights(plain)
    mass, class_mass, unit = reference_mass(plain, weight, references)
    references = references[mass[references] > 0]
    queries = queries[weight[queries] > 0]
    if not len(references) or not len(queries):
        return beta
    Z = with_range(Z, mass[references])
    references = references[np.argsort(labels.codes[references], kind="stable")]
    codes = labels.codes[references]
    normals = Normals(Z[references], codes, weight[references], len(beta))
    others = others_of_class(plain, weight, queries, references, class_mass)
    unit += kernel.log_integral(Z.shape[1]) * math.log2(math.e)
    for c in normals.present:
        mine = (labels.codes[queries] == c) & (others > 0)
        if mine.any():
            rows = queries[mine]
            data = Data(Z, 0 * labels.codes, mass, rows, references[codes == c])
            backend = choose.backend(Z, len(data.reference_rows))
            log2_kernel, shift = (
                x[:, 0] for x in backend.sums_by_class(Z[rows], data, kernel, 1, rows)
            )
            log2_normal = normals.log2_densities(Z[rows], np.array([c]))[:, 0]
            # both in the unit of the engine's sums, and times the weight of the others
            log2_normal += np.log2(others[mine]) + unit
            beta[c] = _steps(beta[c], log2_kernel, -shift, log2_normal, weight[rows], steps)
    return beta


def _steps(
    beta: float, rest: Array, base: Array, log2_normal: Array, weight: Array, steps: int
) -> float:
    for _ in range(steps):
        if not beta > 0:
            return float(beta)
        odds = np.log2(beta) - np.log1p(-beta) * math.log2(math.e)
        share = join(rest, base, log2_normal + odds)[2][1]
        beta = float(np.clip(np.sum(weight * share) / np.sum(weight), _EDGE, 1.0 - _EDGE))
    return beta
