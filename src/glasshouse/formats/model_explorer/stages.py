"""How graphs that are stages of one graph become one graph again, and graph-level facts.

Our writer puts each stage into a graph of its own and says so in the graph's attributes. A file
from elsewhere has no such attributes and passes through unchanged.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from glasshouse.formats.model_explorer import own
from glasshouse.record import GraphView, Recording, RecordingBuilder
from glasshouse.record.budget import unlimited
from glasshouse.record.schema import NEVER, GroupRow, NodeRow


def merge_stages(recording: Recording) -> Recording:
    """The same recording with marked graphs merged; itself if none is marked."""
    if not any(own.GRAPH in g.info.attrs for g in recording.graphs):
        return recording
    head = recording.header
    made = RecordingBuilder(head.title, head.generator, unlimited(recording.where))
    made.facts.update(head.facts)
    # The mark is the index of the graph in the recording that was written.
    order: dict[str, list[GraphView]] = {}
    for graph in recording.graphs:
        order.setdefault(graph.info.attrs.get(own.GRAPH, f"other {graph.index}"), []).append(graph)
    index_of = {view.index: place for place, views in enumerate(order.values()) for view in views}
    for views in order.values():
        _merge(made, sorted(views, key=_stage_number), index_of)
    if all(len(views) == 1 for views in order.values()):
        for style in recording.styles:
            made.add(style)
    return made.finish()


def _stage_number(view: GraphView) -> int:
    text = view.info.attrs.get(own.STAGE, "0")
    return int(text) if re.fullmatch(r"\d{1,6}", text) else 0


def _merge(made: RecordingBuilder, views: list[GraphView], index_of: dict[int, int]) -> None:
    first = views[0].info
    parent = first.attrs.get(own.PARENT, "")
    target = made.graph(
        first.attrs.get("gh.graph_name", first.name),
        int(parent) if re.fullmatch(r"\d{1,6}", parent) else NEVER,
        {k: v for k, v in first.attrs.items() if not k.startswith(own.PREFIX)},
    )
    grouping = first.attrs.get(own.GROUPING, "module")
    groups: dict[tuple[Any, ...], int] = {}
    alive: dict[int, NodeRow] = {}
    for view in views:
        attrs = view.info.attrs
        seconds = attrs.get(own.SECONDS, "")
        stage = target.stage(
            attrs.get(own.STAGE_NAME, view.name),
            pass_name=attrs.get(own.STAGE_PASS, ""),
            doc=attrs.get(own.STAGE_DOC, ""),
            seconds=float(seconds) if re.fullmatch(r"[\d.e+-]{1,30}", seconds) else 0.0,
            inputs=[n for n, _ in _values(attrs.get(own.INPUTS, ""))],
            outputs=_values(attrs.get(own.OUTPUTS, "")),
        )
        rows = _group_rows(target, view, grouping, groups)
        now: dict[int, NodeRow] = {}
        for node in view.stage(-1).nodes:
            node = dataclasses.replace(
                node,
                born=0,
                died=0,
                groups=[rows[g] for g in node.groups],
                bodies=[index_of[b] for b in node.bodies],
            )
            now[node.id] = node
            if alive.get(node.id) != node:
                target.add_node(dataclasses.replace(node, born=stage, died=NEVER))
        for id in alive.keys() - now.keys():
            target.end(id, stage)
        alive = now


def _group_rows(
    target: Any, view: GraphView, grouping: str, known: dict[tuple[Any, ...], int]
) -> list[int]:
    """The row in `target` of each group of `view`, by path; equal paths share one group."""
    rows: list[int] = []
    table: list[GroupRow] = list(view.groups)
    for group in table:
        name = grouping if group.grouping == "module" else group.grouping
        key = (name, rows[group.parent] if group.parent != NEVER else NEVER, group.name)
        if key not in known:
            attrs = dict(zip(group.attr_keys, group.attr_values, strict=True))
            place = re.fullmatch(r"(.*):(\d{1,9})", attrs.pop(own.SOURCE, ""), re.DOTALL)
            known[key] = target.group(
                name,
                group.name,
                rows[group.parent] if group.parent != NEVER else NEVER,
                cls=attrs.pop(own.CLASS, ""),
                file=place[1] if place else "",
                line=int(place[2]) if place else 0,
                attrs=attrs,
            )
        rows.append(known[key])
    return rows


def _values(text: str) -> list[tuple[int, int]]:
    """ "3:0 5:1" as pairs."""
    return [(int(a), int(b)) for a, b in re.findall(r"(\d{1,9}):(\d{1,9})", text)]
