"""Merges matrix products of one value into one: weights of Q, K and V concatenated, then slices.

Each sibling is a matmul or convolution with constant weights, its bias, and an activation that all
of them have. Merging saves reading the input again and launching kernels. It costs a round trip
through memory for each result that could have been finished in its own kernel (a product of gate
and up, as in SwiGLU), or that is wanted whole (gates of a recurrent layer); the figures decide.
Large weights side by side would be a second copy, and what merging saves is small beside them: they
are merged where a target reads each of them where it lies (`merge_products`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

import numpy as np

from glasshouse.ir.dim import Dim
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ir.rewriter import Rewriter
from glasshouse.lower.target import Target
from glasshouse.ops.cost import nbytes
from glasshouse.passes.patterns import Array, array_of, is_constant, only_user, with_constant
from glasshouse.passes.subgraph_rewrite.merge_products import suits

_MOST_COPIED = 8 << 20  # bytes of weights: BERT-base's queries, keys and values are 7 MB


@dataclass
class _Sibling:
    linear: Node
    bias: Array | None = None
    tail: Value = None  # type: ignore[assignment] # set right after construction
    nodes: list[Node] = field(default_factory=list)

    @property
    def columns(self) -> int:
        first = self.linear.op.name == "conv" or self.linear.attrs["transpose_y"]
        sizes = self.linear.inputs[1].type.shape
        return int(sizes[0 if first else 1])  # type: ignore[arg-type]  # a constant's are known

    def weight(self) -> Array:
        """[depth, columns], or [out, in, kernel...]."""
        found = array_of(self.linear.inputs[1])
        assert found is not None  # _family asked
        turned = self.linear.op.name == "matmul" and self.linear.attrs["transpose_y"]
        return found.T if turned else found


def merge_siblings(graph: Graph, rw: Rewriter, target: Target) -> None:
    """Merge wherever it pays; linear in the graph, since each value's users are seen once."""
    shared: dict[Value, dict[Hashable, list[Node]]] = {}
    for node in graph.nodes:
        if node.op.name in ("matmul", "conv") and len(node.inputs[0]._uses) > 1:
            key = _family(node)
            if key is not None:
                shared.setdefault(node.inputs[0], {}).setdefault(key, []).append(node)
    for families in shared.values():
        for nodes in families.values():
            if len(nodes) > 1:
                # An earlier merge may have given out what these read, as another value.
                _merge(nodes[0].inputs[0], nodes, graph, rw, target)


def _family(node: Node) -> Hashable | None:
    """What siblings must have in common; None if a node cannot be merged with any."""
    x, weight = node.inputs
    if x is weight or not is_constant(weight) or not x.type.dtype.is_float:
        return None
    if node.op.name == "matmul":
        rank = x.type.rank
        if weight.type.rank != 2 or rank < 2:
            return None
        return ("matmul", node.attrs["transpose_x"], weight.type.dtype)
    if node.attrs["groups"] != 1:
        return None
    return ("conv", weight.type.shape[1:], tuple(node.attrs.values()), weight.type.dtype)


def _merge(x: Value, nodes: list[Node], graph: Graph, rw: Rewriter, target: Target) -> None:
    held = sum(nbytes(n.inputs[1]) for n in nodes)
    apart = held > _MOST_COPIED and all(suits(n, target) for n in nodes)
    if held > _MOST_COPIED and not apart:
        if rw.listeners:
            rw.reject(
                nodes, rule="merge-siblings", bytes=held,
                why=f"one product of {len(nodes)} would hold {_kb(held)} of weights twice",
            )  # fmt: skip
        return
    siblings = [_sibling(graph, n) for n in nodes]
    activation = _common_activation(graph, siblings)
    gain, loss = _worth(x, siblings, graph, target)
    matched = [n for s in siblings for n in s.nodes]
    if loss >= gain:
        if rw.listeners:
            rw.reject(
                matched, rule="merge-siblings", saved=gain, added=loss,
                why=f"one product of {len(nodes)} would save {_kb(gain)} and add {_kb(loss)}: "
                "results that are finished in their own kernels would go through memory",
            )  # fmt: skip
        return
    rw.replace(
        [s.tail for s in siblings],
        lambda: _built(x, siblings, activation, rw, apart),
        rule="merge-siblings",
        why=f"{len(nodes)} {nodes[0].op.label} of one value are one with their weights "
        f"{'where they lie' if apart else 'side by side'}: {_kb(gain)} less to move",
        matched=matched,
    )


def _sibling(graph: Graph, node: Node) -> _Sibling:
    out = _Sibling(node, None, node.output, [node])
    add = only_user(graph, node.output)
    found = with_constant(add) if add and add.op.name == "add" else None
    if not add or not found or add.output.type != node.output.type:
        return out
    data = array_of(found[1])
    rank = node.output.type.rank
    axis = 1 if node.op.name == "conv" else rank - 1
    if data is None or data.ndim > rank:
        return out
    shape = (1,) * (rank - data.ndim) + data.shape
    if any(size != 1 for i, size in enumerate(shape) if i != axis):
        return out
    out.bias = np.broadcast_to(data.reshape(-1), (out.columns,))
    out.tail = add.output
    out.nodes.append(add)
    return out


def _common_activation(graph: Graph, siblings: list[_Sibling]) -> list[Node]:
    """Unary elementwise ops that follow every sibling, taken into the merge."""
    taken: list[Node] = []
    while True:
        users = [only_user(graph, s.tail) for s in siblings]
        first = users[0]
        if first is None or first.op.kind is not Kind.ELEMENTWISE or len(first.inputs) != 1:
            return taken
        for user in users:
            if user is None or user.op is not first.op or user.attrs != first.attrs:
                return taken
        for sibling, user in zip(siblings, users, strict=True):
            assert user is not None  # looked at above
            sibling.tail = user.output
            sibling.nodes.append(user)
        taken.append(first)


def _worth(x: Value, siblings: list[_Sibling], graph: Graph, target: Target) -> tuple[float, float]:
    """(bytes saved, bytes added) by merging."""
    gain = (len(siblings) - 1) * (nbytes(x) + target.launch_bytes)
    loss = 0.0
    finishing: set[Node] = set()  # each becomes a kernel of its own
    for sibling in siblings:
        value = sibling.tail
        user = only_user(graph, value)
        while user is not None and user.op.traits.view:
            value = user.output
            user = only_user(graph, value)
        if user is not None and user.op.kind is Kind.ELEMENTWISE:
            finishing.add(user)
            loss += 2.0 * nbytes(sibling.tail)
        elif graph.is_held(value) or (user is not None and user.op.kind is Kind.OPAQUE):
            loss += 2.0 * nbytes(sibling.tail)  # nothing is fused with its slice: a copy
    return gain, loss + len(finishing) * target.launch_bytes


def _built(
    x: Value, siblings: list[_Sibling], activation: Iterable[Node], rw: Rewriter, apart: bool
) -> list[Expr]:
    """`apart`: the weights stay where they lie."""
    first = siblings[0].linear
    dtype = first.inputs[1].type.dtype
    is_conv = first.op.name == "conv"
    if apart:
        out: Expr = rw.expr(x).apply("products", *(rw.expr(s.linear.inputs[1]) for s in siblings))
    else:
        weight = np.concatenate([s.weight() for s in siblings], axis=0 if is_conv else 1)
        attrs = dict(first.attrs)
        if not is_conv:
            attrs["transpose_y"] = False
        out = rw.expr(x).apply(first.op.name, rw.expr(rw.constant(weight, dtype)), **attrs)
    if any(s.bias is not None for s in siblings):
        parts = [np.zeros(s.columns) if s.bias is None else s.bias for s in siblings]
        bias = np.concatenate(parts)
        if is_conv:
            bias = bias.reshape((-1, *([1] * (out.ndim - 2))))
        out = out + rw.expr(rw.constant(bias, dtype))
    for node in activation:
        out = out.apply(node.op.name, **node.attrs)
    axis = 1 if is_conv else out.ndim - 1
    slices: list[Expr] = []
    start = 0
    for sibling in siblings:
        starts: list[Dim] = [0] * out.ndim
        ends = list(out.shape)
        starts[axis], ends[axis] = start, start + sibling.columns
        slices.append(out.apply("slice", starts=starts, ends=ends))
        start += sibling.columns
    return slices


def _kb(count: float) -> str:
    return f"{count / 1024:.0f} KB"
