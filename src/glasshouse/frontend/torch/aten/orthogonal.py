"""How ATen's QR factorisation is spelled: by reflections.

A reflection is kept as LAPACK keeps it: below the diagonal, with a 1 on it that is not stored, and
its factor beside the matrix. So signs are LAPACK's, and results that hold reflections are equal.
"""

from __future__ import annotations

from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import aten
from glasshouse.frontend.torch.aten.small_solve import SMALL
from glasshouse.frontend.torch.aten.solve import sizes, swapped
from glasshouse.ir.dim import product
from glasshouse.ops import composite
from glasshouse.ops.create import arange_near, full_near
from glasshouse.ops.shape import expanded, reshaped


@aten("geqrf", steps=SMALL)
def geqrf(a: Any) -> Any:
    """The triangle with the reflections below it, and their factors."""
    rows, columns = sizes(a)
    if product(a.shape) == 0:
        return a, full_near(a, (*a.shape[:-2], min(rows, columns)), 0.0, a.dtype)
    both, factors = a.apply("householder")
    return both, factors


def _product(a: Any, factors: Any, columns: int) -> Any:
    """The first columns of the product of all reflections."""
    rows = sizes(a)[0]
    if product(a.shape) and product(factors.shape) and columns:
        return a.apply("reflections", factors, columns=columns)
    places = reshaped(arange_near(a, rows), (rows, 1))
    one = places.apply("equal", arange_near(a, columns)).cast(a.dtype)
    return expanded(one, (*a.shape[:-2], rows, columns))


@aten("linalg_householder_product", "orgqr", steps=SMALL)
def householder_product(a: Any, factors: Any) -> Any:
    return _product(a, factors, sizes(a)[1])


@aten("ormqr", steps=SMALL)
def ormqr(a: Any, factors: Any, b: Any, left: bool = True, transpose: bool = False) -> Any:
    q = _product(a, factors, sizes(a)[0])
    q = swapped(q) if transpose else q
    return q.apply("matmul", b) if left else b.apply("matmul", q)


@aten("linalg_qr", steps=SMALL)
def qr(a: Any, mode: str = "reduced") -> Any:
    rows, columns = sizes(a)
    if mode not in ("reduced", "complete", "r"):
        raise Unsupported(f"QR with the mode {mode}")
    both, factors = geqrf(a)
    kept = rows if mode == "complete" else min(rows, columns)
    triangle = composite.narrow(both, -2, 0, kept).apply("triangle", upper=True)
    if mode == "r":
        return full_near(a, (0,), 0.0, a.dtype), triangle
    return _product(both, factors, kept), triangle
