"""How several recordings become one file: their graphs side by side, strings shared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import numpy as np

from glasshouse.record.boundary import boundary
from glasshouse.record.columns import SHARED, Array, Column, Table
from glasshouse.record.reader import Recording
from glasshouse.record.schema import FILE_TABLES, GRAPH_TABLES, NEVER, NodeRow, StyleRow
from glasshouse.record.writer import RecordingBuilder


def join(recordings: Sequence[Recording]) -> Recording:
    """One recording with the graphs of all; a graph is called by its file's title too."""
    with boundary(" and ".join(r.where for r in recordings), "joined"):
        return _join(recordings)


def _join(recordings: Sequence[Recording]) -> Recording:
    titles = _titles(recordings)
    made = RecordingBuilder(" and ".join(titles))
    seen: set[str] = set()
    for recording, title in zip(recordings, titles, strict=True):
        remap = made.indices(recording.strings)
        first = len(made.graphs)
        for view in recording.graphs:
            parent = view.info.parent
            alone = view.name in (title, _title(recording))
            name = title if alone else f"{title}: {view.name}"
            if parent != NEVER:
                name = view.name
            graph = made.graph(
                name, NEVER if parent == NEVER else parent + first, dict(view.info.attrs)
            )
            graph.stages = list(view.info.stages)
            for row_class in GRAPH_TABLES.values():
                table: Table[Any] = view.table(row_class)
                columns = _columns(table, remap)
                if row_class is NodeRow:
                    lengths, bodies = columns["bodies"]
                    columns["bodies"] = (lengths, bodies + first)
                if table.rows:
                    graph.extend(row_class, table.rows, columns)
        for key, fact in recording.header.facts.items():
            made.facts[key if key not in made.facts else f"{title}: {key}"] = fact
        for style in recording.styles:
            made.add(StyleRow(style.kind, style.json))
        for source in recording.sources:
            if source.path not in seen:
                seen.add(source.path)
                made.source(source.path, source.text)
    assert set(FILE_TABLES) == {"sources", "styles"}, "a new table of the file must be joined too"
    return made.finish()


def _titles(recordings: Sequence[Recording]) -> list[str]:
    """What each is called beside the others: by its file's name where titles are alike."""
    titles = [_title(r) for r in recordings]
    if len(set(titles)) == len(titles):
        return titles
    files = [PurePath(r.where).name or t for r, t in zip(recordings, titles, strict=True)]
    seen: Counter[str] = Counter()
    out = []
    for name in files:
        seen[name] += 1
        out.append(f"{name} ({seen[name]})" if seen[name] > 1 else name)
    return out


def _title(recording: Recording) -> str:
    names = [g.name for g in recording.header.graphs]
    return recording.header.title or (names[0] if names else "") or "model"


def _columns(table: Table[Any], remap: Array) -> dict[str, Any]:
    return {name: _column(table[name], remap) for name in table.columns}


def _column(column: Column, remap: Array) -> Any:
    values = column.values
    if column.type in SHARED:
        values = remap[values.astype(np.int64)]
    return values if column.lengths is None else (column.lengths, values)
