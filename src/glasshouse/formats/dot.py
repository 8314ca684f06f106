"""How a recording becomes Graphviz DOT: groups as clusters, one digraph for each graph."""

from __future__ import annotations

from collections.abc import Iterator

from glasshouse.record import GraphView, Recording
from glasshouse.record.schema import NEVER

FILL = {
    "matmul": "#cfe0f7", "conv": "#cfe0f7", "norm": "#d3ead3", "elementwise": "#efe6d2",
    "shape": "#e4e4e4", "reduction": "#e3d8ef", "move": "#cfe9e7", "quant": "#f3d7de",
    "source": "#ffffff", "opaque": "#f4f4f4",
}  # fmt: skip
"""Pale forms of the viewer's families, so that an exported drawing reads like the viewer."""


def write(recording: Recording) -> bytes:
    """The last stage of every graph."""
    lines = [line for view in recording.graphs for line in _graph(view)]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def lost(recording: Recording) -> list[str]:
    """What DOT cannot hold."""
    out = ["attributes", "source lines"]
    if any(len(g.info.stages) > 1 for g in recording.graphs):
        out.append("stages before the last")
    return out


def _graph(view: GraphView) -> Iterator[str]:
    yield f"digraph {_quote(view.name)} {{"
    yield '  node [shape=box, style="rounded,filled", fontname="sans-serif", fontsize=11];'
    yield "  edge [arrowsize=0.6];"
    nodes = view.stage(-1).nodes
    ids, ops = nodes.array("id").tolist(), nodes.pylist("op")
    names, kinds, types = nodes.pylist("name"), nodes.pylist("kind"), nodes.pylist("outputs")
    grouping = main_grouping(view)
    inside: dict[int, list[str]] = {}
    innermost = innermost_groups(view, grouping)
    for row, id in enumerate(ids):
        label = ops[row] or names[row] or str(id)
        if names[row] and names[row] != label:
            label += f"\n{names[row]}"
        if types[row] and types[row][0]:
            label += f"\n{types[row][0]}"
        fill = FILL.get(kinds[row], FILL["opaque"])
        text = f'n{id} [label={_quote(label)}, fillcolor="{fill}"];'
        inside.setdefault(innermost[row], []).append(text)
    yield from _clusters(view, grouping, inside)
    known = set(ids)
    producers, ports = nodes.pylist("input_nodes"), nodes.pylist("input_ports")
    for row, id in enumerate(ids):
        for producer, port in zip(producers[row], ports[row], strict=True):
            if producer in known:
                tail = f' [taillabel="{port}"]' if port else ""
                yield f"  n{producer} -> n{id}{tail};"
    yield "}"


def _clusters(view: GraphView, grouping: str, inside: dict[int, list[str]]) -> Iterator[str]:
    groups = list(view.groups)
    children: dict[int, list[int]] = {}
    for row, group in enumerate(groups):
        if group.grouping == grouping:
            children.setdefault(group.parent, []).append(row)
    for text in inside.get(NEVER, ()):
        yield f"  {text}"
    # Walked with a stack; ~row marks where a cluster ends.
    stack = list(reversed(children.get(NEVER, [])))
    depth = 1
    while stack:
        row = stack.pop()
        if row < 0:
            depth -= 1
            yield "  " * depth + "}"
            continue
        yield "  " * depth + f"subgraph cluster_{row} {{"
        depth += 1
        title = groups[row].name + (f" ({groups[row].cls})" if groups[row].cls else "")
        yield "  " * depth + f'label={_quote(title)}; color="#999999"; fontname="sans-serif";'
        for text in inside.get(row, ()):
            yield "  " * depth + text
        stack.append(~row)
        stack += reversed(children.get(row, []))


def main_grouping(view: GraphView) -> str:
    """The grouping by which a drawing is grouped: modules, or the first there is."""
    names = list(dict.fromkeys(view.groups.pylist("grouping")))
    return "module" if "module" in names or not names else names[0]


def innermost_groups(view: GraphView, grouping: str) -> list[int]:
    """The group of each node of the last stage in one grouping; NEVER for none."""
    groupings = view.groups.pylist("grouping")
    return [
        next((g for g in groups if groupings[g] == grouping), NEVER)
        for groups in view.stage(-1).nodes.pylist("groups")
    ]


def _quote(text: str) -> str:
    clean = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "").replace("\0", "")
    return '"' + clean.replace("\n", "\\n") + '"'
