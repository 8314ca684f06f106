"""The module in which a node stands that was made from several: that of the anchors among them.

Products, convolutions and attention outweigh reductions and norms, these outweigh elementwise ops,
and those outweigh what only moves data: a leading or trailing reshape never decides. Anchors of
several modules (query, key and value in one product) stand at the common ancestor, and `spans`
keeps their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from glasshouse.ir.op import Kind
from glasshouse.ir.origin import NOWHERE, Origin, Scope, Source

if TYPE_CHECKING:
    from glasshouse.ir.graph import Node

_BACKWARD = ("phase", "backward")
_WEIGHT = {
    Kind.CONTRACTION: 4,
    Kind.REDUCTION: 3,
    Kind.OPAQUE: 3,
    Kind.ELEMENTWISE: 2,
    Kind.INJECTIVE: 1,
    Kind.SOURCE: 0,
}


def weight_of(node: Node) -> int:
    """How much an op's module says about where the whole stands; the larger, the more."""
    if node.op.family == "index":  # a lookup has a table of its own, a reshape has nothing
        return _WEIGHT[Kind.ELEMENTWISE]
    return _WEIGHT[node.op.kind]


def anchors_of(nodes: Sequence[Node]) -> list[Node]:
    """Those of `nodes` that decide where the whole stands, in the order given."""
    most = max((weight_of(n) for n in nodes), default=0)
    return [n for n in nodes if weight_of(n) == most]


def home_of(nodes: Sequence[Node]) -> Origin:
    """The origin that speaks for `nodes`: of one anchor, or of several at their common ancestor."""
    known = [n for n in nodes if n.origin.source is not NOWHERE] or nodes
    if not known:
        return Origin()
    anchors = anchors_of(known)
    first = anchors[0].origin
    if len(anchors) == 1:
        return first
    paths = list(dict.fromkeys(_steps(n.origin.source.scopes) for n in anchors))
    if len(paths) == 1:
        return first
    depth = _common(paths)
    source = Source(_first_steps(first.source.scopes, depth), first.source.frames)
    if weight_of(anchors[0]) < _WEIGHT[Kind.CONTRACTION]:
        return replace(first, source=source, spans=())
    names = [".".join(name for name, _ in path[depth:]) for path in paths]
    return replace(first, source=source, spans=tuple(n for n in names if n))


def made_from(nodes: Iterable[Node], pass_name: str, rule: str) -> Origin:
    """The origin of what a rewrite makes out of `nodes`; labels stay that all of them have.

    What has a backward op in it runs backward: a gradient with the update of its weight in one
    kernel, without a phase, would stand with the forward part, which it comes long after.
    """
    nodes = list(nodes)
    known = [n for n in nodes if n.origin.source is not NOWHERE] or nodes
    home = home_of(nodes)
    labels = tuple(p for p in home.labels if all(p in n.origin.labels for n in known))
    made = replace(
        home,
        pass_name=pass_name,
        rule=rule,
        replaces=tuple(n.id for n in nodes),
        labels=labels,
    )
    backward = any(_BACKWARD in n.origin.labels for n in nodes)
    return made.with_label(*_BACKWARD) if backward else made


def _steps(scopes: Sequence[Scope]) -> tuple[tuple[str, str], ...]:
    return tuple((s.name, s.cls) for s in scopes if s.name)


def _common(paths: Sequence[tuple[tuple[str, str], ...]]) -> int:
    """How many steps all paths share."""
    depth = min(len(p) for p in paths)
    for path in paths[1:]:
        same = 0
        while same < depth and path[same] == paths[0][same]:
            same += 1
        depth = same
    return depth


def _first_steps(scopes: Sequence[Scope], depth: int) -> tuple[Scope, ...]:
    """The first `depth` scopes that have a name, with the unnamed ones between them."""
    kept: list[Scope] = []
    for scope in scopes:
        if scope.name:
            if depth == 0:
                break
            depth -= 1
        kept.append(scope)
    return tuple(kept)
