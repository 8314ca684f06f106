"""How a recording is looked at: lazily, a table or a stage at a time.

Opening reads the directory and the header. Everything else is read when it is asked for, and kept.
"""

from __future__ import annotations

import functools
import io
import json
import os
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from glasshouse.cell import ShowsInCell
from glasshouse.errors import FormatError, LimitExceeded
from glasshouse.record.boundary import boundary
from glasshouse.record.budget import Budget, ReadLimits
from glasshouse.record.columns import Column, LazyColumns, Row, Table, fields_of, full
from glasshouse.record.container import Archive, pack, write_atomic
from glasshouse.record.graph_view import GraphView, StageView
from glasshouse.record.header import header_from_bytes, header_to_json
from glasshouse.record.open_file import open_regular
from glasshouse.record.schema import (
    FILE_TABLES,
    GRAPH_TABLES,
    Header,
    NodeRow,
    SourceRow,
    StyleRow,
)
from glasshouse.record.table_bytes import decode_table, encode_table, held_bytes


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


def _all_default(column: Column, default: object) -> bool:
    if column.lengths is not None:
        return not len(column.values)
    if column.type == "str":
        return default == "" and not bool(np.any(column.values))
    if column.type == "float" and bool(np.any(np.signbit(column.values))):
        return False
    return bool(np.all(column.values == default))
