"""Which nodes share a kernel: epilogues of anchors first, then what is inlined, then loops.

Every node has a position in one topological order. Every node outside a group that reads from it
stands behind the group's last node; so groups cannot wait for each other (0004-passes.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind
from glasshouse.lower.target import Target
from glasshouse.ops.cost import element_operations, elements, nbytes
from glasshouse.passes.fuse_operator.beside import put_beside
from glasshouse.passes.fuse_operator.group import FusionGroup
from glasshouse.passes.fuse_operator.inline import Demands
from glasshouse.passes.fuse_operator.reasons import Notes
from glasshouse.passes.fuse_operator.roles import (
    CHEAP,
    can_inline,
    is_anchor,
    is_elementwise,
    is_mover,
    joins_folded_row,
    partition,
    prologue_refusal,
)
from glasshouse.passes.mark_views import view_offset
from glasshouse.passes.quantized import is_dequantized, is_stored_anyway, widened_by_reader

_MANY_USERS = 8
_LOOK_AHEAD = 16
_MOST_EARLY = 3
_WORTH = 0.75
"""Copying must cost at most this share of what it saves: estimates are rough."""


@dataclass(frozen=True)
class FusionLimits:
    max_inputs: int
    max_ops: int
    early_outputs: bool
    copies: bool


class Planner:
    """Plans all groups of a graph without changing it."""

    def __init__(self, graph: Graph, limits: FusionLimits, target: Target, notes: Notes) -> None:
        self.graph = graph
        self.limits = limits
        self.target = target
        self.notes = notes
        self.order = graph.nodes
        self.position = {node: i for i, node in enumerate(self.order)}
        self.owner: dict[Node, FusionGroup] = {}
        self.holders: dict[Node, list[FusionGroup]] = {}
        self.groups: list[FusionGroup] = []
        self.fan: dict[Node, int] = {}  # of a copied node: how many groups compute it

    def plan(self) -> list[FusionGroup]:
        for node in self.order:
            if is_anchor(node) and self.target.computes(node):
                self._grow_epilogue(self._open(node, node))
        for group in reversed(self.groups[:]):
            self._inline(group)
        for node in reversed(self.order):
            if node not in self.owner and can_inline(node) and self._is_needed(node):
                self._inline(self._open(node, None))
        beside = self.target.nests_beside
        kernels = [g for g in self.groups if g.size > 1 or beside]
        groups = [g for g in kernels if not self._is_only_views(g)]
        if beside:
            limits = self.limits.max_inputs, self.limits.max_ops
            groups = put_beside(groups, self.graph, self.position, self.target, limits)
            self.holders = {}
            for group in groups:
                for node in [*group.nodes, *group.copies]:
                    self.holders.setdefault(node, []).append(group)
        return [g for g in groups if g.size > 1]

    def _is_only_views(self, group: FusionGroup) -> bool:
        """Whether a group computes and moves nothing: its values are views of each other."""
        if any(view_offset(n) is None for n in [*group.nodes, *group.copies]):
            return False
        for node in [*group.nodes, *group.copies]:
            self.holders[node].remove(group)
        return True

    def _open(self, node: Node, anchor: Node | None) -> FusionGroup:
        group = FusionGroup(node, anchor)
        self.groups.append(group)
        self.owner[node] = group
        self.holders.setdefault(node, []).append(group)
        return group

    def _take(self, group: FusionGroup, node: Node, copy: bool = False) -> None:
        group.add(node, copy)
        self.holders.setdefault(node, []).append(group)
        if not copy:
            self.owner[node] = group

    def _is_needed(self, node: Node) -> bool:
        """Whether anything reads a node's value, now that some groups compute it themselves."""
        value = node.output
        if self.graph.is_held(value):
            return True
        for user in value.users:
            # Users stand behind, so they are planned: without a group they are opaque.
            groups = self.holders.get(user)
            if groups is None or any(node not in g for g in groups):
                return True
        return False

    # ------------------------------------------------------------------------------------ epilogues
    def _grow_epilogue(self, group: FusionGroup) -> None:
        while True:
            value = group.root.output
            users = value.users
            if not users:
                return
            consumer = min(users, key=self.position.__getitem__)
            why = self._epilogue_refusal(group, value, consumer)
            if why:
                self.notes.edge(value.node, consumer, why)
                return
            if len(value._uses) > 1 or self.graph.is_held(value):
                group.early.append(value)
            group.root = consumer
            self._take(group, consumer)

    def _epilogue_refusal(self, group: FusionGroup, value: Value, node: Node) -> str:
        if node in self.owner or is_anchor(node):
            return self._two_kernels(group, node)
        if not can_inline(node):
            return f"opaque: nothing is fused into {node.op.label}"
        if partition(node) != partition(group.root):
            return f"different partition: {partition(group.root)!r} and {partition(node)!r}"
        if widened_by_reader(node) or self._widened_elsewhere(node):
            return "quantised: stored as bytes, and widened by what reads it"
        if is_stored_anyway(node) and not self.graph.is_held(node.output):
            return "quantised: the bytes are stored for other readers"
        alone = len(value._uses) == 1 and not self.graph.is_held(value)
        if is_mover(node):
            if node.op.traits.view != "whole":
                return f"not one to one: {node.op.label} behind an anchor"
            if not alone or group.early:
                return "several uses: an early output must have the shape of the last"
        elif node.output.type.shape != value.type.shape:
            return f"broadcast of the result of {value.node.op.label} to {node.output.type}"
        if not alone and not self._may_leave_early(group, value, node):
            return f"several uses: {len(value._uses)} read the result of {value.node.op.label}"
        here = self.position[node]
        for early in group.early:
            if any(self.position[u] < here for u in early.users if u not in group.nodes):
                return "would close a cycle: an earlier output is needed before this"
        return self._limit(group, node)

    def _widened_elsewhere(self, node: Node) -> bool:
        """Whether a node dequantizes for nothing but the epilogues of other anchors: a residual."""
        value = node.outputs[0]
        if not is_dequantized(value) or self.graph.is_held(value):
            return False
        return all(u in self.owner and not is_anchor(u) for u in value.users)

    def _two_kernels(self, group: FusionGroup, consumer: Node) -> str:
        if is_anchor(consumer) and group.anchor is not None:
            a, b = group.anchor.op.label, consumer.op.label
            return f"two anchors: {a} and {b} each need their own loops"
        return f"{consumer.op.label} belongs to the kernel of another operand"

    def _may_leave_early(self, group: FusionGroup, value: Value, inside: Node) -> bool:
        """Whether a value that `inside` reads can also be an output of the group."""
        if not self.limits.early_outputs or len(group.early) >= _MOST_EARLY:
            return False
        if len(value._uses) > _MANY_USERS:
            return False
        here = self.position[inside]
        return all(self.position[u] >= here for u in value.users if u not in group.nodes)

    def _limit(self, group: FusionGroup, node: Node) -> str:
        if group.size >= self.limits.max_ops:
            return f"size limit: {self.limits.max_ops} ops in one kernel"
        if group.reads_with(node) > self.limits.max_inputs:
            return f"size limit: {self.limits.max_inputs} inputs of one kernel"
        return ""

    # ------------------------------------------------------------------------------------- inlining
    def _inline(self, group: FusionGroup) -> None:
        """Compute in the group what it reads, as far up as that pays."""
        demands = Demands(group, self.position)
        while (node := demands.pop()) is not None:
            if node not in group:
                if not can_inline(node):
                    continue
                value = node.output
                refusal = self._inline_refusal(group, node, demands)
                if refusal:
                    why, numbers = refusal
                    if self.notes.watched:
                        for user in _readers(value, group):
                            self.notes.edge(node, user, why, **numbers)
                    continue
                for operand in demands.anchor_operands(node):
                    have = group.prologue.get(operand, 0.0)
                    group.prologue[operand] = have + element_operations(node)
            demands.spread(node)

    def _inline_refusal(
        self, group: FusionGroup, node: Node, demands: Demands
    ) -> tuple[str, dict[str, float]] | None:
        """Why a node stays outside; None after it was taken in."""
        value = node.output
        if node in self.owner:
            return self._two_kernels_above(node, group), {}
        if partition(node) != partition(group.root):
            return f"different partition: {partition(node)!r} and {partition(group.root)!r}", {}
        for operand in demands.anchor_operands(node):
            assert group.anchor is not None  # only an anchor has operands of its own
            if widened_by_reader(node):
                continue
            why = prologue_refusal(group.anchor, operand, node)
            together = group.prologue.get(operand, 0.0) + element_operations(node)
            if group.anchor.op.kind is Kind.CONTRACTION and is_elementwise(node):
                if together > 2 * CHEAP:
                    why = why or "costly prologue: too many operations before an element is read"
                why = why or self._needs_a_kernel_anyway(group, operand, node)
            if why:
                return why, {"operations": element_operations(node)}
            if self.target.cuts and joins_folded_row(group.anchor, node):
                return "a row that is joined of pieces is stored before it is folded", {}
        limit = self._limit(group, node)
        if limit:
            return limit, {"ops": group.size, "inputs": group.reads_with(node)}
        computed = demands.count(value)
        extra = element_operations(node) * max(computed - elements(value), 0)
        saved = 2 * nbytes(value) + self.target.launch_bytes
        if extra > saved * self.target.operations_per_byte:
            return (
                f"would recompute too much: {extra:.3g} operations to save {saved:.3g} bytes",
                {"operations": extra, "saved": saved},
            )
        if not self.graph.is_held(value) and all(u in group.nodes for u in value.users):
            self._take(group, node)
            return None
        return self._shared(group, node, demands)

    def _needs_a_kernel_anyway(self, group: FusionGroup, operand: int, node: Node) -> str:
        """Why an op before a prologue is refused: the kernel that it needs can do this one too."""
        assert group.anchor is not None  # only an anchor has a prologue
        pending, seen = [node], 0
        while pending and seen < _LOOK_AHEAD:
            seen += 1
            for value in pending.pop().inputs:
                before = value.node
                if before not in self.owner and can_inline(before) and before not in group:
                    if prologue_refusal(group.anchor, operand, before):
                        return f"costly prologue: {before.op.label} before it has its own kernel"
                    pending.append(before)
        return ""

    def _shared(
        self, group: FusionGroup, node: Node, demands: Demands
    ) -> tuple[str, dict[str, float]] | None:
        """A value that is read outside as well: an early output, a copy, or neither."""
        value = node.output
        if len(value._uses) > _MANY_USERS:
            return f"several uses: {len(value._uses)} read the result of {node.op.label}", {}
        like_output = value.type.shape == group.root.output.type.shape
        if (
            like_output
            and is_elementwise(node)
            and demands.only_at_output(value)
            and not any(u in group.copies for u in value.users)
            and self._may_leave_early(group, value, group.root)
        ):
            group.early.append(value)
            self._take(group, node)
            return None
        uses = sum(self.fan.get(u, 1) if u in group.copies else 1 for u in value.users)
        copying, keeping = self._costs(node, demands, uses)
        numbers = {"uses": uses, "copying": copying, "keeping": keeping}
        if self.limits.copies and copying <= _WORTH * keeping:
            self._take(group, node, copy=True)
            self.fan[node] = uses
            return None
        why = (
            f"several uses: computing {node.op.label} {uses} times is worth {copying:.3g} bytes, "
            f"storing it {keeping:.3g}"
        )
        return why, numbers

    def _costs(self, node: Node, demands: Demands, uses: int) -> tuple[float, float]:
        """Bytes (and operations as bytes) when every reader computes it, and when it is stored."""
        value = node.output
        operands = float(sum(nbytes(v) for v in dict.fromkeys(node.inputs)))
        again = operands
        if is_mover(node):  # reads as many elements as it gives, not all of its operand
            again = min(operands, float(nbytes(value)))
        work = element_operations(node) * demands.count(value) / self.target.operations_per_byte
        once = element_operations(node) * elements(value) / self.target.operations_per_byte
        if self.graph.is_held(value):
            return once + again + work + again, once + again + 2.0 * nbytes(value)
        keeping = again + once + (1 + uses) * nbytes(value) + self.target.launch_bytes
        return uses * again + work + (uses - 1) * once, keeping

    def _two_kernels_above(self, node: Node, group: FusionGroup) -> str:
        other = self.owner[node]
        if other.anchor is not None and group.anchor is not None:
            a, b = other.anchor.op.label, group.anchor.op.label
            return f"two anchors: {a} and {b} each need their own loops"
        uses = len(node.output._uses)
        if uses > 1:
            return f"several uses: {uses} read the result of {node.op.label}"
        if other.anchor is not None:
            return f"not one to one: the loops behind {other.anchor.op.label} end here"
        return "size limit: the kernel before is full"


def _readers(value: Value, group: FusionGroup) -> list[Node]:
    """Nodes of the group that read a value, by the shorter of two ways."""
    if len(value._uses) <= group.size:
        return [u for u in value.users if u in group]
    return [n for n in [*group.nodes, *group.copies] if value in n.inputs]
