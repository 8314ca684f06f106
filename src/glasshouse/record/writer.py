"""Decides how a recording is made: row by row or column by column, then frozen into a Recording.

A builder holds plain arrays, no Python object for each row, so a million nodes fit well. Stages
are numbered as they are opened; a node belongs to the current stage unless told otherwise.
"""

from __future__ import annotations

import dataclasses
import os
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from glasshouse.record.columns import RAGGED, Array, Column, Field, Table, fields_of
from glasshouse.record.reader import TABLE_NAMES, GraphView, MemoryStore, Recording
from glasshouse.record.schema import (
    FILE_TABLES,
    FORMAT,
    GRAPH_TABLES,
    NEVER,
    VERSION,
    GraphInfo,
    GroupRow,
    Header,
    NodeRow,
    SourceRow,
    Stage,
    StyleRow,
    Text,
)

Values = Sequence[Any] | Array | tuple[Array, Array]
"""A column given whole: a list of Python values, an array (strings as indices from
`RecordingBuilder.indices`), or for a ragged column the pair (lengths, flat values)."""


class Strings:
    """The shared strings; index 0 is the empty one."""

    def __init__(self, known: Sequence[str] = ("",)) -> None:
        self.list: list[str] = list(known)
        self._index: dict[str, int] = {}
        for i, text in enumerate(self.list):
            self._index.setdefault(text, i)

    def index(self, text: str) -> int:
        found = self._index.get(text)
        if found is None:
            found = self._index[text] = len(self.list)
            self.list.append(text)
        return found


class _ColumnBuilder:
    def __init__(self, field: Field, strings: Strings) -> None:
        self.field = field
        self.strings = strings
        self.lengths = array("q") if field.type in RAGGED else None
        code = {"float": "d", "bool": "b", "text": "B"}.get(field.type, "q")
        self.values = array(code)
        self.append: Callable[[Any], None] = self._appender()

    def _appender(self) -> Callable[[Any], None]:
        values, lengths, index = self.values, self.lengths, self.strings.index
        kind = self.field.type
        if kind == "str":
            return lambda v: values.append(index(v))
        if lengths is None:
            return values.append

        def ints(v: Sequence[int]) -> None:
            lengths.append(len(v))
            values.extend(v)

        def strs(v: Sequence[str]) -> None:
            lengths.append(len(v))
            values.extend(map(index, v))

        def text(v: str) -> None:
            raw = v.encode("utf-8", "replace")
            lengths.append(len(raw))
            values.frombytes(raw)

        chosen: dict[str, Callable[[Any], None]] = {
            "list<int>": ints,
            "list<str>": strs,
            "text": text,
        }
        return chosen[kind]

    def extend(self, given: Values, rows: int) -> None:
        if isinstance(given, tuple):
            assert self.lengths is not None, f"{self.field.name} is not ragged"
            lengths, flat = given
            if len(lengths) != rows or int(np.sum(lengths)) != len(flat):
                raise ValueError(f"column {self.field.name}: lengths do not fit the values")
            self.lengths.frombytes(np.ascontiguousarray(lengths, np.int64).tobytes())
            self._extend_flat(flat)
            return
        if len(given) != rows:
            raise ValueError(f"column {self.field.name} has {len(given)} rows, not {rows}")
        plain = self.lengths is None and self.field.type != "str"
        if plain or (isinstance(given, np.ndarray) and given.dtype.kind in "iu"):
            self._extend_flat(given)
        else:
            for value in given:
                self.append(value)

    def _extend_flat(self, given: Sequence[Any] | Array) -> None:
        if len(given) and isinstance(given[0], str):
            self.values.extend(map(self.strings.index, given))
            return
        self.values.frombytes(np.ascontiguousarray(given, self.values.typecode).tobytes())

    def fill(self, value: Any, rows: int) -> None:
        if self.lengths is not None:
            assert not value, "ragged columns default to empty"
            self.lengths.frombytes(bytes(8 * rows))
            return
        if self.field.type == "str":
            value = self.strings.index(value)
        self.values.frombytes(np.full(rows, value, self.values.typecode).tobytes())

    def column(self) -> Column:
        values = np.array(self.values)
        if self.field.type == "bool":
            values = values.astype(np.bool_)
        return Column(
            self.field.type, values, None if self.lengths is None else np.array(self.lengths)
        )


_ZERO: dict[str, Any] = {"int": 0, "float": 0.0, "bool": False, "str": "", "text": ""}
_IMPLIED = {"died": NEVER, "parent": NEVER}


class _TableBuilder:
    def __init__(self, row_class: type, strings: Strings) -> None:
        self.fields = fields_of(row_class)
        self.columns = [_ColumnBuilder(f, strings) for f in self.fields]
        self.by_name = {c.field.name: c for c in self.columns}
        self.rows = 0

    def append(self, values: Iterable[Any]) -> int:
        for column, value in zip(self.columns, values, strict=True):
            column.append(value)
        self.rows += 1
        return self.rows - 1

    def extend(self, rows: int, given: Mapping[str, Values]) -> None:
        unknown = set(given) - set(self.by_name)
        if unknown:
            raise ValueError(f"no such column: {', '.join(sorted(unknown))}")
        for column in self.columns:
            f = column.field
            if f.name in given:
                column.extend(given[f.name], rows)
            else:
                implied = _IMPLIED.get(f.name, _ZERO.get(f.type, ()))
                column.fill(implied if f.required else f.default, rows)
        self.rows += rows

    def copy(self, table: Table[Any]) -> None:
        """Take over all rows of a table whose strings are this builder's."""
        given: dict[str, Values] = {}
        for name in self.by_name:
            column = table[name]
            plain = column.lengths is None
            given[name] = column.values if plain else (column.lengths, column.values)
        self.extend(table.rows, given)

    def finish(self) -> tuple[int, dict[str, Column]]:
        return self.rows, {c.field.name: c.column() for c in self.columns}


class GraphBuilder:
    """One graph of a recording in the making."""

    def __init__(self, owner: RecordingBuilder, index: int, name: str, parent: int) -> None:
        self.owner = owner
        self.index = index
        self.name = name
        self.parent = parent
        self.attrs: dict[str, str] = {}
        self.stages: list[Stage] = []
        self._tables: dict[type, _TableBuilder] = {}
        self._row_of: dict[int, int] = {}  # the live row of each node id
        self._next_id = 0
        self._paths: dict[tuple[str, tuple[str, ...]], int] = {}
        self._unclassed: set[int] = set()  # groups of `_paths` whose class nobody has said yet
        self._group_attrs: dict[int, dict[str, str]] = {}

    # ---------------------------------------------------------------------------- stages
    def stage(
        self,
        name: str,
        *,
        pass_name: str = "",
        doc: str = "",
        seconds: float = 0.0,
        options: Mapping[str, str] | None = None,
        inputs: Sequence[int] = (),
        outputs: Sequence[tuple[int, int]] = (),
    ) -> int:
        """Open the next stage; nodes added from now on are born in it."""
        self.stages.append(Stage(name, pass_name, doc, seconds, dict(options or {})))
        self.set_io(inputs, outputs)
        return len(self.stages) - 1

    def set_io(
        self, inputs: Sequence[int], outputs: Sequence[tuple[int, int]], stage: int = -1
    ) -> None:
        """Set the graph's input nodes and output values in a stage (default: the current one)."""
        self.current_stage()
        self.stages[stage] = dataclasses.replace(
            self.stages[stage],
            inputs=list(inputs),
            output_nodes=[node for node, _ in outputs],
            output_ports=[port for _, port in outputs],
        )

    def set_seconds(self, seconds: float, stage: int = -1) -> None:
        """Set how long a stage's pass took, which is known only when it ends."""
        self.stages[stage] = dataclasses.replace(self.stages[stage], seconds=seconds)

    @property
    def next_id(self) -> int:
        """The id that the next node gets if none is given."""
        return self._next_id

    def current_stage(self) -> int:
        if not self.stages:
            self.stages.append(Stage("graph"))
        return len(self.stages) - 1

    # ---------------------------------------------------------------------------- groups
    def group(
        self,
        grouping: str,
        name: str,
        parent: int = NEVER,
        *,
        cls: str = "",
        file: str = "",
        line: int = 0,
        attrs: Mapping[str, str] | None = None,
    ) -> int:
        """Add a group; its row number is what nodes and inner groups refer to."""
        table = self._table(GroupRow)
        if not NEVER <= parent < table.rows:
            raise ValueError(f"group {name!r}: parent {parent} does not stand before it")
        attrs = attrs or {}
        return table.append(
            (grouping, parent, name, cls, file, line, list(attrs), list(attrs.values()))
        )

    def group_path(self, grouping: str, path: Sequence[str], classes: Sequence[str] = ()) -> int:
        """The group at a path, made with its parents where needed; NEVER for the empty path.

        `classes` names the class of each group of the path, "" where it is not known (yet).
        """
        key = (grouping, tuple(path))
        found = self._paths.get(key)
        if found is not None and (not classes or found not in self._unclassed):
            return found
        row = NEVER
        for depth in range(1, len(path) + 1):
            part = (grouping, tuple(path[:depth]))
            known = self._paths.get(part)
            if known is None:
                known = self._paths[part] = self.group(grouping, path[depth - 1], row)
                self._unclassed.add(known)
            if depth <= len(classes) and classes[depth - 1] and known in self._unclassed:
                self._unclassed.discard(known)
                self.amend_group(known, cls=classes[depth - 1])
            row = known
        return row

    def amend_group(
        self,
        row: int,
        attrs: Mapping[str, str] | None = None,
        *,
        cls: str | None = None,
        file: str | None = None,
        line: int | None = None,
    ) -> None:
        """Say more about a group that is there already."""
        columns = self._table(GroupRow).by_name
        for name, text in (("cls", cls), ("file", file)):
            if text is not None:
                columns[name].values[row] = self.owner.strings.index(text)
        if line is not None:
            columns["line"].values[row] = line
        if attrs:
            self._group_attrs.setdefault(row, {}).update(attrs)

    # ---------------------------------------------------------------------------- nodes
    def node(
        self,
        op: str,
        *,
        id: int | None = None,
        name: str = "",
        kind: str = "",
        inputs: Iterable[int | tuple[int, int]] = (),
        outputs: Sequence[str] = (),
        attrs: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        groups: Iterable[int] = (),
        born: int | None = None,
        died: int = NEVER,
        file: str = "",
        line: int = 0,
        pass_name: str = "",
        rule: str = "",
        replaces: Sequence[int] = (),
        grad_of: int = NEVER,
        bodies: Sequence[int] = (),
        output_names: Sequence[str] = (),
        input_names: Sequence[str] = (),
        frames: Sequence[str] = (),
    ) -> int:
        """Add a node and return its id. A second row for a live id ends the first one.

        `inputs` are producers: an id (its output 0) or a pair (id, output); NEVER in `groups` is
        dropped, so that `group_path` of an empty path can be passed on.
        """
        if id is None:
            id = self._next_id
        if born is None:
            born = self.current_stage()
        producers, ports = [], []
        for value in inputs:
            producer, port = (value, 0) if isinstance(value, int) else value
            producers.append(producer)
            ports.append(port)
        pairs = attrs.items() if isinstance(attrs, Mapping) else list(attrs)
        self._retire(id, born)
        row = self._table(NodeRow).append(
            (
                id, born, died, name, op, kind, producers, ports, outputs,
                [k for k, _ in pairs], [v for _, v in pairs], [g for g in groups if g != NEVER],
                file, line, pass_name, rule, replaces, grad_of, bodies, output_names, input_names,
                frames,
            )
        )  # fmt: skip
        self._row_of[id] = row
        self._next_id = max(self._next_id, id + 1)
        return id

    def add_node(self, row: NodeRow) -> int:
        """Add a node given as a row. A second row for a live id ends the first one."""
        self._retire(row.id, row.born)
        table = self._table(NodeRow)
        self._row_of[row.id] = table.append([getattr(row, f.name) for f in table.fields])
        self._next_id = max(self._next_id, row.id + 1)
        return row.id

    def nodes(self, columns: Mapping[str, Values]) -> None:
        """Add many nodes at once, column by column; `id` is needed, the rest has defaults."""
        ids = np.asarray(columns["id"], np.int64)
        given = dict(columns)
        if "born" not in given:
            given["born"] = np.full(len(ids), self.current_stage(), np.int64)
        table = self._table(NodeRow)
        listed = ids.tolist()
        if self._row_of:
            for id, born in zip(listed, given["born"], strict=True):
                self._retire(id, int(born))
        start = table.rows
        self._row_of.update(zip(listed, range(start, start + len(listed)), strict=True))
        table.extend(len(ids), given)
        if listed:
            self._next_id = max(self._next_id, int(ids.max()) + 1)

    def end(self, id: int, stage: int | None = None) -> None:
        """Node `id` is no longer there from `stage` (default: the current one) on."""
        row = self._row_of.pop(id)
        self._table(NodeRow).by_name["died"].values[row] = (
            self.current_stage() if stage is None else stage
        )

    def _retire(self, id: int, born: int) -> None:
        if id in self._row_of:
            births = self._table(NodeRow).by_name["born"].values
            if births[self._row_of[id]] >= born:
                raise ValueError(f"two nodes with id {id} in stage {born} of graph {self.name!r}")
            self.end(id, born)

    # ---------------------------------------------------------------------------- other tables
    def add(self, row: Any) -> int:
        """Add a row of any other table: `graph.add(KernelRow(...))`. Returns its row number."""
        table = self._table(type(row))
        return table.append([getattr(row, f.name) for f in table.fields])

    def extend(self, row_class: type, rows: int, columns: Mapping[str, Values]) -> None:
        """Add many rows of any other table, column by column."""
        self._table(row_class).extend(rows, columns)

    def _table(self, row_class: type) -> _TableBuilder:
        found = self._tables.get(row_class)
        if found is None:
            if row_class not in GRAPH_TABLES.values():
                raise TypeError(f"{row_class.__name__} is no row of a graph's table")
            found = self._tables[row_class] = _TableBuilder(row_class, self.owner.strings)
        return found

    def _copy(self, view: GraphView) -> None:
        self.stages = list(view.info.stages)
        for row_class in GRAPH_TABLES.values():
            table: Table[Any] = view.table(row_class)
            if table.rows:
                self._table(row_class).copy(table)
        nodes = view.table(NodeRow)
        ids, died = nodes.array("id").tolist(), nodes.array("died").tolist()
        self._row_of = {id: row for row, id in enumerate(ids) if died[row] == NEVER}
        self._next_id = max(ids, default=-1) + 1

    def _amended_attrs(self, rows: int, columns: dict[str, Column]) -> dict[str, Column]:
        strings = self.owner.strings
        keys = _ColumnBuilder(Field("attr_keys", "list<str>", False, [], 0), strings)
        values = _ColumnBuilder(Field("attr_values", "list<str>", False, [], 0), strings)
        old_keys = columns["attr_keys"].tolist(strings.list)
        old_values = columns["attr_values"].tolist(strings.list)
        for row in range(rows):
            attrs = dict(zip(old_keys[row], old_values[row], strict=True))
            attrs |= self._group_attrs.get(row, {})
            keys.append(list(attrs))
            values.append(list(attrs.values()))
        return {"attr_keys": keys.column(), "attr_values": values.column()}

    def _finish(self) -> dict[str, tuple[int, dict[str, Column]]]:
        self.current_stage()
        out = {}
        for row_class, table in self._tables.items():
            rows, columns = table.finish()
            if row_class is GroupRow and self._group_attrs:
                columns |= self._amended_attrs(rows, columns)
            if row_class is not NodeRow:
                out[f"g{self.index}/{TABLE_NAMES[row_class]}"] = (rows, columns)
                continue
            born = columns["born"].values
            for stage in range(len(self.stages)):
                index = np.flatnonzero(born == stage)
                part = columns
                if len(index) != rows:
                    part = {name: c.take(index) for name, c in columns.items()}
                out[f"g{self.index}/nodes.{stage}"] = (len(index), part)
        return out


class RecordingBuilder:
    """A recording in the making: graphs, then `finish()` or `save(path)`."""

    def __init__(self, title: str = "", generator: str = "glasshouse") -> None:
        self.title = title
        self.generator = generator
        self.facts: dict[str, str] = {}
        self.strings = Strings()
        self.graphs: list[GraphBuilder] = []
        self._files = {c: _TableBuilder(c, self.strings) for c in FILE_TABLES.values()}

    @staticmethod
    def of(recording: Recording) -> RecordingBuilder:
        """A builder that holds all that a recording says, to add more to it."""
        head = recording.header
        made = RecordingBuilder(head.title, head.generator)
        made.facts.update(head.facts)
        made.strings = Strings(recording.strings)
        made._files = {c: _TableBuilder(c, made.strings) for c in FILE_TABLES.values()}
        for row_class, table in made._files.items():
            table.copy(recording.member(TABLE_NAMES[row_class], row_class))
        for view in recording.graphs:
            made.graph(view.name, view.info.parent, view.info.attrs)._copy(view)
        return made

    def graph(
        self, name: str, parent: int = NEVER, attrs: Mapping[str, str] | None = None
    ) -> GraphBuilder:
        """Add a graph; nested bodies name the index of the graph that holds them."""
        made = GraphBuilder(self, len(self.graphs), name, parent)
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
        tables: dict[str, tuple[int, dict[str, Column]]] = {}
        for row_class, table in self._files.items():
            tables[TABLE_NAMES[row_class]] = table.finish()
        for graph in self.graphs:
            tables.update(graph._finish())
        infos = [GraphInfo(g.name, list(g.stages), g.parent, dict(g.attrs)) for g in self.graphs]
        header = Header(
            FORMAT, list(VERSION), self.generator, self.title, infos, dict(self.facts), {}
        )
        return Recording(header, MemoryStore(list(self.strings.list), tables))

    def save(self, path: str | os.PathLike[str], level: int = 6) -> None:
        """Write a `.glass` file; the name never stands for half a file."""
        self.finish().save(path, level)
