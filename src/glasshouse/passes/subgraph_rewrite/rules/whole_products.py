"""Products of whole numbers that come from bytes, as ONNX spells them (MatMulInteger, ConvInteger).

There both operands are widened to int32 and moved by their zero points first. Kernels compute with
the bytes themselves where they see a product of two `dequantize`: with a scale of 1 it is the same
number. As int32 the product would run in plain loops: an MLP of 256-1024-256 at 32 rows,
quantised by ONNX Runtime's `quantize_dynamic`, took 26 ms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glasshouse.ir.dtype import DType, float32, int8, int32, uint8
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.rewriter import Rewriter
from glasshouse.passes.patterns import Array, array_of, made_by, single_use
from glasshouse.passes.subgraph_rewrite.rule import Match, rule

_BYTES = (int8, uint8)


@dataclass(frozen=True)
class _Bytes:
    """An int32 value as bytes less a zero point; each is a value of the graph or a new constant."""

    data: Value | Array
    dtype: DType
    zero: Value | int
    nodes: tuple[Node, ...]

    def dequantized(self, rw: Rewriter) -> Expr:
        """These numbers as float32."""
        data, zero = self.data, self.zero
        if not isinstance(data, Value):
            data = rw.constant(data, self.dtype)
        if not isinstance(zero, Value):
            zero = rw.constant(np.array(zero), self.dtype)
        one = rw.constant(np.array(1.0), float32)
        real: Expr = rw.expr(data).apply(
            "dequantize", rw.expr(one), rw.expr(zero), axis=None, dtype=float32
        )
        return real


@rule("cast", why="products of bytes are sums of whole numbers in their kernels, too")
def product_of_bytes(node: Node, rw: Rewriter) -> Match | None:
    """float32 of an int32 product of widened bytes: rounded once, as by the kernel."""
    if node.output.type.dtype is not float32 or node.inputs[0].type.dtype is not int32:
        return None
    product = made_by(node.inputs[0], "matmul", "conv")
    if product is None or not single_use(rw.graph, product.output):
        return None
    x, y = (_bytes_of(v) for v in product.inputs)
    if x is None or y is None:
        return None
    return Match(
        lambda: x.dequantized(rw).apply(product.op.name, y.dequantized(rw), **product.attrs),
        matched=[product, *x.nodes, *y.nodes],
    )


def _bytes_of(value: Value) -> _Bytes | None:
    known = array_of(value)
    if known is not None:
        if known.size == 0 or known.min() < -128 or known.max() > 127:
            return None
        return _Bytes(known.astype(np.int8), int8, 0, ())
    moved = made_by(value, "subtract")
    wide = made_by(moved.inputs[0] if moved else value, "cast")
    if wide is None or wide.inputs[0].type.dtype not in _BYTES:
        return None
    data = wide.inputs[0]
    dtype = data.type.dtype
    if moved is None:
        return _Bytes(data, dtype, 0, (wide,))
    zero = _zero_of(moved.inputs[1], dtype)
    return None if zero is None else _Bytes(data, dtype, zero, (moved, wide))


def _zero_of(value: Value, dtype: DType) -> Value | int | None:
    """One zero point for all elements, of the type of the bytes."""
    if value.type.rank:
        return None
    known = array_of(value)
    if known is not None:
        least = -128 if dtype is int8 else 0
        return int(known) if least <= known <= least + 255 else None
    wide = made_by(value, "cast")
    return wide.inputs[0] if wide is not None and wide.inputs[0].type.dtype is dtype else None
