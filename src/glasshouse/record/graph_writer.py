"""One graph of a recording as it is written: row by row or column by column.

Stages are numbered as they are opened; a node belongs to the current stage unless told otherwise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glasshouse.record.columns import Column, EqualColumns, Field, Table
from glasshouse.record.graph_view import GraphView
from glasshouse.record.schema import (
    GRAPH_TABLES,
    NEVER,
    TABLE_NAMES,
    GroupRow,
    NodeRow,
    Stage,
)
from glasshouse.record.table_builder import ColumnBuilder, TableBuilder, Values

if TYPE_CHECKING:
    from glasshouse.record.writer import RecordingBuilder

Tables = dict[str, tuple[int, dict[str, Column]]]
"""Rows and columns by the name of the table."""


class GraphWriter:
    """One graph of a recording in the making."""

    def __init__(self, owner: RecordingBuilder, index: int, name: str, parent: int) -> None:
        self.owner = owner
        self.index = index
        self.name = name
        self.parent = parent
        self.attrs: dict[str, str] = {}
        self.stages: list[Stage] = []
        self._tables: dict[type, TableBuilder] = {}
        self._row_of: dict[int, int] = {}  # the live row of each node id
        self._next_id = 0
        # Groups made by path, as a tree: (grouping, or the row of the group above; name) -> row.
        self._inside: dict[tuple[str | int, str], int] = {}
        self._unclassed: set[int] = set()  # of those, groups whose class nobody has said yet
        self._group_attrs: dict[int, dict[str, str]] = {}
        self._closed: Tables | None = None

    def close(self) -> None:
        """Nothing is added from now on: columns take the place of the arrays that they grew in.

        A kernel's body has a few rows, and what they grow in takes 25 KB: 4.4 MB for the 179 bodies
        of a Llama of 22 layers.
        """
        self._closed = self._finish(self.owner.equal)
        self._tables, self._row_of, self._inside = {}, {}, {}

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
        self.owner.budget.spend("rows")
        return table.append(
            (grouping, parent, name, cls, file, line, list(attrs), list(attrs.values()))
        )

    def group_path(self, grouping: str, path: Sequence[str], classes: Sequence[str] = ()) -> int:
        """The group at a path, made with its parents where needed; NEVER for the empty path.

        `classes` names the class of each group of the path, "" where it is not known (yet).
        """
        budget = self.owner.budget
        budget.within("depth", len(path))
        budget.spend("names", len(path))
        row = NEVER
        above: str | int = grouping
        for depth, name in enumerate(path):
            known = self._inside.get((above, name))
            if known is None:
                known = self._inside[above, name] = self.group(grouping, name, row)
                self._unclassed.add(known)
            if depth < len(classes) and classes[depth] and known in self._unclassed:
                self._unclassed.discard(known)
                self.amend_group(known, cls=classes[depth])
            above = row = known
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
        self.owner.budget.spend("rows")
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
        self.owner.budget.spend("rows", len(ids))
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
        self.owner.budget.spend("rows")
        table = self._table(type(row))
        return table.append([getattr(row, f.name) for f in table.fields])

    def extend(self, row_class: type, rows: int, columns: Mapping[str, Values]) -> None:
        """Add many rows of any other table, column by column."""
        self.owner.budget.spend("rows", rows)
        self._table(row_class).extend(rows, columns)

    def _table(self, row_class: type) -> TableBuilder:
        found = self._tables.get(row_class)
        if found is None:
            if row_class not in GRAPH_TABLES.values():
                raise TypeError(f"{row_class.__name__} is no row of a graph's table")
            if self._closed is not None:
                raise ValueError(f"graph {self.name!r} was closed, and gets no more rows")
            found = self._tables[row_class] = TableBuilder(row_class, self.owner.strings)
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
        keys = ColumnBuilder(Field("attr_keys", "list<str>", False, [], 0), strings)
        values = ColumnBuilder(Field("attr_values", "list<str>", False, [], 0), strings)
        old_keys = columns["attr_keys"].tolist(strings.list)
        old_values = columns["attr_values"].tolist(strings.list)
        for row in range(rows):
            attrs = dict(zip(old_keys[row], old_values[row], strict=True))
            attrs |= self._group_attrs.get(row, {})
            keys.append(list(attrs))
            values.append(list(attrs.values()))
        return {"attr_keys": keys.column(), "attr_values": values.column()}

    def _finish(self, equal: EqualColumns) -> Tables:
        if self._closed is not None:
            return self._closed
        self.current_stage()
        out: Tables = {}
        for row_class, table in self._tables.items():
            rows, columns = table.finish()
            if row_class is GroupRow and self._group_attrs:
                columns |= self._amended_attrs(rows, columns)
            if row_class is not NodeRow:
                held = {name: equal.one(c) for name, c in columns.items()}
                out[f"g{self.index}/{TABLE_NAMES[row_class]}"] = (rows, held)
                continue
            born = columns["born"].values
            for stage in range(len(self.stages)):
                index = np.flatnonzero(born == stage)
                cut = len(index) != rows
                part = {n: equal.one(c.take(index) if cut else c) for n, c in columns.items()}
                out[f"g{self.index}/nodes.{stage}"] = (len(index), part)
        return out
