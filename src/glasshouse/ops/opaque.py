"""How a computation without a mapping stays in a graph: by name, with who can run it.

A frontend that meets an op it does not know makes an `opaque` node; the model still imports, shows
what it is, and runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glasshouse.errors import ExecutionError, TypeMismatch
from glasshouse.ir.attrs import ANY, DIM, STR, Attr
from glasshouse.ir.op import Kind, NoGradient
from glasshouse.ir.types import TensorType
from glasshouse.ops.declare import op


def _types(given: Any) -> tuple[TensorType, ...]:
    many = (given,) if isinstance(given, TensorType) else given
    if isinstance(many, (list, tuple)) and all(isinstance(t, TensorType) for t in many):
        return tuple(many)
    raise ValueError("a list of tensor types")


TYPES = Attr("types", _types)


def _infer(*_: TensorType, types: tuple[TensorType, ...], **__: Any) -> tuple[TensorType, ...]:
    if not types:
        raise TypeMismatch("needs the type of at least one output")
    return types


def _ref(*xs: Any, target: str, call: Callable[..., Any] | None, **_: Any) -> Any:
    if call is None:
        raise ExecutionError(
            f"nothing here can run {target}",
            hint="a graph that was parsed or loaded has lost the frontend's function for it",
        )
    out = call(*xs)
    return tuple(out) if isinstance(out, list) else out


opaque = op(
    "opaque", folds=False, merges=False,
    kind=Kind.OPAQUE, family="opaque", infer=_infer, ref=_ref, inputs=("*xs",),
    vjp=NoGradient("what it computes is not known here"),
    doc="A computation known by name only; `call` takes and gives arrays.",
    target=STR, arguments=STR("", "operands that are no tensors, as text"), call=ANY(None),
    types=TYPES, group=STR("", "of processes that take part, for a collective"),
    bytes=DIM(0, "that a collective brings together"),
)  # fmt: skip
