"""Every formula in plain NumPy, beside its equation number: the tests' oracle.

Float64, whole N x N arrays, no tricks beyond log-sum-exp.  Read this file to learn what is
computed, and `kernels` to learn how it is computed fast.  Only tests import it.

The derivations are in ``docs/theory/nca.md``, the keys in ``docs/references.bib``.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gamma, pi

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "class_normal",
    "effective_n_neighbors",
    "finite_difference",
    "kernel_density",
    "mixture_densities",
    "nca",
    "nca_background",
    "nca_gradient_printed",
    "posterior",
    "squared_distances",
]

Array = NDArray[np.float64]
Index = NDArray[np.intp]


def squared_distances(Z: ArrayLike, W: ArrayLike | None = None) -> Array:
    """Squared Euclidean distances ``d2[i, j] = |z_i - w_j|^2``, from differences.

    Differences, not ``|z|^2 + |w|^2 - 2 z.w``: equal rows are at distance exactly 0.

    Parameters
    ----------
    Z : array of shape (n, d)
    W : array of shape (m, d), default=None
        None stands for `Z`.

    Returns
    -------
    d2 : ndarray of shape (n, m)
    """
    Z = np.asarray(Z, dtype=np.float64)
    W = Z if W is None else np.asarray(W, dtype=np.float64)
    d2 = np.zeros((Z.shape[0], W.shape[0]))
    for c in range(Z.shape[1]):
        d2 += (Z[:, None, c] - W[None, :, c]) ** 2
    return d2


def _log_kernel(d2: Array, kernel: str, d: int) -> tuple[Array, Array]:
    """Logarithm of kappa at squared distances, and -kappa'/kappa, kappa' by the squared distance.

    "gaussian" is exp(-d2), "student" (1 + d2)^-(d + 1)/2 in d dimensions ([Oneata2011] section 6)
    and "compact" (1 - d2)^2 up to 1, eq. (4.16), 0 beyond.
    """
    if kernel == "gaussian":
        return -d2, np.ones_like(d2)
    if kernel == "student":
        return -0.5 * (d + 1) * np.log1p(d2), 0.5 * (d + 1) / (1 + d2)
    if kernel == "compact":
        t = np.maximum(1 - d2, 0.0)
        with np.errstate(divide="ignore"):
            return 2 * np.log(t), np.divide(2.0, t, np.zeros_like(t), where=t > 0)
    raise ValueError(f"kernel must be 'gaussian', 'student' or 'compact'. Got {kernel!r} instead.")


def _softmax_rows(T: Array) -> tuple[Array, Array]:
    """Log-sum-exp of each row and the row's softmax; an empty row gives ``-inf`` and zeros."""
    largest = T.max(axis=1, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0.0)  # [Oneata2011] eq. (3.20)
    E = np.exp(T - shift[:, None])
    total = E.sum(axis=1)
    with np.errstate(divide="ignore"):
        log_sum = shift + np.log(total)
    return log_sum, E / np.where(total > 0, total, 1.0)[:, None]


def _weights(sample_weight: ArrayLike | None, n: int) -> Array:
    v = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if v.shape != (n,) or not np.all(v >= 0):
        raise ValueError(f"sample_weight must be {n} numbers >= 0. Got shape {v.shape} instead.")
    return v


def _log_mass(mass: Array, code: Index, n_classes: int, priors: ArrayLike | str | None) -> Array:
    """Logarithm of what multiplies the kernel of reference j for query i.

    `mass` holds v_j, and 0 where j is not a reference of i (in particular j = i).  With given
    priors it becomes ``p(c) v_j / sum_{k in c} v_k``: a density a class, then Bayes' rule.
    """
    if priors is not None:
        prior = np.full(n_classes, 1 / n_classes) if isinstance(priors, str) else priors
        if isinstance(priors, str) and priors != "uniform":
            raise ValueError(f"priors must be None, 'uniform' or an array. Got {priors!r} instead.")
        prior = np.asarray(prior, dtype=np.float64)
        if prior.shape != (n_classes,) or not np.all(prior >= 0):
            raise ValueError(f"priors must be {n_classes} numbers >= 0. Got {priors!r} instead.")
        in_class = code[:, None] == np.arange(n_classes)
        class_mass = (mass @ in_class)[:, code]  # sum over the class of j, without the query
        # [Oneata2011] eq. (3.9) and (3.11), the query left out of its own class
        mass = prior[code] * np.divide(mass, class_mass, np.zeros_like(mass), where=mass > 0)
    with np.errstate(divide="ignore"):
        return np.log(mass)


def nca(
    Z: ArrayLike,
    y: ArrayLike,
    objective: str = "accuracy",
    queries: ArrayLike | None = None,
    references: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    priors: ArrayLike | str | None = None,
    kernel: str = "gaussian",
) -> tuple[float, Array]:
    """Neighbourhood components analysis: mean loss over the queries, and its gradient.

    With reference masses m_ij (v_j, or p(c) v_j over the class's mass; 0 for j = i)::

        own_i = sum_{j: y_j = y_i} m_ij kappa(|z_i - z_j|),   other_i = the same over y_j != y_i
        p_i   = own_i / (own_i + other_i) = sigmoid(log own_i - log other_i)
        loss  = sum_i v_i l_i / sum_i v_i,                    l_i = -p_i or -log p_i

    Parameters
    ----------
    Z : array of shape (n, d)
        Embedded points.
    y : array of shape (n,)
        Labels.
    objective : {"accuracy", "log"}, default="accuracy"
        Loss of a query: ``-p_i`` or ``-log p_i``.
    queries, references : int arrays, default=None
        Positions in `Z`; None stands for all rows.  A row is never its own reference.
    sample_weight : array of shape (n,), default=None
        v: the mass of a row as a reference and its weight as a query.
    priors : None, "uniform" or array of shape (n_classes,), default=None
        None: the mass of reference j is v_j (empirical priors).  Otherwise p(c), in the order of
        ``np.unique(y)``, times the class's density with the query left out.
    kernel : {"gaussian", "student", "compact"}, default="gaussian"
        kappa; the Gaussian's is exp(-u^2).

    Returns
    -------
    value : float
        A query with no mass in its own class, or none in range, has p_i = 0.  For "accuracy" it
        counts with value 0; for "log" it is left out of sum and divisor.  0.0 when no query counts.
    dZ : ndarray of shape (n, d)

    References
    ----------
    [Goldberger2005], [Oneata2011]
    """
    if objective not in ("accuracy", "log"):
        raise ValueError(f"objective must be 'accuracy' or 'log'. Got {objective!r} instead.")
    Z = np.asarray(Z, dtype=np.float64)
    n = Z.shape[0]
    q = np.arange(n) if queries is None else np.asarray(queries, dtype=np.intp)
    r = np.arange(n) if references is None else np.asarray(references, dtype=np.intp)
    classes, code = np.unique(np.asarray(y), return_inverse=True)
    v = _weights(sample_weight, n)

    mass = (q[:, None] != r[None, :]) * v[r]  # p_ii = 0 in [Goldberger2005] eq. (1)
    log_kappa, fall = _log_kernel(squared_distances(Z[q], Z[r]), kernel, Z.shape[1])
    T = _log_mass(mass, code[r], len(classes), priors) + log_kappa
    same = code[q][:, None] == code[r][None, :]
    log_own, P_own = _softmax_rows(np.where(same, T, -np.inf))  # eq. (2), numerator
    log_other, P_other = _softmax_rows(np.where(same, -np.inf, T))

    counts = log_own > -np.inf
    log_odds = np.full(len(q), -np.inf)
    np.subtract(log_own, log_other, log_odds, where=counts)
    log_p = -np.logaddexp(0, -log_odds)  # log of eq. (2): log p_i, accurate as p_i -> 1
    log_not_p = -np.logaddexp(0, log_odds)  # log(1 - p_i), accurate as p_i -> 1

    if objective == "accuracy":
        weight, loss = v[q], -np.exp(log_p)  # [Goldberger2005] eq. (3), negated
        slope = np.exp(log_p + log_not_p)  # dp_i / dlog_odds = p_i (1 - p_i)
    else:
        weight, loss = np.where(counts, v[q], 0.0), -np.where(counts, log_p, 0.0)  # eq. (6), neg.
        slope = np.exp(log_not_p)  # dlog p_i / dlog_odds = 1 - p_i
    if not weight.sum() > 0:
        return 0.0, np.zeros_like(Z)
    weight = weight / weight.sum()

    # -W of docs/theory/nca.md: dloss / d|z_i - z_j|^2, what is left of eq. (5) and (7) without x
    G = (weight * slope)[:, None] * (P_own - P_other) * fall  # d log kappa = -fall d|z_i - z_j|^2
    G[~counts] = 0.0
    return float(weight @ loss), _pull_to_points(G, Z, q, r)


def _pull_to_points(G: Array, Z: Array, q: Index, r: Index) -> Array:
    """Turn G_ij = dloss/d|z_i - z_j|^2 into dZ: a pair pulls its two points oppositely."""
    dZ = np.zeros_like(Z)
    for c in range(Z.shape[1]):
        F = 2 * G * (Z[q, c][:, None] - Z[r, c][None, :])  # d|z_i - z_j|^2 / dz_i = 2 (z_i - z_j)
        np.add.at(dZ[:, c], q, F.sum(axis=1))
        np.add.at(dZ[:, c], r, -F.sum(axis=0))
    return dZ


def kernel_density(kernel: str, d2: ArrayLike, d: int) -> tuple[Array, Array]:
    """A kernel over its integral in d dimensions, and its derivative by the squared distance."""
    log_kappa, fall = _log_kernel(np.asarray(d2, dtype=np.float64), kernel, d)
    integral = {
        "gaussian": pi ** (d / 2),
        "student": pi ** ((d + 1) / 2) / gamma((d + 1) / 2),
        # 15/16 in [Oneata2011] section 4.6 is one over this at d = 1
        "compact": 8 * pi ** (d / 2) / gamma(d / 2 + 1) / ((d + 2) * (d + 4)),
    }[kernel]
    k = np.exp(log_kappa) / integral
    return k, -fall * k


def class_normal(Z: ArrayLike, v: ArrayLike) -> tuple[Array, Array, float]:
    """Mean and shrunk covariance of a class, and how much it was shrunk.

    ``Sigma = (1 - rho) S + (rho tr(S) / d + 1e-6) I`` with S around the mean, over the total
    weight; ``rho = d / (n + d)`` when n <= d, else 1e-6.
    """
    Z, v = np.asarray(Z, dtype=np.float64), np.asarray(v, dtype=np.float64)
    n, d = Z.shape
    mu = v @ Z / v.sum()
    S = (Z - mu).T @ np.diag(v / v.sum()) @ (Z - mu)
    rho = d / (n + d) if n <= d else 1e-6
    return mu, (1 - rho) * S + (rho * np.trace(S) / d + 1e-6) * np.eye(d), rho


def mixture_densities(
    z: ArrayLike, Z: ArrayLike, v: ArrayLike, left_out: int | None, kernel: str = "gaussian"
) -> tuple[float, float]:
    """``N(z | mu_c, Sigma_c)`` and ``p_kappa(z | c)`` for a class of rows Z, [Oneata2011] (4.22).

    The row ``left_out`` has no part in the second; both are 0 for a class of no other rows.
    """
    z, Z, v = (np.asarray(part, dtype=np.float64) for part in (z, Z, v))
    mu, Sigma, _ = class_normal(Z, v)
    v = np.where(np.arange(len(v)) == left_out, 0.0, v)
    if not v.sum() > 0:
        return 0.0, 0.0
    k, _ = kernel_density(kernel, squared_distances(z[None], Z)[0], Z.shape[1])
    mahalanobis = (z - mu) @ np.linalg.solve(Sigma, z - mu)
    normal = np.exp(-mahalanobis / 2) / np.sqrt(np.linalg.det(2 * pi * Sigma))
    return float(normal), float(v @ k / v.sum())  # eq. (4.21), with 1/N_c


def nca_background(
    Z: ArrayLike,
    y: ArrayLike,
    beta: ArrayLike,
    objective: str = "accuracy",
    queries: ArrayLike | None = None,
    references: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    priors: ArrayLike | None = None,
    kernel: str = "gaussian",
) -> tuple[float, Array]:
    """NCA with a background: mean loss over the queries, and its gradient.

    ``p(z|c) = beta_c N(z|mu_c, Sigma_c) + (1 - beta_c) p_kappa(z|c)``, [Oneata2011] eq. (4.22),
    and p_i is the posterior of the own class by Bayes' rule, eq. (3.11).  The query is left out of
    p_kappa and of empirical priors.  No log-sum-exp: for points that are not far from all others.

    Parameters and results as those of `nca`; `priors` are numbers or None, and `beta` is an array
    of shape (n_classes,).
    """
    Z, beta = np.asarray(Z, dtype=np.float64), np.asarray(beta, dtype=np.float64)
    n, d = Z.shape
    q = np.arange(n) if queries is None else np.asarray(queries, dtype=np.intp)
    r = np.arange(n) if references is None else np.asarray(references, dtype=np.intp)
    classes, code = np.unique(np.asarray(y), return_inverse=True)
    v = _weights(sample_weight, n)
    members = [r[(code[r] == c) & (v[r] > 0)] for c in range(len(classes))]
    losses, weight = np.zeros(len(q)), v[q].copy()
    dZs = np.zeros((len(q), n, d))
    for a, i in enumerate(q):
        prior, normal, kernels = np.zeros((3, len(classes)))
        for c, rows in enumerate(members):
            if len(rows):
                left_out = int(np.flatnonzero(rows == i)[0]) if i in rows else None
                normal[c], kernels[c] = mixture_densities(Z[i], Z[rows], v[rows], left_out, kernel)
            mass = v[rows[rows != i]].sum()
            prior[c] = mass if priors is None else np.asarray(priors)[c] * (mass > 0)
        joint = prior * (beta * normal + (1 - beta) * kernels)
        if not joint[code[i]] > 0:  # nobody else of its class: as in `nca`
            weight[a] *= objective == "accuracy"
            continue
        p = joint[code[i]] / joint.sum()
        losses[a] = -p if objective == "accuracy" else -np.log(p)
        d_joint = -((np.arange(len(classes)) == code[i]) - p) / joint.sum()  # dloss / djoint
        if objective == "log":
            d_joint /= p
        for c, rows in enumerate(members):
            if prior[c] > 0:
                d_density = d_joint[c] * prior[c]
                _add_normal(dZs[a], Z, i, rows, v, d_density * beta[c] * normal[c])
                others = rows[rows != i]
                _, slope = kernel_density(kernel, squared_distances(Z[[i]], Z[others])[0], d)
                slope *= 2 * d_density * (1 - beta[c]) * v[others] / v[others].sum()
                pulls = slope[:, None] * (Z[i] - Z[others])
                dZs[a, i] += pulls.sum(axis=0)
                dZs[a, others] -= pulls
    if not weight.sum() > 0:
        return 0.0, np.zeros_like(Z)
    weight /= weight.sum()
    return float(weight @ losses), np.tensordot(weight, dZs, 1)


def _add_normal(dZ: Array, Z: Array, i: int, rows: Index, v: Array, w: float) -> None:
    """Add w times the gradient of log N(z_i | mu, Sigma): through z_i, mu and Sigma."""
    mu, Sigma, rho = class_normal(Z[rows], v[rows])
    u = np.linalg.solve(Sigma, Z[i] - mu)
    dS = 0.5 * (np.outer(u, u) - np.linalg.inv(Sigma))
    dS = (1 - rho) * dS + rho * np.trace(dS) / len(mu) * np.eye(len(mu))
    dZ[i] -= w * u
    for j in rows:
        dZ[j] += w * v[j] / v[rows].sum() * (u + 2 * dS @ (Z[j] - mu))


def nca_gradient_printed(A: ArrayLike, X: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    """Gradients of f and g with respect to A exactly as printed, at a cost of N^2 D^2.

    Sums over the points, to be maximised: `nca`'s loss is minus their mean.  For checking
    ``dA = dZ.T @ X``; the printed form divides by p_i, so keep the own class in reach.

    Parameters
    ----------
    A : array of shape (d, D)
    X : array of shape (n, D)
    y : array of shape (n,)
        Every class needs two members.

    Returns
    -------
    df, dg : ndarrays of shape (d, D)
        [Goldberger2005] eq. (5) and eq. (7).
    """
    A, X, y = np.asarray(A, dtype=np.float64), np.asarray(X, dtype=np.float64), np.asarray(y)
    n, D = X.shape
    d2 = squared_distances(X @ A.T)
    np.fill_diagonal(d2, np.inf)
    _, p = _softmax_rows(-d2)  # eq. (1)
    sum_f, sum_g = np.zeros((D, D)), np.zeros((D, D))
    for i in range(n):
        all_i, own_i = np.zeros((D, D)), np.zeros((D, D))
        p_i = 0.0
        for k in range(n):
            outer = p[i, k] * np.outer(X[i] - X[k], X[i] - X[k])  # p_ik x_ik x_ik'
            all_i += outer
            if y[k] == y[i]:
                own_i += outer
                p_i += p[i, k]  # eq. (2)
        sum_f += p_i * all_i - own_i  # eq. (5), the bracket
        sum_g += all_i - own_i / p_i  # eq. (7), the bracket
    return 2 * A @ sum_f, 2 * A @ sum_g


def posterior(
    Z_query: ArrayLike,
    Z_reference: ArrayLike,
    y_reference: ArrayLike,
    priors: ArrayLike | str | None = None,
    sample_weight: ArrayLike | None = None,
    kernel: str = "gaussian",
) -> Array:
    """Class probabilities of new points: Bayes' rule over the class-conditional densities.

    ``p(c | z) = sum_{j in c} m_j kappa(|z - z_j|) / sum_j m_j kappa(|z - z_j|)`` with m_j = v_j,
    or ``p(c) v_j / sum_{k in c} v_k`` for given priors.  Queries are never references here.  With
    no reference in range, ``p(c | z) = sum_{j in c} m_j / sum_j m_j``.

    Parameters
    ----------
    Z_query : array of shape (n_query, d)
    Z_reference : array of shape (n_reference, d)
    y_reference : array of shape (n_reference,)
    priors : None, "uniform" or array of shape (n_classes,), default=None
        In the order of ``np.unique(y_reference)``.
    sample_weight : array of shape (n_reference,), default=None
        At least one reference must keep a positive mass.
    kernel : {"gaussian", "student", "compact"}, default="gaussian"

    Returns
    -------
    P : ndarray of shape (n_query, n_classes)
    """
    d2 = squared_distances(Z_query, Z_reference)
    classes, code = np.unique(np.asarray(y_reference), return_inverse=True)
    mass = np.tile(_weights(sample_weight, d2.shape[1]), (d2.shape[0], 1))
    log_mass = _log_mass(mass, code, len(classes), priors)
    T = log_mass + _log_kernel(d2, kernel, np.shape(Z_query)[1])[0]
    T = np.where(T.max(axis=1, keepdims=True) > -np.inf, T, log_mass)
    log_joint = np.empty((d2.shape[0], len(classes)))
    for c in range(len(classes)):
        log_joint[:, c], _ = _softmax_rows(T[:, code == c])  # [Oneata2011] eq. (3.9) times p(c)
    return _softmax_rows(log_joint)[1]  # [Oneata2011] eq. (3.11); (3.25) without given priors


def effective_n_neighbors(
    Z: ArrayLike,
    sample_weight: ArrayLike | None = None,
    Z_query: ArrayLike | None = None,
    kernel: str = "gaussian",
) -> Array:
    """Perplexity of each point's neighbour distribution, ``exp(-sum_j p_ij log p_ij)``.

    [Goldberger2005] section 2.  Between 1 and n - 1; 0 for a point with no neighbour at all.
    Of new points it is the local K of section 6, between 1 and n.

    Parameters
    ----------
    Z : array of shape (n, d)
    sample_weight : array of shape (n,), default=None
        Mass of each row as a neighbour.
    Z_query : array of shape (n_query, d), default=None
        New points that choose among all rows of Z.  None: each row of Z among the others.
    kernel : {"gaussian", "student", "compact"}, default="gaussian"

    Returns
    -------
    perplexity : ndarray of shape (n,) or (n_query,)
    """
    d2 = squared_distances(Z if Z_query is None else Z_query, Z)
    mass = np.tile(_weights(sample_weight, d2.shape[1]), (d2.shape[0], 1))
    if Z_query is None:
        np.fill_diagonal(mass, 0.0)
    with np.errstate(divide="ignore"):
        T = np.log(mass) + _log_kernel(d2, kernel, np.shape(Z)[1])[0]
        log_sum, P = _softmax_rows(T)  # [Goldberger2005] eq. (1)
    entropy = -np.sum(P * np.log(np.where(P > 0, P, 1.0)), axis=1)
    return np.where(log_sum > -np.inf, np.exp(entropy), 0.0)


def finite_difference(fun: Callable[[Array], float], Z: ArrayLike, eps: float = 1e-6) -> Array:
    """Gradient of a scalar function by central differences, ``(f(z + eps) - f(z - eps)) / 2 eps``.

    Parameters
    ----------
    fun : callable
        Array of `Z`'s shape to float.
    Z : array
    eps : float, default=1e-6

    Returns
    -------
    gradient : ndarray of `Z`'s shape
    """
    Z = np.array(Z, dtype=np.float64)
    gradient = np.empty_like(Z)
    for index in np.ndindex(Z.shape):
        up, down = Z.copy(), Z.copy()
        up[index] += eps
        down[index] -= eps
        # the step as stored, not as asked for: they differ when |z| is large
        gradient[index] = (fun(up) - fun(down)) / (up[index] - down[index])
    return gradient
