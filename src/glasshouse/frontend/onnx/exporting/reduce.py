"""Decides how reductions are written in ONNX."""

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


def _truth(op: str) -> Spelling:
    def spelling(e: Emitter, n: Node) -> Any:
        value = n.inputs[0]
        x = e[value] if value.type.dtype is bool_ else e.cast(e[value], bool_)
        whole = e.cast(x, int32)
        found = reduced(e, op, whole, n.attrs["axes"], value.type.rank, n.attrs["keepdims"])
        return e.cast(found, bool_)

    return spelling


export("any")(_truth("ReduceMax"))
export("all")(_truth("ReduceMin"))


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
    return lambda e, n: e.make(
        op, *e.inputs(n), axis=n.attrs["axis"], keepdims=int(n.attrs["keepdims"])
    )


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
    return e.make(
        "CumSum", x, e.constant(n.attrs["axis"]), exclusive=int(n.attrs["exclusive"]),
        reverse=int(n.attrs["reverse"]),
    )  # fmt: skip


export("softmax")(lambda e, n: e.make("Softmax", *e.inputs(n), axis=n.attrs["axis"]))
export("log_softmax")(lambda e, n: e.make("LogSoftmax", *e.inputs(n), axis=n.attrs["axis"]))
