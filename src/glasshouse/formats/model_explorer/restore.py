"""How attributes that our writer added go back into a recording's columns."""

from __future__ import annotations

import re
from typing import Any

from glasshouse.formats.model_explorer import namespace, own
from glasshouse.record import GraphWriter
from glasshouse.record.schema import NEVER

_PLACE = re.compile(r"(.*):(\d{1,9})", re.DOTALL)


def restore(
    graph: GraphWriter,
    columns: dict[str, Any],
    values: list[dict[str, str]],
    links: list[dict[str, list[str]]],
    row_of: dict[str, int],
    ids: Any,
) -> None:
    """Fill `columns` from the attributes of each row; rows past the end of `values` have none."""
    count = len(columns["id"])
    values = values + [{}] * (count - len(values))
    links = links + [{}] * (count - len(links))
    names = columns["name"]
    columns["name"] = [v.get(own.NAME, names[row]) for row, v in enumerate(values)]
    places = [_PLACE.fullmatch(v.get(own.SOURCE, "")) for v in values]
    columns["file"] = [p[1] if p else "" for p in places]
    columns["line"] = [int(p[2]) if p else 0 for p in places]
    columns["pass_name"] = [v.get(own.PASS, "") for v in values]
    columns["rule"] = [v.get(own.RULE, "") for v in values]
    columns["frames"] = [v[own.FRAMES].split("\n") if own.FRAMES in v else [] for v in values]

    def nodes(row: int, key: str) -> list[int]:
        out = []
        for name in links[row].get(key, ()):
            if name in row_of:
                out.append(int(ids[row_of[name]]))
            elif re.fullmatch(r"\d{1,9}", name):
                out.append(int(name))  # a node that is not in this graph or stage
        return out

    columns["replaces"] = [nodes(row, own.REPLACES) for row in range(count)]
    columns["grad_of"] = [(nodes(row, own.GRAD_OF) or [NEVER])[0] for row in range(count)]
    _groups(graph, columns, values)


def _groups(graph: GraphWriter, columns: dict[str, Any], values: list[dict[str, str]]) -> None:
    lengths, flat = columns["groups"]
    groups: list[list[int]] = []
    place = 0
    for row, length in enumerate(lengths.tolist()):
        mine = flat[place : place + length].tolist()
        place += length
        for key, path in values[row].items():
            if key.startswith(own.GROUP):
                grouping = key.removeprefix(own.GROUP)
                found = graph.group_path(grouping, namespace.split(path))
                mine += [found] if found != NEVER else []
        groups.append(mine)
    columns["groups"] = groups
