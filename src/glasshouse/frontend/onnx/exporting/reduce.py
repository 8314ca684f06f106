"""How reductions are written in ONNX."""

from __future__ import annotations

from typing import Any

from glasshouse.frontend.onnx.exporting.emitter import Emitter, Spelling, export
from glasshouse.ir.dtype import bool_, int32
from glasshouse.ir.graph import Node
from glasshouse.ops.shapes import axes_of


def reduced(e: Emitter, op: str, x: str, axes: Any, rank: int, keepdims: bool) -> Any:
    listed = list(axes_of(axes, rank))
    if not listed:
        return e.make("Identity", x)
    return e.make(op, x, e.constant(listed), keepdims=int(keepdims))


def _fold(op: str) -> Spelling:
    def spelling(e: Emitter, n: Node) -> Any:
        x, value = e[n.inputs[0]], n.inputs[0]
        # Sums of small integers are wide in the core; ONNX keeps the operand's type.
        if value.type.dtype is not n.output.type.dtype:
            x = e.cast(x, n.output.type.dtype)
        return reduced(e, op, x, n.attrs["axes"], value.type.rank, n.attrs["keepdims"])

    return spelling


for _name, _op in {
    "sum": "ReduceSum", "mean": "ReduceMean", "prod": "ReduceProd", "max": "ReduceMax",
    "min": "ReduceMin",
}.items():  # fmt: skip
    export(_name)(_fold(_op))


@export("any", "all")
def truth(e: Emitter, n: Node) -> Any:
    """Counted, because the extreme of nothing is no bool: all are, when none is not."""
    value = n.inputs[0]
    x = e[value] if value.type.dtype is bool_ else e.cast(e[value], bool_)
    counted = e.cast(x if n.op.name == "any" else e.make("Not", x), int32)
    count = reduced(e, "ReduceSum", counted, n.attrs["axes"], value.type.rank, n.attrs["keepdims"])
    some = e.cast(count, bool_)
    return some if n.op.name == "any" else e.make("Not", some)


@export("variance")
def variance(e: Emitter, n: Node) -> Any:
    value, keep, axes = n.inputs[0], n.attrs["keepdims"], n.attrs["axes"]
    rank, dtype = value.type.rank, n.output.type.dtype
    x = e[value]
    apart = e.make("Sub", x, reduced(e, "ReduceMean", x, axes, rank, True))
    square = e.make("Mul", apart, apart)
    if n.attrs["correction"] == 0:
        return reduced(e, "ReduceMean", square, axes, rank, keep)
    total = reduced(e, "ReduceSum", square, axes, rank, keep)
    count: Any = 1
    for axis in axes_of(axes, rank):
        count = count * value.type.shape[axis]
    size = e.make("Reshape", e.size(count - n.attrs["correction"]), e.constant([]))
    return e.make("Div", total, e.cast(size, dtype))


def _index(op: str) -> Spelling:
    def spelling(e: Emitter, n: Node) -> Any:
        if n.inputs[0].type.rank == 0:
            return e.make("Identity", e.constant(0))
        keep = int(n.attrs["keepdims"])
        return e.make(op, *e.inputs(n), axis=n.attrs["axis"], keepdims=keep)

    return spelling


export("argmax")(_index("ArgMax"))
export("argmin")(_index("ArgMin"))


@export("cumsum")
def cumsum(e: Emitter, n: Node) -> Any:
    value = n.inputs[0]
    x = (
        e[value]
        if value.type.dtype is n.output.type.dtype
        else e.cast(e[value], n.output.type.dtype)
    )
    if not value.type.rank and not n.attrs["exclusive"]:
        return e.make("Identity", x)
    return e.make(
        "CumSum", x, e.constant(n.attrs["axis"]), exclusive=int(n.attrs["exclusive"]),
        reverse=int(n.attrs["reverse"]),
    )  # fmt: skip


def _softmax(op: str) -> Spelling:
    def spelling(e: Emitter, n: Node) -> Any:
        if n.output.type.rank:
            return e.make(op, *e.inputs(n), axis=n.attrs["axis"])
        one = e.make("Reshape", e[n.inputs[0]], e.constant([1]))
        return e.make("Reshape", e.make(op, one, axis=0), e.constant([]))

    return spelling


export("softmax")(_softmax("Softmax"))
export("log_softmax")(_softmax("LogSoftmax"))
