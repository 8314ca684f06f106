"""Horizontal fusion: small loop kernels that do not depend on each other become one kernel.

Queries that are turned, a row of keys and one of values written into a cache: each is a nest of its
own, and starting it costs more than computing it. A group of several is one kernel, whose nests
run side by side where the target can start them so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from glasshouse.ir.graph import Graph, Node
from glasshouse.lower.target import Target
from glasshouse.ops.cost import nbytes
from glasshouse.passes.fuse_operator.group import FusionGroup
from glasshouse.passes.fuse_operator.roles import partition

_NEAR = 8
"""How many groups before one are looked at."""


def put_beside(
    groups: Sequence[FusionGroup],
    graph: Graph,
    position: Mapping[Node, int],
    target: Target,
    limits: tuple[int, int],
) -> list[FusionGroup]:
    """The groups, small ones without an anchor joined where every reader of the earlier one stands
    behind the later one; `limits`: inputs and ops of one kernel."""
    joined: set[FusionGroup] = set()
    small: list[FusionGroup] = []
    ordered = sorted(groups, key=lambda g: position[g.root])
    for group in ordered:
        if group.anchor is not None or not _is_small(group, graph, target):
            continue
        for earlier in reversed(small[-_NEAR:]):
            if partition(earlier.root) == partition(group.root) and _is_free(
                earlier, group, graph, position
            ):
                reads = {**earlier.reads, **group.reads}
                if len(reads) > limits[0] or earlier.size + group.size > limits[1]:
                    continue
                group.join(earlier)
                small.remove(earlier)
                joined.add(earlier)
        small.append(group)
    return [g for g in ordered if g not in joined]


def _is_small(group: FusionGroup, graph: Graph, target: Target) -> bool:
    return sum(nbytes(v) for v in group.outputs(graph)) <= target.launch_bytes


def _is_free(
    earlier: FusionGroup, later: FusionGroup, graph: Graph, position: Mapping[Node, int]
) -> bool:
    """Whether nothing needs the earlier one's values before the later one has run."""
    end = position[later.root]
    return all(earlier.first_reader_outside(v, position) > end for v in earlier.outputs(graph))
