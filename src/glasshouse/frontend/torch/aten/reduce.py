"""How ATen's folds along axes, running sums and sorting are spelled."""

from __future__ import annotations

import math
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import (
    Context,
    apply,
    aten,
    axes_or_none,
    common,
    is_static,
    scalar,
)
from glasshouse.frontend.torch.complex import Complex, joined
from glasshouse.frontend.torch.dtypes import default_float, is_integral
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import DType, bfloat16, bool_, float16, float32, int64
from glasshouse.ops import composite
from glasshouse.ops.create import full_near
from glasshouse.ops.shape import reshaped
from glasshouse.ops.shapes import axes_of, axis_of, reduced


def _axes(x: Any, dim: Any) -> list[int] | None:
    return axes_or_none(dim) if x.ndim else None


@aten("sum")
def total(x: Any, dim: Any = None, keepdim: bool = False, dtype: DType | None = None) -> Any:
    if isinstance(x, Complex):
        return _of_pairs("sum", x, dim, keepdim, dtype)
    kind = dtype or (int64 if is_integral(x.dtype) else x.dtype)
    return x.cast(kind).apply("sum", axes=_axes(x, dim), keepdims=keepdim)


def _of_pairs(op: str, x: Complex, dim: Any, keepdim: bool, dtype: Any) -> Complex:
    if dtype is not None:
        raise Unsupported(f"a {op} of complex numbers in another type")
    axes = axes_of(axes_or_none(dim), x.ndim)
    if not axes:
        return x
    if x.is_apart:
        return joined(*(p.apply(op, axes=list(axes), keepdims=keepdim) for p in x.parts()))
    return Complex(x.pairs.apply(op, axes=list(axes), keepdims=keepdim))


@aten("mean")
def mean(x: Any, dim: Any = None, keepdim: bool = False, dtype: DType | None = None) -> Any:
    if isinstance(x, Complex):
        return _of_pairs("mean", x, dim, keepdim, dtype)
    return (x if dtype is None else x.cast(dtype)).apply(
        "mean", axes=_axes(x, dim), keepdims=keepdim
    )


@aten("prod")
def prod(x: Any, dim: Any = None, keepdim: bool = False, dtype: DType | None = None) -> Any:
    kind = dtype or (int64 if is_integral(x.dtype) else x.dtype)
    return x.cast(kind).apply("prod", axes=_axes(x, dim), keepdims=keepdim)


@aten("nansum")
def nansum(x: Any, dim: Any = None, keepdim: bool = False, dtype: DType | None = None) -> Any:
    return total(_without_nan(x), dim, keepdim, dtype)


def _without_nan(x: Any) -> Any:
    return x if is_integral(x.dtype) else apply("where", x.apply("isnan"), 0.0, x)


@aten("nanmean")
def nanmean(x: Any, dim: Any = None, keepdim: bool = False, dtype: DType | None = None) -> Any:
    x = x if dtype is None else x.cast(dtype)
    counted = x.apply("isnan").apply("logical_not").cast(x.dtype)
    return total(_without_nan(x), dim, keepdim) / total(counted, dim, keepdim)


for _name in ("any", "all"):
    aten(_name)(
        lambda x, dim=None, keepdim=False, op=_name: x.apply(
            op, axes=_axes(x, dim), keepdims=keepdim
        )
    )
for _name, _op in {"amax": "max", "amin": "min"}.items():
    aten(_name)(
        lambda x, dim=(), keepdim=False, op=_op: x.apply(op, axes=_axes(x, dim), keepdims=keepdim)
    )
aten("max.default")(lambda x: x.apply("max"))
aten("min.default")(lambda x: x.apply("min"))
aten("aminmax")(
    lambda x, dim=None, keepdim=False: tuple(
        x.apply(op, axes=_axes(x, dim), keepdims=keepdim) for op in ("min", "max")
    )
)


def _with_index(values: str, index: str) -> Any:
    def spelling(x: Any, dim: int, keepdim: bool = False) -> Any:
        if not x.ndim:
            return x, full_near(x, (), 0, int64)
        if x.dtype is bool_:
            raise Unsupported("the extreme of bools and where it is")
        at = x.apply(index, axis=dim, keepdims=True)
        found = x.apply("gather", at, axis=dim)
        if keepdim:
            return found, at
        shape = reduced(x.shape, [axis_of(dim, x.ndim)], False)
        return reshaped(found, shape), reshaped(at, shape)

    return spelling


aten("max.dim")(_with_index("max", "argmax"))
aten("min.dim")(_with_index("min", "argmin"))


def _arg(op: str) -> Any:
    def spelling(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        if dim is None:
            flat = reshaped(x, (product(x.shape),)).apply(op, axis=0)
            return reshaped(flat, [1] * x.ndim) if keepdim else flat
        return x.apply(op, axis=dim, keepdims=keepdim)

    return spelling


aten("argmax")(_arg("argmax"))
aten("argmin")(_arg("argmin"))


# ------------------------------------------------------------------------------------ spread, norms
def _spread(x: Any, dim: Any, unbiased: Any, correction: Any, keepdim: bool) -> Any:
    value = (1 if unbiased else 0) if correction is None else correction
    axes = _axes(x, dim)
    whole = int(value) if value == int(value) else 0
    out = x.apply("variance", axes=axes, keepdims=keepdim, correction=whole)
    if whole == value:
        return out
    count = product(tuple(x.shape[a] for a in axes_of(axes, x.ndim)))
    if not isinstance(count, int):
        raise Unsupported(f"a correction of {value} of a size that is not fixed")
    return out * (count / max(count - value, 0.0) if count > value else math.inf)


def _register(name: str, finish: Any) -> None:
    def by_correction(x: Any, dim: Any = None, correction: Any = 1, keepdim: bool = False) -> Any:
        correction = 1 if correction is None else correction
        return finish(x, dim, None, correction, keepdim)

    def by_dim(x: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False) -> Any:
        return finish(x, dim, unbiased, None, keepdim)

    def of_all(x: Any, unbiased: bool = True) -> Any:
        return finish(x, None, unbiased, None, False)

    aten(f"{name}.correction")(by_correction)
    aten(f"{name}.dim")(by_dim)
    aten(f"{name}.default")(of_all)


def _deviation(x: Any, *how: Any) -> Any:
    """The root of the variance, rounded once: squares of 256 overflow float16."""
    wide = x.cast(float32) if x.dtype in (float16, bfloat16) else x
    return composite.root(_spread(wide, *how)).cast(x.dtype)


_register("var", _spread)
_register("std", _deviation)
_register("var_mean", lambda x, d, u, c, k: (_spread(x, d, u, c, k), mean(x, d, k)))
_register("std_mean", lambda x, d, u, c, k: (_deviation(x, d, u, c, k), mean(x, d, k)))


@aten("logsumexp", "special_logsumexp")
def logsumexp(x: Any, dim: Any, keepdim: bool = False) -> Any:
    x = x.cast(default_float()) if is_integral(x.dtype) else x
    return composite.logsumexp(x, _axes(x, dim), keepdim)


@aten("norm.Scalar", "norm.ScalarOpt_dim", "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim_dtype")
def norm(
    x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: DType | None = None
) -> Any:
    x = x if dtype is None else x.cast(dtype)
    power = 2.0 if p is None else float(p)
    if -math.inf < power < 0:
        # One zero makes it zero, and flat there; NaN stays.
        zero = x.apply("equal", 0.0)
        some = zero.apply("any", axes=_axes(x, dim), keepdims=keepdim)
        safe = composite.norm(apply("where", zero, 1.0, x), power, _axes(x, dim), keepdim)
        return apply("where", some.apply("logical_and", safe.apply("equal", safe)), 0.0, safe)
    return composite.norm(x, power, _axes(x, dim), keepdim)


@aten("linalg_vector_norm")
def vector_norm(
    x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: DType | None = None
) -> Any:
    return norm(x, p, dim, keepdim, dtype)


aten("frobenius_norm")(lambda x, dim, keepdim=False: composite.norm(x, 2.0, _axes(x, dim), keepdim))
aten("count_nonzero")(
    lambda x, dim=None: x.apply("not_equal", 0).cast(int64).apply("sum", axes=_axes(x, dim))
)


@aten("renorm")
def renorm(x: Any, p: Any, dim: int, maxnorm: Any) -> Any:
    axes = [a for a in range(x.ndim) if a != axis_of(dim, x.ndim)]
    size = composite.norm(x, float(p), axes, keepdims=True)
    return x * apply("where", size > float(maxnorm), float(maxnorm) / (size + 1e-7), 1.0)


# ----------------------------------------------------------------------------- running, differences
@aten("cumsum")
def cumsum(x: Any, dim: int, dtype: DType | None = None) -> Any:
    kind = dtype or (int64 if is_integral(x.dtype) else x.dtype)
    return x.cast(kind).apply("cumsum", axis=dim)


@aten("diff")
def diff(x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    at = axis_of(dim, x.ndim)
    parts = [p for p in (prepend, x, append) if p is not None]
    if len(parts) > 1:
        from glasshouse.ops.pieces import concat

        x = concat(*common(*parts), axis=at)
    for _ in range(n):
        after = composite.getitem(x, (*[slice(None)] * at, slice(1, None)))
        before = composite.getitem(x, (*[slice(None)] * at, slice(0, -1)))
        x = after.apply("not_equal", before) if x.dtype is bool_ else after - before
    return x


# ---------------------------------------------------------------------------------------- ordering
def _sorted(x: Any, dim: int = -1, descending: bool = False) -> Any:
    if not x.ndim:
        return x, full_near(x, (), 0, int64)
    return x.apply("sort", axis=dim, descending=descending)


aten("sort.default")(_sorted)
aten("sort.stable")(lambda x, stable=None, dim=-1, descending=False: _sorted(x, dim, descending))
aten("argsort.default")(lambda x, dim=-1, descending=False: _sorted(x, dim, descending)[1])
aten("argsort.stable")(lambda x, stable, dim=-1, descending=False: _sorted(x, dim, descending)[1])
aten("msort")(lambda x: _sorted(x, 0)[0])


@aten("topk")
def topk(x: Any, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    if not x.ndim:
        return x, full_near(x, (), 0, int64)
    return x.apply("topk", k=k, axis=dim, largest=largest)


def _nth(x: Any, n: Any, dim: int, keepdim: bool) -> Any:
    values, places = _sorted(x, dim)
    if not x.ndim:
        return values, places
    at = axis_of(dim, x.ndim)
    out = [composite.narrow(v, at, n, 1) for v in (values, places)]
    if keepdim:
        return tuple(out)
    return tuple(reshaped(v, reduced(x.shape, [at], False)) for v in out)


@aten("kthvalue")
def kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    return _nth(x, k - 1, dim, keepdim)


@aten("median.dim")
def median_dim(x: Any, dim: int, keepdim: bool = False) -> Any:
    size = x.shape[axis_of(dim, x.ndim)] if x.ndim else 1
    if not is_static(size):
        raise Unsupported("the median along an axis without a fixed size")
    if not x.ndim or not x.dtype.is_float or not size:
        return _nth(x, (size - 1) // 2, dim, keepdim)
    at = axis_of(dim, x.ndim)
    values, places = x.apply("sort", axis=at)
    numbers = x.apply("equal", x).cast(int64).apply("sum", axes=[at], keepdims=True)
    # NaN stands last, and one of them is the median.
    middle = apply("where", numbers < size, numbers, scalar(x, (size - 1) // 2, int64))
    found = [v.apply("gather", middle, axis=at) for v in (values, places)]
    return tuple(found) if keepdim else tuple(composite.squeeze(v, [at]) for v in found)


@aten("median.default", context=True)
def median(ctx: Context, x: Any) -> Any:
    flat = reshaped(x, (product(x.shape),))
    return shared_by_equals(ctx, median_dim(flat, 0)[0], flat)


def shared_by_equals(ctx: Context, found: Any, x: Any) -> Any:
    """An element of x, whose gradient all that are equal to it share."""
    if ctx.stopped is None or not x.dtype.is_float:
        return found
    found, fixed = ctx.stopped(found), ctx.stopped(x)
    none = found.apply("isnan").apply("logical_and", fixed.apply("isnan"))
    equal = fixed.apply("equal", found).apply("logical_or", none)
    count = equal.cast(x.dtype).apply("sum", axes=None)
    # What is added is 0, with a slope; for infinity it would be NaN.
    some = equal.apply("logical_and", abs(fixed).apply("not_equal", math.inf))
    slope = apply("where", some, x - fixed, 0.0)
    return found + slope.apply("sum", axes=None) / count
