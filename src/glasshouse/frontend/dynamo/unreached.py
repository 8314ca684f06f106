"""Which arguments of a function get no gradient when some of its results are given none.

A loss that does not read a result leaves parameters that only this result reads without a gradient:
None in eager PyTorch, and an optimiser passes them by. A backward graph has a gradient for every
argument, zeros there, which Adam's averages and weight decay take for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx

_ARRIVING = "tangents_"
"""What AOTAutograd calls gradients of results, in their order."""


@dataclass(frozen=True)
class Unreached:
    """For each argument, the gradients of results that the backward graph computes its own from,
    by number; empty where that is known of none."""

    sources: tuple[frozenset[int], ...]

    def without(self, found: Sequence[Any], are_given: Sequence[bool]) -> list[Any]:
        """The gradients of arguments, with None where none of what they come from was given."""
        given = {i for i, is_given in enumerate(are_given) if is_given}
        return [
            None if sources and given.isdisjoint(sources) else f
            for f, sources in zip(found, self.sources, strict=True)
        ]


def unreached(backward: fx.Graph, tangents: int, arguments: int) -> Unreached | None:
    """That of AOTAutograd's backward graph with so many gradients of results; None where every
    argument's gradient comes from all of them."""
    arriving = [n for n in backward.nodes if n.op == "placeholder" and n.name.startswith(_ARRIVING)]
    if tangents < 2 or tangents != len(arriving):
        return None
    from_which: dict[fx.Node, frozenset[int]] = {n: frozenset((i,)) for i, n in enumerate(arriving)}
    for node in backward.nodes:
        if node.op != "placeholder" and node.op != "output":
            each = [from_which[n] for n in node.all_input_nodes if n in from_which]
            if each:
                from_which[node] = frozenset().union(*each)
    output = next(n for n in backward.nodes if n.op == "output")
    leaves = output.args[0][:arguments]
    if len(leaves) != arguments:
        return None
    none: frozenset[int] = frozenset()
    sources = tuple(
        from_which.get(leaf, none) if isinstance(leaf, fx.Node) else none for leaf in leaves
    )
    if all(not s or len(s) == tangents for s in sources):
        return None
    return Unreached(sources)
