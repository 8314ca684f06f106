"""What compares, chooses, moves and multiplies up elements of complex tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten import arithmetic
from glasshouse.frontend.torch.aten.complex_arithmetic import (
    joined_parts,
    mul,
    parts_of,
)
from glasshouse.frontend.torch.aten.registry import (
    IN_CONTEXT,
    TABLE,
    Spelling,
    apply,
    common,
    complex_aten,
    is_handle,
)
from glasshouse.frontend.torch.complex import Complex
from glasshouse.ops import composite
from glasshouse.ops.pieces import concat, cut
from glasshouse.ops.shapes import axis_of


# ----------------------------------------------------------------------------------- comparisons
def _both(x: Any, y: Any) -> Any:
    (a, b), (c, d) = parts_of(x), parts_of(y)
    if not is_handle(a):
        (a, b), (c, d) = (c, d), (a, b)
    return apply("equal", *common(a, c)), apply("equal", *common(b, d))


@complex_aten("eq")
def eq(x: Any, y: Any) -> Any:
    real, imaginary = _both(x, y)
    return real & imaginary


@complex_aten("ne", "not_equal")
def ne(x: Any, y: Any) -> Any:
    return eq(x, y).apply("logical_not")


def _either(op: str) -> Callable[[Complex], Any]:
    return lambda x: x.parts()[0].apply(op) | x.parts()[1].apply(op)


complex_aten("isnan")(_either("isnan"))
complex_aten("isinf")(_either("isinf"))


@complex_aten("isfinite")
def isfinite(x: Complex) -> Any:
    a, b = x.parts()
    return (abs(a) < math.inf) & (abs(b) < math.inf)


@complex_aten("where")
def where(condition: Any, x: Any, y: Any) -> Complex:
    (a, b), (c, d) = parts_of(x), parts_of(y)
    return joined_parts(arithmetic.where(condition, a, c), arithmetic.where(condition, b, d))


@complex_aten("masked_fill", "masked_fill_")
def masked_fill(x: Complex, mask: Any, value: Any) -> Any:
    return where(mask, value, x)


# --------------------------------------------------------------------------------------- products
@complex_aten("prod")
def prod(x: Complex, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Complex:
    """Halves multiplied with each other, until one is left."""
    if dtype is not None:
        raise Unsupported("a product of complex numbers in another type")
    flat = x if dim is not None else Complex(composite.reshape(x.pairs, [-1, 2]))
    axis = 0 if dim is None else axis_of(dim, x.ndim)
    size = _length(flat, axis)
    while size > 1:
        half = size // 2
        both = mul(_cut(flat, axis, 0, half), _cut(flat, axis, half, 2 * half))
        rest = [_cut(flat, axis, 2 * half, size).pairs] if size % 2 else []
        flat = Complex(concat(both.pairs, *rest, axis=axis)) if rest else both
        size = half + size % 2
    if keepdim and dim is None:
        return Complex(composite.reshape(flat.pairs, [1] * x.ndim + [2]))
    return flat if keepdim else Complex(composite.squeeze(flat.pairs, axis))


@complex_aten("cumprod")
def cumprod(x: Complex, dim: int, dtype: Any = None) -> Complex:
    """Each element times the product that ends before it, over spans that double."""
    if dtype is not None:
        raise Unsupported("products of complex numbers in another type")
    axis, span = axis_of(dim, x.ndim), 1
    size = _length(x, axis)
    while span < size:
        met = mul(_cut(x, axis, span, size), _cut(x, axis, 0, size - span))
        x = Complex(concat(_cut(x, axis, 0, span).pairs, met.pairs, axis=axis))
        span *= 2
    return x


def _length(x: Complex, axis: int) -> int:
    size = x.shape[axis] if x.ndim else None
    if not isinstance(size, int) or size == 0:
        raise Unsupported("a product over no axis, none or a number of elements that is not known")
    return size


def _cut(x: Complex, axis: int, start: int, stop: int) -> Complex:
    return Complex(cut(x.pairs, axis, start, stop))


# ------------------------------------------------------------------------------------- by parts
def _by_parts(name: str) -> Spelling:
    """An op that moves or adds up elements does so with both parts alike."""

    def call(*args: Any, **kwargs: Any) -> Any:
        spelling = TABLE.get(f"aten::{name}")
        if spelling is None or spelling in IN_CONTEXT:
            raise Unsupported(f"{name} of complex numbers")
        both = [
            spelling(*([_part(i, a) for a in args]), **{k: _part(i, a) for k, a in kwargs.items()})
            for i in range(2)
        ]
        return joined_parts(*both)

    return call


def _part(place: int, given: Any) -> Any:
    return parts_of(given)[place] if isinstance(given, (Complex, complex)) else given


for _name in (
    "cumsum", "index_select", "gather", "take", "roll", "flip", "tile", "repeat", "trace", "nansum",
    "diagonal_copy", "diag_embed", "slice_scatter", "select_scatter", "diagonal_scatter",
    "select_backward", "slice_backward", "index_add", "index_copy", "scatter_add", "masked_scatter",
    "take_along_dim", "index_put",
):  # fmt: skip
    complex_aten(_name)(_by_parts(_name))
