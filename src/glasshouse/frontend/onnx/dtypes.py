"""Which element types of ONNX the core has, and how their bytes are stored."""

from __future__ import annotations

from glasshouse.errors import CaptureError
from glasshouse.ir.dtype import DType, as_dtype

_CORE = {
    1: "float32", 2: "uint8", 3: "int8", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16", 17: "float8_e4m3fn",
    19: "float8_e5m2",
}  # fmt: skip
FROM_ONNX: dict[int, DType] = {number: as_dtype(name) for number, name in _CORE.items()}
TO_ONNX: dict[DType, int] = {dtype: number for number, dtype in FROM_ONNX.items()}
_OTHERS = {
    4: "uint16", 8: "string", 14: "complex64", 15: "complex128",
    18: "float8_e4m3fnuz", 20: "float8_e5m2fnuz",
    21: "uint4", 22: "int4", 23: "float4_e2m1", 24: "float8_e8m0", 25: "uint2", 26: "int2",
}  # fmt: skip


def name_of(number: int) -> str:
    """An element type as a person writes it."""
    if number in FROM_ONNX:
        return FROM_ONNX[number].name
    return _OTHERS.get(number, f"type {number}")


def dtype_of(number: int, what: str = "a tensor") -> DType:
    """The core's element type; an error that names `what` where it has none."""
    found = FROM_ONNX.get(number)
    if found is None:
        raise CaptureError(
            f"{what} has the element type {name_of(number)}, which cannot be compiled",
            hint=f"there are {', '.join(d.name for d in TO_ONNX)}; the file can still be viewed",
        )
    return found
