"""What the parts of an op's text are: results, name, operands, attributes, location."""

from __future__ import annotations

import re

from glasshouse.formats.mlir.statements import MlirOp
from glasshouse.formats.mlir.types import readable_type
from glasshouse.formats.printed import end_of_string, split_top

_RESULT = r"%[\w$.-]+(?::\d+)?"
RESULTS = re.compile(rf"({_RESULT}(?:\s*,\s*{_RESULT})*)\s*=\s*")
NAME = re.compile(r'"([^"]+)"|([A-Za-z_][\w$.-]*)')
_SYMBOL = re.compile(r'@(?:"([^"]*)"|([\w$.-]+))')
MAX_ATTR = 2000
MAX_RESULTS = 10_000


def op_name(op: MlirOp) -> str:
    """The name of an op, behind its results."""
    results = RESULTS.match(op.text)
    found = NAME.match(op.text, results.end() if results else 0)
    return (found[1] or found[2]) if found else ""


def symbol(text: str) -> str:
    """The name behind `@`, or that of the attribute for it; "" without."""
    found = _SYMBOL.search(text) or re.search(r'sym_name\s*=\s*"([^"]*)"', text)
    return next((g for g in found.groups() if g), "") if found else ""


def parameters(text: str) -> str:
    """The parameter list of a printed function."""
    start = text.find("(")
    if start < 0:
        return ""
    depth, i = 0, start
    while i < len(text):
        if text[i] == '"':
            i = end_of_string(text, i)
            continue
        if text.startswith("->", i):
            i += 2
            continue
        depth += (text[i] in "([{<") - (text[i] in ")]}>")
        if depth == 0:
            return text[start + 1 : i]
        i += 1
    return ""


def first_type(text: str) -> str:
    """The type at the start of "tensor<4xf32> {attrs} loc(...)"."""
    text = text.strip()
    depth = 0
    for i, c in enumerate(text):
        depth += (c in "<([") - (c in ">)]")
        if depth == 0 and c in " {" and i:
            return readable_type(text[:i].strip())
    return readable_type(text)


def take_location(text: str) -> tuple[str, str]:
    """An op's text without the location at its end, and the location."""
    place = text.rfind(" loc(")
    if place < 0 or not text.endswith(")"):
        return text, ""
    return text[:place].rstrip(), text[place + 1 :]


def result_names(text: str) -> list[str]:
    """ "%0:2" as ["%0#0", "%0#1"], "%a, %b" as they are."""
    out: list[str] = []
    for part in text.split(","):
        name, _, count = part.strip().partition(":")
        if count.isdigit() and len(count) < 6:
            out += [f"{name}#{i}" for i in range(min(int(count), MAX_RESULTS))]
        elif name:
            out.append(name)
    return out[:MAX_RESULTS]


def dictionaries_of(text: str) -> tuple[list[str], str]:
    """The attribute dictionaries of an op, and its text without them."""
    found, plain, depth, start, i = [], [], 0, 0, 0
    while i < len(text):
        c = text[i]
        if c == '"':
            end = end_of_string(text, i)
            if not depth:
                plain.append(text[i:end])
            i = end
            continue
        if c == "{":
            if not depth:
                start = i
            depth += 1
        elif c == "}" and depth:
            depth -= 1
            if not depth:
                found.append(text[start + 1 : i])
        elif not depth:
            plain.append(c)
        i += 1
    return found, "".join(plain)


def without_defined(text: str) -> str:
    """`(%iter = %0)` defines %iter and reads %0: only what is read is left."""
    return re.sub(r"%[\w$.-]+\s*=\s*(?=%)", "", text)


def attributes(dictionaries: list[str], plain: str) -> dict[str, str]:
    """What dictionaries and pretty form say about an op, by name."""
    out: dict[str, str] = {}
    for text in dictionaries:
        for entry in split_top(text):
            key, equals, value = entry.partition("=")
            out[key.strip().strip('"')] = _cut(value.strip() if equals else "unit")
    # What the pretty form spells without braces: `dims = [0]`, `dense<1.0>`, `@callee`.
    modes = []
    for entry in split_top(plain):
        found = re.search(r"\b([A-Za-z_]\w*)\s*=\s*([^%=]+)$", entry)
        if found:
            out.setdefault(found[1], _cut(found[2].strip()))
        elif re.fullmatch(r"[A-Z][A-Z_0-9]*", entry):
            modes.append(entry)
    if modes:
        out["mode"] = ", ".join(modes)
    applied = re.search(r"\bapplies ([\w.]+)", plain)
    if applied:
        out["applies"] = applied[1]
    constant = re.search(r"dense<|array<|dense_resource<", plain)
    if constant:
        out.setdefault("value", _cut(plain[constant.start() :].strip()))
    callee = _SYMBOL.search(plain)
    if callee:
        out.setdefault("callee", callee[0])
    return out


def _cut(text: str) -> str:
    return text if len(text) <= MAX_ATTR else f"{text[:MAX_ATTR]} ... ({len(text)} characters)"
