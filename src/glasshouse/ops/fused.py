"""What a fused node is: a group of nodes that one kernel computes, with its graph inside.

The body's inputs stand for the node's operands, in order; its other nodes keep the ids and origins
that they had outside. Running it means running the body, so the reference executor treats it apart.
"""

from __future__ import annotations

from typing import Any

from glasshouse.errors import ExecutionError, GraphError
from glasshouse.ir.attrs import ANY, STR
from glasshouse.ir.graph import Graph
from glasshouse.ir.op import Kind, NoGradient
from glasshouse.ir.types import TensorType
from glasshouse.ops.declare import op


def _infer(
    *operands: TensorType, body: Graph | None, types: tuple[TensorType, ...], **_: Any
) -> tuple[TensorType, ...]:
    if body is None:
        return types
    inside = tuple(v.type for v in body.inputs)
    if inside != operands:
        raise GraphError(f"the body takes {inside}, the node gives {operands}")
    return tuple(v.type for v in body.outputs)


def _ref(*_: Any, **__: Any) -> Any:
    raise ExecutionError("a fused node without its body cannot run")


fused = op(
    "fused",
    folds=False,
    kind=Kind.OPAQUE,
    family="fused",
    infer=_infer,
    ref=_ref,
    vjp=NoGradient("fusion comes after differentiation"),
    inputs=("*xs",),
    doc="A group of nodes that one kernel computes.",
    fusion=STR("", "labels of the ops inside, in order"),
    label=STR("", "as printed: FusedMatmul*"),
    types=ANY((), "output types, when the body is not at hand"),
    body=ANY(None, "the graph inside"),
)
