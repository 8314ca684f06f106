"""How loops quantize and dequantize: whole numbers below 2**24 are exact in a float vector.

Elements of 8 bits are held as floats in vectors (their loads and stores convert), so a chain from
one quantised tensor to the next runs over whole vectors. Products between two dequantized operands
see the ops themselves and compute with whole numbers (backend/cpu/int8.py).
"""

from __future__ import annotations

from glasshouse.ir.dtype import float32, int8, uint8
from glasshouse.ir.graph import Node
from glasshouse.lower.element import Steps, applied
from glasshouse.lower.kernel.index import ZERO, Index
from glasshouse.ops.shapes import axis_of

BYTES = (int8, uint8)

INT8 = "int8"
"""The variant of kernels whose products are of whole numbers, or what its name begins with."""


def computes_in(variant: str) -> str:
    """The element type that the name of a variant begins with, "int8" say; "" if with none."""
    first = variant.split("_")[0]
    return first if first in (INT8, "float8") else ""


def has_loops(node: Node) -> bool:
    """Whether the op is written here: real numbers are float32; others are expanded."""
    real = node.inputs[0] if node.op.name == "quantize" else node.output
    return real.type.dtype is float32 and node.inputs[1].type.dtype is float32


def quantized(node: Node, port: int, index: tuple[Index, ...]) -> Steps:
    """The element of a `quantize` or `dequantize`, from an element, a scale and a zero point."""
    x = yield node.inputs[0], index
    beside = _beside(node, index)
    scale = yield node.inputs[1], beside
    zero = yield node.inputs[2], beside
    return applied(node, x, scale, zero)


def _beside(node: Node, index: tuple[Index, ...]) -> tuple[Index, ...]:
    """The position of an element's scale and zero point in their buffers."""
    axis = node.attrs["axis"]
    if axis is None:
        return ()
    at = axis_of(axis, len(index))
    return (ZERO if node.inputs[1].type.shape[0] == 1 else index[at],)
