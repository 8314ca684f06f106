"""How ATen's products of matrices are spelled."""

from __future__ import annotations

import math
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.arithmetic import add, mul
from glasshouse.frontend.torch.aten.complex_products import complex_einsum, complex_matmul
from glasshouse.frontend.torch.aten.functions import conj
from glasshouse.frontend.torch.aten.registry import apply, aten, common, is_static
from glasshouse.frontend.torch.complex import Complex
from glasshouse.ir.dim import product
from glasshouse.ops import composite
from glasshouse.ops.create import arange_near
from glasshouse.ops.shape import expanded, permuted, reshaped
from glasshouse.ops.shapes import axis_of, broadcast_shapes

_TERMS = 12
"""Of the series of an exponential: what is left out is below 1e-13 for a norm of 1/2."""
_HALVINGS = 12
"""At most: a norm above 2048 has left what a float32 can hold."""


def _times(factor: Any, x: Any) -> Any:
    if factor == 1:
        return x
    if isinstance(x, Complex):
        return mul(x, factor)
    return x * (float(factor) if x.dtype.is_float else int(factor))


def matmul(x: Any, y: Any) -> Any:
    """Whole numbers of few bits wrap as they are summed, in PyTorch as here."""
    if isinstance(x, Complex) or isinstance(y, Complex):
        return complex_matmul(x, y)
    return x.apply("matmul", y)


aten("matmul", "mm", "bmm", "mv", "dot", "inner.default", "linalg_matmul")(matmul)


@aten("vdot")
def vdot(x: Any, y: Any) -> Any:
    return matmul(conj(x), y)


@aten("linear")
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    if not isinstance(x, Complex) and not isinstance(weight, Complex):
        return composite.linear(x, weight, bias)
    out = complex_einsum("...i,oi->...o", [x, weight])
    return out if bias is None else add(out, bias)


@aten("inner")
def inner(x: Any, y: Any) -> Any:
    if not x.ndim or not y.ndim:
        return x * y
    rank = x.ndim + y.ndim - 2
    out = reshaped(x, (composite.flatten(x).shape[0] // x.shape[-1], x.shape[-1]))
    del rank
    wide = out.apply("matmul", composite.reshape(y, [-1, y.shape[-1]]), transpose_y=True)
    return reshaped(wide, (*x.shape[:-1], *y.shape[:-1]))


def _added(c: Any, product: Any, beta: Any, alpha: Any) -> Any:
    product = _times(alpha, product)
    return product if beta == 0 else add(_times(beta, c), product)


@aten("addmm", "baddbmm", "addmv")
def addmm(c: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    return _added(c, matmul(a, b), beta, alpha)


@aten("_addmm_activation")
def addmm_activation(
    c: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1, use_gelu: bool = False
) -> Any:
    out = _added(c, matmul(a, b), beta, alpha)
    return out.apply("gelu", approximate="tanh") if use_gelu else out.apply("relu")


@aten("addbmm")
def addbmm(c: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    return _added(c, matmul(a, b).apply("sum", axes=[0]), beta, alpha)


@aten("addr")
def addr(c: Any, x: Any, y: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    if not c.dtype.is_float:
        raise Unsupported("addr of whole numbers")
    return _added(c, composite.outer(x, y), beta, alpha)


aten("outer", "ger")(composite.outer)


@aten("einsum")
def einsum(equation: str, tensors: Any, path: Any = None) -> Any:
    if any(isinstance(t, Complex) for t in tensors):
        return complex_einsum(equation, list(tensors))
    return composite.einsum(equation, *tensors)


@aten("tensordot")
def tensordot(x: Any, y: Any, dims_x: Any, dims_y: Any) -> Any:
    left = [axis_of(d, x.ndim) for d in dims_x]
    right = [axis_of(d, y.ndim) for d in dims_y]
    free_x = [a for a in range(x.ndim) if a not in left]
    free_y = [a for a in range(y.ndim) if a not in right]
    shape = [*(x.shape[a] for a in free_x), *(y.shape[a] for a in free_y)]
    inner_size = composite.reshape(permuted(x, [*left, *free_x]), [*_sizes(x, left), -1])
    rows = composite.reshape(inner_size, [_count(x, left), -1])
    columns = composite.reshape(permuted(y, [*right, *free_y]), [_count(y, right), -1])
    return reshaped(rows.apply("matmul", columns, transpose_x=True), shape)


def _sizes(x: Any, axes: list[int]) -> list[Any]:
    return [x.shape[a] for a in axes]


def _count(x: Any, axes: list[int]) -> Any:
    out: Any = 1
    for size in _sizes(x, axes):
        out = out * size
    return out


@aten("bilinear", "_trilinear_bilinear")
def bilinear(x: Any, y: Any, weight: Any, bias: Any = None) -> Any:
    out = composite.einsum("...i,oij,...j->...o", x, weight, y)
    return out if bias is None else out + bias


@aten("kron")
def kron(x: Any, y: Any) -> Any:
    rank = max(x.ndim, y.ndim)
    a = reshaped(x, (*[1] * (rank - x.ndim), *x.shape))
    b = reshaped(y, (*[1] * (rank - y.ndim), *y.shape))
    left = reshaped(a, [s for d in a.shape for s in (d, 1)])
    right = reshaped(b, [s for d in b.shape for s in (1, d)])
    shape = [i * j for i, j in zip(a.shape, b.shape, strict=True)]
    return reshaped(left * right, shape)


@aten("cross", "linalg_cross")
def cross(x: Any, y: Any, dim: int | None = -1) -> Any:
    if dim is None:
        dim = next(i for i, d in enumerate(x.shape) if d == 3)
    one = [p.apply("roll", shifts=[-1], axes=[dim]) for p in (x, y)]
    two = [p.apply("roll", shifts=[-2], axes=[dim]) for p in (x, y)]
    return one[0] * two[1] - two[0] * one[1]


@aten("_cdist_forward", "cdist")
def cdist(x: Any, y: Any, p: float = 2.0, compute_mode: Any = None) -> Any:
    apart = composite.unsqueeze(x, -2) - composite.unsqueeze(y, -3)
    return composite.norm(apart, float(p), [-1])


@aten("chain_matmul", "linalg_multi_dot")
def chain(tensors: Any) -> Any:
    out = tensors[0]
    for t in tensors[1:]:
        out = matmul(out, t)
    return out


@aten("matrix_exp", "linalg_matrix_exp")
def matrix_exp(x: Any) -> Any:
    """The series of x halved until it is small, squared as often again."""
    if not x.dtype.is_float or not is_static(*x.shape):
        raise Unsupported(f"the exponential of {x.type}")
    if product(x.shape) == 0:
        return x
    size = abs(x).apply("sum", axes=[-2], keepdims=True).apply("max", axes=[-1], keepdims=True)
    halvings = apply("maximum", size * 2.0, 1.0).apply("log") * (1.0 / math.log(2.0))
    halvings = halvings.apply("ceil").apply("clip", low=0.0, high=float(_HALVINGS))
    small = x / apply("power", 2.0, halvings)
    places = arange_near(x, x.shape[-1])
    one = composite.unsqueeze(places, -1).apply("equal", places).cast(x.dtype)
    out = one
    for k in range(_TERMS, 0, -1):
        out = small.apply("matmul", out) * (1.0 / k) + one
    for k in range(_HALVINGS):
        out = apply("where", halvings > float(k), matmul(out, out), out)
    return out


@aten("_int_mm")
def int_mm(x: Any, y: Any) -> Any:
    return matmul(x.cast("int32"), y.cast("int32"))


@aten("_grouped_mm", "transformers::grouped_mm_fallback")
def grouped_mm(x: Any, w: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None) -> Any:
    """Rows of x up to offs[0] times w[0], those up to offs[1] times w[1], and so on."""
    if offs is None or x.ndim != 2 or w.ndim != 3 or bias is not None:
        raise Unsupported("a grouped product of this form")
    return x.apply("grouped_matmul", w, offs)


@aten("linalg_vecdot")
def vecdot(x: Any, y: Any, dim: int = -1) -> Any:
    return (x * y).apply("sum", axes=[dim])


@aten("cosine_similarity")
def cosine_similarity(x: Any, y: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    # The sizes are those of what is multiplied: a vector of one element may be spread over many.
    x, y = common(x, y)
    shape = broadcast_shapes([x.shape, y.shape])
    x, y = (expanded(v, shape) if len(shape) else reshaped(v, (1,)) for v in (x, y))
    return composite.cosine_similarity(x, y, dim, eps)


@aten("pairwise_distance")
def pairwise_distance(
    x: Any, y: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    return composite.norm(x - y + eps, float(p), [-1], keepdim)
