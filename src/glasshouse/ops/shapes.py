"""The shape rules that ops share: broadcasting, axes, reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.dim import Dim, SymDim, bounds
from glasshouse.ir.dtype import DType, bool_
from glasshouse.ir.types import Shape, TensorType, tensor_type


def same_shape(x: TensorType, *_: TensorType, **__: Any) -> TensorType:
    """The output is like the first operand."""
    return x


def broadcast(*types: TensorType, **_: Any) -> TensorType:
    """The output has the broadcast shape and the element type that all operands share."""
    first = types[0].dtype
    for t in types[1:]:
        if t.dtype is not first:
            raise TypeMismatch(f"operands have different element types: {first}, {t.dtype}")
    return tensor_type(first, broadcast_shapes([t.shape for t in types]))


def broadcast_to_bool(*types: TensorType, **_: Any) -> TensorType:
    """As `broadcast`, for comparisons."""
    return tensor_type(bool_, broadcast(*types).shape)


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape:
    """NumPy's rule, with symbolic sizes: a size that may not be 1 decides."""
    rank = max((len(s) for s in shapes), default=0)
    out: list[Dim] = [1] * rank
    for shape in shapes:
        offset = rank - len(shape)
        for i, size in enumerate(shape):
            out[offset + i] = _broadcast_dim(out[offset + i], size, shapes)
    return tuple(out)


def _broadcast_dim(a: Dim, b: Dim, shapes: Sequence[Shape]) -> Dim:
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if isinstance(a, int) and isinstance(b, int):
        raise ShapeError(f"shapes {_shown(shapes)} do not broadcast: {a} against {b}")
    # One of them is symbolic, neither is 1. They must be equal at run time, and the executor
    # checks it; the one that says more is kept: a number before a symbol.
    fixed, free = (a, b) if isinstance(a, int) else (b, a)
    if isinstance(fixed, int):
        low, high = bounds(free)
        if not low <= fixed <= high:
            raise ShapeError(f"shapes {_shown(shapes)} do not broadcast: {a} against {b}")
        return fixed
    return a


def axis_of(axis: int, rank: int, what: str = "axis") -> int:
    """A possibly negative axis as one from 0 to rank - 1."""
    size = max(rank, 1)  # a scalar may be asked for axis 0 or -1
    if not -size <= axis < size:
        raise ShapeError(f"{what} {axis} is out of range for {rank} dimensions")
    return axis % rank if rank else 0


def axes_of(axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """All axes for None; otherwise each counted from the front, in ascending order, none twice."""
    if axes is None:
        return tuple(range(rank))
    out = sorted(axis_of(a, rank) for a in axes)
    if len(set(out)) != len(out):
        raise ShapeError(f"an axis repeats in {list(axes)}")
    return tuple(out)


def reduced(shape: Shape, axes: Sequence[int] | None, keepdims: bool) -> Shape:
    """The shape after folding `axes`."""
    gone = set(axes_of(axes, len(shape)))
    if keepdims:
        return tuple(1 if i in gone else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in gone)


def require_dtype(t: TensorType, allowed: Sequence[DType], what: str) -> None:
    if t.dtype not in allowed:
        names = ", ".join(d.name for d in allowed)
        raise TypeMismatch(f"{what} must be one of {names}, not {t.dtype}")


def require_equal(a: Dim, b: Dim, what: str) -> Dim:
    """Two sizes that must agree; symbolic ones are taken on trust and checked at run time."""
    if isinstance(a, SymDim) or isinstance(b, SymDim) or a == b:
        return a if isinstance(a, int) else b
    raise ShapeError(f"{what}: {a} against {b}")


def unbroadcast(g: Any, like: Any) -> Any:
    """The gradient of a broadcast operand: summed over the axes along which it was repeated."""
    wanted, have = like.shape, g.shape
    if wanted == have:
        return g
    extra = len(have) - len(wanted)
    axes = [i for i in range(len(have)) if i < extra or (wanted[i - extra] == 1 and have[i] != 1)]
    if axes:
        g = g.apply("sum", axes=axes, keepdims=True)
    return g if g.shape == wanted else g.apply("reshape", shape=wanted)


def _shown(shapes: Sequence[Shape]) -> str:
    return " and ".join("[" + ", ".join(map(str, s)) + "]" for s in shapes)
