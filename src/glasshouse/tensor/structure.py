"""When two graphs are the same program: a hashable key of a graph, made in linear time.

Ids, origins and names are not part of it, nor is the data of inputs and variables; the data of
constants is. So the second step of a training loop, recorded anew, has the key of the first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glasshouse.ir.dtype import DType
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.sources import CONSTANT, VARIABLE
from glasshouse.tensor.pending import Array, LazyNode, LazyValue, is_embedded, resolve

SMALL = 64  # bytes of constant data that go into the key as they are; more is digested


class StructureKey:
    """Equal for graphs that compute the same thing; the hash is computed once."""

    __slots__ = ("_hash", "parts")

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self.parts = parts
        self._hash = hash(parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StructureKey):
            return NotImplemented
        if self.parts is other.parts:
            return True
        if self._hash != other._hash or self.parts != other.parts:
            return False
        self.parts = other.parts  # the next comparison of these two looks at nothing else
        return True

    def with_written(self, written: Mapping[int, int]) -> StructureKey:
        """The key of the same graph whose outputs are new values of inputs (`Graph.written`)."""
        return StructureKey((*self.parts, "written", tuple(written.items())))

    def digest(self) -> str:
        """A name for files: the same in every process."""
        return hashlib.blake2b(repr(self.parts).encode(), digest_size=16).hexdigest()


def structure_key(graph: Graph) -> StructureKey:
    """What a compilation of the graph may be found by."""
    numbers: dict[Value, int] = {}
    for value in graph.inputs:
        numbers[value] = len(numbers)
    parts: list[Any] = [_types(graph.inputs)]
    for node in graph.nodes:
        if node.outputs and node.outputs[0] in numbers:
            continue  # an input
        for value in node.outputs:
            numbers[value] = len(numbers)
        operands = tuple([numbers[v] for v in node.inputs])
        parts.append((node.op.name, operands, _types(node.outputs), attributes_of(node)))
    parts.append(tuple([numbers[v] for v in graph.outputs]))
    parts.append(tuple([(numbers[n.output], numbers[v]) for n, v in graph.updates.items()]))
    return StructureKey(tuple(parts))


def pending_key(
    nodes: Sequence[LazyNode], outputs: Sequence[LazyValue]
) -> tuple[StructureKey, list[LazyValue]]:
    """The key of pending work, without making its graph, and the leaves whose data the graph would
    be fed.

    The order of leaves is that of `Extraction`: as they are first read.
    """
    numbers: dict[tuple[int, int], int] = {}
    parts: list[Any] = ["pending"]
    leaves: list[LazyValue] = []

    def number(value: Value) -> int:
        assert isinstance(value, LazyValue)
        found = resolve(value)
        node = found.node
        place = (node.id, found.index)
        if place not in numbers:
            numbers[place] = len(numbers)
            if is_embedded(node):
                parts.append(attributes_of(node))
            else:
                assert node.results is not None  # only what has data is a leaf
                leaves.append(found)
                parts.append((found.type.dtype.name, found.type.shape))
        return numbers[place]

    for node in nodes:
        if node.results is None:
            operands = tuple([number(v) for v in node.inputs])
            types = tuple([(t.dtype.name, t.shape) for t in node.types])
            for index in range(len(types)):
                numbers[node.id, index] = len(numbers)
            parts.append((node.op.name, operands, types, attributes_of(node)))
    parts.append(tuple([number(v) for v in outputs]))
    return StructureKey(tuple(parts)), leaves


def data_of(leaves: Sequence[LazyValue]) -> list[Array]:
    """The data of leaves."""
    return [v.node.results[v.index] for v in leaves]  # type: ignore[index]  # that is what they are


def _types(values: Sequence[Value]) -> tuple[Any, ...]:
    return tuple([(v.type.dtype.name, v.type.shape) for v in values])


def attributes_of(node: Node) -> tuple[Any, ...]:
    """The attributes of a node as something hashable, without the data of variables."""
    if isinstance(node, LazyNode) and node.stands_for is not None:
        return (node.stands_for,)
    if node.op is VARIABLE:
        return ()
    if node.op is CONSTANT:
        return (_data(node.attrs["data"]),)
    return tuple([_frozen(value) for value in node.attrs.values()])


def _frozen(value: Any) -> Any:
    """An attribute as something hashable; 1, 1.0 and True differ."""
    if isinstance(value, (bool, float)):
        return (type(value).__name__, repr(value))
    if isinstance(value, (int, str)):
        return value
    if isinstance(value, DType):
        return value.name
    if isinstance(value, np.ndarray):
        return _data(value)
    if isinstance(value, Graph):  # the body of a loop: as deep as loops are nested
        return structure_key(value).parts
    if isinstance(value, (tuple, list)):
        return tuple([_frozen(v) for v in value])
    if isinstance(value, dict):
        return tuple([(key, _frozen(v)) for key, v in value.items()])
    try:
        hash(value)
    except TypeError:
        return ("object", id(value))
    return value


def _data(data: Any) -> Any:
    if data is None:
        return None
    array = np.ascontiguousarray(data)
    raw = array.tobytes() if array.nbytes <= SMALL else hashlib.blake2b(array.data).digest()
    return (str(array.dtype), array.shape, raw)
