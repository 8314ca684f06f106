"""How nodes come into a graph: a builder emits them, each with the origin that holds now.

There are three: `GraphBuilder` here, for frontends and tests; the lazy tensors' builder, which
takes the origin from the user's stack; and `Rewriter`, which takes it from what is replaced.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from glasshouse.errors import TypeMismatch
from glasshouse.ir.attrs import AttrValue
from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import DType, as_dtype, bfloat16, bool_, float32, int64, to_storage
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Op, op_named
from glasshouse.ir.origin import Origin
from glasshouse.ir.sources import CONSTANT, INPUT, VARIABLE
from glasshouse.ir.types import TensorType, tensor_type


class Builder(ABC):
    """Emits nodes and wraps their values into handles that one can compute with."""

    @abstractmethod
    def emit(
        self,
        op: Op,
        inputs: tuple[Value, ...],
        attrs: Mapping[str, AttrValue],
        types: Sequence[TensorType],
    ) -> Node: ...

    @abstractmethod
    def where(self) -> str:
        """The place in the user's model that an error should name; "" if unknown."""

    def wrap(self, value: Value) -> Any:
        return Expr(value, self)

    def value_of(self, arg: Any, dtype: DType | None) -> Value:
        """The value that an operand stands for; numbers and arrays become constants."""
        if isinstance(arg, Value):
            return arg
        value = getattr(arg, "value", None)
        if isinstance(value, Value):
            return value
        if isinstance(arg, (bool, int, float, np.ndarray, np.generic, list, tuple)):
            return self.constant(arg, dtype if isinstance(arg, (bool, int, float)) else None)
        raise TypeMismatch(f"{arg!r} of type {type(arg).__name__} is not a tensor, array or number")

    def constant(self, data: Any, dtype: DType | None = None, name: str = "") -> Value:
        """A constant that holds `data`, which is kept without a copy where its type allows it."""
        if dtype is None:
            dtype = _default_dtype(data)
        return self.stored(to_storage(np.asarray(data), dtype), dtype, name)

    def stored(self, data: Any, dtype: DType, name: str = "") -> Value:
        """A constant that holds `data`: an array as it is stored, or what becomes one when NumPy
        asks for it."""
        attrs = {"dtype": dtype, "shape": data.shape, "name": name, "data": data}
        return self.emit(CONSTANT, (), attrs, (tensor_type(dtype, data.shape),)).output

    def cast(self, value: Value, dtype: DType) -> Value:
        """The value with another element type, through a `cast` node where it differs."""
        if value.type.dtype is dtype:
            return value
        types = (tensor_type(dtype, value.type.shape),)
        return self.emit(op_named("cast"), (value,), {"dtype": dtype}, types).output


def _default_dtype(data: Any) -> DType:
    if isinstance(data, bool):
        return bool_
    if isinstance(data, int):
        return int64
    if isinstance(data, float):
        return float32
    array = np.asarray(data)
    if array.dtype == np.uint16:
        return bfloat16
    return as_dtype(array.dtype)


class GraphBuilder(Builder):
    """Builds a graph from nothing; `with builder.at(origin):` says where the next come from."""

    def __init__(self, name: str = "", origin: Origin | None = None) -> None:
        self.graph = Graph(name)
        self.origin = origin or Origin()

    def emit(
        self,
        op: Op,
        inputs: tuple[Value, ...],
        attrs: Mapping[str, AttrValue],
        types: Sequence[TensorType],
    ) -> Node:
        return self.graph._add(op, inputs, attrs, types, self.origin)

    def where(self) -> str:
        return str(self.origin.source)

    @contextmanager
    def at(self, origin: Origin) -> Iterator[None]:
        before, self.origin = self.origin, origin
        try:
            yield
        finally:
            self.origin = before

    def input(self, dtype: object, shape: Sequence[Dim], name: str = "") -> Expr:
        value = self._source(INPUT, dtype, shape, {"name": name})
        self.graph.inputs.append(value)
        return Expr(value, self)

    def variable(self, data: Any, dtype: object = None, name: str = "") -> Expr:
        kind = _default_dtype(data) if dtype is None else as_dtype(dtype)
        stored = to_storage(np.asarray(data), kind)
        value = self._source(VARIABLE, kind, stored.shape, {"name": name, "data": stored})
        return Expr(value, self)

    def weight(self, data: Any, dtype: object = None, name: str = "") -> Expr:
        """A named constant."""
        kind = None if dtype is None else as_dtype(dtype)
        return Expr(self.constant(data, kind, name), self)

    def apply(self, op: Op | str, *args: Any, **attrs: Any) -> Any:
        """Apply an op when no operand is a handle (or the op has none, such as `arange`)."""
        op = op_named(op) if isinstance(op, str) else op
        node = op.emit(self, [a for a in args if a is not None], attrs)
        wrapped = tuple(self.wrap(v) for v in node.outputs)
        return wrapped[0] if len(wrapped) == 1 else wrapped

    def update(self, variable: Expr | Value, new: Expr | Value) -> None:
        """Let a variable take a new value after each run."""
        self.graph._set_update(self.value_of(variable, None).node, self.value_of(new, None))

    def finish(self, *outputs: Expr | Value, names: Sequence[str] = ()) -> Graph:
        self.graph._set_outputs([self.value_of(o, None) for o in outputs], names)
        return self.graph

    def _source(self, op: Op, dtype: object, shape: Sequence[Dim], extra: dict[str, Any]) -> Value:
        kind = as_dtype(dtype)
        attrs = {"dtype": kind, "shape": tuple(shape), **extra}
        return self.emit(op, (), attrs, (tensor_type(kind, shape),)).output
