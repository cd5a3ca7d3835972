"""Writing a graph of ONNX, node by node."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from vicinal.core.types import Array

_ELEMENTS = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float64): TensorProto.DOUBLE,
}


class Writer:
    """Collects nodes and constants; every value of the graph is known by its name.

    Parameters
    ----------
    dtype : dtype
        Precision of all numbers that are not integers: float32 or float64.
    unique : callable
        Makes a name that no other value has out of a word.
    """

    def __init__(self, dtype: Any, unique: Callable[[str], str]) -> None:
        self.dtype, self.unique = np.dtype(dtype), unique
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self._names: dict[tuple[Any, ...], str] = {}  # of the constants, which are kept once
        # A number whose exponential is zero, and which stays finite if another is added.
        self.lowest = float(np.finfo(self.dtype).min) / 4

    @property
    def element(self) -> int:
        """The type of the numbers, as ONNX names it."""
        return _ELEMENTS[self.dtype]

    def constant(self, value: Any) -> str:
        """A constant array: integers as int64, strings as they are, other numbers in the dtype."""
        array = np.asarray(value)
        if array.dtype.kind in "US":
            array = array.astype(object)
        elif array.dtype.kind != "O":
            with np.errstate(over="ignore"):
                number = array.astype(np.int64 if array.dtype.kind in "biu" else self.dtype)
            if (np.isinf(number) & np.isfinite(array)).any():
                raise ValueError(
                    f"The 'X' parameter of to_onnx must be float64: this model has numbers up to "
                    f"{np.abs(array).max():.2g}, and float32 ends at 3.4e+38. Got rows of float32."
                )
            array = number
        array = np.ascontiguousarray(array).reshape(array.shape)  # which would lose a shape of ()
        known = str(array.dtype), array.shape, sha256(array.tobytes()).digest()
        if array.dtype == object or known not in self._names:
            self._names[known] = self.unique("constant")
            self.constants.append(numpy_helper.from_array(array, self._names[known]))
        return self._names[known]

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The only, or the first, output of a node."""
        return self.ops(kind, *inputs, n_outputs=1, **attributes)[0]

    def ops(self, kind: str, *inputs: str, n_outputs: int, **attributes: Any) -> list[str]:
        """All outputs of a node."""
        names = [self.unique(kind.lower()) for _ in range(n_outputs)]
        node = helper.make_node(kind, list(inputs), names, name=self.unique(kind), **attributes)
        self.nodes.append(node)
        return names

    def name_output(self, name: str, output: str) -> None:
        """Give a result the name of an output."""
        node = helper.make_node("Identity", [name], [output], name=self.unique("Identity"))
        self.nodes.append(node)

    def reduce(self, kind: str, x: str, axis: int, keep: bool = True) -> str:
        """``Sum``, ``Max`` or another reduction of one axis."""
        return self.op(f"Reduce{kind}", x, self.constant([axis]), keepdims=int(keep))

    def gather(self, x: str, indices: Any, axis: int = 0) -> str:
        """Some entries of an axis; the indices are a name or an array."""
        name = indices if isinstance(indices, str) else self.constant(indices)
        return self.op("Gather", x, name, axis=axis)

    def reshape(self, x: str, shape: tuple[int, ...]) -> str:
        """Another shape; an entry of 0 keeps that of x."""
        return self.op("Reshape", x, self.constant(np.array(shape, dtype=np.int64)))

    def times_matrix(self, x: str, matrix: Array) -> str:
        """``x @ matrix``."""
        return self.op("MatMul", x, self.constant(matrix))

    def sum_exp(self, logs: str, axis: int) -> tuple[str, str]:
        """``exp(logs - top)`` and ``top``, the largest of them; zeros where all are -inf."""
        top = self.op("Max", self.reduce("Max", logs, axis), self.constant(self.lowest))
        return self.op("Exp", self.op("Sub", logs, top)), top

    def is_finite(self, top: str) -> str:
        """Whether a largest logarithm that `sum_exp` returned is one: not all were -inf.

        The exponentials do not tell it: onnxruntime 1.18 has 2e-308 for that of -inf.
        """
        return self.op("Greater", top, self.constant(self.lowest / 2))

    def log_sum_exp(self, logs: str, axis: int) -> str:
        """``log(sum(exp(logs)))`` over an axis, which is left out."""
        weights, top = self.sum_exp(logs, axis)
        total = self.op("Add", self.op("Log", self.reduce("Sum", weights, axis)), top)
        return self.op("Squeeze", total, self.constant([axis]))

    def each_row(self, Z: str, shape: tuple[int, int], body: Callable[[Writer, str], str]) -> str:
        """``body`` of every row, one after the other, so that memory is that of one row.

        ``shape`` tells the lengths of a row and of what the body makes of it.
        """
        inner = Writer(self.dtype, self.unique)
        row = self.unique("row")
        out = body(inner, row)
        return self.op("Scan", Z, body=_graph(inner, row, out, shape), num_scan_inputs=1)


def _graph(inner: Writer, row: str, out: str, shape: tuple[int, int]) -> GraphProto:
    info = helper.make_tensor_value_info
    return helper.make_graph(
        inner.nodes,
        inner.unique("body"),
        [info(row, inner.element, [shape[0]])],
        [info(out, inner.element, [shape[1]])],
        initializer=inner.constants,
    )


def hand_over(w: Writer, container: Any) -> None:
    """Add all nodes and constants to a container of skl2onnx."""
    container.initializers.extend(w.constants)
    for node in w.nodes:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        container.add_node(
            node.op_type,
            list(node.input),
            list(node.output),
            op_version=container.target_opset,
            name=node.name,
            **attributes,
        )
