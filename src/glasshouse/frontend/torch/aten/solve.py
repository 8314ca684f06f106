"""How ATen's triangular systems and Cholesky's factors are spelled.

Eigenvalues and singular values are iterations, with vectors of free signs: they stay opaque.
"""

from __future__ import annotations

from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import Context, apply, aten, is_static
from glasshouse.frontend.torch.aten.small_solve import (
    SMALL,
    is_small,
    small_factor,
    triangle_solution,
)
from glasshouse.frontend.torch.aten.triangle import BY_BLOCKS, solved_by_blocks
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import int32
from glasshouse.ops import composite
from glasshouse.ops.create import arange_near, full_near
from glasshouse.ops.shape import expanded, reshaped
from glasshouse.ops.shapes import broadcast_shapes


def swapped(x: Any) -> Any:
    """Matrices transposed."""
    return composite.transpose(x, -2, -1)


def sizes(x: Any) -> tuple[int, int]:
    """Rows and columns."""
    if not is_static(*x.shape) or not x.dtype.is_float:
        raise Unsupported(f"a factorisation of {x.type}")
    return int(x.shape[-2]), int(x.shape[-1])


def first_trouble(wrong: Any) -> Any:
    """`info`: the first step, counted from 1, at which a factorisation failed; 0 if none did."""
    size = wrong.shape[-1]
    if product(wrong.shape) == 0:
        return full_near(wrong, wrong.shape[:-1], 0, int32)
    later = apply("where", wrong, -arange_near(wrong, size), -size)  # the first is the largest
    found = later.apply("max", axes=[-1])
    none = found.apply("equal", -size)
    return apply("where", none, 0, 1 - found).cast(int32)


# -------------------------------------------------------------------------------------- triangular
def solved(a: Any, b: Any, upper: bool, unit: bool = False, blocks: bool = False) -> Any:
    """x for a x = b, a being a triangle; `blocks`: as a graph of products."""
    batch = broadcast_shapes([a.shape[:-2], b.shape[:-2]])
    a, b = expanded(a, (*batch, *a.shape[-2:])), expanded(b, (*batch, *b.shape[-2:]))
    if product(b.shape) == 0:
        return b
    if is_small(a):
        return triangle_solution(a, b, upper, unit)
    if blocks and sizes(a)[0] <= BY_BLOCKS:
        return solved_by_blocks(a, b, upper, unit)
    return a.apply("triangle_solve", b, upper=upper, unit=unit)


def _on_a_gpu(ctx: Context) -> bool:
    """Where triangles have no kernel, and a call of PyTorch's would part what is around it."""
    made = ctx.fx_node.meta["val"]
    first = made[0] if isinstance(made, (list, tuple)) else made
    return bool(first.device.type == "cuda")


@aten("linalg_solve_triangular", context=True, steps=SMALL)
def solve_triangular(
    ctx: Context,
    a: Any,
    b: Any,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Any:
    blocks = _on_a_gpu(ctx)
    if left:
        return solved(a, b, upper, unitriangular, blocks)
    return swapped(solved(swapped(a), swapped(b), not upper, unitriangular, blocks))


@aten("triangular_solve", context=True, steps=SMALL)
def triangular_solve(
    ctx: Context,
    b: Any,
    a: Any,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Any:
    blocks = _on_a_gpu(ctx)
    clone = expanded(a, (*broadcast_shapes([a.shape[:-2], b.shape[:-2]]), *a.shape[-2:]))
    if transpose:
        return solved(swapped(a), b, not upper, unitriangular, blocks), clone
    return solved(a, b, upper, unitriangular, blocks), clone


# ---------------------------------------------------------------------------------------- Cholesky
def factor(a: Any) -> Any:
    """The lower triangle whose product with its transpose is a; reads the lower triangle."""
    sizes(a)
    if product(a.shape) == 0:
        return a
    return small_factor(a) if is_small(a) else a.apply("cholesky")


@aten("linalg_cholesky_ex", steps=SMALL)
def cholesky_ex(a: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    low = factor(swapped(a) if upper else a)
    diagonal = composite.diagonal(low, 0, -2, -1)
    return swapped(low) if upper else low, first_trouble((diagonal > 0.0).apply("logical_not"))


@aten("cholesky", steps=SMALL)
def cholesky(a: Any, upper: bool = False) -> Any:
    return cholesky_ex(a, upper=upper)[0]


@aten("cholesky_solve", context=True, steps=SMALL)
def cholesky_solve(ctx: Context, b: Any, triangle: Any, upper: bool = False) -> Any:
    low, blocks = swapped(triangle) if upper else triangle, _on_a_gpu(ctx)
    return solved(swapped(low), solved(low, b, False, blocks=blocks), True, blocks=blocks)


@aten("cholesky_inverse", context=True, steps=SMALL)
def cholesky_inverse(ctx: Context, triangle: Any, upper: bool = False) -> Any:
    return cholesky_solve(ctx, identity(triangle), triangle, upper)


def identity(x: Any) -> Any:
    """Ones on the diagonal of square matrices like x."""
    size = x.shape[-1]
    rows = reshaped(arange_near(x, size), (size, 1))
    one = rows.apply("equal", arange_near(x, size)).cast(x.dtype)
    return expanded(one, (*x.shape[:-2], size, size))
