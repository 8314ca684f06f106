"""How the header's dataclasses become JSON and back: unknown fields are ignored."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from glasshouse.errors import FormatError
from glasshouse.record.budget import Budget
from glasshouse.record.json_text import parse_json
from glasshouse.record.schema import FORMAT, VERSION, Header
from glasshouse.record.strings import whole

T = TypeVar("T")


def header_to_json(header: Header) -> dict[str, Any]:
    """The header as plain JSON values."""
    return dataclasses.asdict(header)


def header_from_bytes(where: str, data: bytes, budget: Budget) -> Header:
    """The header of a file, or a FormatError that says why there is none."""
    value = parse_json(f"{where}: glass.json", data, budget)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise FormatError(f"{where}: not a Glasshouse recording")
    version = value.get("version")
    if (
        not isinstance(version, list)
        or len(version) < 2
        or not all(isinstance(v, int) for v in version)
    ):
        raise FormatError(f"{where}: the header's version is not [major, minor]")
    if version[0] > VERSION[0]:
        raise FormatError(
            f"{where}: written in format {version[0]}.{version[1]}, this program reads up to "
            f"{VERSION[0]}.x; run: pip install --upgrade glasshouse"
        )
    graphs = value.get("graphs")
    for graph in graphs if isinstance(graphs, list) else ():
        stages = graph.get("stages") if isinstance(graph, dict) else None
        budget.spend("graphs", 1 + (len(stages) if isinstance(stages, list) else 0))
    header: Header = _from_json(Header, value, f"{where}: glass.json")
    _check(where, header, budget)
    return header


def _check(where: str, header: Header, budget: Budget) -> None:
    for i, graph in enumerate(header.graphs):
        if not graph.stages:
            raise FormatError(f"{where}: graph {i} has no stage")
        for stage in graph.stages:
            if len(stage.output_nodes) != len(stage.output_ports):
                raise FormatError(f"{where}: graph {i}: outputs and ports differ in number")
    check_nesting(where, [graph.parent for graph in header.graphs], budget)


def check_nesting(where: str, parents: list[int], budget: Budget) -> None:
    """Every graph's parent exists, no graph is inside itself, and none is too deep."""
    depth: dict[int, int] = {-1: -1}
    for graph in range(len(parents)):
        above: list[int] = []
        inside: set[int] = set()
        while graph not in depth:
            above.append(graph)
            inside.add(graph)
            parent = parents[graph]
            if not -1 <= parent < len(parents) or parent in inside:
                raise FormatError(f"{where}: graph {graph} is nested in graph {parent}")
            graph = parent
        for inner in reversed(above):
            depth[inner] = 1 + depth[parents[inner]]
            budget.within("depth", depth[inner])


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _from_json(kind: Any, value: Any, where: str) -> Any:
    """`value` as `kind`; the nesting follows the schema's types, so the recursion is bounded."""
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, dict):
            raise FormatError(f"{where}: expected an object")
        hints = _hints(kind)  # type: ignore[arg-type]  # mypy: is_dataclass also admits instances
        known = {}
        for f in dataclasses.fields(kind):
            if f.name in value:
                known[f.name] = _from_json(hints[f.name], value[f.name], f"{where}.{f.name}")
            elif f.default is f.default_factory is dataclasses.MISSING:
                raise FormatError(f"{where}: {f.name} is missing")
        return kind(**known)  # type: ignore[operator]  # same
    origin = get_origin(kind)
    if origin is list:
        if not isinstance(value, list):
            raise FormatError(f"{where}: expected a list")
        inner = get_args(kind)[0]
        return [_from_json(inner, item, where) for item in value]
    if origin is dict:
        if not isinstance(value, dict):
            raise FormatError(f"{where}: expected an object")
        inner = get_args(kind)[1]
        return {whole(k): _from_json(inner, v, where) for k, v in value.items()}
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if abs(value) < 2**1000 else 0.0
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise FormatError(f"{where}: expected {kind.__name__}, found {type(value).__name__}")
    return whole(value) if kind is str else value
