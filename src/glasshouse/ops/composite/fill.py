"""How tensors are filled, masked and bordered with values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import as_dtype
from glasshouse.ops.create import full_near
from glasshouse.ops.pieces import concat, cut, pad


def full_like(x: Any, value: Any, dtype: object = None) -> Any:
    """`value` everywhere, with the shape of x and, unless told otherwise, its element type."""
    return full_near(x, x.shape, value, x.dtype if dtype is None else as_dtype(dtype))


def zeros_like(x: Any, dtype: object = None) -> Any:
    return full_like(x, 0, dtype)


def ones_like(x: Any, dtype: object = None) -> Any:
    return full_like(x, 1, dtype)


def tril(x: Any, diagonal: Dim = 0) -> Any:
    """The lower triangle of the last two axes."""
    return x.apply("triangle", diagonal=diagonal)


def triu(x: Any, diagonal: Dim = 0) -> Any:
    """The upper triangle of the last two axes."""
    return x.apply("triangle", diagonal=diagonal, upper=True)


def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """`value` where the mask is True, x elsewhere."""
    return mask.apply("where", value, x)


_MODES = {
    "constant": "constant", "reflect": "reflect", "edge": "edge", "replicate": "edge",
    "circular": "circular", "wrap": "circular",
}  # fmt: skip


def pad_last(x: Any, padding: Sequence[Dim], mode: str = "constant", value: Any = 0.0) -> Any:
    """Borders around the last axes, as PyTorch orders them: last axis first, (begin, end) pairs.

    A negative size cuts elements off. Besides the modes of `pad` there is "circular".
    """
    if mode not in _MODES:
        raise TypeMismatch(f"pad: there is no mode {mode!r}, there are {', '.join(_MODES)}")
    if len(padding) % 2 or len(padding) > 2 * x.ndim:
        raise ShapeError(
            f"pad({x.type}): {list(padding)} is not (begin, end) for at most {x.ndim} axes",
            x.builder.where(),
        )
    begins: list[Dim] = [0] * x.ndim
    ends: list[Dim] = [0] * x.ndim
    for i in range(len(padding) // 2):
        axis = x.ndim - 1 - i
        begin, end = padding[2 * i], padding[2 * i + 1]
        crop = (-begin if _negative(begin) else 0, -end if _negative(end) else 0)
        x = cut(x, axis, crop[0], x.shape[axis] - crop[1])
        begins[axis] = 0 if crop[0] != 0 else begin
        ends[axis] = 0 if crop[1] != 0 else end
        if _MODES[mode] == "circular":
            x = _circular(x, axis, begins[axis], ends[axis])
    if _MODES[mode] == "circular" or all(p == 0 for p in (*begins, *ends)):
        return x
    return pad(x, padding=[*begins, *ends], mode=_MODES[mode], value=value)


def _negative(size: Dim) -> bool:
    return isinstance(size, int) and size < 0


def _circular(x: Any, axis: int, begin: Dim, end: Dim) -> Any:
    size = x.shape[axis]
    parts = [x]
    if begin != 0:
        parts.insert(0, cut(x, axis, size - begin, size))
    if end != 0:
        parts.append(cut(x, axis, 0, end))
    return concat(*parts, axis=axis) if len(parts) > 1 else x
