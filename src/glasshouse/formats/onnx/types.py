"""How ONNX types, attributes and small tensors read as text."""

from __future__ import annotations

import struct
from typing import Any

_NAMES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    8: "string", 9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64",
    14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz",
    19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4_e2m1",
}  # fmt: skip
NUMBERS = {name: number for number, name in _NAMES.items()}
_LAYOUT = {1: "f", 6: "i", 7: "q", 11: "d", 9: "?", 2: "B", 3: "b"}
_FIELD = {1: "float_data", 6: "int32_data", 7: "int64_data", 11: "double_data", 9: "int32_data",
          2: "int32_data", 3: "int32_data"}  # fmt: skip
_TYPES = ("tensor_type", "sequence_type", "map_type", "sparse_tensor_type", "optional_type")
MAX_VALUES = 16
MAX_TEXT = 2000


def dtype_name(number: int) -> str:
    return _NAMES.get(number, f"type{number}")


def tensor_type(tensor: Any) -> str:
    """The type of a TensorProto."""
    return f"{dtype_name(tensor.data_type)}[{', '.join(map(str, tensor.dims))}]"


def value_type(kind: Any) -> str:
    """The type of a TypeProto: "float32[batch, 8]", "sequence(int64[])", "" if unknown."""
    wraps = []
    for _ in range(8):  # sequences of sequences; no real file nests deeper
        which = kind.chosen(*_TYPES)
        if which in ("sequence_type", "optional_type"):
            wraps.append(which.removesuffix("_type"))
            kind = getattr(kind, which).elem_type
        elif which == "map_type":
            wraps.append(f"map {dtype_name(kind.map_type.key_type)} to ")
            kind = kind.map_type.value_type
        else:
            break
    which = kind.chosen(*_TYPES)
    if which not in ("tensor_type", "sparse_tensor_type"):
        inner = ""
    else:
        tensor = getattr(kind, which)
        inner = dtype_name(tensor.elem_type) if tensor.elem_type else ""
        if tensor.has("shape"):
            inner += f"[{', '.join(_dimension(d) for d in tensor.shape.dim)}]"
    for wrap in reversed(wraps):
        inner = f"{wrap}({inner})"
    return inner


def _dimension(dim: Any) -> str:
    which = dim.chosen("dim_value", "dim_param")
    if which == "dim_param":
        return str(dim.dim_param)
    return str(dim.dim_value) if which else "?"


def attribute_text(attribute: Any) -> str | None:
    """An attribute as text; None for graphs, which become bodies."""
    kind = attribute.type
    if kind == 1:
        return float_text(attribute.f)
    if kind == 2:
        return str(attribute.i)
    if kind == 3:
        return _cut(_utf8(attribute.s))
    if kind == 4:
        return tensor_text(attribute.t)
    if kind in (5, 10):
        return None
    if kind == 6:
        return _list(map(float_text, attribute.floats[:MAX_TEXT]))
    if kind == 7:
        return _list(map(str, attribute.ints[:MAX_TEXT]))
    if kind == 8:
        return _list(repr(_utf8(v)) for v in attribute.strings[:MAX_TEXT])
    if kind == 9:
        return _list(map(tensor_text, attribute.tensors[:MAX_VALUES]))
    if kind == 13:
        return value_type(attribute.tp)
    return str(attribute.ref_attr_name)


def tensor_text(tensor: Any) -> str:
    """Type and, for a small tensor, values: "int64[2] [0, 3]"."""
    values = tensor_values(tensor)
    return tensor_type(tensor) + (f" {_list(values)}" if values else "")


def tensor_values(tensor: Any) -> list[str]:
    """The values of a small tensor that lies in the file; [] for any other."""
    count = 1
    for dim in tensor.dims:
        if dim < 0:
            return []
        count = min(count * dim, MAX_VALUES + 1)
    layout = _LAYOUT.get(tensor.data_type)
    if not 0 < count <= MAX_VALUES or tensor.data_location == 1 or layout is None:
        return []
    if tensor.raw_data:
        size = struct.calcsize(f"<{layout}")
        if len(tensor.raw_data) != count * size:
            return []
        return [_number(v) for v in struct.unpack(f"<{count}{layout}", tensor.raw_data)]
    stored = getattr(tensor, _FIELD[tensor.data_type])
    return [_number(v) for v in stored] if len(stored) == count else []


def float_text(value: float) -> str:
    """A float32 with the digits that tell it apart, and always as a float: "1.0"."""
    said = f"{value:.9g}"
    short = f"{value:.7g}"
    if struct.pack("<f", float(short)) == struct.pack("<f", value):
        said = short
    return said if any(c in said for c in ".en") else f"{said}.0"


def _number(value: Any) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def _utf8(value: bytes | memoryview) -> str:
    return bytes(value).decode("utf-8", "replace")


def _list(parts: Any) -> str:
    return _cut(f"[{', '.join(parts)}]")


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} ... ({len(text)} characters)"
