"""How a page starts: which keywords there are, and which values fit the file that it shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glasshouse.errors import Unsupported, nearest
from glasshouse.record.reader import Recording
from glasshouse.record.schema import DataRow, GroupRow

THEMES = ("light", "dark")
COLORS = ("type", "time", "limit", "error", "inherited", "bytes", "flops", "params")
KEYWORDS = (
    "theme", "grouping", "color", "graph", "stage", "query", "select", "hint", "compare",
)  # fmt: skip


def checked_start(recording: Recording, given: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords as the page takes them; one that it would not know is refused here."""
    start = dict(given)
    if "group_by" in start:  # as the command line spells it
        start["grouping"] = start.pop("group_by")
    for name in start:
        if name not in KEYWORDS:
            raise Unsupported(f"a page has no option {name!r}", hint=nearest(name, KEYWORDS))
    _one_of(start, "theme", THEMES)
    if start.get("grouping"):
        _one_of(start, "grouping", _groupings(recording))
    color = start.get("color")
    if color and not str(color).startswith(("time:", "data:")):
        _one_of(start, "color", (*COLORS, *_data(recording)))
    return start


def _one_of(start: Mapping[str, Any], name: str, known: tuple[str, ...]) -> None:
    value = start.get(name)
    if value and value not in known:
        raise Unsupported(f"there is no {name} {value!r}", hint=nearest(value, known, "there are"))


def _groupings(recording: Recording) -> tuple[str, ...]:
    found = {"module": None}
    for view in recording.graphs:
        found |= dict.fromkeys(view.table(GroupRow).pylist("grouping"))
    return tuple(found)


def _data(recording: Recording) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for view in recording.graphs:
        found |= dict.fromkeys(view.table(DataRow).pylist("name"))
    return tuple(found)
