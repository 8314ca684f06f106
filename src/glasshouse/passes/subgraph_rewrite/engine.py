"""In which order rules are tried: by worklist, each node again only when it was touched."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from glasshouse.errors import PassError
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.rewriter import Rewriter
from glasshouse.passes.fold_constant import fold, is_foldable
from glasshouse.passes.subgraph_rewrite.rule import Rule, is_closed

_FEW_USERS = 8
"""Users of a touched node are looked at again at once only up to this many: a value that everything
reads would otherwise make each rewrite cost the graph. The next round sees the rest."""


def apply_rules(
    graph: Graph,
    rw: Rewriter,
    rules: Iterable[Rule],
    max_growth: int,
    given: Mapping[int, Sequence[Value]],
) -> int:
    """Try the rules at every node until none matches what was touched; gives the rewrites made.

    Nodes that still have the operands in `given`, by id, are not folded.
    """
    by_op: dict[str, list[Rule]] = {}
    for rule in rules:
        for name in rule.ops:
            by_op.setdefault(name, []).append(rule)
    rw.touched()
    work = deque(graph.nodes)
    queued = set(work)
    # Every rule makes progress, so this many steps can only mean that two undo each other.
    limit = 1000 + 50 * len(work)
    steps = 0
    while work:
        node = work.popleft()
        queued.discard(node)
        if node not in graph or not _rewrite(node, rw, by_op, max_growth, given):
            continue
        steps += 1
        if steps > limit:
            raise PassError(f"rules undo each other around {node}", where=str(node.origin.source))
        again: dict[Node, None] = {}
        for touched in rw.touched():
            again[touched] = None
            if sum(len(v._uses) for v in touched.outputs) <= _FEW_USERS:
                again.update(touched.users)
        # At once and first, so that what is inside is in normal form before what surrounds it.
        work.extendleft(n for n in reversed(again) if n not in queued)
        queued.update(again)
    return steps


def _rewrite(
    node: Node,
    rw: Rewriter,
    by_op: dict[str, list[Rule]],
    max_growth: int,
    given: Mapping[int, Sequence[Value]],
) -> bool:
    changed = given.get(node.id) != node.inputs
    if changed and is_foldable(node) and fold(node, rw, max_growth):
        return True
    for rule in by_op.get(node.op.name, ()):
        match = rule.find(node, rw)
        if match is None:
            continue
        if match.closed and not is_closed(rw.graph, node, match):
            if rw.listeners:
                why = "parts of the pattern are used elsewhere and would be computed twice"
                rw.reject([node, *match.matched], rule=rule.name, why=why)
            continue
        why = match.why or rule.why
        if rw.replace(node, match.new, rule=rule.name, why=why, matched=match.matched):
            return True
    return False
