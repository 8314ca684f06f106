"""What a Jittor trace says: its nodes and executed groups, checked and typed.

Real files deviate from the description (unsorted dicts, repeated inputs, gradients of ops that are
not in the file, undocumented attributes), so every field may be absent or odd; only a file that is
no trace at all, or one that expands to far more than its size, is refused.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from glasshouse.errors import FormatError
from glasshouse.formats.source import SourceFile
from glasshouse.formats.unpickle import brief, load
from glasshouse.record.budget import Budget

MAX_ID = 2**31 - 1


@dataclass(frozen=True)
class StackEntry:
    """An entry of a node's stack: a module scope, or a line of Python."""

    name: str
    type: str
    file: str
    line: int

    @property
    def is_grad(self) -> bool:
        return self.name == "grad" and self.type == "Grad"

    @property
    def is_line(self) -> bool:
        """Named `file:line`: no module, just a place in a program."""
        before, colon, number = self.name.rpartition(":")
        return bool(before and colon) and number.isdigit()

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}"
        said = "" if self.name == place else f" {self.name}"
        return f"{place}{said} ({self.type})" if self.type else f"{place}{said}"

    @staticmethod
    def parse(text: str) -> StackEntry:
        """The inverse of `str`."""
        found = None
        if len(text) <= 10_000:
            found = re.fullmatch(r"(.*?):(\d+)(?: (.*?))?(?: \(([^()]*)\))?", text, re.DOTALL)
        if found is None:
            return StackEntry(text, "", "", 0)
        file, line, name, kind = found.groups()
        place = f"{file}:{line}"
        return StackEntry(place if name is None else name, kind or "", file, int(line))


@dataclass(frozen=True)
class TraceNode:
    id: int
    inputs: list[int]
    outputs: list[int]
    stack: list[StackEntry]
    attrs: dict[str, str]

    @functools.cached_property
    def ports(self) -> dict[int, int]:
        """The place of each variable among the outputs, the first where it is there twice."""
        return {id: port for port, id in reversed(list(enumerate(self.outputs)))}

    @property
    def is_var(self) -> bool:
        return self.attrs.get("is_var") == "1"

    @property
    def grad_of(self) -> int:
        text = self.attrs.get("grad_op_id", "")
        return int(text) if re.fullmatch(r"\d{1,9}", text) else -1


@dataclass(frozen=True)
class Execution:
    """A group of ops that ran as one, with its place in the order of execution."""

    key: int
    ops: list[int]
    jit_key: str
    file: str
    attrs: dict[str, str]


@dataclass(frozen=True)
class Trace:
    nodes: list[TraceNode]  # by id
    executions: list[Execution]  # in order


def read_trace(source: SourceFile) -> Trace:
    """The trace in a pickle, or a FormatError."""
    value = load(source.data(), source.name, source.budget)
    if not isinstance(value, dict) or not isinstance(value.get("node_data"), dict):
        raise source.error("a pickle, but not a Jittor trace (no node_data)")
    # A list that a pickle mentions twice counts twice here, so a small file could claim billions.
    budget = source.budget
    key: Any = ""
    budget.place = lambda: f"key {brief(key)}"
    nodes: dict[int, TraceNode] = {}
    for key, raw in value["node_data"].items():
        if not isinstance(raw, dict):
            raise source.error(f"node {brief(key)} is no dict")
        id = raw.get("id", key)
        if not _is_id(id):
            raise source.error(f"node id {brief(id)} is not a number from 0 to 2^31-1")
        if id in nodes:
            raise source.error(f"two nodes have the id {id}")
        nodes[id] = TraceNode(
            id,
            list(_ids(raw.get("inputs"), budget)),
            list(_ids(raw.get("outputs"), budget)),
            list(_frames(raw.get("stacks"), budget)),
            _attrs(raw.get("attrs"), budget),
        )
    executions = []
    groups = value.get("execute_op_info")
    for key, raw in groups.items() if isinstance(groups, dict) else ():
        if not isinstance(raw, dict) or not _is_id(key):
            raise source.error(f"executed group {brief(key)} is not readable")
        ops = list(_ids(raw.get("fused_ops"), budget))
        jit_key, file = _text(raw.get("jit_key", "")), _text(raw.get("file_path", ""))
        executions.append(Execution(key, ops, jit_key, file, _attrs(raw.get("attrs"), budget)))
    executions.sort(key=lambda e: e.key)
    return Trace([nodes[id] for id in sorted(nodes)], executions)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_ID


def _ids(value: Any, budget: Budget) -> Iterator[int]:
    if not isinstance(value, list | tuple):
        return
    budget.spend("items", len(value))
    for item in value:
        if not _is_id(item):
            raise FormatError(f"{budget.where}: {brief(item)} where an id should stand")
        yield item


def _frames(value: Any, budget: Budget) -> Iterator[StackEntry]:
    if not isinstance(value, list | tuple):
        return
    budget.spend("items", len(value))
    for item in value:
        if isinstance(item, dict):
            line = item.get("lineno", 0)
            yield StackEntry(
                _text(item.get("name", "")),
                _text(item.get("type", "")),
                _text(item.get("file_path", "")),
                line if isinstance(line, int) and 0 <= line <= MAX_ID else 0,
            )


def _attrs(value: Any, budget: Budget) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    budget.spend("items", len(value))
    return {_text(k): _text(v) for k, v in value.items()}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, bool | float | None) or (isinstance(value, int) and abs(value) < 2**64):
        return str(value)
    # Never str() of a container: a list inside itself ten times over prints for ever.
    return f"<{type(value).__name__}>"
