"""How nodes become kernels: planned groups turn into fused nodes, their graph inside."""

from __future__ import annotations

from dataclasses import dataclass, field

from glasshouse.backend.base import target_named
from glasshouse.ir.extract import extract
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import REGISTRY
from glasshouse.ir.rewriter import Rewriter
from glasshouse.ir.sources import CONSTANT
from glasshouse.lower.target import Target
from glasshouse.ops.cost import nbytes
from glasshouse.passes.base import Pass, register_pass
from glasshouse.passes.fuse_operator.group import FusionGroup
from glasshouse.passes.fuse_operator.planner import FusionLimits, Planner
from glasshouse.passes.fuse_operator.reasons import Notes
from glasshouse.passes.fuse_operator.roles import anchor_of, is_mover

__all__ = ["FuseOperator", "anchor_of"]


@register_pass()
@dataclass(frozen=True)
class FuseOperator(Pass):
    """Merge producers and consumers into one kernel around an anchor, or into one loop nest."""

    max_inputs: int = 16
    max_ops: int = 128
    early_outputs: bool = True  # a kernel may also write values on the way to its result
    copies: bool = True  # compute again in several kernels what is cheaper than memory
    target: Target = field(default_factory=lambda: target_named("cpu"))

    def run(self, graph: Graph, rw: Rewriter) -> None:
        limits = FusionLimits(self.max_inputs, self.max_ops, self.early_outputs, self.copies)
        notes = Notes(bool(rw.listeners))
        planner = Planner(graph, limits, self.target, notes)
        groups = planner.plan()
        if rw.listeners:
            notes.report(graph, rw, planner.holders)
        for group in sorted(groups, key=lambda g: planner.position[g.root]):
            _build(group, planner, rw)


def _build(group: FusionGroup, planner: Planner, rw: Rewriter) -> None:
    graph = rw.graph
    outputs = group.outputs(graph)
    inside = group.ordered(outputs, planner.position)
    made = {v for n in inside for v in n.outputs}
    operands = list(dict.fromkeys(v for n in inside for v in n.inputs if v not in made))
    ops = [n for n in inside if n.op is not CONSTANT]
    if len(ops) < 2:
        return
    body = extract(graph, inside, operands, outputs)
    anchor = group.anchor or group.root
    attrs = {
        "fusion": " ".join(n.op.label for n in ops),
        "label": f"Fused{anchor.op.label}*",
        "body": body,
    }
    rw.replace(
        outputs,
        lambda: [rw.expr(v) for v in _emit(rw, operands, attrs).outputs],
        rule="fuse",
        why=_why(group, ops, outputs),
        matched=ops,
    )


def _emit(rw: Rewriter, operands: list[Value], attrs: dict[str, object]) -> Node:
    node: Node = REGISTRY["fused"].emit(rw, operands, attrs)
    return node


def _why(group: FusionGroup, ops: list[Node], outputs: list[Value]) -> str:
    written = set(outputs)
    computed = [n for n in ops if not is_mover(n)]
    kept = sum(2 * nbytes(n.output) for n in computed if n.output not in written)
    around = f"around {group.anchor.op.label}" if group.anchor else "in one loop nest"
    copies = sum(1 for n in ops if n in group.copies)
    copied = f", {copies} of them copied" if copies else ""
    return f"{len(ops)} ops {around}{copied}: {kept / 1024:.0f} KB never reach memory"
