"""How the inside of a fused Hidet node is read: printed graphs of two generations.

0.6 prints the fused graph as an attribute (`x_3: float32[8][cpu] = Reshape(x, shape=[8])`); 0.2
prints a task graph in the description (`y_1 = reshape(x_1=x)`, shapes on lines of their own).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MAX_LINES = 20_000
MAX_LINE = 10_000
_ASSIGN = re.compile(r"(\w+)(?::\s*([^=]*?))?\s*=\s*(\w+)\((.*)\)\s*(\[anchor\])?\s*(?:#.*)?$")
_PARAM = re.compile(r"\b(\w+)\s*:\s*(\w+\[[^\]]*\])")
_SHAPE = re.compile(r"(\w+)\s*:\s*(\w+\[[^\]]*\])\s+where\b")
_DECLARED = re.compile(r"(\w+):\s*tensor\((\w+),\s*(\[[^\]]*\])\)")


@dataclass
class InsideOp:
    result: str
    type: str
    op: str
    inputs: list[str]
    attrs: dict[str, str] = field(default_factory=dict)


@dataclass
class Inside:
    parameters: list[tuple[str, str]]  # name and type
    ops: list[InsideOp]
    results: list[str]


def parse_graph(text: str) -> Inside | None:
    """The printed `Graph(...){...}`; None if it is not one."""
    head, brace, body = text.partition("{")
    if not head.startswith("Graph(") or not brace:
        return None
    out = Inside([(name, kind) for name, kind in _PARAM.findall(head)], [], [])
    return _statements(out, body.splitlines(), {})


def parse_task(lines: list[str]) -> Inside | None:
    """The `task_graph` of a description; None if there is none."""
    text = [line.strip() for line in lines[:MAX_LINES]]
    start = next((i for i, line in enumerate(text) if line.startswith("task_graph:")), None)
    if start is None:
        return None
    named = re.search(r"TaskGraph\(([^)]*)\)", text[start])
    if named is None:
        return None
    types = {}
    for line in text:
        declared = _DECLARED.match(line)
        if declared:
            types[declared[1]] = f"{declared[2]}{declared[3]}"
    for line in text:
        shape = _SHAPE.match(line)
        if shape:
            types[shape[1]] = shape[2]
    names = [n.strip() for n in named[1].split(",") if n.strip()]
    out = Inside([(n, types.get(n, "")) for n in names], [], [])
    return _statements(out, text[start + 1 :], types)


def _statements(out: Inside, lines: list[str], types: dict[str, str]) -> Inside | None:
    known = {name for name, _ in out.parameters}
    for line in lines[:MAX_LINES]:
        line = line.strip()
        if len(line) > MAX_LINE:
            continue
        if line.startswith("return "):
            out.results = [r.strip() for r in line.removeprefix("return ").split(",")]
            break
        found = _ASSIGN.match(line)
        if not found or " where " in line.split("(")[0]:
            continue
        result, kind, op, arguments, anchor = found.groups()
        made = InsideOp(result, _clean(kind) or types.get(result, ""), op, [])
        for argument in split_arguments(arguments):
            name, equals, value = argument.partition("=")
            if not equals and argument in known:
                made.inputs.append(argument)
            elif equals and value.strip() in known and not kind:
                made.inputs.append(value.strip())
            elif equals:
                made.attrs[name.strip()] = value.strip()
        if anchor:
            made.attrs["anchor"] = "True"
        known.add(result)
        out.ops.append(made)
    return out if out.ops else None


def _clean(kind: str | None) -> str:
    """ "float32[8][cpu]" without the device."""
    found = re.match(r"\w+\[[^\]]*\]", kind or "")
    return found[0] if found else ""


def split_arguments(text: str) -> list[str]:
    """Arguments of a printed call, split at the commas that stand outside brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]
