"""How ONNX's products of matrices are spelled."""

from __future__ import annotations

from typing import Any

from glasshouse.frontend.onnx.call import OnnxCall
from glasshouse.frontend.onnx.registry import core, spell
from glasshouse.ops import composite

core(MatMul="matmul")


@spell("Gemm")
def gemm(c: OnnxCall) -> Any:
    x, y = c[0], c[1]
    out = x.apply(
        "matmul", y, transpose_x=bool(c.attr("transA", 0)), transpose_y=bool(c.attr("transB", 0))
    )
    alpha, beta = c.attr("alpha", 1.0), c.attr("beta", 1.0)
    if alpha != 1:
        out = out * _number(alpha, x)
    if c.has(2) and beta != 0:
        out = out + (c[2] if beta == 1 else c[2] * _number(beta, x))
    return out


def _number(value: float, x: Any) -> Any:
    return value if x.dtype.is_float else int(value)


@spell("Einsum")
def einsum(c: OnnxCall) -> Any:
    return composite.einsum(c.attr("equation"), *c.handles())


@spell("Det")
def determinant(c: OnnxCall) -> Any:
    """Cofactors along the first row up to 3 x 3; larger ones have no short spelling."""
    from glasshouse.errors import Unsupported

    x = c[0]
    size = x.shape[-1]
    if size not in (1, 2, 3):
        raise Unsupported(f"the determinant of {size} x {size} matrices")
    entry = [[_entry(x, i, j) for j in range(size)] for i in range(size)]
    return _minor(entry)


def _entry(x: Any, i: int, j: int) -> Any:
    row = composite.narrow(composite.narrow(x, -2, i, 1), -1, j, 1)
    return composite.reshape(row, list(x.shape[:-2]))


def _minor(m: list[list[Any]]) -> Any:
    if len(m) == 1:
        return m[0][0]
    if len(m) == 2:
        return m[0][0] * m[1][1] - m[0][1] * m[1][0]
    terms = [m[0][j] * _minor([[*r[:j], *r[j + 1 :]] for r in m[1:]]) for j in range(3)]
    return terms[0] - terms[1] + terms[2]
