"""Operands of 8-bit products: what a dequantized operand is made of, and which the targets take.

A product of two dequantized operands is one of whole numbers: sums of 32 bits, from which the zero
point of the first operand, times the sum of the second one's column, is taken before they are
scaled. Both targets ask for activations with one scale and zero point, and for constant weights of
int8, around zero, with one scale or one for each column.
"""

from __future__ import annotations

from dataclasses import dataclass

from glasshouse.backend.cxx.words import number_text
from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import float32, from_storage, int8
from glasshouse.ir.graph import Node, Value
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.kernel.expr import Apply, Expr, Load, Number
from glasshouse.lower.kernel.index import ZERO, of
from glasshouse.lower.kernel.statement import Operand
from glasshouse.lower.numbers import is_number
from glasshouse.lower.order import Order
from glasshouse.lower.quant import BYTES, has_loops
from glasshouse.lower.view import whole
from glasshouse.ops.shapes import axis_of

DEEPEST = 2**31 // (255 * 128)
"""Products that 32 bits are sure to hold."""


@dataclass(frozen=True)
class Dequantized:
    """A value that is made of bytes."""

    node: Node
    data: Value
    scale: Value
    zero: Value
    axis: int | None

    @staticmethod
    def of(value: Value) -> Dequantized | None:
        node = value.node
        if node.op.name != "dequantize" or not has_loops(node):
            return None
        data, scale, zero = node.inputs
        return Dequantized(node, data, scale, zero, node.attrs["axis"])


def byte_weights(
    builder: KernelBuilder, node: Node, x: Dequantized, w: Dequantized
) -> tuple[int, Dim] | None:
    """Depth and columns of a product with weights that suits the kernels; None if it does not."""
    turned = bool(node.attrs["transpose_y"])
    if node.attrs["transpose_x"] or x.data.type.rank < 2 or w.data.type.rank != 2:
        return None
    if not suits(builder, x, w, 0 if turned else 1):
        return None
    depth, columns = w.data.type.shape[::-1] if turned else w.data.type.shape
    return (depth, columns) if isinstance(depth, int) and 0 < depth <= DEEPEST else None


def suits(builder: KernelBuilder, x: Dequantized, w: Dequantized, channels: int) -> bool:
    """Whether types, scales and zero points are those that the kernels know."""
    if x.data.type.dtype not in BYTES or w.data.type.dtype is not int8:
        return False
    if x.axis is not None or w.data not in builder.constants:
        return False
    if w.axis is not None and axis_of(w.axis, w.data.type.rank) != channels:
        return False
    return is_zero(builder, w.zero)


def is_zero(builder: KernelBuilder, value: Value) -> bool:
    """Whether a zero point is known to be 0."""
    if is_number(value):
        return int(value.node.attrs["data"].reshape(-1)[0]) == 0
    return value in builder.zeros


def byte_operand(builder: KernelBuilder, x: Dequantized, order: Order | None = None) -> Operand:
    """Bytes, as real numbers."""
    return widened(builder, x, whole(builder, x.data, order))


def widened(builder: KernelBuilder, x: Dequantized, data: Operand) -> Operand:
    at = ZERO
    if x.axis is not None and x.scale.type.shape[0] != 1:
        at = of(data.loops[axis_of(x.axis, x.data.type.rank)])

    def beside(value: Value) -> Expr:
        dtype = value.type.dtype
        if value in builder.zeros:
            return Number(0, dtype)
        if is_number(value):
            stored = value.node.attrs["data"]
            return Number(from_storage(stored, dtype).reshape(-1)[0].item(), dtype)
        return Load(builder.in_memory(value), at, dtype)

    args = (data.element, beside(x.scale), beside(x.zero))
    element = Apply("dequantize", args, float32, tuple(x.node.attrs.items()))
    return Operand(data.loops, element, data.constant)


@dataclass(frozen=True)
class ByteRead:
    """What a dequantized operand is made of."""

    data: Load
    scale: Expr
    zero: Expr
    by_column: bool  # whether there is a scale for each column

    @staticmethod
    def of(operand: Operand) -> ByteRead:
        assert isinstance(operand.element, Apply), "lowering makes it so"
        data, scale, zero = operand.element.args
        assert isinstance(data, Load), "lowering makes it so"
        return ByteRead(data, scale, zero, operand.element.attr("axis") is not None)


def only_number(e: Expr) -> str:
    """The only element of a scale or zero point."""
    if isinstance(e, Number):
        return number_text(e.value, float32 if e.dtype.is_float else e.dtype)
    assert isinstance(e, Load), "lowering makes it so"
    return f"{e.buffer}[0]"
