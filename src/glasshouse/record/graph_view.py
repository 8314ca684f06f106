"""One graph of a recording as it is read: its tables, its stages, and what is alive in each."""

from __future__ import annotations

import functools
from collections.abc import Container
from typing import TYPE_CHECKING

import numpy as np

from glasshouse.errors import FormatError
from glasshouse.record.budget import Budget
from glasshouse.record.columns import Array, LazyColumns, Row, Table, concat, fields_of
from glasshouse.record.schema import NEVER, TABLE_NAMES, GraphInfo, GroupRow, NodeRow, Stage

if TYPE_CHECKING:
    from glasshouse.record.reader import Recording


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

    @functools.cached_property
    def _group_tree(self) -> tuple[list[str], list[int]]:
        return self.groups.pylist("name"), self.groups.array("parent").tolist()

    def path_of(self, node: NodeRow) -> list[str]:
        """Names of the groups around a node in its first grouping, the outermost first."""
        names, parents = self._group_tree
        path: list[str] = []
        row = node.groups[0] if node.groups else NEVER
        while row != NEVER:
            path.append(names[row])
            row = parents[row]
        return path[::-1]

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
