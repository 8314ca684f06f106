"""How style rules and data from Python get into a recording before it is shown."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from glasshouse import formats
from glasshouse.errors import FormatError
from glasshouse.record.boundary import boundary
from glasshouse.record.reader import Recording
from glasshouse.record.schema import DataRow
from glasshouse.record.writer import RecordingBuilder

Rules = str | os.PathLike[str] | Sequence[Mapping[str, Any]]
Data = Mapping[str, Mapping[int | str, float | str]]

STYLE_IDS = ("node_bg_color", "node_border_color", "node_text_color")


def rule(query: str, *, fill: str = "", border: str = "", text: str = "") -> dict[str, Any]:
    """A style rule: what the search finds for `query` gets these colours."""
    colours = zip(STYLE_IDS, (fill, border, text), strict=True)
    return {
        "queries": [{"type": "query", "query": query}],
        "styles": {id: {"id": id, "value": colour} for id, colour in colours if colour},
    }


def styled(recording: Recording, rules: Rules | None = None, data: Data | None = None) -> Recording:
    """The recording with style rules and data added; itself when there are none."""
    if rules is None and data is None:
        return recording
    if isinstance(rules, (str, os.PathLike)):
        recording, rules = formats.attach(recording, rules), None
    with boundary(recording.where):
        made = RecordingBuilder.of(recording)
    for i, one in enumerate(rules or ()):
        if not isinstance(one.get("queries"), list) or not isinstance(one.get("styles"), dict):
            raise FormatError(f"style rule {i} needs a list of queries and an object of styles")
        made.style("rule", json.dumps(one, separators=(",", ":")))
    for name, values in (data or {}).items():
        _add_data(recording, made, name, values)
    return made.finish()


def _add_data(
    recording: Recording,
    made: RecordingBuilder,
    name: str,
    values: Mapping[int | str, float | str],
) -> None:
    left = dict(values)
    for view in recording.graphs:
        nodes = view.nodes_until(len(view.info.stages) - 1)
        ids = nodes.array("id").tolist()
        known: dict[int | str, int] = dict(zip(ids, ids, strict=True))
        for id, text in zip(ids, nodes.pylist("name"), strict=True):
            if text:
                known.setdefault(text, id)
        for key, value in values.items():
            if key not in known:
                continue
            left.pop(key, None)
            plain = isinstance(value, str)
            number = math.nan if plain else float(value)
            made.graphs[view.index].add(
                DataRow(name, known[key], number, str(value) if plain else "")
            )
    if left:
        some = ", ".join(map(repr, list(left)[:3]))
        raise FormatError(f"data {name!r}: no node is called {some}; use ids or names of nodes")
