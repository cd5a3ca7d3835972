"""Models as graphs: from embedded rows to class probabilities or numbers.

Every row is compared with all stored training rows, by differences of coordinates: products of
matrices would be faster, but lose the digits of small distances.  The rows are taken one after the
other, so that memory is that of one row: some arrays of as many entries as the stored rows have.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from onnx import TensorProto

from vicinal.core.types import Array
from vicinal.densities import Compact, Gaussian, Kernel, Laplace, Student
from vicinal.models.posterior import KNCAModel, NCAModel
from vicinal.models.regression import RegressionModel
from vicinal.models.soft import DistributionModel
from vicinal.models.vote import VoteModel, VoteRegressionModel
from vicinal.models.votes import Chi2VotingModel, VotingModel
from vicinal.objectives.background import Normals
from vicinal.onnx._votes_of_k import win_shares
from vicinal.onnx._writer import Writer
from vicinal.targets.labels import background_mass, class_sums, plain_mass, reference_mass, weights

#: largest coordinate of a row: squares beyond would be infinite, and have no differences
_FARTHEST = {np.dtype(np.float32): 1e15, np.dtype(np.float64): 1e100}

#: what a model makes of one embedded row, given as a name
Body = Callable[[Writer, str], str]


def n_outputs(model: Any) -> int:
    """The length of a prediction: classes, or numbers."""
    return int(model.n_outputs)


def predict(w: Writer, Z: str, moved: Any, model: Any, rule: str) -> str:
    """The graph of ``model.probabilities`` or ``model.predict`` for embedded rows."""
    R = np.asarray(model.Z, dtype=np.float64) + moved
    farthest = _FARTHEST[w.dtype]
    Z = w.op("Clip", Z, w.constant(-farthest), w.constant(farthest))
    body = _votes(model, R) if rule == "knn" else _posterior(model, R)
    found = w.each_row(Z, (R.shape[1], n_outputs(model)), body)
    # Zero, or NaN for a row with missing values, which votes would not show.
    lacking = w.reduce("Sum", w.op("Mul", Z, w.constant(0.0)), 1)
    return w.op("Add", found, lacking)


def _posterior(model: Any, R: Array) -> Body:
    if isinstance(model, KNCAModel):
        k = min(model.k, len(R))
        classes = model.labels.codes, n_outputs(model)
        return partial(_won_votes, R, *classes, k, model.vote == "all")
    if isinstance(model, VoteModel | VoteRegressionModel):
        return partial(_weighed, model, R)
    if isinstance(model, DistributionModel | RegressionModel):
        values = model.numbers.values if isinstance(model, RegressionModel) else model.labels.values
        return partial(_kernel_means, model, R, values)
    assert isinstance(model, NCAModel)
    return partial(_class_shares, model, R)


def _squared(w: Writer, z: str, R: Array) -> str:
    """Squared distances of one point from the stored rows, (n,)."""
    away = w.op("Sub", w.constant(R.T), _column(w, z))
    return w.reduce("SumSquare", away, 0, keep=False)


def _relative(w: Writer, z: str, R: Array, squared: str | None = None) -> str:
    r"""Squared distances less that of a nearest stored row m; in float64 the distances themselves.

    Far from all stored rows, float32 has no digits left to tell squares apart.  Their differences
    are :math:`\sum (r - r_m) (r - r_m - 2 (z - r_m))`, in which the distance occurs but once.
    """
    squared = _squared(w, z, R) if squared is None else squared
    if w.dtype == np.float64:
        return squared
    stored = w.constant(R.T)
    nearest = w.gather(stored, w.op("ArgMin", squared, axis=0), axis=1)  # (d, 1)
    beside = w.op("Sub", stored, nearest)
    away = w.op("Sub", _column(w, z), nearest)
    terms = w.op("Mul", beside, w.op("Sub", beside, w.op("Add", away, away)))
    return w.reduce("Sum", terms, 0, keep=False)


def _chi2(w: Writer, z: str, R: Array) -> str:
    """Chi-squared distances of one histogram from the stored ones, (n,)."""
    stored, z = w.constant(R.T), _column(w, z)
    away, total = w.op("Sub", stored, z), w.op("Add", stored, z)
    positive = w.op("Greater", total, w.constant(0.0))
    share = w.op("Div", w.op("Mul", away, away), w.op("Where", positive, total, w.constant(1.0)))
    return w.reduce("Sum", share, 0, keep=False)


def _column(w: Writer, z: str) -> str:
    """A point as a column: sums over the first axis run along the stored rows, and are fast."""
    return w.op("Unsqueeze", z, w.constant([1]))


def _log_kernel(w: Writer, z: str, R: Array, kernel: Kernel) -> str:
    """Logarithms of a kernel between a point and the stored rows; -inf out of its range."""
    if isinstance(kernel, Gaussian) and not kernel.background:
        return w.op("Neg", _relative(w, z, R))
    squared = _squared(w, z, R)
    if isinstance(kernel, Gaussian):
        return w.op("Neg", squared)
    if isinstance(kernel, Laplace):
        return w.op("Neg", _lengths(w, z, R, squared, kernel.background))
    if isinstance(kernel, Student):
        power = w.constant(-0.5 * (R.shape[1] + 1))
        return w.op("Mul", power, w.op("Log", w.op("Add", squared, w.constant(1.0))))
    assert isinstance(kernel, Compact)
    inside = w.op("Relu", w.op("Sub", w.constant(1.0), squared))
    return w.op("Log", w.op("Mul", inside, inside))


def _lengths(w: Writer, z: str, R: Array, squared: str, absolute: bool) -> str:
    """Distances; in float32 less the smallest one, unless they must be absolute."""
    lengths = w.op("Sqrt", squared)
    if absolute or w.dtype == np.float64:
        return lengths
    both = w.op("Add", lengths, w.reduce("Min", lengths, 0))
    both = w.op("Max", both, w.constant(np.finfo(w.dtype).tiny))  # where both are zero
    return w.op("Div", _relative(w, z, R, squared), both)


def _log_weights(w: Writer, z: str, R: Array, mass: Array, kernel: Kernel) -> str:
    """Logarithms of the kernel times the masses, which are positive; relative to any number.

    They are absolute if the kernel has a background, to which they are compared.
    """
    logs = _log_kernel(w, z, R, kernel)
    return logs if (mass == 1.0).all() else w.op("Add", logs, w.constant(np.log(mass)))


def _added_up(w: Writer, values: str, codes: str, n_classes: int) -> str:
    """Sums of values by class."""
    zeros = w.constant(np.zeros(n_classes))
    return w.op("ScatterElements", zeros, codes, values, axis=0, reduction="add")


def _normalised(w: Writer, shares: str) -> str:
    return w.op("Div", shares, w.reduce("Sum", shares, 0))


def _class_shares(model: NCAModel, R: Array, w: Writer, z: str) -> str:
    """Class probabilities by stochastic neighbours: see `objectives.nca_posterior`."""
    labels, beta = model.labels, model.background
    weight, everyone = weights(labels), np.arange(len(labels))
    mass, class_mass, unit = reference_mass(labels, weight, everyone, beta)
    rows = np.flatnonzero(mass)
    n_classes = len(labels.classes)
    logs = _log_weights(w, z, R[rows], mass[rows], model.kernel)
    shares, top = w.sum_exp(logs, 0)
    shares = _added_up(w, shares, w.constant(labels.codes[rows]), n_classes)
    if beta is not None:
        unit += model.kernel.log_integral(R.shape[1]) * np.log2(np.e)
        log2_mass = background_mass(labels, beta, class_mass, rows[:0], np.empty(0), unit)[0]
        rows = rows[np.argsort(labels.codes[rows], kind="stable")]
        normals = Normals(R[rows], labels.codes[rows], weight[rows], n_classes)
        shares = _with_background(w, z, shares, top, normals, log2_mass)
    if model.kernel.reaches_everywhere or beta is not None:
        return _normalised(w, shares)
    # the class priors, where nothing is in range
    prior = w.constant(class_sums(labels, mass, rows))
    return _normalised(w, w.op("Where", w.is_finite(top), shares, prior))


def _with_background(
    w: Writer, z: str, shares: str, top: str, normals: Normals, log2_mass: Array
) -> str:
    """The shares, given relative to exp(top), plus the normal densities of the classes."""
    centred = w.op("Unsqueeze", w.op("Sub", z, w.constant(normals.mean)), w.constant([2]))
    white = w.op("MatMul", w.constant(normals.whitener), centred)  # (C, d, 1)
    length = w.op("Squeeze", w.reduce("Sum", w.op("Mul", white, white), 1), w.constant([1, 2]))
    peak = w.constant(np.log(2.0) * (normals.log2_peak + log2_mass))
    logs = w.op("Sub", peak, w.op("Mul", w.constant(0.5), length))
    density, highest = w.sum_exp(logs, 0)
    both = w.op("Max", top, highest)
    parts = [
        w.op("Mul", values, w.op("Exp", w.op("Sub", own, both)))
        for values, own in ((shares, top), (density, highest))
    ]
    return w.op("Add", *parts)


def _kernel_means(model: Any, R: Array, values: Array, w: Writer, z: str) -> str:
    """Means of the stored rows' numbers, weighted by the kernel and the masses."""
    weight = np.ones(len(R)) if model.sample_weight is None else model.sample_weight
    mass = plain_mass(weight, np.arange(len(R)))
    rows = np.flatnonzero(mass)
    logs = _log_weights(w, z, R[rows], mass[rows], model.kernel)
    shares = _normalised(w, w.sum_exp(logs, 0)[0])
    means = w.times_matrix(shares, values[rows])
    return means if isinstance(model, RegressionModel) else _normalised(w, means)


def _won_votes(
    R: Array, codes: Array, n_classes: int, k: int, unanimous: bool, w: Writer, z: str
) -> str:
    """The chance of each class to win a vote of k stochastic neighbours."""
    return win_shares(w, w.op("Neg", _relative(w, z, R)), codes, n_classes, k, unanimous)


def _weighed(model: VoteModel | VoteRegressionModel, R: Array, w: Writer, z: str) -> str:
    """The weighted mean of what the maps of a vote say."""
    parts, first = [], 0
    for weight, kernel, (stored,) in model.ballots.each(R):
        last = first + stored.shape[1]
        own = w.gather(z, np.arange(first, last))
        own = w.op("Div", own, w.constant(float(np.sqrt(weight))))
        single: NCAModel | RegressionModel
        if isinstance(model, VoteModel):
            single = NCAModel(stored, model.labels, 1, kernel)
        else:
            single = RegressionModel(stored, model.numbers, 1, kernel)
        found = _posterior(single, stored)(w, own)
        parts.append(w.op("Mul", found, w.constant(weight)))
        first = last
    return w.op("Sum", *parts)


def _votes(model: Any, R: Array) -> Body:
    """Votes, or means, of the k nearest stored rows."""
    if model.asked == "local":
        return partial(_vote, model, R, partial(_local_k, model, R))
    k = int(model.n_neighbors)
    return partial(_vote, model, R, lambda w, z: w.constant([k]))


def _vote(model: Any, R: Array, number: Body, w: Writer, z: str) -> str:
    distances = (_chi2 if isinstance(model, Chi2VotingModel) else _relative)(w, z, R)
    near = w.ops("TopK", distances, number(w, z), n_outputs=2, largest=0)[1]
    weight = np.ones(len(R)) if model.sample_weight is None else model.sample_weight
    ballots = w.gather(w.constant(weight), near)
    if isinstance(model, DistributionModel | RegressionModel):
        values = model.numbers.values if isinstance(model, RegressionModel) else model.labels.values
        chosen = w.gather(w.constant(values), near)
        return w.op("MatMul", _normalised(w, ballots), chosen)
    assert isinstance(model, NCAModel | KNCAModel | VotingModel | VoteModel)
    codes = w.gather(w.constant(model.labels.codes), near)
    return _normalised(w, _added_up(w, ballots, codes, n_outputs(model)))


def _local_k(model: Any, R: Array, w: Writer, z: str) -> str:
    """The effective number of neighbours: exp of the entropy, rounded, at least one."""
    weight = np.ones(len(R)) if model.sample_weight is None else model.sample_weight
    mass = plain_mass(weight, np.arange(len(R)))
    rows = np.flatnonzero(mass)
    logs = _log_weights(w, z, R[rows], mass[rows], model.kernel)
    shares, top = w.sum_exp(logs, 0)
    tiny = w.constant(np.finfo(w.dtype).tiny)  # where nothing is in range
    total = w.op("Max", w.reduce("Sum", shares, 0), tiny)
    # so that 0 log 0 is 0
    relative = w.op("Max", w.op("Sub", logs, top), w.constant(w.lowest))
    mean = w.op("Div", w.reduce("Sum", w.op("Mul", shares, relative), 0), total)
    effective = w.op("Round", w.op("Exp", w.op("Sub", w.op("Log", total), mean)))
    least, most = w.constant(1.0), w.constant(float(len(R)))
    effective = w.op("Min", w.op("Max", effective, least), most)
    return w.op("Cast", effective, to=TensorProto.INT64)
