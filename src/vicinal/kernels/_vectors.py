"""Vectors of 64 bytes inside kernels, for loops that LLVM does not vectorise by itself.

It gives up where many places of one array are read and written in a loop.  ``load(array, i)`` is
the vector of the entries from ``i`` on of a flat array, 16 of float32 or 8 of float64; ``store``
writes one, ``splat(array, i)`` repeats an entry, and ``scaled(v, number)`` multiplies.  Vectors can
be added, subtracted and multiplied.  ``transpose(source, at, step, target, place, leap)`` reads as
many vectors as a vector has numbers, ``step`` apart, and writes the transposed square, ``leap``
apart.  Nothing checks the bounds.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic, models, register_model

_BYTES = 64


def lanes(dtype: Any) -> int:
    """How many numbers a vector holds."""
    return _BYTES // np.dtype(dtype).itemsize


class _Vector(types.Type):
    def __init__(self, real: Any) -> None:
        self.real = real
        super().__init__(name=f"vector({real})")


_SINGLE, _DOUBLE = _Vector(types.float32), _Vector(types.float64)
_VECTORS = {types.float32: _SINGLE, types.float64: _DOUBLE}


def _llvm(real: Any) -> Any:
    number = ir.FloatType() if real == types.float32 else ir.DoubleType()
    return ir.VectorType(number, _BYTES // (real.bitwidth // 8))


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Any) -> None:
        super().__init__(manager, vector, _llvm(vector.real))


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    data = context.make_array(kind)(context, builder, value=array).data
    return builder.gep(data, [index])


def _repeated(builder: Any, number: Any, vector: Any) -> Any:
    one = builder.insert_element(
        ir.Constant(vector, ir.Undefined), number, ir.Constant(ir.IntType(32), 0)
    )
    mask = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), mask)


@intrinsic
def _load(typingctx: Any, array: Any, index: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = _place(context, builder, sig.args[0], *args)
        place = builder.bitcast(place, _llvm(array.dtype).as_pointer())
        return builder.load(place, align=array.dtype.bitwidth // 8)

    return _VECTORS[array.dtype](array, types.intp), codegen


@intrinsic
def _store(typingctx: Any, array: Any, index: Any, vector: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = _place(context, builder, sig.args[0], *args[:2])
        place = builder.bitcast(place, _llvm(array.dtype).as_pointer())
        builder.store(args[2], place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, _VECTORS[array.dtype]), codegen


@intrinsic
def _splat(typingctx: Any, array: Any, index: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        number = builder.load(_place(context, builder, sig.args[0], *args))
        return _repeated(builder, number, _llvm(array.dtype))

    return _VECTORS[array.dtype](array, types.intp), codegen


@intrinsic
def _scaled(typingctx: Any, vector: Any, number: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = _llvm(vector.real)
        factor = args[1]
        if vector.real == types.float32:
            factor = builder.fptrunc(factor, kind.element)
        return builder.fmul(args[0], _repeated(builder, factor, kind))

    return vector(vector, types.float64), codegen


def _exchanged(builder: Any, vectors: list[Any], distance: int) -> None:
    """Exchange the off-diagonal squares of that size, in all squares of twice the size."""
    count = len(vectors)
    low = [i + (count - distance if i & distance else 0) for i in range(count)]
    high = [i + (count if i & distance else distance) for i in range(count)]
    masks = [ir.Constant(ir.VectorType(ir.IntType(32), count), mask) for mask in (low, high)]
    for i in range(count):
        if not i & distance:
            pair = vectors[i], vectors[i + distance]
            vectors[i], vectors[i + distance] = (builder.shuffle_vector(*pair, m) for m in masks)


@intrinsic
def _transpose(
    typingctx: Any, source: Any, at: Any, step: Any, target: Any, place: Any, leap: Any
) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        square, align = _llvm(source.dtype), source.dtype.bitwidth // 8

        def places(array: int) -> list[Any]:
            found = []
            for i in range(square.count):
                away = builder.mul(args[array + 2], ir.Constant(args[array + 2].type, i))
                index = builder.add(args[array + 1], away)
                one = _place(context, builder, sig.args[array], args[array], index)
                found.append(builder.bitcast(one, square.as_pointer()))
            return found

        vectors = [builder.load(one, align=align) for one in places(0)]
        distance = square.count // 2
        while distance:
            _exchanged(builder, vectors, distance)
            distance //= 2
        for vector, one in zip(vectors, places(3), strict=True):
            builder.store(vector, one, align=align)
        return context.get_dummy_value()

    number = types.intp
    return types.void(source, number, number, target, number, number), codegen


_OPERATIONS = {operator.add: "fadd", operator.sub: "fsub", operator.mul: "fmul"}
for _operation, _instruction in _OPERATIONS.items():

    @infer_global(_operation)
    class _Typed(ConcreteTemplate):
        cases = [signature(v, v, v) for v in (_SINGLE, _DOUBLE)]

    @lower_builtin(_operation, _Vector, _Vector)
    def _lowered(context: Any, builder: Any, sig: Any, args: Any, do: str = _instruction) -> Any:
        return getattr(builder, do)(*args)


if config.DISABLE_JIT:  # the same functions as plain Python, for `make test-nojit`

    def load(array: Any, index: int) -> Any:
        """The entries from there on."""
        return array[index : index + lanes(array.dtype)].copy()

    def store(array: Any, index: int, vector: Any) -> None:
        """Write the entries from there on."""
        array[index : index + len(vector)] = vector

    def splat(array: Any, index: int) -> Any:
        """An entry, repeated."""
        return np.full(lanes(array.dtype), array[index])

    def scaled(vector: Any, number: float) -> Any:
        """The vector times a number."""
        return vector * vector.dtype.type(number)

    def transpose(source: Any, at: int, step: int, target: Any, place: int, leap: int) -> None:
        """Write a square with rows and columns exchanged."""
        square = np.stack([load(source, at + i * step) for i in range(lanes(source.dtype))])
        for i, column in enumerate(square.T):
            store(target, place + i * leap, column)
else:
    load, store, splat, scaled, transpose = _load, _store, _splat, _scaled, _transpose
