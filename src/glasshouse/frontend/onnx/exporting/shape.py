"""How core ops that move elements about are written in ONNX."""

from __future__ import annotations

from typing import Any

from glasshouse.frontend.onnx.exporting.emitter import Emitter, export
from glasshouse.ir.dim import SymDim
from glasshouse.ir.dtype import float32, int64
from glasshouse.ir.graph import Node


@export("reshape")
def reshape(e: Emitter, n: Node) -> Any:
    return e.make("Reshape", e[n.inputs[0]], e.ints(n.attrs["shape"]), allowzero=1)


@export("permute")
def permute(e: Emitter, n: Node) -> Any:
    return _transposed(e, n, n.attrs["axes"])


def _transposed(e: Emitter, n: Node, axes: Any) -> Any:
    rank = n.inputs[0].type.rank
    if not rank:
        return e.make("Identity", e[n.inputs[0]])
    return e.make("Transpose", e[n.inputs[0]], perm=[a % rank for a in axes])


@export("rearrange")
def rearrange(e: Emitter, n: Node) -> Any:
    order = [a for group in n.attrs["plan"] for a in group]
    moved = _transposed(e, n, order)
    return e.make("Reshape", moved, e.ints(n.output.type.shape), allowzero=1)


@export("expand")
def expand(e: Emitter, n: Node) -> Any:
    return e.make("Expand", e[n.inputs[0]], e.ints(n.attrs["shape"]))


@export("flip")
def flip(e: Emitter, n: Node) -> Any:
    axes = list(n.attrs["axes"])
    if not n.output.type.rank or not axes:
        return e.make("Identity", e[n.inputs[0]])
    count = len(axes)
    ends = [e.constant(v) for v in ([-1] * count, [-(2**63) + 1] * count, axes, [-1] * count)]
    return e.make("Slice", e[n.inputs[0]], *ends)


@export("windows")
def windows(e: Emitter, n: Node) -> Any:
    axis, size, step, dilation = (n.attrs[name] for name in ("axis", "size", "step", "dilation"))
    at, rank = axis % n.inputs[0].type.rank, n.output.type.rank
    ends = e.constant(0), e.make("Squeeze", e.size(n.output.type.shape[at])), e.constant(1)
    begins = e.make("Mul", e.make("Range", *ends), e.constant(step))
    column = e.make("Unsqueeze", begins, e.constant([1]))
    places = e.make("Add", column, e.constant([i * dilation for i in range(size)]))
    taken = e.make("Gather", e[n.inputs[0]], places, axis=at)
    order = [a for a in range(rank) if a != at + 1]
    return e.make("Transpose", taken, perm=[*order, at + 1])


@export("roll")
def roll(e: Emitter, n: Node) -> Any:
    x = e[n.inputs[0]]
    shape = n.output.type.shape
    for shift, axis in zip(n.attrs["shifts"], n.attrs["axes"], strict=True):
        size = shape[axis]
        if size == 0:
            continue
        at = size - (shift % size)
        tail = _cut(e, x, axis, at, size)
        x = e.make("Concat", tail, _cut(e, x, axis, 0, at), axis=axis)
    return x


def _cut(e: Emitter, x: str, axis: int, start: Any, end: Any) -> Any:
    return e.make("Slice", x, e.ints([start]), e.ints([end]), e.constant([axis]))


@export("concat")
def concat(e: Emitter, n: Node) -> Any:
    return e.make("Concat", *e.inputs(n), axis=n.attrs["axis"])


@export("split")
def split(e: Emitter, n: Node) -> Any:
    sizes, axis = n.attrs["sizes"], n.attrs["axis"]
    made = e.make("Split", e[n.inputs[0]], e.ints(sizes), count=len(sizes), axis=axis)
    return made if isinstance(made, list) else [made]


@export("slice")
def slice_(e: Emitter, n: Node) -> Any:
    rank = n.output.type.rank
    if not rank:
        return e.make("Identity", e[n.inputs[0]])
    steps = n.attrs["steps"] or (1,) * rank
    return e.make(
        "Slice", e[n.inputs[0]], e.ints(n.attrs["starts"]), e.ints(n.attrs["ends"]),
        e.constant(list(range(rank))), e.constant(list(steps)),
    )  # fmt: skip


@export("pad")
def pad(e: Emitter, n: Node) -> Any:
    if not n.output.type.rank:
        return e.make("Identity", e[n.inputs[0]])
    value = e.constant(n.attrs["value"], n.output.type.dtype)
    return e.make(
        "Pad", e[n.inputs[0]], e.ints(n.attrs["padding"]), value, mode=n.attrs["mode"]
    )  # fmt: skip


# ------------------------------------------------------------------------------------- from nothing
@export("full")
def full(e: Emitter, n: Node) -> Any:
    dtype, shape, value = n.output.type.dtype, n.attrs["shape"], n.attrs["value"]
    if isinstance(value, SymDim):
        one = e.cast(e.size(value), dtype)
        scalar = e.make("Reshape", one, e.constant([]))
        return e.make("Expand", scalar, e.ints(shape)) if shape else scalar
    scalar = e.constant(value, dtype)
    return e.make("Expand", scalar, e.ints(shape)) if shape else e.make("Identity", scalar)


@export("arange")
def arange(e: Emitter, n: Node) -> Any:
    dtype = n.output.type.dtype
    ends = [n.attrs[key] for key in ("start", "stop", "step")]
    wide = int64 if all(isinstance(v, (int, SymDim)) for v in ends) else float32
    made = e.make("Range", *[_scalar(e, v, wide) for v in ends])
    return made if dtype is wide else e.cast(made, dtype)


def _scalar(e: Emitter, value: Any, dtype: Any) -> Any:
    if isinstance(value, SymDim):
        return e.make("Reshape", e.size(value), e.constant([]))
    return e.constant(value, dtype)
