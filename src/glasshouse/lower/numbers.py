"""Constants that kernels know: single numbers, and zero points that are 0."""

from __future__ import annotations

from glasshouse.ir.graph import Value
from glasshouse.ir.sources import CONSTANT


def is_number(value: Value) -> bool:
    """Whether a value is a constant of one element, which stands in the code as a number."""
    data = value.node.attrs.get("data") if value.node.op is CONSTANT else None
    return data is not None and data.size == 1


def is_zero_point(value: Value) -> bool:
    """Whether a value is a vector of whole numbers that are known to be 0."""
    if value.node.op is not CONSTANT or value.type.dtype.is_float or value.type.rank > 1:
        return False
    data = value.node.attrs["data"]
    return data is not None and not data.any()
