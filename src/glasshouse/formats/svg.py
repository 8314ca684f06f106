"""How a recording is drawn as one SVG: layers from top to bottom, edges as curves.

A plain drawing for documents, of the last stage of the first graph: rank by longest path, two
sweeps that put each node near what it reads, a fixed grid. The viewer's own layout is far better
and exports SVG too; this one needs no browser.
"""

from __future__ import annotations

from collections import deque
from html import escape

from glasshouse.formats.dot import FILL
from glasshouse.record import Recording

WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 168, 44, 24, 40, 24
MAX_NODES = 20_000


def write(recording: Recording) -> bytes:
    """The drawing; more than 20,000 nodes are cut, and it says so."""
    if not recording.graphs:
        return _document(1, 1, []).encode()
    nodes = recording.graphs[0].stage(-1).nodes
    count = min(nodes.rows, MAX_NODES)
    ids = nodes.array("id").tolist()[:count]
    row_of = {id: row for row, id in enumerate(ids)}
    producers = nodes.pylist("input_nodes")[:count]
    reads = [[row_of[p] for p in mine if p in row_of] for mine in producers]
    place = _places(reads)
    parts: list[str] = []
    for row, mine in enumerate(reads):
        parts += [_edge(place[producer], place[row]) for producer in dict.fromkeys(mine)]
    ops, names = nodes.pylist("op"), nodes.pylist("name")
    kinds, types = nodes.pylist("kind"), nodes.pylist("outputs")
    for row in range(count):
        second = types[row][0] if types[row] and types[row][0] else names[row]
        title = ops[row] or names[row] or str(ids[row])
        parts.append(_node(place[row], title, second, FILL.get(kinds[row], FILL["opaque"])))
    columns = max((x for x, _ in place), default=0) + 1
    ranks = max((y for _, y in place), default=0) + 1
    if count < nodes.rows:
        note = f"the first {count} of {nodes.rows} nodes"
        parts.append(f'<text x="{MARGIN}" y="16" class="t">{note}</text>')
    width = 2 * MARGIN + columns * (WIDTH + GAP_X) - GAP_X
    height = 2 * MARGIN + ranks * (HEIGHT + GAP_Y) - GAP_Y
    return _document(width, height, parts).encode("utf-8", "replace")


def lost(recording: Recording) -> list[str]:
    """What a drawing cannot hold."""
    out = ["attributes", "groups", "source lines"]
    if any(len(g.info.stages) > 1 for g in recording.graphs):
        out.append("stages before the last")
    return [*out, "graphs after the first"] if len(recording.graphs) > 1 else out


def _places(reads: list[list[int]]) -> list[tuple[int, int]]:
    """Column and rank of each node."""
    rank = _ranks(reads)
    layers: list[list[int]] = [[] for _ in range(max(rank, default=0) + 1)]
    for row in range(len(reads)):
        layers[rank[row]].append(row)
    column = [0.0] * len(reads)
    for sweep in range(2):
        for layer in layers:
            if sweep:
                # Where its producers stand on average; a node without any keeps its place.
                wish = {
                    r: sum(column[p] for p in reads[r]) / len(reads[r]) if reads[r] else column[r]
                    for r in layer
                }
                layer.sort(key=wish.__getitem__)
            for x, row in enumerate(layer):
                column[row] = float(x)
    widest = max((len(layer) for layer in layers), default=0)
    out = [(0, 0)] * len(reads)
    for y, layer in enumerate(layers):
        shift = (widest - len(layer)) // 2
        for x, row in enumerate(layer):
            out[row] = (x + shift, y)
    return out


def _ranks(reads: list[list[int]]) -> list[int]:
    """The longest path to each node; what lies on a cycle follows those that do not."""
    readers: list[list[int]] = [[] for _ in reads]
    missing = [0] * len(reads)
    for row, mine in enumerate(reads):
        missing[row] = len(mine)
        for producer in mine:
            readers[producer].append(row)
    rank = [0] * len(reads)
    ready = deque(row for row, left in enumerate(missing) if not left)
    while ready:
        row = ready.popleft()
        for reader in readers[row]:
            rank[reader] = max(rank[reader], rank[row] + 1)
            missing[reader] -= 1
            if not missing[reader]:
                ready.append(reader)
    return rank


def _corner(place: tuple[int, int]) -> tuple[int, int]:
    return MARGIN + place[0] * (WIDTH + GAP_X), MARGIN + place[1] * (HEIGHT + GAP_Y)


def _edge(start: tuple[int, int], end: tuple[int, int]) -> str:
    x1, y1 = _corner(start)
    x2, y2 = _corner(end)
    x1, y1, x2 = x1 + WIDTH // 2, y1 + HEIGHT, x2 + WIDTH // 2
    half = max((y2 - y1) // 2, GAP_Y // 2)
    return f'<path d="M{x1} {y1}C{x1} {y1 + half} {x2} {y2 - half} {x2} {y2}" class="e"/>'


def _node(place: tuple[int, int], title: str, second: str, fill: str) -> str:
    x, y = _corner(place)
    lines = f'<text x="{x + 10}" y="{y + 19}" class="t">{_cut(title)}</text>'
    if second:
        lines += f'<text x="{x + 10}" y="{y + 35}" class="s">{_cut(second)}</text>'
    box = f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{fill}"/>'
    return f"<g><title>{escape(title)}</title>{box}{lines}</g>"


def _cut(text: str) -> str:
    text = "".join(c if c.isprintable() else " " for c in text)
    return escape(text if len(text) <= 24 else text[:23] + "…")


def _document(width: int, height: int, parts: list[str]) -> str:
    style = (
        "rect{stroke:#999}.e{fill:none;stroke:#777;stroke-width:1.25}"
        ".t{font:12px sans-serif;fill:#1d1f23}.s{font:11px monospace;fill:#555}"
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><style>{style}</style>'
        f'<rect width="{width}" height="{height}" fill="#fafaf8" style="stroke:none"/>'
    )
    return "\n".join([head, *parts, "</svg>\n"])
