"""Learn the shares of the backgrounds at fixed points, by EM or by the gradient of the loss of NCA.

EM makes the rows of each class likely; the gradient of the loss tells the classes apart
([Oneata2011] eq. (4.24), put into the loss: docs/theory/nca.md, section 10).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import minimize

from vicinal._threads import single_threaded_blas
from vicinal.core.points import check_points, check_rows, with_range
from vicinal.core.types import Array
from vicinal.densities import Gaussian, Kernel
from vicinal.engines import choose
from vicinal.engines.base import Data
from vicinal.engines.odds import mean_loss, slopes
from vicinal.objectives._odds import check_kind
from vicinal.objectives.background import Normals, check_background, join
from vicinal.targets import Labels
from vicinal.targets.labels import (
    background_mass,
    leave_one_out,
    others_of_class,
    reference_mass,
    weights,
)

_GAUSSIAN = Gaussian()
_EDGE = 1e-6  # a share of exactly 0 or 1 would never move again
_MOST = 2**21  # densities kept: of more rows, evenly spaced ones are the queries


class _Densities:
    """log2 of prior times density of each class at each query, (n, n_classes), the query left out.

    ``normal`` and ``kernel`` hold them for the two parts of a mixture, without their shares.
    """

    def __init__(
        self, Z: Array, labels: Labels, queries: Array, references: Array, kernel: Kernel
    ) -> None:
        n_classes = len(labels.classes)
        weight = weights(labels)
        mass, class_mass, unit = reference_mass(labels, weight, references)
        references = references[mass[references] > 0]
        queries = queries[weight[queries] > 0]
        queries = queries[:: 1 + len(queries) * n_classes // _MOST]
        self.codes, self.weight = labels.codes[queries], weight[queries]
        self.normal = self.kernel = np.full((len(queries), n_classes), -np.inf)
        if not len(references) or not len(queries):
            return
        Z = with_range(Z, mass[references])
        references = references[np.argsort(labels.codes[references], kind="stable")]
        codes = labels.codes[references]
        data = Data(Z, labels.codes, mass, queries, references)
        backend = choose.backend(Z, len(references))
        log2, shift = backend.sums_by_class(Z[queries], data, kernel, n_classes, queries)
        empty = np.isneginf(log2)
        self.kernel = np.where(empty, -np.inf, log2 - np.where(empty, 0.0, shift))
        others = others_of_class(labels, weight, queries, references, class_mass)
        own = np.arange(len(queries)), self.codes
        if labels.priors is not None:
            self.kernel[own] += leave_one_out(class_mass[self.codes], others)
        unit += kernel.log_integral(Z.shape[1]) * math.log2(math.e)
        each, mine = background_mass(
            labels, np.ones(n_classes), class_mass, self.codes, others, unit
        )
        normals = Normals(Z[references], codes, weight[references], n_classes)
        self.normal = normals.log2_densities(Z[queries])
        self.normal[own] += mine - each[self.codes]
        self.normal += each

    def loss(self, beta: Array, kind: str) -> tuple[float, Array]:
        """The mean loss of the queries, and its derivative by the shares."""
        own = np.arange(len(self.codes)), self.codes
        with np.errstate(divide="ignore", invalid="ignore"):
            joint = np.logaddexp2(np.log2(beta) + self.normal, np.log2(1.0 - beta) + self.kernel)
            # [Oneata2011] eq. (4.24), divided by the mixture
            by_beta = np.exp2(self.normal - joint) - np.exp2(self.kernel - joint)
        by_beta[np.isneginf(joint)] = 0.0
        mine = joint[own].copy()
        joint[own] = -np.inf
        top = joint.max(axis=1)
        top[np.isneginf(top)] = 0.0
        share = np.exp2(joint - top[:, None])
        total = share.sum(axis=1)
        with np.errstate(divide="ignore"):
            others = top + np.log2(total)
        left_out = np.isneginf(mine)
        odds = np.where(left_out, np.inf, others - np.where(left_out, 0.0, mine))
        value, counts, _ = mean_loss(odds, self.weight, kind)
        share /= np.where(total > 0, total, 1.0)[:, None]
        share[own] = -1.0
        slope = counts * slopes(odds, kind)
        return value, np.sum(slope[:, None] * share * by_beta, axis=0)


def _densities(
    Z: Array, y: Any, queries: Array | None, references: Array | None, kernel: Kernel, owner: str
) -> tuple[_Densities, Labels]:
    Z = check_points(Z)
    labels = y if isinstance(y, Labels) else Labels(y)
    if len(labels) != len(Z):
        raise ValueError(f"Z has {len(Z)} rows but there are {len(labels)} labels.")
    queries = check_rows(queries, len(Z), "queries", owner)
    references = check_rows(references, len(Z), "references", owner)
    return _Densities(Z, labels, queries, references, kernel), labels


def background_gradient(
    Z: Array,
    y: Any,
    background: Array,
    queries: Array | None = None,
    references: Array | None = None,
    *,
    objective: str = "log",
    kernel: Kernel = _GAUSSIAN,
) -> tuple[float, Array]:
    r"""The loss of :func:`nca` with a background, and its derivative by the shares.

    .. math:: \frac{\partial p(z|c)}{\partial \beta_c} = N(z | \mu_c, \Sigma_c) - p_\kappa(z|c)

    ([Oneata2011]_ eq. (4.24)), put into the loss.

    Parameters
    ----------
    Z, y, background, queries, references, objective, kernel
        As in :func:`nca`.  Of more than 2**21 / n_classes queries, evenly spaced ones count.

    Returns
    -------
    value : float
    dbeta : array of shape (n_classes,)
    """
    check_kind(objective, "objective", "background_gradient")
    rows = _densities(Z, y, queries, references, kernel, "background_gradient")
    beta = check_background(background, len(rows[1].classes), "background_gradient")
    return rows[0].loss(beta, objective)


def descend_background(
    Z: Array,
    y: Any,
    background: Array,
    queries: Array | None = None,
    references: Array | None = None,
    *,
    objective: str = "log",
    kernel: Kernel = _GAUSSIAN,
    steps: int = 10,
) -> Array:
    """Lower the loss of :func:`nca` by the shares of the backgrounds, at fixed points.

    Steps of L-BFGS in the logits of the shares, by :func:`background_gradient`.

    Parameters
    ----------
    Z, y, background, queries, references, objective, kernel
        As in :func:`background_gradient`; the shares to begin with are in [0, 1).
    steps : int, default=10
        The densities are computed once: further steps cost next to nothing.

    Returns
    -------
    background : array of shape (n_classes,)
        New shares in [1e-6, 1 - 1e-6]; a share of 0 stays 0.  The loss is no higher than before.
    """
    check_kind(objective, "objective", "descend_background")
    densities, labels = _densities(Z, y, queries, references, kernel, "descend_background")
    beta = check_background(background, len(labels.classes), "descend_background").copy()
    free = beta > 0
    if not free.any() or not len(densities.codes):
        return beta
    start = np.clip(beta[free], _EDGE, 1.0 - _EDGE)

    def fun(logits: Array) -> tuple[float, Array]:
        beta[free] = 1.0 / (1.0 + np.exp(-logits))
        value, slope = densities.loss(beta, objective)
        return value, (slope * beta * (1.0 - beta))[free]

    edge = math.log(1.0 / _EDGE - 1.0)
    with single_threaded_blas():
        found = minimize(
            fun,
            np.log(start) - np.log1p(-start),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-edge, edge)] * len(start),
            options={"maxiter": steps},
        )
    beta[free] = np.clip(1.0 / (1.0 + np.exp(-found.x)), _EDGE, 1.0 - _EDGE)
    return beta


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
            beta[c] = _em_steps(beta[c], log2_kernel, -shift, log2_normal, weight[rows], steps)
    return beta


def _em_steps(
    beta: float, rest: Array, base: Array, log2_normal: Array, weight: Array, steps: int
) -> float:
    for _ in range(steps):
        if not beta > 0:
            return float(beta)
        odds = np.log2(beta) - np.log1p(-beta) * math.log2(math.e)
        share = join(rest, base, log2_normal + odds)[2][1]
        beta = float(np.clip(np.sum(weight * share) / np.sum(weight), _EDGE, 1.0 - _EDGE))
    return beta
