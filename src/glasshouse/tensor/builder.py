"""How an op on lazy tensors is recorded: a pending node with the user's line as origin."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glasshouse.errors import TypeMismatch
from glasshouse.ir.attrs import AttrValue
from glasshouse.ir.builder import Builder
from glasshouse.ir.dtype import DType, as_dtype, bfloat16, from_storage
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.op import Op, op_named
from glasshouse.ir.sources import CONSTANT
from glasshouse.ir.types import TensorType
from glasshouse.tensor.pending import LazyNode, leaf_node
from glasshouse.tensor.place import current_origin
from glasshouse.tensor.state import STATE


class LazyBuilder(Builder):
    """Records nodes outside of any graph; there is one for the whole process."""

    def emit(
        self,
        op: Op,
        inputs: tuple[Value, ...],
        attrs: Mapping[str, AttrValue],
        types: Sequence[TensorType],
    ) -> Node:
        origin = current_origin(sys._getframe(1))
        if op is CONSTANT:
            data = from_storage(attrs["data"], types[0].dtype)
            return LazyNode(op, (), attrs, types, origin, [data])
        needs_grad = False
        try:
            for value in inputs:
                if value.node.needs_grad:  # type: ignore[attr-defined]  # only on lazy nodes
                    needs_grad = STATE.own.gradients and any(t.dtype.is_float for t in types)
                    break
        except AttributeError:
            raise TypeMismatch(
                f"{op.name} mixes tensors with values of a graph under construction",
                str(origin.source),
            ) from None
        return LazyNode(op, inputs, attrs, types, origin, None, needs_grad)

    def where(self) -> str:
        return str(current_origin(sys._getframe(1)).source)

    def wrap(self, value: Value) -> Any:
        return _TENSOR(value)

    def value_of(self, arg: Any, dtype: DType | None) -> Value:
        if isinstance(arg, np.ndarray) and arg.size > 1:
            # Data, not part of the program: a graph that reads other data is the same graph. It is
            # copied, because the array may change before the graph runs.
            kind = bfloat16 if arg.dtype == np.uint16 else as_dtype(arg.dtype)
            origin = current_origin(sys._getframe(1))
            return leaf_node(from_storage(arg.copy(), kind), kind, origin).outputs[0]
        return super().value_of(arg, dtype)

    def make(self, op: str, *args: Any, **attrs: Any) -> Any:
        """Apply an op when no operand is a tensor (or the op has none, such as `arange`)."""
        node = op_named(op).emit(self, [a for a in args if a is not None], attrs)
        wrapped = tuple(self.wrap(v) for v in node.outputs)
        return wrapped[0] if len(wrapped) == 1 else wrapped


LAZY = LazyBuilder()

# Set by `tensor.py`, which stands above: what a value is wrapped into.
_TENSOR: Any = None


def wrap_with(cls: type) -> None:
    """Let values be wrapped into this class."""
    global _TENSOR  # noqa: PLW0603  # the one upward link between the two files
    _TENSOR = cls
