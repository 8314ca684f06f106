"""How Model Explorer graph JSON becomes a recording: node by node, never the whole tree.

Accepts `{label, graphs}`, a list of graphs, a list of `{label, subgraphs}`, and a lone graph.
Graphs that our writer marked as stages of one graph become stages again.
"""

from __future__ import annotations

import json
import re
from array import array
from typing import Any

import numpy as np

from glasshouse.formats.json_stream import JsonCursor
from glasshouse.formats.kinds import kind_of
from glasshouse.formats.model_explorer import namespace, own
from glasshouse.formats.model_explorer.node import MENode, parse_node, text
from glasshouse.formats.source import SourceFile
from glasshouse.record import GraphWriter, Recording, RecordingBuilder
from glasshouse.record.schema import NEVER
from glasshouse.record.writer import NO_PRODUCER, SAME_ID

GENERATOR = "model explorer"
MAX_ID = 2**31 - 1
_NUMBER = re.compile(r"0|[1-9]\d{0,9}")


def read(source: SourceFile) -> Recording:
    """The recording of a graph JSON file."""
    made = RecordingBuilder(source.stem, GENERATOR, source.budget)
    reader = _GraphsFile(source, made)
    reader.run()
    from glasshouse.formats.model_explorer.stages import merge_stages

    return merge_stages(made.finish())


class _GraphsFile:
    def __init__(self, source: SourceFile, made: RecordingBuilder) -> None:
        self.made = made
        self.cursor = JsonCursor(source)
        self.graphs: list[_GraphReader] = []

    def run(self) -> None:
        cursor = self.cursor
        if cursor.peek() == "[":
            for _ in cursor.elements():
                self._graph_or_collection()
        elif cursor.peek() == "{":
            self._graph_or_collection()
        else:
            raise cursor.error("an object or a list was expected")
        cursor.end()
        if not self.graphs:
            raise cursor.source.error("JSON, but without a graph of Model Explorer")
        by_name = {g.name: g.builder.index for g in reversed(self.graphs)}
        for graph in self.graphs:
            graph.finish(by_name)

    def _graph_or_collection(self) -> None:
        """An object that is a graph (it has nodes) or a collection (it has graphs)."""
        cursor = self.cursor
        if cursor.peek() != "{":
            raise cursor.error("a graph was expected")
        fields: dict[str, Any] = {}
        graph: _GraphReader | None = None
        is_collection = False
        for key in cursor.fields():
            if key in ("graphs", "subgraphs") and cursor.peek() == "[":
                is_collection = True
                for _ in cursor.elements():
                    self._graph()
            elif key == "nodes" and cursor.peek() == "[":
                graph = graph or self._open()
                for _ in cursor.elements():
                    graph.node(cursor.value())
            else:
                fields[key] = cursor.value()
        if is_collection:
            if isinstance(fields.get("label"), str) and not self.made.title.strip():
                self.made.title = fields["label"]
            if isinstance(fields.get("label"), str):
                self.made.facts.setdefault("label", fields["label"])
            return
        if graph is None and "id" not in fields:
            raise cursor.source.error("an object in it is neither a graph nor a list of graphs")
        (graph or self._open()).fields(fields)

    def _graph(self) -> None:
        cursor = self.cursor
        if cursor.peek() != "{":
            raise cursor.error("a graph was expected")
        graph = self._open()
        fields: dict[str, Any] = {}
        for key in cursor.fields():
            if key == "nodes" and cursor.peek() == "[":
                for _ in cursor.elements():
                    graph.node(cursor.value())
            else:
                fields[key] = cursor.value()
        graph.fields(fields)

    def _open(self) -> _GraphReader:
        graph = _GraphReader(self.cursor.source, self.made)
        self.graphs.append(graph)
        return graph


class _GraphReader:
    """One graph: columns that grow with each node, resolved when all nodes are known."""

    def __init__(self, source: SourceFile, made: RecordingBuilder) -> None:
        self.source = source
        self.made = made
        self.builder: GraphWriter = made.graph("")
        self.builder.stage("graph")
        self.index = made.strings.index
        self.name = ""
        self.rest: dict[str, Any] = {}
        self.extra: dict[str, Any] = {}
        self.own_values: list[dict[str, str]] = []
        self.own_links: list[dict[str, list[str]]] = []
        self.names: list[str] = []
        self.first: dict[str, int] = {}  # row by string id; the first of equal ids
        self.output_ids: dict[int, dict[str, int]] = {}  # port by id, the first of equal ids
        self.subgraphs: dict[int, list[str]] = {}
        self.edge_lengths = array("q")
        self.edges: list[tuple[str, str, str]] = []
        self.scalars: dict[str, array[int]] = {k: array("q") for k in ("op", "kind", "group")}
        ragged = ("attr_keys", "attr_values", "outputs", "output_names", "input_names")
        self.lengths: dict[str, array[int]] = {k: array("q") for k in ragged}
        self.values: dict[str, array[int]] = {k: array("q") for k in ragged}
        self.paths: dict[str, int] = {}

    # ---------------------------------------------------------------------------- while reading
    def node(self, raw: Any) -> None:
        if not isinstance(raw, dict) or not ("id" in raw or "label" in raw):
            raise self.source.error(f"node {len(self.names)} is no object with an id")
        node = parse_node(raw)
        row = len(self.names)
        self.names.append(node.id)
        if self.first.setdefault(node.id, row) != row:
            self.made.repaired(SAME_ID)
        self._own(node, row)
        self.scalars["op"].append(self.index(node.label))
        self.scalars["kind"].append(self.index(self._kind(node, row)))
        self.scalars["group"].append(self._group(node.namespace))
        for column in self.lengths:
            values: list[str] = getattr(node, column)
            self.lengths[column].append(len(values))
            self.values[column].extend(map(self.index, values))
        self.edge_lengths.append(len(node.edges))
        self.edges += node.edges
        if node.output_ids is not None:
            ports = enumerate(node.output_ids)
            self.output_ids[row] = {id: port for port, id in reversed(list(ports))}
        if node.subgraphs:
            self.subgraphs[row] = node.subgraphs
        if namespace.join(namespace.split(node.namespace)) != node.namespace:
            node.extra["namespace"] = node.namespace
        if node.extra:
            self.extra[str(row)] = node.extra

    def _own(self, node: MENode, row: int) -> None:
        """Take out the attributes that our own writer added."""
        mine = [i for i, key in enumerate(node.attr_keys) if key.startswith(own.PREFIX)]
        if not mine:
            return
        while len(self.own_values) < row:
            self.own_values.append({})
            self.own_links.append({})
        self.own_values.append({node.attr_keys[i]: node.attr_values[i] for i in mine})
        self.own_links.append({k: v for k, v in node.links.items() if k.startswith(own.PREFIX)})
        for i in reversed(mine):
            del node.attr_keys[i], node.attr_values[i]

    def _kind(self, node: MENode, row: int) -> str:
        said = self.own_values[row].get(own.KIND) if row < len(self.own_values) else None
        return kind_of(node.label) if said is None else said

    def _group(self, where: str) -> int:
        found = self.paths.get(where)
        if found is None:
            found = self.builder.group_path("module", namespace.split(where))
            self.paths[where] = found
        return found

    def fields(self, fields: dict[str, Any]) -> None:
        """What a graph says besides its nodes."""
        self.name = text(fields.pop("id", ""))
        self.builder.name = self.name or self.source.stem
        attributes = fields.pop("groupNodeAttributes", None)
        if isinstance(attributes, dict):
            odd = {}
            for where, given in attributes.items():
                if not isinstance(given, dict):
                    continue
                plain = {k: v for k, v in given.items() if isinstance(v, str)}
                if plain != given or namespace.join(namespace.split(where)) != where:
                    odd[where] = given
                if namespace.split(where):
                    self.builder.amend_group(self._group(where), plain)
                else:
                    self.builder.attrs.update(plain)
            if odd:
                self.rest["groupNodeAttributes"] = odd
        self.rest |= {k: v for k, v in fields.items() if v is not None}

    # ---------------------------------------------------------------------------- at the end
    def finish(self, graph_of: dict[str, int]) -> None:
        ids = self._ids()
        count = len(self.names)
        bodies = [
            [graph_of[s] for s in self.subgraphs.get(row, ()) if s in graph_of]
            for row in range(count)
        ]
        for row, wanted in self.subgraphs.items():
            if any(s not in graph_of for s in wanted):
                self.extra.setdefault(str(row), {})["subgraphIds"] = wanted
        edge_lengths, producers, ports = self._edges(ids)
        named = not self._numbers()  # string ids are names, unless all of them are numbers
        columns: dict[str, Any] = {
            "id": ids,
            "name": self.names if named else [""] * count,
            "op": np.array(self.scalars["op"], np.int64),
            "kind": np.array(self.scalars["kind"], np.int64),
            "input_nodes": (edge_lengths, producers),
            "input_ports": (edge_lengths, ports),
            "bodies": bodies,
        }
        for column, lengths in self.lengths.items():
            columns[column] = (np.array(lengths, np.int64), np.array(self.values[column], np.int64))
        group = np.array(self.scalars["group"], np.int64)
        columns["groups"] = ((group != NEVER).astype(np.int64), group[group != NEVER])
        if self.own_values:
            from glasshouse.formats.model_explorer.restore import restore

            restore(self.builder, columns, self.own_values, self.own_links, self.first, ids)
        self.builder.nodes(columns)
        if self.rest or self.extra or "" in self.first:
            kept = {"graph": self.builder.index, "fields": self.rest, "nodes": self.extra}
            self.made.style(own.STYLE_KIND, json.dumps(kept, separators=(",", ":")))

    def _numbers(self) -> bool:
        return len(self.first) == len(self.names) and all(
            _NUMBER.fullmatch(n) and int(n) <= MAX_ID for n in self.names
        )

    def _ids(self) -> Any:
        if self._numbers():
            return np.array([int(n) for n in self.names], np.int64)
        said = [v.get(own.ID, "") for v in self.own_values]
        if len(said) == len(self.names) == len(set(said)) and all(map(_NUMBER.fullmatch, said)):
            return np.minimum(np.array([int(s) for s in said], np.int64), MAX_ID)
        return np.arange(len(self.names), dtype=np.int64)

    def _edges(self, ids: Any) -> tuple[Any, Any, Any]:
        lengths, producers, ports = array("q"), array("q"), array("q")
        place = 0
        for row, length in enumerate(self.edge_lengths):
            exact = True
            said = self.own_values[row].get(own.OPERANDS) if row < len(self.own_values) else None
            if said is not None and _NUMBER.fullmatch(said):
                operands = self._sparse(self.edges[place : place + length], int(said), ids)
                lengths.append(len(operands))
                producers.extend(p for p, _ in operands)
                ports.extend(p for _, p in operands)
                place += length
                continue
            lengths.append(length)
            for operand in range(length):
                source, output, target = self.edges[place + operand]
                producer = self.first.get(source)
                port = self._port(producer, output)
                if producer is None:
                    self.made.repaired(NO_PRODUCER)
                producers.append(NEVER if producer is None else int(ids[producer]))
                ports.append(max(port, 0))
                exact = exact and producer is not None and port >= 0 and target == str(operand)
            if not exact:
                # An edge from nowhere, an odd port or another order of operands: kept as it was.
                kept = [list(e) for e in self.edges[place : place + length]]
                self.extra.setdefault(str(row), {})["incomingEdges"] = kept
            place += length
        made = (np.array(a, np.int64) for a in (lengths, producers, ports))
        return next(made), next(made), next(made)

    def _sparse(
        self, edges: list[tuple[str, str, str]], count: int, ids: Any
    ) -> list[tuple[int, int]]:
        """Operands of which some are absent: an edge says which one it is."""
        out = [(NEVER, 0)] * min(count, 1000 + len(edges))
        for source, output, target in edges:
            operand = int(target) if _NUMBER.fullmatch(target) else len(out)
            producer = self.first.get(source)
            if operand < len(out) and producer is not None:
                out[operand] = (int(ids[producer]), max(self._port(producer, output), 0))
        return out

    def _port(self, producer: int | None, output: str) -> int:
        """Which output an id means; -1 if the number cannot give the id back."""
        if producer is None:
            return -1
        known = self.output_ids.get(producer)
        if known is not None:
            return known.get(output, -1)
        return int(output) if _NUMBER.fullmatch(output) and int(output) <= MAX_ID else -1
