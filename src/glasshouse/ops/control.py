"""Control flow: a choice, and a loop until a test fails; `scan` is the third.

Bodies are graphs in attributes. They see nothing but their inputs, hold no variables, and are run
by whoever runs the node: a NumPy meaning here gets them as functions of arrays to tuples of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from glasshouse.errors import GraphError, TypeMismatch
from glasshouse.ir.attrs import Attr
from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.dtype import bool_
from glasshouse.ir.graph import Graph
from glasshouse.ir.op import Kind, NoGradient
from glasshouse.ir.sources import VARIABLE
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ir.verify import verify
from glasshouse.ops.arrays import Array
from glasshouse.ops.create import zeros_like_type
from glasshouse.ops.declare import op
from glasshouse.ops.pullback import floats, pullback

_CONTROL: dict[str, Any] = {"kind": Kind.OPAQUE, "family": "control"}
Body = Callable[..., tuple[Array, ...]]
Types = tuple[TensorType, ...]


def _graph(given: Any) -> Graph:
    if isinstance(given, Graph):
        return given
    raise ValueError("a graph")


GRAPH = Attr("graph", _graph)


def body_of(function: Callable[..., Any], *like: Any) -> Graph:
    """The graph of a function of handles, for operands like these handles or types."""
    builder = GraphBuilder(getattr(function, "__name__", ""))
    types = [v if isinstance(v, TensorType) else v.type for v in like]
    out = function(*[builder.input(t.dtype, t.shape) for t in types])
    graph = builder.finish(*(out if isinstance(out, (tuple, list)) else [out]))
    for node in graph.nodes:
        if node not in graph:
            raise GraphError(
                f"the body {graph.name} reads {node.outputs[0].type} from outside",
                str(node.origin.source),
                "a body sees its operands alone: make it one of them",
            )
    verify(graph, f"capturing the body {graph.name}")
    return graph


def _types(values: Any) -> Types:
    return tuple(v.type for v in values)


def shown(types: Types) -> str:
    return "(" + ", ".join(map(str, types)) + ")"


def check_body(name: str, body: Graph, operands: Types) -> Types:
    """The types that a body gives, when it takes these."""
    if _types(body.inputs) != operands:
        raise TypeMismatch(f"{name} takes {shown(_types(body.inputs))}, is given {shown(operands)}")
    if any(node.op is VARIABLE for node in body.nodes):
        raise GraphError(f"{name} holds a variable; give it as an operand, and return a new value")
    return _types(body.outputs)


def _require_flag(type: TensorType, what: str) -> None:
    if type != tensor_type(bool_, ()):
        raise TypeMismatch(f"{what} must be bool[], not {type}")


def as_tuple(gs: Any) -> tuple[Any, ...]:
    return tuple(gs) if isinstance(gs, (tuple, list)) else (gs,)


def handles_of(out: Any) -> list[Any]:
    return list(out) if isinstance(out, tuple) else [out]


def filled(gs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """The cotangents of floating outputs, zeros where none arrives."""
    return [zeros_like_type(outputs[i]) if gs[i] is None else gs[i] for i in floats(outputs)]


def placed(grads: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    """Gradients of the floating operands among None for the others."""
    out: list[Any] = [None] * len(operands)
    for i, grad in zip(floats(operands), grads, strict=True):
        out[i] = grad
    return out


# -------------------------------------------------------------------------------------------- cond
def _cond(pred: TensorType, *xs: TensorType, then: Graph, other: Graph) -> Types:
    _require_flag(pred, "the condition")
    left, right = check_body("then", then, xs), check_body("other", other, xs)
    if left != right:
        raise TypeMismatch(f"then gives {shown(left)}, other gives {shown(right)}")
    return left


def _cond_ref(pred: Array, *xs: Array, then: Body, other: Body) -> tuple[Array, ...]:
    return then(*xs) if pred else other(*xs)


def _cond_vjp(gs: Any, pred: Any, *rest: Any, then: Graph, other: Graph) -> tuple[Any, ...]:
    xs, ys = rest[: len(then.inputs)], rest[len(then.inputs) :]
    if not floats(xs):
        return (None,) * (1 + len(xs))
    given = filled(as_tuple(gs), ys)
    grads = cond(pred, *xs, *given, then=pullback(then), other=pullback(other))
    return (None, *placed(handles_of(grads), xs))


cond = op(
    "cond", folds=False, merges=False,
    **_CONTROL, infer=_cond, ref=_cond_ref, vjp=_cond_vjp, inputs=("pred", "*xs"),
    doc="`then` of the operands where `pred` (one bool) is True, `other` of them otherwise.",
    then=GRAPH, other=GRAPH,
)  # fmt: skip


# -------------------------------------------------------------------------------------- while_loop
def _while_loop(*xs: TensorType, test: Graph, body: Graph) -> Types:
    flags = check_body("test", test, xs)
    if len(flags) != 1:
        raise TypeMismatch(f"test gives {len(flags)} values, not one bool")
    _require_flag(flags[0], "what test gives")
    if check_body("body", body, xs) != xs:
        raise TypeMismatch(f"body gives {shown(_types(body.outputs))}, takes {shown(xs)}")
    return xs


def _while_ref(*xs: Array, test: Body, body: Body) -> tuple[Array, ...]:
    while test(*xs)[0]:
        xs = body(*xs)
    return xs


while_loop = op(
    "while_loop", folds=False, merges=False,
    **_CONTROL, infer=_while_loop, ref=_while_ref, inputs=("*xs",),
    vjp=NoGradient("how often it runs is not known beforehand; scan has a gradient"),
    doc="The operands after `body` has replaced them as long as `test` of them is True.",
    test=GRAPH, body=GRAPH,
)  # fmt: skip
