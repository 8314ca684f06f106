"""How norms, deviations and normalisations of whole tensors are spelled with reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse.errors import ShapeError
from glasshouse.ir.dtype import float32
from glasshouse.ops.shape import reshaped
from glasshouse.ops.shapes import axes_of

Axes = int | Sequence[int] | None


def _axes(axes: Axes) -> list[int] | None:
    if axes is None:
        return None
    return list(axes) if isinstance(axes, Sequence) else [int(axes)]


def logsumexp(x: Any, axes: Axes = None, keepdims: bool = False) -> Any:
    """log(sum(exp(x))), shifted by the maximum so that nothing overflows."""
    listed = _axes(axes)
    high = x.apply("max", axes=listed, keepdims=True)
    # A row of -inf alone, or one with +inf, has no finite maximum to shift by.
    finite = (abs(high) < float("inf")).apply("where", high, 0.0)
    total = (x - finite).apply("exp").apply("sum", axes=listed, keepdims=True).apply("log") + finite
    if keepdims:
        return total
    gone = set(axes_of(listed, x.ndim))
    return reshaped(total, [d for i, d in enumerate(x.shape) if i not in gone])


def std(x: Any, axes: Axes = None, keepdims: bool = False, correction: int = 1) -> Any:
    """The square root of the variance. Its gradient at zero is zero."""
    return root(x.apply("variance", axes=_axes(axes), keepdims=keepdims, correction=correction))


def root(x: Any, p: float = 2.0) -> Any:
    """The p-th root, with a gradient of zero where x is 0: it has no slope there, so it is taken of
    1 and the result left out. NaN is not 0."""
    none = x.apply("equal", 0.0)
    safe = none.apply("where", 1.0, x)
    return none.apply("where", 0.0, safe.apply("sqrt") if p == 2 else safe ** (1.0 / p))


def norm(x: Any, p: float = 2.0, axes: Axes = None, keepdims: bool = False) -> Any:
    """The p-norm; infinity gives the largest magnitude. Its gradient at zero is zero."""
    how: dict[str, Any] = {"axes": _axes(axes), "keepdims": keepdims}
    if x.dtype.is_float and x.dtype.bits < 32:  # squares of a half type overflow from 256 on
        return norm(x.cast(float32), p, axes, keepdims).cast(x.dtype)
    if p == float("inf"):
        return abs(x).apply("max", **how)
    if p == float("-inf"):
        return abs(x).apply("min", **how)
    if p == 0:
        return x.apply("not_equal", 0).cast(x.dtype).apply("sum", **how)
    if p == 1:
        return abs(x).apply("sum", **how)
    if p == 2:
        powers = x * x
    elif 0 < p < 1:  # the slope of such a power has no end at zero
        powers = root(abs(x), 1 / p)
    else:
        powers = abs(x) ** p
    return root(powers.apply("sum", **how), p)


def normalize(x: Any, p: float = 2.0, axis: int = 1, eps: float = 1e-12) -> Any:
    """x over its norm along an axis, which counts as at least `eps`."""
    return x / norm(x, p, axis, keepdims=True).apply("clip", low=eps)


def cosine_similarity(x: Any, y: Any, axis: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between x and y along an axis."""
    sizes = [norm(v, 2.0, axis, keepdims=True).apply("clip", low=eps) for v in (x, y)]
    return (x / sizes[0] * (y / sizes[1])).apply("sum", axes=[axis])


def instance_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """Each channel of each sample normalised over its spatial axes."""
    if x.ndim < 3 or not isinstance(x.shape[1], int):
        what = f"instance_norm({x.type}): needs [batch, channels, spatial...], channels fixed"
        raise ShapeError(what, x.builder.where())
    y = x.apply("group_norm", groups=x.shape[1], eps=eps)
    per_channel = (-1, *[1] * (x.ndim - 2))
    for operand, name in ((weight, "multiply"), (bias, "add")):
        if operand is not None:
            y = y.apply(name, reshaped(operand, (x.shape[1], *per_channel[1:])))
    return y
