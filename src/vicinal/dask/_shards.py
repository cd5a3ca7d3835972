"""Predictions from training rows that stay on the workers, embedded, block by block: in shards.

Each block of new rows makes a task with each shard, and what these find is merged in the order of
the shards, some at a time: the bits depend on the chunks of either, and on nothing else.  No
process ever holds all embedded training rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import gen_batches

from vicinal._validation import check_option
from vicinal.core.points import check_points
from vicinal.core.types import Array
from vicinal.dask._cluster import as_computed, in_one_thread
from vicinal.dask._lazy import as_arrays, blocks_of, is_lazy
from vicinal.dask._table import checked_block
from vicinal.densities import Kernel
from vicinal.engines.base import Means, RowSums, merge, merge_means
from vicinal.engines.cpu.charged import charged_means
from vicinal.models.posterior import NCAModel
from vicinal.models.regression import RegressionModel, running_means
from vicinal.models.stored import StoredRows
from vicinal.models.votes import vote_shares
from vicinal.objectives.rules import posterior_sums, probabilities
from vicinal.targets.labels import class_sums, plain_mass, reference_mass, weights

_TOGETHER = 8  # results that a task merges
_DIFFERENCES = 2**22  # coordinates of neighbours that are compared at a time
_PIECE_BYTES = 2**25  # of the result of a task: blocks of new rows are cut accordingly


def embedded(local: Any, X: Any, lengths: Sequence[int]) -> Any:
    """The embedded training rows of a fitted model as a lazy array, a block for each of X.

    ``lengths`` are those of the blocks of X, the rows that a dask array need not know.
    """
    import dask.array as da
    from dask.delayed import delayed

    numbers, (_, d), dtype = local._rows.numbers, local._model.Z.shape, local._model.Z.dtype
    embed = delayed(_embedded_block, pure=False)
    held, arrays = delayed(local._map, traverse=False), []
    for block, (a, b) in zip(X.to_delayed()[:, 0], _edges(lengths), strict=True):
        kept = None
        if numbers is not None:
            kept = numbers[np.searchsorted(numbers, a) : np.searchsorted(numbers, b)] - a
        n = b - a if kept is None else len(kept)
        if n:
            part = embed(held, block, kept, type(local).__name__)
            arrays.append(da.from_delayed(part, (n, d), dtype, meta=np.empty((0, 0), dtype)))
    return da.concatenate(arrays)


def _edges(lengths: Sequence[int]) -> list[tuple[int, int]]:
    return list(pairwise(np.cumsum([0, *lengths]).tolist()))


def _embedded_block(mapping: Any, X: Any, kept: Array | None, owner: str) -> Array:
    X = checked_block(X, owner)
    Z: Array = in_one_thread(mapping.embed, X if kept is None else X[kept])
    return Z


class Shard(NamedTuple):
    """Embedded training rows of a block, and what is known of each.

    ``about`` are the codes of classes (n,) or numbers (n, q); ``mass`` (n,) counts in sums,
    compared with all training rows, ``weight`` in votes; ``numbers`` are those in the X of the fit.
    """

    rows: StoredRows
    about: Array
    mass: Array
    weight: Array | None
    numbers: Array


def _shard(Z: Array, about: Array, mass: Any, weight: Array | None, numbers: Any) -> Shard:
    about = about.astype(np.intp if about.ndim == 1 else np.float64)
    if not np.ndim(numbers):  # the first one
        numbers = numbers + np.arange(len(Z))
    return Shard(StoredRows(Z, 1), about, np.broadcast_to(mass, len(Z)).copy(), weight, numbers)


class Found(NamedTuple):
    """The nearest rows of each query, (m, k): distances in float64, and what is known of them."""

    distances: Array
    numbers: Array
    about: Array
    weight: Array | None


@dataclass(frozen=True)
class Posterior:
    """Class probabilities by stochastic neighbours; ``priors`` where none is in range."""

    kernel: Kernel
    priors: Array

    @property
    def row_bytes(self) -> int:
        return 16 * len(self.priors)

    def of_shard(self, shard: Shard, Z: Array) -> RowSums:
        """The sums of new points over the classes of a shard."""
        Z = check_points(Z)
        known = check_points(shard.rows.Z), shard.about, shard.mass, self.kernel
        return RowSums(*posterior_sums(Z, *known, len(self.priors)), np.arange(len(Z)))

    def merge(self, a: RowSums, b: RowSums) -> RowSums:
        """The sums over both."""
        return merge(a, b)

    def answer(self, total: RowSums) -> Array:
        """Class probabilities."""
        return probabilities(total.log2, total.shift, self.priors)


@dataclass(frozen=True)
class KernelMeans:
    """Kernel regression; ``centre`` is taken off the numbers, so that float32 keeps digits."""

    kernel: Kernel
    centre: Array

    @property
    def row_bytes(self) -> int:
        return 16 + 8 * len(self.centre)

    def of_shard(self, shard: Shard, Z: Array) -> Means:
        """The means of new points over a shard."""
        known = check_points(shard.rows.Z), shard.about - self.centre, shard.mass
        return charged_means(check_points(Z), *known, self.kernel)

    def merge(self, a: Means, b: Means) -> Means:
        """The means over both."""
        return merge_means(a, b)

    def answer(self, total: Means) -> Array:
        """The numbers of the points."""
        return total.means + self.centre


@dataclass(frozen=True)
class Nearest:
    """The k nearest training rows; of equally near ones, those of the lowest numbers.

    ``then`` makes the answer of what was found.
    """

    k: int
    then: Callable[[Found], Any]

    @property
    def row_bytes(self) -> int:
        return 32 * self.k

    def of_shard(self, shard: Shard, Z: Array) -> Found:
        """The nearest rows of a shard."""
        rows, k = shard.rows, min(self.k, len(shard.rows.Z))
        near, apart = np.empty((len(Z), k), np.int64), np.empty((len(Z), k))
        for some in gen_batches(len(Z), max(1, _DIFFERENCES // (k * Z.shape[1]))):
            near[some] = rows._voters(Z[some], k)
            between = np.subtract(Z[some, None], rows.Z[near[some]], dtype=np.float64)
            apart[some] = np.linalg.norm(between, axis=2)
        weight = None if shard.weight is None else shard.weight[near]
        return self._first(Found(apart, shard.numbers[near], shard.about[near], weight))

    def merge(self, a: Found, b: Found) -> Found:
        """The nearest of both."""
        parts = [None if p is None or q is None else np.concatenate([p, q], axis=1)
                 for p, q in zip(a, b, strict=True)]  # fmt: skip
        return self._first(Found(*parts))  # type: ignore[arg-type]

    def _first(self, found: Found) -> Found:
        order = np.lexsort((found.numbers, found.distances), axis=1)[:, : self.k]
        at = np.arange(len(order))[:, None]
        return Found(*(None if part is None else part[at, order] for part in found))  # type: ignore[arg-type]

    def answer(self, total: Found) -> Any:
        """What is wanted of the nearest rows."""
        return self.then(total)


def _shares_of(n_classes: int, found: Found) -> Array:
    ballots = np.ones(found.about.shape) if found.weight is None else found.weight
    return vote_shares(found.about, ballots, n_classes)


def _means_of(found: Found) -> Array:
    return running_means(found.about, found.weight)[:, -1]


def _neighbours_of(dtype: Any, found: Found) -> tuple[Array, Array]:
    return found.distances.astype(dtype), found.numbers


def _same(values: Any) -> Any:
    return values


def _most_likely(classes: Array, P: Array) -> Array:
    return classes[P.argmax(axis=1)]


class Question(NamedTuple):
    """What is asked of each block of new rows: a rule, and what the answer becomes."""

    rule: Any
    back: Callable[[Any], Any]
    shapes: list[tuple[tuple[int, ...], Any]]


def asked(local: Any, method: str) -> Question:
    """What ``predict`` or ``predict_proba`` asks under the rule of the model."""
    check_option(local, "rule", local._rule_names)
    model, rule = local._model, local.rule
    found: Posterior | KernelMeans | Nearest
    if isinstance(model, RegressionModel):
        numbers = model.numbers
        found = (
            Nearest(n_voters(local), _means_of)
            if rule == "knn"
            else KernelMeans(model.kernel, numbers.values.mean(axis=0))
        )
        shape: tuple[int, ...] = () if local._outputs.one else (model.n_outputs,)
        return Question(found, local._outputs.back, [(shape, np.float64)])
    if rule == "knn":
        found = Nearest(n_voters(local), partial(_shares_of, model.n_outputs))
    elif rule == "posterior" and isinstance(model, NCAModel):
        found = Posterior(model.kernel, class_sums(model.labels, *_mass(model)))
    else:
        allowed = "'posterior' or 'knn'" if isinstance(model, NCAModel) else "'knn'"
        raise ValueError(
            f"The 'rule' parameter of vicinal.dask.{type(local).__name__} must be {allowed} where "
            f"the training rows stay on the workers. Got {rule!r} instead. Call "
            "set_params(rule='knn', n_neighbors=5), or predict by to_local()."
        )
    if method == "predict":
        return Question(found, partial(_most_likely, local.classes_), [((), local.classes_.dtype)])
    return Question(found, _same, [((len(local.classes_),), np.float64)])


def nearest(local: Any, k: int) -> Question:
    """What ``kneighbors`` asks."""
    n, dtype = len(local._model.Z), local._model.Z.dtype
    if not 1 <= k <= n:
        raise ValueError(
            f"The 'n_neighbors' parameter of kneighbors must be an int in [1, {n}]. Got {k} "
            "instead."
        )
    shapes: list[tuple[tuple[int, ...], Any]] = [((k,), dtype), ((k,), np.int64)]
    return Question(Nearest(k, partial(_neighbours_of, dtype)), _same, shapes)


def n_voters(local: Any) -> int:
    """The number of voters, which must be given: to choose it needs all rows in one place."""
    local._set_voters()
    found = local._model.settled_n_neighbors
    if found is None:
        raise ValueError(
            f"The 'n_neighbors' parameter of vicinal.dask.{type(local).__name__} must be an int "
            f"where the training rows stay on the workers. Got {local.n_neighbors!r} instead. "
            "Call set_params(n_neighbors=5)."
        )
    return int(found)


def _mass(model: Any) -> tuple[Array, Array]:
    """The mass of each training row in sums, compared with all of them, and all rows."""
    rows = np.arange(len(model.Z))
    if isinstance(model, RegressionModel):
        return plain_mass(weights(model.numbers), rows), rows
    return reference_mass(model.labels, weights(model.labels), rows)[0], rows


def _shards(local: Any, Z: Any) -> list[Any]:
    """The shards, lazily."""
    from dask.delayed import delayed

    model, numbers = local._model, local._rows.numbers
    regression = isinstance(model, RegressionModel)
    about = model.numbers.values if regression else model.labels.codes
    if not regression:  # in the fewest bytes
        about = about.astype(np.min_scalar_type(model.n_outputs))
    mass, weight = _mass(model)[0], model.sample_weight
    alike = bool((mass == mass[0]).all())
    make, made = delayed(_shard, pure=False), []
    for block, (a, b) in zip(Z.to_delayed()[:, 0], _edges(Z.chunks[0]), strict=True):
        made.append(
            make(
                block, about[a:b], mass[0] if alike else mass[a:b],
                None if weight is None else weight[a:b],
                a if numbers is None else numbers[a:b],
            )
        )  # fmt: skip
    return made


def answers(local: Any, Z: Any, X: Any, question: Question) -> list[Any]:
    """Dask arrays of the answers for new rows X, from the embedded training rows Z in shards."""
    from dask.delayed import delayed

    rule, (blocks, lengths) = question.rule, blocks_of(X, type(local).__name__)
    light = _without_rows(local)
    shards, held = _shards(local, Z), delayed(light, traverse=False)
    embed, cut, of_shard, merged, finish, join = (
        delayed(task, pure=False, nout=len(question.shapes))
        for task in (_embedded, _cut, _of_shard, _merged, _answer, _joined)
    )
    size, done = max(1, _PIECE_BYTES // rule.row_bytes), []
    for block, n in zip(blocks, lengths, strict=True):
        points = embed(held, block)
        whole = not n > size  # or nobody knows
        pieces = []
        for first in [0] if whole else range(0, int(n), size):
            piece = points if whole else cut(points, first, size)
            parts = [of_shard(rule, shard, piece) for shard in shards]
            while len(parts) > 1:
                parts = [merged(rule, parts[i : i + _TOGETHER])
                         for i in range(0, len(parts), _TOGETHER)]  # fmt: skip
            pieces.append(finish(question, parts[0], piece))
        done.append(pieces[0] if whole else join(pieces))
    return as_arrays(done, lengths, question.shapes)


def _without_rows(local: Any) -> Any:
    """The model, to check and embed rows."""
    light = type(local)(**local.get_params(deep=False))
    kept = ("_map", "n_components_", "n_features_in_", "feature_names_in_")
    vars(light).update({name: part for name, part in vars(local).items() if name in kept})
    return light


def _embedded(light: Any, X: Any) -> Array:
    if not is_lazy(X) and not (X.shape[0] if hasattr(X, "shape") else len(X)):
        row = np.zeros((1, X.shape[1]), X.dtype)  # most maps refuse no rows
        return in_one_thread(light._map.embed, row)[:0]
    Z: Array = in_one_thread(light._map.embed, light._check_rows(X))
    return Z


def _cut(Z: Array, first: int, size: int) -> Array:
    return Z[first : first + size]


def _of_shard(rule: Any, shard: Shard, Z: Array) -> Any:
    shard.rows.Z = as_computed(shard.rows.Z)  # for good: its search is kept, too
    points = Z if len(Z) else np.zeros((1, Z.shape[1]), Z.dtype)
    return in_one_thread(rule.of_shard, shard, points)


def _merged(rule: Any, parts: list[Any]) -> Any:
    return in_one_thread(reduce, rule.merge, parts)


def _answer(question: Question, total: Any, Z: Array) -> Any:
    found = question.back(in_one_thread(question.rule.answer, total))
    return tuple(part[: len(Z)] for part in found) if isinstance(found, tuple) else found[: len(Z)]


def _joined(pieces: list[Any]) -> Any:
    if isinstance(pieces[0], tuple):
        return tuple(np.concatenate(part) for part in zip(*pieces, strict=True))
    return np.concatenate(pieces)
