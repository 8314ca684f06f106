"""Which groups besides modules a captured node belongs to: quantised clusters, partitions.

A cluster is a few ops between dequantize and quantize, each feeding only the next, found by
structure. A partition is what runs in one place: as a `delegation_tag` in the program says, or a
function of the user's, or as our own target can: its name, or "fallback" for what it has no code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from glasshouse.errors import TypeMismatch
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.op import Kind
from glasshouse.ir.sources import INPUT

Partitioner = Callable[[Node], str | None]

CLUSTER = "cluster"
PARTITION = "partition"
FALLBACK = "fallback"

# convolution, batch norm, residual add and activation are what quantisers keep in one piece; a
# longer run between dequantize and quantize is a part of the model that stayed in float.
_MOST_OPS = 4


def label_clusters(graph: Graph) -> None:
    """Give the nodes of each quantised cluster its name: that of its heaviest op."""
    for node in graph.nodes:
        if node.op.name != "quantize":
            continue
        inside = _cluster(graph, node)
        if inside:
            named = next((n for n in inside if n.op.kind is Kind.CONTRACTION), inside[-1])
            _label([node, *inside], CLUSTER, named.origin.name or f"{named.op.name}_{named.id}")


def _is_free(node: Node) -> bool:
    """Whether a node only moves or renames what others compute."""
    return node.op.kind in (Kind.SOURCE, Kind.INJECTIVE) or node.op.name == "cast"


def _cluster(graph: Graph, last: Node) -> list[Node]:
    """The nodes between a quantize and the dequantize nodes that feed it; [] if there are none."""
    found: dict[Node, None] = {}
    reached = False
    pending = [last.inputs[0].node]
    while pending:
        node = pending.pop()
        if node in found:
            continue
        found[node] = None
        if node.op.name == "dequantize":
            reached = True
            continue
        alone = sum(graph.uses(v) for v in node.outputs) == 1 or node.op.kind is Kind.SOURCE
        if node.op is INPUT or not alone:
            return []
        pending += [v.node for v in node.inputs]
    counted = [n for n in found if n.op.name != "dequantize" and not _is_free(n)]
    return list(found) if reached and len(counted) <= _MOST_OPS else []


def label_partitions(graph: Graph, partition: str | Partitioner) -> None:
    """Give every node that computes its partition.

    A function gives the name for a node, or None for none. The name of a target ("cpu") asks our
    own partitioner: what the target has code for, and a fallback partition.
    """
    if callable(partition):
        chosen: Partitioner = partition
    elif partition == "cpu":
        chosen = _by_target(graph, partition)
    else:
        raise TypeMismatch(f'a partition is a function of a node or "cpu", not {partition!r}')
    for node in graph.nodes:
        name = chosen(node) if node.op.kind is not Kind.SOURCE else None
        if name is not None:
            _label([node], PARTITION, name)


def _by_target(graph: Graph, target: str) -> Partitioner:
    from glasshouse.backend.base import target_named
    from glasshouse.lower.lower import lower
    from glasshouse.lower.program import Fallback

    steps = lower(graph, target_named(target)).steps
    slow = {step.node for step in steps if isinstance(step, Fallback)}
    return lambda node: FALLBACK if node in slow else target


def _label(nodes: Iterable[Node], grouping: str, group: str) -> None:
    for node in nodes:
        # A dequantize that several clusters read stays with the first of them.
        if grouping != CLUSTER or node.origin.label(CLUSTER) is None:
            node.origin = node.origin.with_label(grouping, group)
