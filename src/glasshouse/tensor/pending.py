"""How recorded but not yet executed work is kept: nodes that their consumers hold alive.

A `LazyNode` is in no graph. It holds its operands, and nothing holds it but its consumers and the
tensors of the user: what nobody can ask for any more is freed at once, by reference counts, because
a lazy node does not refer to its own values and so is in no cycle. Ids come from one counter, so
ascending ids are a topological order, and an id means the same node in every graph made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from glasshouse.ir.attrs import AttrValue
from glasshouse.ir.dtype import DType
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Op
from glasshouse.ir.origin import Origin
from glasshouse.ir.sources import CONSTANT, INPUT, VARIABLE
from glasshouse.ir.types import TensorType, tensor_type

if TYPE_CHECKING:
    from glasshouse.tensor.recorded_nodes import RecordedNodes

Array = np.ndarray[Any, Any]
Leaf = Callable[[Graph, "LazyValue", Origin], Value]

ROOM = 64
"""Ids between two that the counter gives: a node that stands for several has them for its own."""

next_id = count(0, ROOM).__next__
_NO_USES: Mapping[Node, int] = MappingProxyType({})


class LazyNode(Node):
    """A node outside any graph; with `results`, a leaf that holds what it computes."""

    __slots__ = ("__weakref__", "alias", "needs_grad", "owner", "results", "stands_for", "types")

    def __init__(
        self,
        op: Op,
        inputs: tuple[Value, ...],
        attrs: Mapping[str, AttrValue],
        types: Sequence[TensorType],
        origin: Origin,
        results: list[Array] | None = None,
        needs_grad: bool = False,
    ) -> None:
        self.id = next_id()
        self.op = op
        self.inputs = inputs
        self.attrs = attrs
        self.types = types
        self.origin = origin
        self.results = results
        self.needs_grad = needs_grad
        self.alias: LazyValue | None = None  # stands for this value, and hides how it came about
        self.owner: ref[Any] | None = None  # the tensor that collects the gradient of this leaf
        self.stands_for: RecordedNodes | None = None  # nodes that are not made yet

    @property
    def outputs(self) -> tuple[Value, ...]:  # type: ignore[override]  # made on demand: see above
        return tuple([LazyValue(self, i, t) for i, t in enumerate(self.types)])


class LazyValue(Value):
    """One output of a lazy node; equal to every other that is the same output."""

    __slots__ = ()
    node: LazyNode

    def __init__(self, node: LazyNode, index: int, type: TensorType) -> None:
        self.node = node
        self.index = index
        self.type = type

    @property
    def _uses(self) -> Mapping[Node, int]:  # type: ignore[override]  # consumers are not known
        return _NO_USES

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LazyValue) and self.node is other.node and self.index == other.index
        )

    def __hash__(self) -> int:
        return self.node.id * 8 + self.index


def leaf_node(array: Array, dtype: DType, origin: Origin, name: str = "") -> LazyNode:
    """A node that holds data; `array` is kept as it is, in the carrier of `dtype`."""
    attrs = {"dtype": dtype, "shape": array.shape, "name": name, "data": None}
    return LazyNode(VARIABLE, (), attrs, (tensor_type(dtype, array.shape),), origin, [array])


def alias_node(value: LazyValue, origin: Origin) -> LazyNode:
    """A leaf for gradients whose data is that of `value`, be it known already or not."""
    attrs = {"dtype": value.type.dtype, "shape": value.type.shape, "name": "", "data": None}
    node = LazyNode(VARIABLE, (), attrs, (value.type,), origin)
    found = resolve(value)
    if found.node.results is not None:
        node.results = [found.node.results[found.index]]
    else:
        node.alias = found
    return node


def resolve(value: LazyValue) -> LazyValue:
    """The value that a chain of aliases stands for."""
    while value.node.alias is not None and value.node.results is None:
        value = value.node.alias
    return value


def result_of(value: LazyValue) -> Array | None:
    """The data, if it has been computed."""
    found = resolve(value)
    return None if found.node.results is None else found.node.results[found.index]


def pending_nodes(
    roots: Iterable[LazyValue], ends: Container[int] = (), *, closed: bool = False
) -> list[LazyNode]:
    """What has to be run for these values, with the leaves it reads; producers first. Nodes with
    ids in `ends` are taken for leaves. `closed`: nodes that stand for others are left as they are.
    """
    seen: dict[int, LazyNode] = {}
    stack = [v.node for v in roots]
    while stack:
        node = stack.pop()
        while node.alias is not None and node.results is None:
            node = node.alias.node
        if node.id not in seen:
            seen[node.id] = node
            if node.results is None and node.id not in ends:
                if node.stands_for is not None and not closed:
                    node.stands_for.open(node)
                stack.extend([v.node for v in node.inputs])  # type: ignore[misc]  # all are lazy
    return [seen[i] for i in sorted(seen)]


class Extraction:
    """A graph made from pending nodes, with the same ids.

    `leaf` says what a value that has its data becomes: an input, unless given. It is told the
    origin of the leaf's first reader, right before which the leaf stands.
    """

    def __init__(self, nodes: Sequence[LazyNode], leaf: Leaf | None = None, name: str = "") -> None:
        self.graph = Graph(name)
        self.fed: list[Array] = []  # the data for the graph's inputs that were leaves, in order
        self._values: dict[tuple[int, int], Value] = {}
        self._leaf = leaf
        for node in nodes:
            if node.results is None:
                self._add(node)

    def value(self, lazy: Value, reader: LazyNode | None = None) -> Value:
        """The value in the graph that a lazy value has become; `reader` is who asks first."""
        assert isinstance(lazy, LazyValue)
        found = resolve(lazy)
        key = (found.node.id, found.index)
        if key not in self._values:
            if self._leaf is None:
                self._values[key] = self._as_input(found)
            else:
                self._values[key] = self._leaf(self.graph, found, (reader or found.node).origin)
        return self._values[key]

    def _add(self, node: LazyNode) -> None:
        if node.op is INPUT:
            value = add_source(self.graph, INPUT, node.outputs[0], node.attrs["name"])
            self._values[node.id, 0] = value
            return
        operands = tuple([self.value(v, node) for v in node.inputs])
        twin = self.graph._add(node.op, operands, node.attrs, node.types, node.origin, node.id)
        for index, value in enumerate(twin.outputs):
            self._values[node.id, index] = value

    def _as_input(self, lazy: LazyValue) -> Value:
        graph, node = self.graph, lazy.node
        if is_embedded(node):
            return graph._add(CONSTANT, (), node.attrs, node.types, node.origin, node.id).output
        assert node.results is not None
        self.fed.append(node.results[lazy.index])
        return add_source(graph, INPUT, lazy)


def is_embedded(node: LazyNode) -> bool:
    """Whether a leaf is part of the program (the 2 in `x * 2`), not data that it is applied to."""
    return node.op is CONSTANT and node.results is not None and node.results[0].size <= 1


def add_source(
    graph: Graph,
    op: Op,
    lazy: Value,
    name: str = "",
    data: Array | None = None,
    origin: Origin | None = None,
) -> Value:
    """An input, constant or variable in place of a lazy value, with the id of its node."""
    attrs: dict[str, Any] = {"dtype": lazy.type.dtype, "shape": lazy.type.shape, "name": name}
    if op is not INPUT:
        attrs["data"] = data
    # Only one output of a node can keep its id.
    id = lazy.node.id if lazy.index == 0 else next_id()
    value = graph._add(op, (), attrs, (lazy.type,), origin or lazy.node.origin, id).output
    if op is INPUT:
        graph.inputs.append(value)
    return value
