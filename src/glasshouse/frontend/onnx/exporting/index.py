"""How core ops that read and write by index, sort and choose are written in ONNX."""

from __future__ import annotations

from typing import Any

from glasshouse.frontend.onnx.exporting.emitter import Emitter, export
from glasshouse.ir.dtype import int64
from glasshouse.ir.graph import Node

export("take")(lambda e, n: e.make("Gather", *e.inputs(n), axis=n.attrs["axis"]))
export("gather")(lambda e, n: e.make("GatherElements", *e.inputs(n), axis=n.attrs["axis"]))


def _wide(e: Emitter, n: Node, place: int) -> str:
    value = n.inputs[place]
    return e[value] if value.type.dtype is int64 else e.cast(e[value], int64)


@export("gather_nd")
def gather_nd(e: Emitter, n: Node) -> Any:
    return e.make("GatherND", e[n.inputs[0]], _wide(e, n, 1))


def _how(n: Node) -> str | None:
    return None if n.attrs["mode"] == "set" else n.attrs["mode"]


@export("scatter")
def scatter(e: Emitter, n: Node) -> Any:
    return e.make("ScatterElements", *e.inputs(n), axis=n.attrs["axis"], reduction=_how(n))


@export("scatter_nd")
def scatter_nd(e: Emitter, n: Node) -> Any:
    x, _, updates = e.inputs(n)
    axis, rank, new = n.attrs["axis"], n.inputs[0].type.rank, n.inputs[2].type.rank

    def turned(tensor: Any, by: int, rank: int) -> Any:
        perm = [(i + by) % rank for i in range(rank)]
        return e.make("Transpose", tensor, perm=perm) if axis else tensor

    x, updates = turned(x, axis, rank), turned(updates, axis, new)
    made = e.make("ScatterND", x, _wide(e, n, 1), updates, reduction=_how(n))
    return turned(made, -axis, rank)


@export("triangle")
def triangle(e: Emitter, n: Node) -> Any:
    place = e.make("Reshape", e.size(n.attrs["diagonal"]), e.constant([]))
    return e.make("Trilu", e[n.inputs[0]], place, upper=int(n.attrs["upper"]))


@export("one_hot")
def one_hot(e: Emitter, n: Node) -> Any:
    dtype = n.output.type.dtype
    x = e[n.inputs[0]]
    if not n.inputs[0].type.rank:
        x = e.make("Reshape", x, e.constant([1]))
    made = e.make("OneHot", x, e.size(n.attrs["depth"]), e.constant([0, 1]), axis=-1)
    if not n.inputs[0].type.rank:
        made = e.make("Reshape", made, e.ints(n.output.type.shape))
    return made if dtype is int64 else e.cast(made, dtype)


@export("sort")
def sort(e: Emitter, n: Node) -> Any:
    axis = n.attrs["axis"]
    if not n.inputs[0].type.rank:
        return [e.make("Identity", e[n.inputs[0]]), e.make("Identity", e.constant(0))]
    count = e.size(n.inputs[0].type.shape[axis])
    return e.make(
        "TopK", e[n.inputs[0]], count, count=2, axis=axis, largest=int(n.attrs["descending"])
    )


@export("nth")
def nth(e: Emitter, n: Node) -> Any:
    found = sort(e, n)
    return [e.make("GatherElements", v, e[n.inputs[1]], axis=n.attrs["axis"]) for v in found]


@export("topk")
def topk(e: Emitter, n: Node) -> Any:
    return e.make(
        "TopK", e[n.inputs[0]], e.constant([n.attrs["k"]]), count=2, axis=n.attrs["axis"],
        largest=int(n.attrs["largest"]),
    )  # fmt: skip
