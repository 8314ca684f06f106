"""How a recording becomes Model Explorer graph JSON: a graph for each stage.

The grouping `module` (or the first there is) becomes the namespace; other groupings, names, source
lines and origins travel as attributes under `gh.`, see `own`. What was read from Model Explorer
and has no column is put back where it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from glasshouse.formats.kinds import kind_of
from glasshouse.formats.model_explorer import namespace, own
from glasshouse.formats.model_explorer.node import PORT_KEY, SHAPE, TAG, TENSOR
from glasshouse.formats.model_explorer.read import GENERATOR
from glasshouse.record import GraphView, Recording, StageView
from glasshouse.record.schema import NEVER

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def write(recording: Recording) -> bytes:
    """The whole recording as `{label, graphs}`."""
    return b"".join(pieces(recording))


def lost(recording: Recording) -> list[str]:
    """What the recording says and graph JSON cannot hold."""
    tables = {name.partition("/")[2] for name in recording.table_names()}
    names = ("kernels", "candidates", "times", "errors", "summaries", "data", "rewrites", "rejects")
    return [name for name in names if name in tables]


def pieces(recording: Recording) -> Iterator[bytes]:
    """The JSON in pieces, so that it never stands in memory twice."""
    label = recording.header.facts.get("label", recording.header.title)
    yield f'{{"label":{_encode(label)},"graphs":['.encode()
    kept = _kept(recording)
    ids = graph_ids(recording)
    comma = ""
    for graph in recording.graphs:
        for stage in range(len(graph.info.stages)):
            yield comma.encode()
            yield from _StageWriter(graph.stage(stage), ids, kept.get(graph.index)).pieces()
            comma = ","
    yield b"]}"


def graph_ids(recording: Recording) -> list[list[str]]:
    """The id that each stage of each graph gets."""
    out: list[list[str]] = []
    taken: set[str] = set()
    for graph in recording.graphs:
        several = len(graph.info.stages) > 1
        mine = []
        for i, stage in enumerate(graph.info.stages):
            plain = f"{graph.name} @ {i} {stage.name}" if several else graph.name
            name, copy = plain, 2
            while name in taken and recording.header.generator != GENERATOR:
                name, copy = f"{plain} ({copy})", copy + 1
            taken.add(name)
            mine.append(name)
        out.append(mine)
    return out


def node_names(stage: StageView) -> list[str]:
    """The string id of each node of a stage: names if they can be ids, else the numbers."""
    names: list[str] = stage.nodes.pylist("name")
    if any(names) and stage.graph.recording.header.generator == GENERATOR:
        return names
    if names and all(names) and len(set(names)) == len(names):
        return names
    return [str(i) for i in stage.nodes.array("id").tolist()]


def _kept(recording: Recording) -> dict[int, dict[str, Any]]:
    out = {}
    for style in recording.styles:
        if style.kind == own.STYLE_KIND:
            value = json.loads(style.json)
            out[value["graph"]] = value
    return out


class _StageWriter:
    def __init__(
        self, stage: StageView, graph_ids: list[list[str]], kept: dict[str, Any] | None
    ) -> None:
        self.stage = stage
        self.graph = stage.graph
        self.graph_ids = graph_ids
        self.kept = kept or {}
        self.extra: dict[str, dict[str, Any]] = self.kept.get("nodes", {})
        self.from_here = stage.graph.recording.header.generator == GENERATOR and not any(
            own.GRAPH in g.attrs for g in stage.graph.recording.header.graphs
        )
        self.nodes = stage.nodes
        self.ids: list[int] = self.nodes.array("id").tolist()
        self.names = node_names(stage)
        if self.from_here and self.kept and "" not in self.names and not any(self.names):
            self.names = [""] * len(self.ids)
        self.by_id = dict(zip(self.ids, self.names, strict=True))
        self.output_ids = {
            self.ids[int(row)]: extra["outputIds"]
            for row, extra in self.extra.items()
            if "outputIds" in extra
        }
        self.paths, self.groupings = _group_paths(self.graph)
        self.main = "module" if "module" in self.groupings else (self.groupings or ["module"])[0]
        self.numbered = self.names == [str(i) for i in self.ids]
        self.in_order = self.ids == list(range(len(self.ids)))

    def pieces(self) -> Iterator[bytes]:
        name = self.graph_ids[self.graph.index][self.stage.index]
        yield f'{{"id":{_encode(name)},"nodes":['.encode()
        columns = {c: self.nodes.pylist(c) for c in self.nodes.columns}
        comma = ""
        block: list[str] = []
        for row in range(self.nodes.rows):
            block.append(comma + _encode(self._node(row, columns)))
            comma = ","
            if len(block) == 1000:
                yield "".join(block).encode("utf-8", "replace")
                block = []
        yield "".join(block).encode("utf-8", "replace")
        yield b"]"
        attributes = self._group_attributes()
        rest = dict(self.kept.get("fields", {}))
        attributes |= rest.pop("groupNodeAttributes", {})
        if attributes:
            rest["groupNodeAttributes"] = attributes
        for key, value in rest.items():
            yield f",{_encode(key)}:{_encode(value)}".encode("utf-8", "replace")
        yield b"}"

    # ---------------------------------------------------------------------------- a node
    def _node(self, row: int, columns: dict[str, list[Any]]) -> dict[str, Any]:
        extra = self.extra.get(str(row), {})
        plain_keys = set(extra.get("plain", ()))
        attrs: list[dict[str, Any]] = []
        ports: dict[tuple[str, int], list[dict[str, str]]] = {}
        odd = extra.get("attrs", {})
        pairs = zip(columns["attr_keys"][row], columns["attr_values"][row], strict=True)
        for place, (key, value) in enumerate(pairs):
            found = PORT_KEY.fullmatch(key)
            if found and key not in plain_keys and int(found[2]) < 100_000:
                side = ports.setdefault((found[1], int(found[2])), [])
                side.append({"key": found[3], "value": value})
            else:
                attrs.append({"key": key, "value": odd.get(str(place), value)})
        attrs += self._own(row, columns)
        main = [g for g in columns["groups"][row] if self.paths[g][0] == self.main]
        out: dict[str, Any] = {
            "id": self.names[row],
            "label": columns["op"][row],
            "namespace": extra.get("namespace", self.paths[main[0]][1] if main else ""),
        }
        subgraphs = [self.graph_ids[b][-1] for b in columns["bodies"][row]]
        if subgraphs or "subgraphIds" in extra:
            out["subgraphIds"] = extra.get("subgraphIds", subgraphs)
        if attrs:
            out["attrs"] = attrs
        edges = self._edges(row, columns, extra)
        if edges:
            out["incomingEdges"] = edges
        inputs = _metadata("input", ports, {TAG: columns["input_names"][row]}, None)
        if inputs or "inputsMetadata" in extra:
            out["inputsMetadata"] = extra.get("inputsMetadata", inputs)
        described = {SHAPE: columns["outputs"][row], TENSOR: columns["output_names"][row]}
        outputs = _metadata("output", ports, described, extra.get("outputIds"))
        if outputs:
            out["outputsMetadata"] = outputs
        kept = ("attrs", "plain", "namespace", "subgraphIds", "incomingEdges", "outputIds")
        return out | {k: v for k, v in extra.items() if k not in kept}

    def _edges(
        self, row: int, columns: dict[str, list[Any]], extra: dict[str, Any]
    ) -> list[dict[str, str]]:
        if "incomingEdges" in extra:
            triples = extra["incomingEdges"]
        else:
            triples = []
            producers, ports = columns["input_nodes"][row], columns["input_ports"][row]
            for operand, (producer, port) in enumerate(zip(producers, ports, strict=True)):
                if producer == NEVER:
                    continue
                known = self.output_ids.get(producer)
                output = known[port] if known and port < len(known) else str(port)
                triples.append((self.by_id.get(producer, str(producer)), output, str(operand)))
        return [
            {"sourceNodeId": s, "sourceNodeOutputId": o, "targetNodeInputId": t}
            for s, o, t in triples
        ]

    def _own(self, row: int, columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
        said: list[tuple[str, Any]] = []
        name, op = columns["name"][row], columns["op"][row]
        if self.numbered and name:
            said.append((own.NAME, name))
        if not self.numbered and not self.in_order:
            said.append((own.ID, str(self.ids[row])))
        if columns["kind"][row] != kind_of(op):
            said.append((own.KIND, columns["kind"][row]))
        if columns["file"][row]:
            said.append((own.SOURCE, f"{columns['file'][row]}:{columns['line'][row]}"))
        if columns["frames"][row]:
            said.append((own.FRAMES, "\n".join(columns["frames"][row])))
        if NEVER in columns["input_nodes"][row] and not self.from_here:
            said.append((own.OPERANDS, str(len(columns["input_nodes"][row]))))
        for key, column in ((own.PASS, "pass_name"), (own.RULE, "rule")):
            if columns[column][row]:
                said.append((key, columns[column][row]))
        if columns["replaces"][row]:
            said.append((own.REPLACES, self._links(columns["replaces"][row])))
        if columns["grad_of"][row] != NEVER:
            said.append((own.GRAD_OF, self._links([columns["grad_of"][row]])))
        for group in columns["groups"][row]:
            grouping, path = self.paths[group]
            if grouping != self.main:
                said.append((own.GROUP + grouping, path))
        return [{"key": k, "value": v} for k, v in said]

    def _links(self, ids: list[int]) -> dict[str, Any]:
        return {"type": "node_ids", "nodeIds": [self.by_id.get(i, str(i)) for i in ids]}

    # ---------------------------------------------------------------------------- the graph
    def _group_attributes(self) -> dict[str, dict[str, str]]:
        out: dict[str, dict[str, str]] = {}
        graph = dict(self.graph.info.attrs) | ({} if self.from_here else self._graph_facts())
        if graph:
            out[""] = graph
        used = self._used_groups()
        for row, group in enumerate(self.graph.groups):
            if group.grouping != self.main or row not in used:
                continue
            attrs = dict(zip(group.attr_keys, group.attr_values, strict=True))
            if group.cls:
                attrs[own.CLASS] = group.cls
            if group.file:
                attrs[own.SOURCE] = f"{group.file}:{group.line}"
            if attrs:
                out[self.paths[row][1]] = attrs
        return out

    def _used_groups(self) -> set[int]:
        """Groups that hold a node of this stage; all of them for a file that came from here."""
        if self.from_here:
            return set(range(self.graph.groups.rows))
        parents = self.graph.groups.array("parent").tolist()
        used: set[int] = set()
        for group in set(self.nodes["groups"].values.tolist()):
            while group != NEVER and group not in used:
                used.add(group)
                group = parents[group]
        return used

    def _graph_facts(self) -> dict[str, str]:
        stage = self.stage.info
        outputs = zip(stage.output_nodes, stage.output_ports, strict=True)
        facts = {
            own.GRAPH: str(self.graph.index),
            "gh.graph_name": self.graph.name,
            own.STAGE: str(self.stage.index),
            own.STAGE_NAME: stage.name,
            own.STAGE_PASS: stage.pass_name,
            own.STAGE_DOC: stage.doc,
            own.SECONDS: str(stage.seconds) if stage.seconds else "",
            own.GROUPING: self.main if self.main != "module" else "",
            own.PARENT: str(self.graph.info.parent) if self.graph.info.parent != NEVER else "",
            own.INPUTS: " ".join(f"{n}:0" for n in stage.inputs),
            own.OUTPUTS: " ".join(f"{n}:{p}" for n, p in outputs),
        }
        return {k: v for k, v in facts.items() if v}


def _group_paths(graph: GraphView) -> tuple[list[tuple[str, str]], list[str]]:
    """Grouping and namespace of each group, and the groupings in order."""
    names, parents = graph.groups.pylist("name"), graph.groups.pylist("parent")
    groupings = graph.groups.pylist("grouping")
    paths: list[tuple[str, str]] = []
    for name, parent, grouping in zip(names, parents, groupings, strict=True):
        own_name = namespace.join([name])
        above = f"{paths[parent][1]}/" if parent != NEVER else ""
        paths.append((grouping, above + own_name))
    return paths, list(dict.fromkeys(groupings))


def _metadata(
    side: str,
    ports: dict[tuple[str, int], list[dict[str, str]]],
    described: dict[str, list[str]],
    ids: list[str] | None,
) -> list[dict[str, Any]]:
    count = max([len(v) for v in described.values()] + [i + 1 for s, i in ports if s == side])
    out = []
    for i in range(count):
        attrs = [
            {"key": key, "value": values[i]}
            for key, values in described.items()
            if i < len(values) and values[i]
        ]
        attrs += ports.get((side, i), [])
        out.append({"id": ids[i] if ids and i < len(ids) else str(i), "attrs": attrs})
    return out
