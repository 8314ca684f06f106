"""The name under which a kernel is listed: the module of its anchor and what is fused to it.

    dense + gelu                           beside its module path
    layer.8 intermediate.dense + gelu      alone, in a list

The module stands in the node's origin (`ir/home.py`); here it becomes words. `Recorder` writes the
first form as the node's name, the kernel's row has the second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.home import anchors_of
from glasshouse.ir.op import Kind
from glasshouse.ir.origin import Scope

MOST_OPS = 3
"""Ops that a name tells one by one on each side of the anchor; the rest are counted."""


def local_title(node: Node) -> str:
    """`dense + gelu`: what a kernel is called inside of its module; ops by their own words."""
    anchors = anchors_of(members_of(node))
    if not anchors:
        return word(node)
    base = _own_name(node, anchors)
    told = [n for n in members_of(node) if _tells(n)]
    if not base:
        return _joined([word(n) for n in told] or [word(anchors[0])])
    first, last = anchors[0], anchors[-1]
    inside = first.origin.source.path  # its bias is part of the module that gives the name
    told = [n for n in told if n.origin.source.path != inside]
    where = {n: i for i, n in enumerate(members_of(node))}
    before = [word(n) for n in told if where[n] < where[first]]
    after = [word(n) for n in told if where[n] > where[last]]
    return " + ".join(t for t in (_joined(before), base, _joined(after)) if t)


def full_titles(nodes: Iterable[Node]) -> list[str]:
    """`layer.8 intermediate.dense + gelu`: what kernels are called where nothing stands around.

    What comes before the first numbered block is left out where all blocks share it; encoder and
    decoder keep theirs. Kernels of one name go by their weights, too: `lstm (weight_ih_l0)`.
    """
    given = list(nodes)
    paths = [[s.name for s in scopes_of(n) if s.name] for n in given]
    heads = [path[: first - 1] for path in paths if (first := _first_number(path)) > 0]
    shared = min((len(h) for h in heads), default=0)
    while any(h[:shared] != heads[0][:shared] for h in heads):
        shared -= 1
    same = all(len(h) == shared for h in heads)
    titles = [
        join_title(path, local_title(node), shared if not same else None)
        for node, path in zip(given, paths, strict=True)
    ]
    often = Counter(titles)
    return [
        f"{title} ({own})" if often[title] > 1 and (own := _weight_name(node)) else title
        for node, title in zip(given, titles, strict=True)
    ]


def join_title(path: Sequence[str], title: str, dropped: int | None = None) -> str:
    """A title behind its module path, from which `short_path` drops the beginning."""
    short, words = short_path(path, dropped), title.split(" + ")
    if path and _last_name(path) in words:  # the path says it already
        own = words.index(_last_name(path))
        return " + ".join([*words[:own], short, *words[own + 1 :]])
    return f"{short}: {title}" if short else title


def short_path(path: Sequence[str], dropped: int | None = None) -> str:
    """`layer.8 intermediate.dense` for encoder.layer.8.intermediate.dense.

    `dropped` steps are left out; None: all before the first numbered block.
    """
    first = _first_number(path)
    begin = 0 if first <= 0 else first - 1 if dropped is None else min(dropped, first - 1)
    text = ""
    for name in path[begin:]:
        ended = text.rpartition(".")[2].isdigit() and not name.isdigit()
        text += (" " if ended else "." if text else "") + name
    return text


def scopes_of(node: Node) -> tuple[Scope, ...]:
    """The modules around a node; one whose weight lies deeper stands with its weight.

    torch's attention, for one, multiplies with `out_proj.weight` without calling `out_proj`.
    """
    scopes = node.origin.source.scopes
    if node.origin.spans:
        return scopes
    for anchor in anchors_of(members_of(node))[:1]:
        for weight in _weights(node, anchor):
            owner = weight.origin.source.scopes
            if len(owner) > len(scopes) and owner[: len(scopes)] == scopes:
                return owner
    return scopes


def members_of(node: Node) -> list[Node]:
    """The ops that a kernel computes, in order, without inputs and constants."""
    body = node.attrs.get("body")
    if node.op.name != "fused" or not isinstance(body, Graph):
        return [node]
    return [n for n in body.nodes if n.op.kind is not Kind.SOURCE]


def word(node: Node) -> str:
    """An op in a name: `layer norm`, `gelu`."""
    return node.op.name.replace("_", " ")


def _own_name(node: Node, anchors: Sequence[Node]) -> str:
    """What the anchor is called for its module; "" where it is one op among others of a module."""
    if node.origin.spans:
        return _spanned(node.origin.spans)
    path = [s.name for s in scopes_of(node) if s.name]
    first = anchors[0]
    if not path or first.op.name == "attention":
        return ""
    if first.op.family == "norm":
        named = "norm" in node.origin.source.scopes[-1].cls.lower()
        return _last_name(path) if named or _has_weight(node, first) else ""
    return _last_name(path) if _has_weight(node, first) else ""


_MOST_MOVES = 64
"""Nodes that are looked through for a weight that is only turned."""


def _weights(node: Node, anchor: Node) -> Iterator[Node]:
    """Constants and variables of more than one element that the anchor reads as they lie."""
    if anchor.op.kind is not Kind.CONTRACTION and anchor.op.family not in ("norm", "index"):
        return
    body = node.attrs.get("body")
    outer: dict[Value, Value] = {}
    if node.op.name == "fused" and isinstance(body, Graph):
        outer = dict(zip(body.inputs, node.inputs, strict=True))
    pending = list(anchor.inputs)
    seen: set[Node] = set()
    # What a loop wrote element after element (`chosen[:, i] = x`) is cut and joined at each step:
    # twice as many ways to the first one with every step, and a chain as long as the loop.
    while pending and len(seen) < _MOST_MOVES:
        value = pending.pop()
        source = outer.get(value, value).node
        if source in seen:
            continue
        seen.add(source)
        if source.op.kind is Kind.SOURCE:
            if source.op.name != "input" and value.type.numel != 1:
                yield source
        elif source.op.kind is Kind.INJECTIVE and source.op.family != "index":
            pending += source.inputs  # a weight that is only turned


def _weight_name(node: Node) -> str:
    """What its module calls the first weight that a kernel reads; "" without one."""
    for v in node.inputs:
        name = v.node.attrs.get("name") if v.node.op.name in ("constant", "variable") else None
        if name and v.type.numel != 1:
            return str(name).rpartition(".")[2]
    return ""


def _has_weight(node: Node, anchor: Node) -> bool:
    return next(_weights(node, anchor), None) is not None


def _tells(node: Node) -> bool:
    """Whether an op says something about a kernel: not what only moves, converts or looks whether
    indices are in order."""
    if node.op.kind is Kind.INJECTIVE:
        return node.op.family == "index"
    return node.op.name not in ("cast", "from_front")


def _joined(words: Sequence[str]) -> str:
    counted = list(dict.fromkeys(words))
    if len(counted) > MOST_OPS:
        counted = [*counted[:MOST_OPS], f"{len(counted) - MOST_OPS} more"]
    return " + ".join(counted)


def _spanned(spans: Sequence[str]) -> str:
    """`query + key + value`; `k × 12 + v × 12` where modules of many layers became one."""
    counts = Counter(name.rpartition(".")[2] for name in spans)
    return " + ".join(f"{name} × {n}" if n > 1 else name for name, n in counts.items())


def _first_number(path: Sequence[str]) -> int:
    return next((i for i, name in enumerate(path) if name.isdigit()), -1)


def _last_name(path: Sequence[str]) -> str:
    """The last step of a path; a number with the name before it: `blocks.2`."""
    return ".".join(path[-2:]) if path[-1].isdigit() else path[-1]
