"""How a recording is made: graphs, sources and styles, then frozen into a Recording.

A builder holds plain arrays, no Python object for each row, so a million nodes fit well.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from glasshouse.record.budget import Budget, unlimited
from glasshouse.record.columns import Array, EqualColumns
from glasshouse.record.graph_writer import GraphWriter, Tables
from glasshouse.record.header import check_nesting
from glasshouse.record.reader import MemoryStore, Recording
from glasshouse.record.schema import (
    FILE_TABLES,
    FORMAT,
    NEVER,
    TABLE_NAMES,
    VERSION,
    GraphInfo,
    Header,
    SourceRow,
    Stage,
    StyleRow,
    Text,
)
from glasshouse.record.strings import Strings, whole
from glasshouse.record.table_builder import TableBuilder

NO_PRODUCER = "edge(s) from a node that the file does not have"
SAME_ID = "node(s) with the id of another"
"""What files get wrong most often, in the words of `RecordingBuilder.repaired`."""


class RecordingBuilder:
    """A recording in the making: graphs, then `finish()` or `save(path)`."""

    def __init__(
        self, title: str = "", generator: str = "glasshouse", budget: Budget | None = None
    ) -> None:
        self.title = title
        self.generator = generator
        self.budget = budget or unlimited(title)  # of the file that it is read from
        self.facts: dict[str, str] = {}
        self.repairs: Counter[str] = Counter()
        self.strings = Strings()
        self.graphs: list[GraphWriter] = []
        self.equal = EqualColumns()
        self._files = {c: TableBuilder(c, self.strings) for c in FILE_TABLES.values()}

    def repaired(self, what: str) -> None:
        """Count something that a file got wrong and that is shown nevertheless; pages tell it."""
        self.repairs[what] += 1
        self.facts["repairs"] = "; ".join(f"{n} {text}" for text, n in self.repairs.items())

    @staticmethod
    def of(recording: Recording) -> RecordingBuilder:
        """A builder that holds all that a recording says, to add more to it."""
        head = recording.header
        made = RecordingBuilder(head.title, head.generator, unlimited(recording.where))
        made.facts.update(head.facts)
        made.strings = Strings(recording.strings)
        made._files = {c: TableBuilder(c, made.strings) for c in FILE_TABLES.values()}
        for row_class, table in made._files.items():
            table.copy(recording.member(TABLE_NAMES[row_class], row_class))
        for view in recording.graphs:
            made.graph(view.name, view.info.parent, view.info.attrs)._copy(view)
        return made

    def graph(
        self, name: str, parent: int = NEVER, attrs: Mapping[str, str] | None = None
    ) -> GraphWriter:
        """Add a graph; nested bodies name the index of the graph that holds them."""
        self.budget.spend("graphs")
        made = GraphWriter(self, len(self.graphs), name, parent)
        made.attrs.update(attrs or {})
        self.graphs.append(made)
        return made

    def source(self, path: str, text: str) -> None:
        """Keep the text of a source file."""
        self.add(SourceRow(path, Text(text)))

    def style(self, kind: str, json: str) -> None:
        """Keep a style rule or another extra, as JSON."""
        self.add(StyleRow(kind, Text(json)))

    def add(self, row: Any) -> int:
        table = self._files[type(row)]
        return table.append([getattr(row, f.name) for f in table.fields])

    def indices(self, texts: Iterable[str]) -> Array:
        """Indices of strings, to give a string column as an array."""
        return np.fromiter(map(self.strings.index, texts), np.int64)

    def finish(self) -> Recording:
        """The recording as it stands; more can be added and `finish` called again."""
        tables: Tables = {}
        for row_class, table in self._files.items():
            tables[TABLE_NAMES[row_class]] = table.finish()
        for graph in self.graphs:
            tables.update(graph._finish(self.equal))
        check_nesting(self.budget.where, [graph.parent for graph in self.graphs], self.budget)
        infos = [
            GraphInfo(whole(g.name), [_whole(s) for s in g.stages], g.parent, _texts(g.attrs))
            for g in self.graphs
        ]
        header = Header(
            FORMAT, list(VERSION), self.generator, whole(self.title), infos, _texts(self.facts), {}
        )
        store = MemoryStore(list(self.strings.list), tables)
        return Recording(header, store, self.budget.where)

    def save(self, path: str | os.PathLike[str], level: int = 6) -> None:
        """Write a `.glass` file; the name never stands for half a file."""
        self.finish().save(path, level)


def _texts(given: Mapping[str, str]) -> dict[str, str]:
    return {whole(key): whole(value) for key, value in given.items()}


def _whole(stage: Stage) -> Stage:
    return dataclasses.replace(
        stage,
        name=whole(stage.name),
        pass_name=whole(stage.pass_name),
        doc=whole(stage.doc),
        options=_texts(stage.options),
    )
