"""How the arguments of an exported node are read: tensors as operands, the rest as text.

The serialised form is a tagged union, `{"as_int": 3}`; which tags there are is fixed by the schema
of torch.export (major version 8, and 5 to 7 before it).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from glasshouse.formats.pt2.symbols import readable

DTYPES = {
    0: "unknown", 1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16",
    7: "float32", 8: "float64", 9: "complex32", 10: "complex64", 11: "complex128", 12: "bool",
    13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz",
    32: "float8_e5m2fnuz", 33: "float8_e8m0fnu", 34: "uint32", 35: "uint64",
}  # fmt: skip
_LAYOUTS = {1: "sparse_coo", 2: "sparse_csr", 3: "sparse_csc", 4: "sparse_bsr", 5: "sparse_bsc",
            6: "_mkldnn", 7: "strided"}  # fmt: skip
_MEMORY = {1: "contiguous_format", 2: "channels_last", 3: "channels_last_3d", 4: "preserve_format"}
MAX_TEXT = 10_000


def tag(argument: Any) -> tuple[str, Any]:
    """The tag and the value of a union; ("", None) for what is none."""
    if isinstance(argument, dict):
        for key, value in argument.items():
            if key.startswith("as_") and value is not None:
                return key, value
        if "type" in argument and "value" in argument:  # another spelling of unions
            return f"as_{argument['type']}", argument["value"]
    return "", None


def operands(argument: Any) -> Iterator[tuple[str, str]]:
    """The values that an argument reads: (suffix of the operand's name, name of the value)."""
    key, value = tag(argument)
    if key in ("as_tensor", "as_token", "as_custom_obj") and isinstance(value, dict):
        yield "", text(value.get("name"))
    elif key in ("as_sym_int", "as_sym_bool", "as_sym_float"):
        named = value.get("as_name") if isinstance(value, dict) else None
        if named is not None:
            yield "", text(named)
    elif key == "as_optional_tensor":
        yield from operands(value)
    elif key in ("as_tensors", "as_optional_tensors", "as_sym_ints", "as_sym_bools",
                 "as_sym_floats") and isinstance(value, list):  # fmt: skip
        for i, item in enumerate(value):
            if not isinstance(item, dict):
                continue
            inner = item.get("as_tensor", item)
            named = item.get("as_name") or (inner.get("name") if isinstance(inner, dict) else None)
            if named is not None:
                yield f"[{i}]", text(named)
    elif key == "as_nested_tensors" and isinstance(value, list):
        for i, row in enumerate(value):
            for j, item in enumerate(row if isinstance(row, list) else ()):
                if isinstance(item, dict) and "name" in item:
                    yield f"[{i}][{j}]", text(item["name"])


def graphs(argument: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The graphs that an argument holds: branches, bodies."""
    key, value = tag(argument)
    if key == "as_graph" and isinstance(value, dict) and isinstance(value.get("graph"), dict):
        yield text(value.get("name")), value["graph"]


def constant(argument: Any) -> str | None:
    """An argument that is no operand, as text; None for operands and graphs."""
    key, value = tag(argument)
    if key in ("", "as_none"):
        return "None"
    if key in ("as_tensor", "as_tensors", "as_graph", "as_token", "as_custom_obj",
               "as_nested_tensors"):  # fmt: skip
        return None
    if key == "as_scalar_type":
        return DTYPES.get(value, str(value)) if isinstance(value, int) else text(value)
    if key == "as_layout":
        return _LAYOUTS.get(value, str(value)) if isinstance(value, int) else text(value)
    if key == "as_memory_format":
        return _MEMORY.get(value, str(value)) if isinstance(value, int) else text(value)
    if key == "as_device" and isinstance(value, dict):
        index = value.get("index")
        return text(value.get("type")) + ("" if index is None else f":{index}")
    if key in ("as_sym_int", "as_sym_bool", "as_sym_float"):
        return None if isinstance(value, dict) and "as_name" in value else text(tag(value)[1])
    if key in ("as_sym_ints", "as_sym_bools", "as_sym_floats") and isinstance(value, list):
        return f"[{', '.join(text(tag(v)[1]) for v in value)}]"
    if key == "as_optional_tensors" and isinstance(value, list):
        return None if any("as_tensor" in v for v in value if isinstance(v, dict)) else "[]"
    if key == "as_optional_tensor":
        return "None" if tag(value)[0] != "as_tensor" else None
    return text(value)


def tensor_type(meta: Any) -> str:
    """ "float32[s0, 8]" from a tensor's metadata."""
    if not isinstance(meta, dict):
        return ""
    dtype = meta.get("dtype")
    sizes = meta.get("sizes")
    shown = [size(s) for s in sizes] if isinstance(sizes, list) else []
    name = DTYPES.get(dtype, str(dtype)) if isinstance(dtype, int) else text(dtype)
    return f"{name}[{', '.join(shown)}]"


def size(value: Any) -> str:
    """One dimension: a number or an expression."""
    key, inner = tag(value)
    if key == "as_expr" and isinstance(inner, dict):
        return readable(text(inner.get("expr_str")))
    return text(inner if key else value)


def text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "None"
    if isinstance(value, bool | int | float):
        return str(value)
    said = json.dumps(value)
    return said if len(said) <= MAX_TEXT else said[:MAX_TEXT] + " ..."
