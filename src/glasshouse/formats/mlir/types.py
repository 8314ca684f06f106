"""How MLIR types and bracketed text are taken apart."""

from __future__ import annotations

import re

from glasshouse.formats.printed import end_of_string, split_top

_ELEMENT = {"f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "i1": "bool"}
_OPEN, _CLOSE = "([{<", ")]}>"


def readable_type(text: str) -> str:
    """ "tensor<4x?x8xf32>" as "float32[4, ?, 8]"; other types as they are."""
    found = re.fullmatch(
        r"(?:tensor|memref|vector)<((?:[?\d]+x)*)([^,<>]+(?:<.*>)?)(?:,.*)?>", text
    )
    if not found:
        return text
    dims = [d for d in found[1].split("x") if d]
    element = found[2].strip()
    integer = re.fullmatch(r"(u?)(?:s|u)?i(\d+)", element)
    if element in _ELEMENT:
        element = _ELEMENT[element]
    elif element.startswith("ui") and element[2:].isdigit():
        element = f"uint{element[2:]}"
    elif integer:
        element = f"int{integer[2]}"
    elif element.startswith("f8"):
        element = f"float8_{element[2:].lower()}"
    return f"{element}[{', '.join(dims)}]"


def signature(text: str) -> tuple[str, str]:
    """An op's text without its types, and its types: what follows the last outer colon."""
    depth, last, i = 0, -1, 0
    while i < len(text):
        c = text[i]
        if c == '"':
            i = end_of_string(text, i)
            continue
        if text.startswith("->", i) or text.startswith("::", i):
            i += 2
            continue
        if c in _OPEN:
            depth += 1
        elif c in _CLOSE:
            depth -= 1
        elif c == ":" and depth == 0:
            last = i
        i += 1
    return (text, "") if last < 0 else (text[:last].rstrip(), text[last + 1 :].strip())


def result_types(types: str, count: int) -> list[str]:
    """The types of an op's results, from its printed signature."""
    arrow = split_top(types, "->")
    said = arrow[-1] if len(arrow) > 1 else types
    if said.startswith("(") and said.endswith(")"):
        said = said[1:-1]
    found = [readable_type(t) for t in split_top(said)]
    if len(arrow) == 1 and len(found) > count:
        found = found[-count:] if count else []
    return (found * count)[:count] if len(found) == 1 else (found + [""] * count)[:count]
