"""Decides how an op is computed where there are several ways: by estimate, until one can measure.

A choice that differs from the usual way is written as labels of the node's origin: `variant`, and
`layout` for convolutions. Lowering reads them, and may choose otherwise once it has measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil

from glasshouse.backend.base import target_named
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.rewriter import Rewriter
from glasshouse.lower.target import Target
from glasshouse.ops.cost import bytes_read, bytes_written, elements, operations, typical
from glasshouse.passes.base import Pass, register_pass

_TILE = 64
"""Rows and columns of a block of the result that one core computes."""


@dataclass(frozen=True)
class Candidate:
    """One way to compute a node, with its estimated seconds; the usual way stands first."""

    name: str
    seconds: float
    labels: dict[str, str] = field(default_factory=dict)


@register_pass()
@dataclass(frozen=True)
class ResolveVariant(Pass):
    """Choose how each matmul, convolution and attention is computed."""

    target: Target = field(default_factory=lambda: target_named("cpu"))

    def run(self, graph: Graph, rw: Rewriter) -> None:
        for node in graph.nodes:
            makers = _CANDIDATES.get(node.op.name)
            if makers is None or node.origin.label("variant"):
                continue
            candidates = makers(node, self.target)
            if len(candidates) > 1:
                _choose(node, candidates, rw)


def _choose(node: Node, candidates: list[Candidate], rw: Rewriter) -> None:
    usual = candidates[0]
    best = min(candidates, key=lambda c: c.seconds)
    text = ", ".join(f"{c.name} {c.seconds * 1e6:.3g} us" for c in candidates)
    if best is usual:
        if rw.listeners:
            numbers = {c.name: c.seconds for c in candidates}
            rw.reject(
                [node], rule="choose-variant", why=f"the usual way is best: {text}", **numbers
            )
        return
    rw.replace(
        node,
        lambda: [rw.expr(v) for v in node.op.emit(rw, node.inputs, node.attrs).outputs],
        rule="choose-variant",
        why=f"{best.name} by estimate: {text}",
        labels={"variant": best.name, **best.labels},
    )


def _matmul(node: Node, target: Target) -> list[Candidate]:
    """Whole, or the sum over the depth cut into parts when the result has too few blocks."""
    x, y = (v.type.shape for v in node.inputs)
    if len(x) < 2 or len(y) < 2:
        return []
    rows = typical(x[-1] if node.attrs["transpose_x"] else x[-2])
    depth = typical(x[-2] if node.attrs["transpose_x"] else x[-1])
    columns = typical(y[-2] if node.attrs["transpose_y"] else y[-1])
    batch = max(elements(node.outputs[0]) // max(rows * columns, 1), 1)
    work, moved = operations(node), float(bytes_read(node) + bytes_written(node))
    blocks = batch * ceil(rows / _TILE) * ceil(columns / _TILE)
    out = [Candidate("whole", target.seconds(work, moved, _busy(blocks, target)))]
    parts = min(target.cores // max(blocks, 1), depth // 256, 8)
    if parts > 1:
        extra = 2.0 * parts * bytes_written(node)
        seconds = target.seconds(work, moved + extra, _busy(blocks * parts, target))
        out.append(Candidate("split_k", seconds + target.launch, {"parts": str(parts)}))
    if rows == 1 and batch == 1:
        # One row: no blocking, no packing; the weights stream through once.
        out.append(Candidate("vector", target.seconds(work, moved, 0.5)))
    return out


def _busy(blocks: int, target: Target) -> float:
    """Share of the cores that have a block in every wave."""
    return blocks / (ceil(blocks / target.cores) * target.cores) if blocks else 1.0


def _conv(node: Node, target: Target) -> list[Candidate]:
    """Directly; as a product of matrices over windows; as a plain one when the window is 1 by 1."""
    weight = node.inputs[1].type.shape
    groups = node.attrs["groups"]
    inner = 1
    for size in weight[1:]:
        inner *= typical(size)
    work, moved = operations(node), float(bytes_read(node) + bytes_written(node))
    windows = 1
    for size in weight[2:]:
        windows *= typical(size)
    # Vectors run along the innermost axis: columns of the image, or channels when they are last.
    width = typical(node.output.type.shape[-1])
    direct = Candidate("direct", target.seconds(work, moved, min(1.0, width / 32) * 0.5))
    out = [direct]
    if groups != 1 and weight[1] == 1:
        out.append(
            Candidate("depthwise", target.seconds(work, moved, 0.6), {"layout": "channels_last"})
        )
        return out
    plain = all(s == 1 for s in node.attrs["stride"]) and not any(node.attrs["padding"])
    if windows == 1 and plain:
        out.append(Candidate("pointwise", target.seconds(work, moved, 0.9)))
        return out
    deep = min(1.0, inner / 64)
    layout = {"layout": "channels_last"}
    out.append(Candidate("implicit_matmul", target.seconds(work, moved, 0.8 * deep), layout))
    return out


def _attention(node: Node, target: Target) -> list[Candidate]:
    """Block by block without storing scores, or with all scores in memory."""
    q, k = node.inputs[0].type.shape, node.inputs[1].type.shape
    rows = elements(node.inputs[0]) // max(typical(q[-1]), 1)
    scores = rows * typical(k[-2]) * 4.0
    work, moved = operations(node), float(bytes_read(node) + bytes_written(node))
    blocked = Candidate("blocked", target.seconds(work * 1.05, moved, 0.7))
    stored = Candidate("stored", target.seconds(work, moved + 4 * scores, 0.8) + 2 * target.launch)
    return [blocked, stored]


_CANDIDATES: dict[str, Callable[[Node, Target], list[Candidate]]] = {
    "matmul": _matmul,
    "conv": _conv,
    "attention": _attention,
}
