"""Whether the work that waits for a training step is that of the step before: nodes compared one by
one with a pattern, without making a key of them.

A key is made for all that waits and hashed (`repeated.py`): 17 us for an MLP that is two calls.
Comparing takes 1. What a pattern does not know (values that stand for others, gradients that go to
leaves of somebody else) has none, and its steps are told by their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
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

    def uses(self, number: int) -> int:
        """How often nodes read a tensor of the optimiser."""
        return sum(kind == _TENSOR and at == number for n in self.nodes for kind, at, _ in n.reads)

    @cached_property
    def match(self) -> Callable[..., Matched | None]:
        """`match(waiting, loss, values)`: the nodes and leaves of another step, if it is the same.
        `waiting` are the tensors that wait, `loss` is a value, `values` are what the tensors of the
        optimiser hold now."""
        return _written(tuple(self.nodes), tuple(self._waiting), self.loss, tuple(self._leaves))


@lru_cache(maxsize=64)  # steps that are unbound and bound again: writing takes 0.1 ms a node
def _written(*pattern: Any) -> Callable[..., Matched | None]:
    """`match` as straight Python: loops over the pattern took three times as long."""
    names: dict[str, Any] = {
        "attributes_of": attributes_of, "is_embedded": is_embedded, "is_leaf": _is_leaf,
    }  # fmt: skip
    lines = ["def match(waiting, loss, values):", *_lines(names, *pattern)]
    exec("\n    ".join(lines), names)
    match: Callable[..., Matched | None] = names["match"]
    return match


def _lines(
    names: dict[str, Any],
    nodes: Sequence[PatternNode],
    waiting: Sequence[tuple[int, int]],
    loss: tuple[int, int],
    types: Sequence[TensorType | None],
) -> Iterator[str]:
    """The body of `match` for these nodes; `names` gets the objects that the lines refer to."""
    yield f"if len(waiting) != {len(waiting)}: return None"
    found: set[int] = set()  # places of nodes that are in variables n0, n1 ...
    leaves: set[int] = set()  # numbers of leaves that are in x0, x1 ...

    def is_node(place: int, index: int) -> Iterator[str]:
        """`value` is this output of the node at a place."""
        yield f"if value.index != {index}: return None"
        if place in found:
            yield f"if value.node is not n{place}: return None"
        else:
            yield f"n{place} = value.node"
        found.add(place)

    for number, (place, index) in enumerate(waiting):
        yield f"value = waiting[{number}].value"
        yield from is_node(place, index)
    yield "value = loss"
    yield from is_node(*loss)
    # Consumers come first, so that each node has been found when it is looked at.
    for place, (op, attributes, needs_grad, reads) in reversed(list(enumerate(nodes))):
        n = f"n{place}"
        names[f"op{place}"] = op
        wrong = f"{n}.op is not op{place} or {n}.results is not None"
        yield f"if {wrong} or {n}.needs_grad is not {needs_grad}: return None"
        names[f"attributes{place}"] = attributes
        yield f"if attributes_of({n}) != attributes{place}: return None"
        yield f"if len({n}.inputs) != {len(reads)}: return None"
        if reads:
            yield f"{''.join(f'v{i}, ' for i in range(len(reads)))} = {n}.inputs"
        for i, (kind, number, index) in enumerate(reads):
            if kind == _TENSOR:
                yield f"if v{i} is not values[{number}]: return None"
            elif kind == _LEAF and number in leaves:
                yield f"if v{i} is not x{number}: return None"
            elif kind == _LEAF:
                names[f"type{number}"] = types[number]
                yield f"if not is_leaf(v{i}, type{number}): return None"
                yield f"x{number} = v{i}"
                leaves.add(number)
            elif kind == _NODE:
                yield f"value = v{i}"
                yield from is_node(number, index)
            else:
                names[f"constant{place}_{i}"] = number
                known = f"attributes_of(v{i}.node) == constant{place}_{i}"
                yield f"if not (is_embedded(v{i}.node) and {known}): return None"
    made = ", ".join(f"n{place}" for place in range(len(nodes)))
    given = [f"x{i}" if i in leaves else "None" for i in range(len(types))]
    yield f"return [{made}], [{', '.join(given)}]"


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
