"""Which graphs are scaled dot-product attention: softmax(q @ k.T * scale + mask) @ v.

Scales and masks may stand in any order between the two products. A mask is added, or chosen with
`where`; a fixed lower triangle becomes `causal`. What is recognised is a plain softmax: a row that
is -inf throughout stays NaN, and a finite number in masked places stays that number (`fill`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from glasshouse.ir.dim import product
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.rewriter import Rewriter
from glasshouse.ops.attention import scale_of
from glasshouse.passes.patterns import array_of, made_by, scalar_of, with_scalar
from glasshouse.passes.subgraph_rewrite.rule import Match, rule

_LOW = -1e30
"""A triangle that is filled with this or less is `causal`: scores lie far above it. -1e4 and -1e9
are not that low, with queries and keys of 1e5 scores are -1e10; they are kept, as `fill`."""


@dataclass
class _Scores:
    """What stands between q, k and the softmax."""

    product: Node
    scale: float = 1.0
    added: list[tuple[Value, float]] = field(default_factory=list)  # masks, each with its factor
    kept: list[tuple[Value, bool]] = field(default_factory=list)  # conditions; False: negated
    fill: float = float("-inf")  # the score where a condition does not hold
    causal: bool = False
    nodes: list[Node] = field(default_factory=list)


@rule("matmul", why="softmax(q @ k.T * scale + mask) @ v is attention")
def recognise_attention(node: Node, rw: Rewriter) -> Match | None:
    softmax = made_by(node.inputs[0], "softmax")
    if not softmax or node.attrs["transpose_x"] or softmax.output.type.rank < 2:
        return None
    if softmax.attrs["axis"] not in (-1, softmax.output.type.rank - 1):
        return None
    scores = _scores(softmax.inputs[0], rw)
    if scores is None:
        return None
    q, second = scores.product.inputs
    third = node.inputs[1]
    if not q.type.rank == second.type.rank == third.type.rank or not q.type.dtype.is_float:
        return None

    def build() -> Expr:
        first = _swapped(rw, q) if scores.product.attrs["transpose_x"] else rw.expr(q)
        k = rw.expr(second) if scores.product.attrs["transpose_y"] else _swapped(rw, second)
        v = _swapped(rw, third) if node.attrs["transpose_y"] else rw.expr(third)
        mask = _mask(rw, scores)
        operands = [k, v] if mask is None else [k, v, mask]
        out: Expr = first.apply(
            "attention", *operands, causal=scores.causal, scale=scores.scale, fill=scores.fill
        )
        return out

    k_type = second.type.shape
    if not scores.product.attrs["transpose_y"]:
        k_type = (*k_type[:-2], k_type[-1], k_type[-2])
    if not _allowed(node, q, k_type, third, scores):
        return None
    return Match(build, matched=[softmax, *scores.nodes, scores.product], closed=True)


def _allowed(node: Node, q: Value, k_shape: tuple[object, ...], v: Value, scores: _Scores) -> bool:
    """Whether heads and batch fit what the op can do: matmul broadcasts in more ways."""
    if any(q.type.shape[i] != k_shape[i] for i in range(q.type.rank - 2)):
        return False
    v_shape = v.type.shape
    if any(q.type.shape[i] != v_shape[i] for i in range(q.type.rank - 2)):
        return False
    shape = scores.product.output.type.shape
    for mask, _ in [*scores.added, *scores.kept]:
        rank = mask.type.rank
        if rank > len(shape) or any(
            m not in (1, s)
            for m, s in zip(mask.type.shape, shape[len(shape) - rank :], strict=True)
        ):
            return False
    return node.output.type.dtype is q.type.dtype


def _scores(value: Value, rw: Rewriter) -> _Scores | None:
    """Walk from the softmax up to the product of q and k; None where something else is met."""
    factor = 1.0
    added: list[tuple[Value, float]] = []
    kept: list[tuple[Value, bool]] = []
    fill: float | None = None
    causal = False
    sealed = False  # above stands a finite number: rows that a mask hides below would see it
    nodes: list[Node] = []
    for _ in range(8):
        node = value.node
        if node.op.name == "matmul":
            low = float("-inf") if fill is None else fill
            if low > float("-inf") and (added or causal):
                return None  # the op has one mask, and what causality hides is -inf
            return _Scores(node, factor, added, kept, low, causal, nodes)
        nodes.append(node)
        if node.op.name == "multiply":
            found = with_scalar(node)
            if not found:
                return None
            value, factor = found[0], factor * found[1]
        elif node.op.name == "add":
            inner = next((v for v in node.inputs if _leads_to_product(v)), None)
            if inner is None or inner.type != node.output.type:
                return None
            mask = node.inputs[1] if node.inputs[0] is inner else node.inputs[0]
            if _is_causal_sum(mask, value):
                causal = True
            elif sealed:
                return None
            else:
                added.append((mask, factor))
            value = inner
        elif node.op.name == "where":
            step = _chosen(node)
            if step is None:
                return None
            inner, condition, positive, low = step
            if positive and _is_low(low, value) and _is_causal(condition, value):
                causal, sealed = True, low > float("-inf")
            elif sealed:
                return None
            elif fill == low or (fill is None and (factor == 1.0 or low == float("-inf"))):
                kept.append((condition, positive))
                fill = low
            else:
                if rw.listeners:
                    rw.reject(
                        [node], rule="recognise-attention", fill=low,
                        why="masked scores are scaled afterwards, or filled with two numbers",
                    )  # fmt: skip
                return None
            value = inner
        else:
            return None
    return None


def _leads_to_product(value: Value) -> bool:
    for _ in range(8):
        name = value.node.op.name
        if name == "matmul":
            return True
        if name == "where":
            scalars = [scalar_of(v) is not None for v in value.node.inputs[1:]]
            if scalars.count(True) != 1:
                return False
            value = value.node.inputs[1 + scalars.index(False)]
        elif name in ("multiply", "add"):
            value = value.node.inputs[0]
        else:
            return False
    return False


def _chosen(node: Node) -> tuple[Value, Value, bool, float] | None:
    """(scores, condition, keeps where true, fill) of a `where` that masks scores."""
    condition, yes, no = node.inputs
    low, positive = scalar_of(no), True
    inner = yes
    if low is None:
        low, positive, inner = scalar_of(yes), False, no
    if low is None or not low < 0.0 or inner.type != node.output.type:
        return None
    return inner, condition, positive, low


def _is_low(fill: float, scores: Value) -> bool:
    """Whether what is filled with this takes no part, whatever the scores are."""
    return fill <= max(_LOW, 0.9 * float(np.finfo(scores.type.dtype.carrier).min))


def _is_causal(condition: Value, scores: Value) -> bool:
    """Whether a condition is the lower triangle: key j is kept for query i where j <= i."""
    rows, columns = scores.type.shape[-2:]
    data = array_of(condition)
    if data is not None:
        if data.shape[-2:] != (rows, columns) or data.size != rows * columns:
            return False
        return bool(np.array_equal(data.reshape(data.shape[-2:]), np.tri(*data.shape[-2:]) > 0))
    node = condition.node
    if node.op.name not in ("greater_equal", "less_equal") or condition.type.rank < 2:
        return False
    i, j = node.inputs if node.op.name == "greater_equal" else reversed(node.inputs)
    return _counts(i, rows, -2) and _counts(j, columns, -1)


def _counts(value: Value, size: object, axis: int) -> bool:
    """Whether a value is 0, 1, 2, ... along an axis and the same along the others."""
    node = value.node
    shape = value.type.shape
    while node.op.name in ("reshape", "cast"):
        node = node.inputs[0].node
    if node.op.name != "arange" or node.attrs["start"] != 0 or node.attrs["step"] != 1:
        return False
    where = len(shape) + axis
    return (
        where >= 0
        and shape[where] == size
        and all(d == 1 for i, d in enumerate(shape) if i != where)
    )


def _is_causal_sum(mask: Value, scores: Value) -> bool:
    """Whether a constant is 0 in the lower triangle and so low above it that nothing passes."""
    data = array_of(mask)
    rows, columns = scores.type.shape[-2:]
    if data is None or data.shape[-2:] != (rows, columns):
        return False
    if data.size != data.shape[-1] * data.shape[-2]:
        return False
    square = data.reshape(data.shape[-2:])
    below = np.tri(*square.shape) > 0
    highest = float(np.max(square[~below], initial=float("-inf")))
    return bool(np.all(square[below] == 0) and _is_low(highest, scores))


def _mask(rw: Rewriter, scores: _Scores) -> Expr | None:
    total: Expr | None = None
    for value, factor in scores.added:
        term = rw.expr(value) if factor == 1.0 else rw.expr(value) * factor
        total = term if total is None else total + term
    kept: Expr | None = None
    for value, positive in scores.kept:
        condition = rw.expr(value) if positive else rw.expr(value).apply("logical_not")
        kept = condition if kept is None else kept.apply("logical_and", condition)
    if total is None or kept is None:
        return kept if total is None else total
    out: Expr = kept.apply("where", total, float("-inf"))
    return out


def _swapped(rw: Rewriter, value: Value) -> Expr:
    rank = value.type.rank
    out: Expr = rw.expr(value).apply("permute", axes=(*range(rank - 2), rank - 1, rank - 2))
    return out


# ---------------------------------------------------------------------------------- its operands
@rule("attention", why="attention scales the scores itself")
def attention_scale(node: Node, rw: Rewriter) -> Match | None:
    operands = list(node.inputs)
    scale = scale_of(node.inputs[0].type.shape, node.attrs["scale"])
    matched: list[Node] = []
    for i in (0, 1):
        inner = made_by(node.inputs[i], "multiply")
        found = with_scalar(inner) if inner else None
        if inner and found and found[0].type == node.inputs[i].type:
            operands[i], scale = found[0], scale * found[1]
            matched.append(inner)
    if not matched:
        return None
    attrs = {**node.attrs, "scale": scale}
    return Match(
        lambda: rw.expr(operands[0]).apply("attention", *map(rw.expr, operands[1:]), **attrs),
        matched=matched,
    )


@rule("attention", why="attention lets several heads of q share one of k and v itself")
def attention_shared_heads(node: Node, rw: Rewriter) -> Match | None:
    k, v = _unrepeated(node.inputs[1]), _unrepeated(node.inputs[2])
    if not k or not v or k[1][:-1] != v[1][:-1] or node.inputs[0].type.rank < 3:
        return None
    q, *mask = node.inputs[0], *node.inputs[3:]

    def build() -> Expr:
        parts = [rw.expr(x).apply("reshape", shape=shape) for x, shape, _ in (k, v)]
        out: Expr = rw.expr(q).apply("attention", *parts, *map(rw.expr, mask), **node.attrs)
        return out

    return Match(build, matched=[*k[2], *v[2]])


def _unrepeated(value: Value) -> tuple[Value, tuple[object, ...], list[Node]] | None:
    """(x, its shape without the repeated axis, nodes) for heads that were repeated one by one."""
    merge = made_by(value, "reshape")
    repeat = made_by(merge.inputs[0], "expand") if merge else None
    if not merge or not repeat:
        return None
    x = repeat.inputs[0]
    apart, before, after = repeat.output.type.shape, x.type.shape, value.type.shape
    if len(apart) != len(after) + 1 or len(before) != len(apart) or before[-3] != 1:
        return None
    if (*apart[:-4], apart[-4] * apart[-3], *apart[-2:]) != after:
        return None
    if (*before[:-3], apart[-3], *before[-2:]) != apart:
        return None
    return x, (*before[:-3], *before[-2:]), [merge, repeat]


@rule("attention", why="kernels of attention go over a batch, heads, queries and their elements")
def attention_over_four_axes(node: Node, rw: Rewriter) -> Match | None:
    q, k, v, *mask = node.inputs
    rank = q.type.rank
    if rank == 4 or any(m.type.rank > 3 for m in mask):
        return None
    if not q.type.shape[:-3] == k.type.shape[:-3] == v.type.shape[:-3]:
        return None

    def four(x: Value) -> Expr:
        shape = x.type.shape
        batch = (1,) * (4 - rank) if rank < 4 else (product(shape[:-3]),)
        out: Expr = rw.expr(x).apply("reshape", shape=(*batch, *shape[max(rank - 3, 0) :]))
        return out

    def build() -> Expr:
        seen: Expr = four(q).apply("attention", four(k), four(v), *map(rw.expr, mask), **node.attrs)
        out: Expr = seen.apply("reshape", shape=node.output.type.shape)
        return out

    return Match(build)
