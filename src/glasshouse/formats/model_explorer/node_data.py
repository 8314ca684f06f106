"""How Model Explorer's node data travels: overlays by node as `data` rows of a graph.

A value that is a number colours a node; any other value is a label. Colours by threshold or
gradient belong to the whole overlay and are kept as a style row of kind `node_data`.
"""

from __future__ import annotations

import json
import math
from typing import Any

from glasshouse.formats.json_stream import read_json
from glasshouse.formats.model_explorer.node import text
from glasshouse.formats.model_explorer.write import graph_ids, node_names
from glasshouse.formats.source import SourceFile
from glasshouse.record import GraphView, GraphWriter, Recording, RecordingBuilder
from glasshouse.record.schema import DataRow, ErrorRow, TimeRow

GENERATOR = "model explorer node data"
STYLE_KIND = "node_data"


def parse(source: SourceFile) -> dict[str, dict[str, Any]]:
    """Overlays by graph id, checked; a file without an outer graph id has one for any graph."""
    value = read_json(source)
    if not isinstance(value, dict):
        raise source.error("node data must be a JSON object")
    if isinstance(value.get("results"), dict):
        value = {"": value}
    out = {
        k: v for k, v in value.items() if isinstance(v, dict) and isinstance(v.get("results"), dict)
    }
    if not out:
        raise source.error("JSON, but without results of node data")
    return out


def read(source: SourceFile) -> Recording:
    """Node data alone: a graph of bare nodes, one for each key."""
    made = RecordingBuilder(source.stem, GENERATOR, source.budget)
    for graph_id, overlay in parse(source).items():
        graph = made.graph(graph_id or source.stem)
        rows = {}
        for key in overlay["results"]:
            rows[key] = [graph.node("", name=key)]
        _add(made, graph, overlay, rows, source.stem)
    return made.finish()


def attach(source: SourceFile, recording: Recording, made: RecordingBuilder) -> None:
    """Add overlays to the copy `made` of a recording, matched by graph id and node id."""
    overlays = parse(source)
    ids = graph_ids(recording)
    used = 0
    for graph in recording.graphs:
        for graph_id, overlay in overlays.items():
            if graph_id in ("", graph.name, *ids[graph.index]) or len(overlays) == len(ids) == 1:
                used += 1
                name = source.stem
                _add(made, made.graphs[graph.index], overlay, _keys(graph), name)
    if not used:
        known = ", ".join(sorted({i for names in ids for i in names})[:5])
        raise source.error(f"node data for {', '.join(overlays)[:200]}; the graphs are {known}")


def _keys(graph: GraphView) -> dict[str, list[int]]:
    """Node ids by what node data may call them: id, name, number, or name of an output."""
    out: dict[str, list[int]] = {}
    for stage in range(len(graph.info.stages)):
        view = graph.stage(stage)
        ids = view.nodes.array("id").tolist()
        for names in (node_names(view), view.nodes.pylist("name"), [str(i) for i in ids]):
            for id, name in zip(ids, names, strict=True):
                out.setdefault(name, [id])
        for id, tensors in zip(ids, view.nodes.pylist("output_names"), strict=True):
            for tensor in tensors:
                out.setdefault(tensor, [id])
    return out


def _add(
    made: RecordingBuilder,
    graph: GraphWriter,
    overlay: dict[str, Any],
    rows: dict[str, list[int]],
    default: str,
) -> None:
    name = text(overlay.get("name")) or default
    for key, result in overlay["results"].items():
        value = result.get("value") if isinstance(result, dict) else result
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        number = _float(value) if is_number else math.nan
        more = result if isinstance(result, dict) else {}
        for node in rows.get(key, ()):
            graph.add(
                DataRow(
                    name,
                    node,
                    number,
                    "" if is_number else text(value),
                    text(more.get("bgColor")),
                    text(more.get("textColor")),
                )
            )
    rest = {
        k: v for k, v in overlay.items() if k not in ("name", "results") and v not in (None, [])
    }
    if rest:
        kept = {"graph": graph.index, "name": name, **rest}
        made.style(STYLE_KIND, json.dumps(kept, separators=(",", ":")))


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


# ------------------------------------------------------------------------------------- writing
def write(recording: Recording) -> bytes:
    """All data of a recording, times and errors too, keyed as our graph JSON names graphs."""
    styles = [json.loads(s.json) for s in recording.styles if s.kind == STYLE_KIND]
    ids = graph_ids(recording)
    out: dict[str, Any] = {}
    for graph in recording.graphs:
        overlays = _overlays(graph)
        several = len(overlays) > 1
        for stage in range(len(graph.info.stages)):
            view = graph.stage(stage)
            names = dict(zip(view.nodes.array("id").tolist(), node_names(view), strict=True))
            for title, results in overlays.items():
                mine = {names[n]: r for n, r in results.items() if n in names}
                if not mine:
                    continue
                entry: dict[str, Any] = {"name": title, "results": mine}
                for style in styles:
                    if style.get("graph") == graph.index and style.get("name") == title:
                        entry |= {k: v for k, v in style.items() if k not in ("graph", "name")}
                key = ids[graph.index][stage]
                # The format has one overlay for each graph; further ones need files of their own.
                if not several or key not in out:
                    out[key] = entry
    return json.dumps(out, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def overlay_names(recording: Recording) -> list[str]:
    """Overlays that `write` leaves out: all but the first of each graph."""
    return [name for graph in recording.graphs for name in list(_overlays(graph))[1:]]


def _overlays(graph: GraphView) -> dict[str, dict[int, dict[str, Any]]]:
    out: dict[str, dict[int, dict[str, Any]]] = {}
    for row in graph.table(DataRow):
        if row.label:
            result: dict[str, Any] = {"value": row.label}
        elif math.isfinite(row.number):
            whole = row.number.is_integer() and abs(row.number) < 2**53
            result = {"value": int(row.number) if whole else row.number}
        else:
            result = {"value": str(row.number)}
        if row.background:
            result["bgColor"] = row.background
        if row.text_color:
            result["textColor"] = row.text_color
        out.setdefault(row.name, {})[row.node] = result
    for time in graph.table(TimeRow):
        if time.node >= 0 and math.isfinite(time.seconds):
            title = f"microseconds ({time.run})" if time.run else "microseconds"
            results = out.setdefault(title, {})
            before = results.get(time.node, {"value": 0.0})["value"]
            results[time.node] = {"value": before + time.seconds * 1e6}
    for error in graph.table(ErrorRow):
        if math.isfinite(error.own):
            out.setdefault("own error", {})[error.node] = {"value": error.own}
    return out
