"""Whether the work that waits for a training step is that of the step before: nodes compared one by
one with a pattern, without making a key of them.

A key is made for all that waits and hashed (`repeated.py`): 17 us for an MLP that is two calls.
Comparing takes 3. What a pattern does not know (values that stand for others, gradients that go to
leaves of somebody else) has none, and its steps are told by their keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from glasshouse.ir.op import Op
from glasshouse.ir.types import TensorType
from glasshouse.tensor.pending import LazyNode, LazyValue, is_embedded
from glasshouse.tensor.structure import attributes_of

if TYPE_CHECKING:
    from glasshouse.tensor.repeated import Forward

_NODE, _TENSOR, _LEAF, _CONSTANT = range(4)

Matched = tuple[list[LazyNode], list[LazyValue]]
"""The nodes of a pattern, and the leaves that they read."""


class PatternNode(NamedTuple):
    """What a node must be like. It reads (kind, number or constant, output of a node)."""

    op: Op
    attributes: tuple[Any, ...]
    needs_grad: bool
    reads: tuple[tuple[int, Any, int], ...]


class StepPattern:
    """The nodes that wait when a step begins, producers first; what reads other nodes, tensors of
    the optimiser (by their numbers) or leaves (by their places in the step's list)."""

    def __init__(
        self,
        nodes: list[PatternNode],
        waiting: list[tuple[int, int]],
        loss: tuple[int, int],
        leaves: list[TensorType | None],
        targets: list[tuple[int, int]],
    ) -> None:
        self.nodes = nodes
        self.loss = loss
        self.targets = targets  # nodes that get results, and how many
        self._waiting = waiting  # for each tensor that waits, its node and which output it is
        self._leaves = leaves  # None: read as a tensor of the optimiser, or not at all
        self._last_first = list(enumerate(nodes))[::-1]

    def uses(self, number: int) -> int:
        """How often nodes read a tensor of the optimiser."""
        return sum(kind == _TENSOR and at == number for n in self.nodes for kind, at, _ in n.reads)

    def match(
        self, waiting: Sequence[Any], loss: LazyValue, values: Sequence[LazyValue]
    ) -> Matched | None:
        """The nodes and leaves of another step, if it is the same; `values` are what the tensors of
        the optimiser hold now."""
        if len(waiting) != len(self._waiting):
            return None
        found: list[Any] = [None] * len(self.nodes)
        leaves: list[Any] = [None] * len(self._leaves)
        for tensor, (place, index) in zip(waiting, self._waiting, strict=True):
            value = tensor.value
            known = found[place]
            if value.index != index or (known is not value.node and known is not None):
                return None
            found[place] = value.node
        place, index = self.loss
        if loss.node is not found[place] or loss.index != index:
            return None
        # Consumers come first, so that each node has been found when it is looked at.
        for place, (op, attributes, needs_grad, reads) in self._last_first:
            node = found[place]
            inputs = node.inputs
            if (
                node.op is not op
                or node.results is not None
                or node.needs_grad is not needs_grad
                or len(inputs) != len(reads)
            ):
                return None
            if attributes_of(node) != attributes:
                return None
            for value, (kind, number, index) in zip(inputs, reads, strict=True):
                if kind == _TENSOR:
                    if value is not values[number]:
                        return None
                elif kind == _LEAF:
                    known = leaves[number]
                    if known is not value:
                        if known is not None or not _is_leaf(value, self._leaves[number]):
                            return None
                        leaves[number] = value
                elif kind == _NODE:
                    known = found[number]
                    if value.index != index or (known is not value.node and known is not None):
                        return None
                    found[number] = value.node
                elif not is_embedded(value.node) or attributes_of(value.node) != number:
                    return None
        return found, leaves


def _is_leaf(value: Any, type: TensorType | None) -> bool:
    node = value.node
    return (
        value.type is type
        and node.results is not None
        and not node.needs_grad
        and not is_embedded(node)
    )


def pattern_of(forward: Forward) -> StepPattern | None:
    """The pattern of a step whose work has yet to run."""
    own = {(v.node.id, v.index): i for i, v in enumerate(forward.before)}
    numbers = {(v.node.id, v.index): i for i, v in enumerate(forward.leaves)}
    types: list[TensorType | None] = [None] * len(forward.leaves)
    places: dict[int, int] = {}
    nodes: list[PatternNode] = []
    for node in forward.pending.nodes:
        if node.results is not None:
            continue
        reads: list[tuple[int, Any, int]] = []
        for value in node.inputs:
            source: Any = value.node
            at = (source.id, value.index)
            if source.alias is not None:
                return None
            if source.results is None:
                reads.append((_NODE, places[source.id], value.index))
            elif is_embedded(source):
                reads.append((_CONSTANT, attributes_of(source), 0))
            elif at in own:
                reads.append((_TENSOR, own[at], 0))
            elif source.needs_grad:
                return None
            else:
                types[numbers[at]] = value.type
                reads.append((_LEAF, numbers[at], 0))
        places[node.id] = len(nodes)
        nodes.append(PatternNode(node.op, attributes_of(node), node.needs_grad, tuple(reads)))
    waiting = [t.value for t in forward.pending.tensors]
    if any(v.node.alias is not None for v in waiting):
        return None
    loss = forward.loss.value
    return StepPattern(
        nodes,
        [(places[v.node.id], v.index) for v in waiting],
        (places[loss.node.id], loss.index),
        types,
        [(places[n.id], len(n.types)) for n in forward.pending.targets],
    )
