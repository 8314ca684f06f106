"""Where one op ends and the next begins: lines of MLIR text into a tree of ops.

Tools print an op on a line of its own; a region opens with a brace at the end of a line and closes
with one at the start. That holds for the generic form (`"op"(...) ({`, `}) : (...) -> ...`) and for
the pretty one. The tree is built with a stack, so nesting costs no recursion.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from glasshouse.formats.printed import end_of_string
from glasshouse.formats.source import SourceFile

MAX_LINES_OF_OP = 10_000
MAX_DEPTH = 1000
_CONTINUES = re.compile(r"(cond|do|else|then|reducer|attributes|init|after|in)\b")
_BLOCK = re.compile(r"\^[\w$.-]+\s*(?:\((.*)\))?\s*:\s*$", re.DOTALL)


@dataclass
class MlirOp:
    """An op: its own text without regions, and what stands in its regions."""

    text: str
    line: int
    regions: list[Region] = field(default_factory=list)


@dataclass
class Region:
    arguments: str = ""  # "%a: tensor<4xf32>, %b: ..."
    ops: list[MlirOp] = field(default_factory=list)


def parse(source: SourceFile) -> tuple[Region, dict[str, str]]:
    """The top level of a file, and its aliases (`#loc3 = ...`)."""
    top = Region()
    aliases: dict[str, str] = {}
    regions: list[Region] = [top]
    owners: list[MlirOp] = []  # the op whose region is open, for each region but the top
    for number, line in _logical_lines(source):
        text = line.strip()
        if text.startswith(("#", "!")) and "=" in text:
            name, _, value = text.partition("=")
            aliases[name.strip()] = value.strip()
            continue
        block = _BLOCK.fullmatch(text)
        if block:
            region = regions[-1]
            if region.arguments or region.ops:
                # A further block of one region: its arguments are the only trace it leaves.
                region.arguments += f", {block[1]}" if block[1] else ""
            else:
                region.arguments = block[1] or ""
            continue
        if text.startswith("}"):
            if not owners:
                raise source.error(f"line {number}: a brace closes what was never opened")
            regions.pop()
            op = owners.pop()
            text = text[1:].strip()
            _extend(source, op, text, regions, owners)
            continue
        previous = regions[-1].ops[-1] if regions[-1].ops else None
        if previous is not None and _CONTINUES.match(text) and "=" not in text.partition("{")[0]:
            _extend(source, previous, text, regions, owners)
            continue
        op = MlirOp("", number)
        regions[-1].ops.append(op)
        _extend(source, op, text, regions, owners)
    if owners:
        raise source.error(f"ends inside the op of line {owners[-1].line}; it may be cut off")
    return top, aliases


def _extend(
    source: SourceFile, op: MlirOp, text: str, regions: list[Region], owners: list[MlirOp]
) -> None:
    """Add text to an op; a brace at its end opens a region."""
    if not text.endswith("{"):
        op.text = f"{op.text} {text}".strip()
        return
    head = text[:-1].rstrip()
    region = Region()
    named = re.match(r"reducer\s*\((.*)\)$", head)
    if named:
        region.arguments = re.sub(r"\)\s*\(", ", ", named[1])  # pairs of old and new
    elif not re.fullmatch(r"cond|do|else|then|after|in|,|\)?", head):
        op.text = f"{op.text} {head}".strip()
    op.regions.append(region)
    regions.append(region)
    owners.append(op)
    if len(owners) > MAX_DEPTH:
        raise source.error(f"line {op.line}: regions are nested too deeply")


def _logical_lines(source: SourceFile) -> list[tuple[int, str]]:
    """Lines without comments; lines inside open brackets are joined to the one that opened them."""
    out: list[tuple[int, str]] = []
    parts: list[str] = []
    depth = 0
    start = 0
    for number, raw in enumerate(source.text().splitlines(), 1):
        line, change = _measure(raw)
        if not line and not parts:
            continue
        if not parts:
            start = number
        parts.append(line)
        depth += change
        # A region's brace is not counted: it ends its line.
        if depth <= 0 or len(parts) > MAX_LINES_OF_OP:
            out.append((start, " ".join(parts)))
            parts, depth = [], 0
    if parts:
        raise source.error(f"ends inside the statement of line {start}; it may be cut off")
    return out


def _measure(raw: str) -> tuple[str, int]:
    """A line without its comment, and by how much it opens brackets that stay open."""
    depth = i = 0
    text = raw.strip()
    closing_region = text.startswith("}")
    while i < len(text):
        c = text[i]
        if c == '"':
            i = end_of_string(text, i)
            continue
        if text.startswith("//", i):
            text = text[:i].rstrip()
            break
        if text.startswith("->", i):
            i += 2
            continue
        depth += (c in "([<{") - (c in ")]>}")
        i += 1
    if closing_region:
        depth += 1
        # `}) : ...` also closes the parenthesis of the generic form.
        depth += text[1:].lstrip().startswith(")")
    if text.endswith("{"):
        depth -= 1
        depth -= text[:-1].rstrip().endswith("(")
    return text, depth
