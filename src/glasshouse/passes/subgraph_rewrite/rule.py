"""What a rule is: a function from a node to what should stand in its place, or None.

    @rule("relu", why="relu of what is never negative changes nothing")
    def relu_of_positive(node: Node, rw: Rewriter) -> Match | None:
        x = node.inputs[0]
        return Match(x) if x.node.op.name in _POSITIVE else None

A rule is tried at every node whose op it names. It must make progress: remove a node, turn several
into one, or move a constant towards a weight; no rule may undo another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.rewriter import New, Rewriter


@dataclass(frozen=True, slots=True)
class Match:
    """What stands in the place of the node: a value, or a callable that builds it.

    `matched` are the other nodes that it stands for; `why` overrides the rule's reason. A `closed`
    match is taken only if all of `matched` die with the node: otherwise both would be computed.
    """

    new: New | Callable[[], New]
    matched: Sequence[Node] = ()
    why: str = ""
    closed: bool = False


def is_closed(graph: Graph, root: Node, match: Match) -> bool:
    """Whether nothing but the match reads what the match would replace."""
    inside = {root, *match.matched}
    for node in match.matched:
        for value in node.outputs:
            if graph.is_held(value) or any(user not in inside for user in value.users):
                return False
    return True


Find = Callable[[Node, Rewriter], Match | None]


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    ops: tuple[str, ...]
    why: str
    find: Find


RULES: dict[str, Rule] = {}
"""All rules by name, in the order in which they are tried."""


def rule(*ops: str, why: str) -> Callable[[Find], Find]:
    """Register a function as a rule for nodes of these ops; its name is the function's."""

    def add(find: Find) -> Find:
        name = getattr(find, "__name__", "rule").strip("_").replace("_", "-")
        RULES[name] = Rule(name, ops, why, find)
        return find

    return add
