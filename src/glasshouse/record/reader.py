"""How a recording is looked at: lazily, a table or a stage at a time.

Opening reads the directory and the header. Everything else is read when it is asked for, and kept.
"""

from __future__ import annotations

import functools
import io
import json
import os
from collections.abc import Container, Iterator
from types import TracebackType
from typing import Any, Protocol, TypeVar

import numpy as np

from glasshouse.cell import ShowsInCell
from glasshouse.errors import FormatError, LimitExceeded
from glasshouse.record.boundary import boundary
from glasshouse.record.budget import Budget, ReadLimits
from glasshouse.record.columns import Array, Column, LazyColumns, Table, concat, fields_of, full
from glasshouse.record.container import (
    Archive,
    decode_table,
    encode_table,
    held_bytes,
    pack,
    write_atomic,
)
from glasshouse.record.header import header_from_bytes, header_to_json
from glasshouse.record.open_file import open_regular
from glasshouse.record.schema import (
    FILE_TABLES,
    GRAPH_TABLES,
    NEVER,
    GraphInfo,
    GroupRow,
    Header,
    NodeRow,
    SourceRow,
    Stage,
    StyleRow,
)

Row = TypeVar("Row")
TABLE_NAMES: dict[type, str] = {
    cls: name for tables in (GRAPH_TABLES, FILE_TABLES) for name, cls in tables.items()
}


class TableStore(Protocol):
    """Where the tables of a recording come from."""

    @property
    def strings(self) -> list[str]: ...
    def table(self, name: str, wanted: list[str]) -> tuple[int, dict[str, Column]] | None: ...
    def close(self) -> None: ...


class MemoryStore:
    """Tables that a writer has just made."""

    def __init__(self, strings: list[str], tables: dict[str, tuple[int, dict[str, Column]]]):
        self._strings = strings
        self._tables = tables

    @property
    def strings(self) -> list[str]:
        return self._strings

    def table(self, name: str, wanted: list[str]) -> tuple[int, dict[str, Column]] | None:
        return self._tables.get(name)

    def close(self) -> None:
        pass


class ArchiveStore:
    """Tables of a file."""

    def __init__(self, archive: Archive, counts: dict[str, int]) -> None:
        self._archive = archive
        self._counts = counts

    @functools.cached_property
    def strings(self) -> list[str]:
        read = self._decode("strings", 0, ["text"])
        if read is None:
            return [""]
        texts: list[str] = read[1]["text"].tolist([]) if "text" in read[1] else []
        if not texts or texts[0]:
            raise FormatError(f"{self._archive.where}: the string table is damaged")
        return texts

    def table(self, name: str, wanted: list[str]) -> tuple[int, dict[str, Column]] | None:
        return self._decode(name, len(self.strings), wanted)

    def _decode(
        self, name: str, strings: int, wanted: list[str]
    ) -> tuple[int, dict[str, Column]] | None:
        where = f"{self._archive.where}: {name}"
        if name not in self._archive.names:
            if self._counts.get(name):
                raise FormatError(f"{where} is missing; the file is damaged")
            return None
        with boundary(where, budget=self._archive.budget):
            data = self._archive.read(name)
            read = decode_table(where, data, strings, wanted, self._archive.budget)
        if self._counts.get(name, read[0]) != read[0]:
            raise FormatError(f"{where} has another length than the header says")
        return read

    def close(self) -> None:
        self._archive.close()


class Recording(ShowsInCell):
    """A recording, from a file (`Recording.open`) or fresh from a writer."""

    def __init__(self, header: Header, store: TableStore, where: str = "") -> None:
        self.header = header
        self.where = where or header.title or "recording"  # what errors call it
        self._store = store
        self._loaded: dict[str, Table[Any]] = {}

    @staticmethod
    def open(source: str | os.PathLike[str] | bytes, name: str = "") -> Recording:
        """Open a `.glass` file, or its bytes."""
        if isinstance(source, bytes):
            where = name or "recording"
            archive = Archive(where, io.BytesIO(source))
        else:
            where = name or str(source)
            archive = Archive(where, open_regular(source, where))
        if "glass.json" not in archive.names:
            archive.close()
            raise FormatError(f"{where}: a ZIP file, but not a Glasshouse recording")
        try:
            header = header_from_bytes(where, archive.read("glass.json"), archive.budget)
        except FormatError:
            archive.close()
            raise
        return Recording(header, ArchiveStore(archive, header.tables), where)

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def strings(self) -> list[str]:
        return self._store.strings

    @functools.cached_property
    def graphs(self) -> list[GraphView]:
        return [GraphView(self, i) for i in range(len(self.header.graphs))]

    def stage(self, graph: int, stage: int) -> StageView:
        """Graph `graph` as it was in stage `stage` (negative: from the last)."""
        return self.graphs[graph].stage(stage)

    @property
    def sources(self) -> Table[SourceRow]:
        return self.member("sources", SourceRow)

    @property
    def styles(self) -> Table[StyleRow]:
        return self.member("styles", StyleRow)

    def member(self, name: str, row_class: type[Row]) -> Table[Row]:
        """A table by member name; empty if the file has none."""
        if name not in self._loaded:
            self._loaded[name] = self._load(name, row_class)
        found: Table[Row] = self._loaded[name]
        return found

    def _load(self, name: str, row_class: type[Row]) -> Table[Row]:
        fields = {f.name: f for f in fields_of(row_class)}
        rows, columns = self._store.table(name, list(fields)) or (0, {})
        for column in columns:
            if columns[column].type != fields[column].type:
                raise FormatError(f"{name}: column {column} is not of type {fields[column].type}")
        # Without this, a table could have rows for which there is not one byte.
        missing = [f.name for f in fields.values() if f.required and f.name not in columns]
        if rows and missing:
            raise FormatError(f"{name}: {rows} rows and no column {missing[0]}; it is damaged")
        strings = self._store.strings
        complete = LazyColumns(
            fields, lambda n: columns[n] if n in columns else full(fields[n], rows, strings)
        )
        return Table(row_class, rows, complete, strings)

    def table_names(self) -> list[str]:
        """Members that have rows, as in `Header.tables`."""
        counted = [n for n in self.header.tables if n != "strings"]
        return counted or [n for n, c in self._member_names() if self.member(n, c).rows]

    # ---------------------------------------------------------------------------- writing
    def to_bytes(self, level: int = 6) -> bytes:
        """The whole recording as the bytes of a `.glass` file."""
        members: list[tuple[str, bytes]] = []
        counts: dict[str, int] = {}
        held = 0
        for name, row_class in self._member_names():
            table: Table[object] = self.member(name, row_class)
            if not table.rows:
                continue
            counts[name] = table.rows
            kept = {
                f.name: table[f.name]
                for f in fields_of(row_class)
                if f.required or not _all_default(table[f.name], f.default)
            }
            members.append((name, encode_table(table.rows, kept)))
            held += sum(map(held_bytes, kept.values()))
        raw = [s.encode("utf-8", "replace") for s in self.strings]
        lengths = np.fromiter(map(len, raw), np.int64, len(raw))
        text = Column("text", np.frombuffer(b"".join(raw), np.uint8), lengths)
        counts["strings"] = len(raw)
        head = header_to_json(self.header) | {"tables": counts}
        first = [
            ("glass.json", json.dumps(head, separators=(",", ":")).encode()),
            ("strings", encode_table(len(raw), {"text": text})),
        ]
        packed = pack(first + members, level)
        held += held_bytes(text) + sum(len(data) for _, data in first + members)
        # Data so regular that it would pass for a bomb when read back is stored as it is.
        fits = Budget("", len(packed), ReadLimits())
        try:
            fits.spend("graphs", sum(1 + len(g.stages) for g in self.header.graphs))
            fits.spend("rows", sum(counts.values()))
            fits.spend("decoded_bytes", held)
        except LimitExceeded:
            return pack(first + members, 0)
        return packed

    def save(self, path: str | os.PathLike[str], level: int = 6) -> None:
        """Write a `.glass` file; the name never stands for half a file."""
        write_atomic(path, self.to_bytes(level))

    def _member_names(self) -> Iterator[tuple[str, type]]:
        for name, row_class in FILE_TABLES.items():
            yield name, row_class
        for i, info in enumerate(self.header.graphs):
            for name, row_class in GRAPH_TABLES.items():
                if row_class is NodeRow:
                    for s in range(len(info.stages)):
                        yield f"g{i}/nodes.{s}", NodeRow
                else:
                    yield f"g{i}/{name}", row_class


class GraphView:
    """One graph of a recording, with all its stages."""

    def __init__(self, recording: Recording, index: int) -> None:
        self.recording = recording
        self.index = index
        self._born: dict[int, Table[NodeRow]] = {}
        self._stages: dict[int, StageView] = {}

    @property
    def info(self) -> GraphInfo:
        return self.recording.header.graphs[self.index]

    @property
    def name(self) -> str:
        return self.info.name

    def table(self, row_class: type[Row]) -> Table[Row]:
        """A table of this graph: `graph.table(KernelRow)`."""
        if row_class is NodeRow:
            return self.nodes_until(len(self.info.stages) - 1)  # type: ignore[return-value]  # Row
        return self.recording.member(f"g{self.index}/{TABLE_NAMES[row_class]}", row_class)

    @functools.cached_property
    def groups(self) -> Table[GroupRow]:
        groups = self.table(GroupRow)
        parent = groups.array("parent")
        if groups.rows and not bool(np.all((parent >= NEVER) & (parent < np.arange(groups.rows)))):
            raise FormatError(f"graph {self.index}: a group stands before its parent")
        if not np.array_equal(groups["attr_keys"].lengths, groups["attr_values"].lengths):  # type: ignore[arg-type]  # ragged columns always have lengths
            raise FormatError(f"graph {self.index}: attr_keys and attr_values of groups differ")
        self._check_paths(groups)
        return groups

    def _check_paths(self, groups: Table[GroupRow]) -> None:
        """Groups nest so deep at most, and all their paths can be spelled out: a chain of groups
        with long names takes few bytes, its paths the square of it."""
        budget = Budget(self.recording.where, 0)
        long = np.fromiter(map(len, self.recording.strings), np.int64)
        names = long[groups.array("name")].tolist()
        depths: list[int] = []
        lengths: list[int] = []
        for parent, name in zip(groups.array("parent").tolist(), names, strict=True):
            depths.append(depths[parent] + 1 if parent >= 0 else 1)
            lengths.append(lengths[parent] + name + 1 if parent >= 0 else name)
        budget.within("depth", max(depths, default=0))
        budget.within("decoded_bytes", sum(lengths))

    def born_in(self, stage: int) -> Table[NodeRow]:
        """The node rows that came with a stage, alive later or not."""
        if stage not in self._born:
            nodes = self.recording.member(f"g{self.index}/nodes.{stage}", NodeRow)
            self._check_nodes(nodes, stage)
            self._born[stage] = nodes
        return self._born[stage]

    def nodes_until(self, stage: int) -> Table[NodeRow]:
        """All node rows born in stages 0 to `stage`, in order of birth."""
        parts = [self.born_in(s) for s in range(stage + 1)]
        names = [f.name for f in fields_of(NodeRow)]
        columns = LazyColumns(names, lambda name: concat([p[name] for p in parts]))
        rows = sum(p.rows for p in parts)
        return Table(NodeRow, rows, columns, self.recording.strings)

    def last_rows(self, ids: Container[int]) -> dict[int, NodeRow]:
        """The last row of each of these nodes."""
        nodes = self.nodes_until(len(self.info.stages) - 1)
        rows = {id: row for row, id in enumerate(nodes.array("id").tolist()) if id in ids}
        return {node.id: node for node in nodes.take(np.array([*rows.values()], np.int64))}

    def stage(self, stage: int) -> StageView:
        """The graph as it was in one stage (negative: from the last)."""
        count = len(self.info.stages)
        if not -count <= stage < count:
            raise FormatError(f"graph {self.index} has stages 0 to {count - 1}, not {stage}")
        stage %= count
        if stage not in self._stages:
            self._stages[stage] = StageView(self, stage)
        return self._stages[stage]

    def _check_nodes(self, nodes: Table[NodeRow], stage: int) -> None:
        def bad(what: str) -> FormatError:
            return FormatError(f"graph {self.index}, nodes of stage {stage}: {what}")

        born, died = nodes.array("born"), nodes.array("died")
        if bool(np.any(born != stage)):
            raise bad("a node says that it was born in another stage")
        if bool(np.any((died <= born) & (died != NEVER))):
            raise bad("a node died before it was born")
        groups = nodes["groups"].values
        if len(groups) and not (groups.min() >= 0 and groups.max() < self.groups.rows):
            raise bad("a node is in a group that does not exist")
        bodies = nodes["bodies"].values
        graphs = len(self.recording.header.graphs)
        if len(bodies) and not (bodies.min() >= 0 and bodies.max() < graphs):
            raise bad("a node holds a graph that does not exist")
        for one, other in (("input_nodes", "input_ports"), ("attr_keys", "attr_values")):
            if not np.array_equal(nodes[one].lengths, nodes[other].lengths):  # type: ignore[arg-type]  # ragged columns always have lengths
                raise bad(f"{one} and {other} differ in number")


class StageView:
    """A graph in one stage."""

    def __init__(self, graph: GraphView, index: int) -> None:
        self.graph = graph
        self.index = index

    @property
    def info(self) -> Stage:
        return self.graph.info.stages[self.index]

    @functools.cached_property
    def nodes(self) -> Table[NodeRow]:
        """The nodes that are alive, in order of birth."""
        table = self.graph.nodes_until(self.index)
        died = table.array("died")
        return table.take(np.flatnonzero((died == NEVER) | (died > self.index)))

    @functools.cached_property
    def added(self) -> Table[NodeRow]:
        """The rows that this stage brought (also the new form of a changed node)."""
        return self.graph.born_in(self.index)

    @functools.cached_property
    def removed(self) -> Table[NodeRow]:
        """The rows that this stage ended (also the old form of a changed node)."""
        if self.index == 0:
            return self.added.take(np.zeros(0, np.int64))
        table = self.graph.nodes_until(self.index - 1)
        return table.take(np.flatnonzero(table.array("died") == self.index))

    @functools.cached_property
    def row_of(self) -> dict[int, int]:
        """Row in `nodes` by node id."""
        ids: Array = self.nodes.array("id")
        return {node: row for row, node in enumerate(ids.tolist())}


def _all_default(column: Column, default: object) -> bool:
    if column.lengths is not None:
        return not len(column.values)
    if column.type == "str":
        return default == "" and not bool(np.any(column.values))
    if column.type == "float" and bool(np.any(np.signbit(column.values))):
        return False
    return bool(np.all(column.values == default))
