"""What a graph means: it runs each node with its op's NumPy meaning, one after the other.

Slow and obvious on purpose; everything faster is compared with it. Values in flight are arrays of
each type's carrier (`ir.dtype`), freed after their last use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from glasshouse.errors import ExecutionError, GlasshouseError
from glasshouse.ir.dim import SymDim, evaluate, solve
from glasshouse.ir.dtype import finish, from_storage
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.sources import CONSTANT, INPUT, VARIABLE
from glasshouse.ir.types import TensorType

Array = np.ndarray[Any, Any]
Observer = Callable[[Node, Sequence[Array]], None]


def run(
    graph: Graph,
    inputs: Sequence[Any],
    *,
    variables: dict[str, Array] | None = None,
    observer: Observer | None = None,
    sizes: Mapping[str, int] | None = None,
) -> list[Array]:
    """The graph's outputs for these inputs.

    `variables` holds the state by variable name; what is missing starts with the graph's own data,
    and the new values are written back into it. `observer` sees every node's outputs. `sizes` are
    symbols that are known from outside, for a graph inside another.
    """
    state = {} if variables is None else variables
    sizes = {**bind_sizes([v.type for v in graph.inputs], inputs), **(sizes or {})}  # may grow
    env: dict[Value, Array] = {}
    for value, given in zip(graph.inputs, inputs, strict=True):
        env[value] = _checked_input(value, given, sizes)
    remaining = {v: graph.uses(v) for n in graph.nodes for v in n.outputs}
    for node in graph.nodes:
        outputs = _run_node(node, env, sizes, state)
        env.update(zip(node.outputs, outputs, strict=True))
        if observer is not None:
            observer(node, outputs)
        for value in node.inputs:
            remaining[value] -= 1
            if not remaining[value]:
                env.pop(value, None)
    for variable, value in graph.updates.items():
        state[variable.attrs["name"] or f"%{variable.id}"] = env[value]
    return [env[v] for v in graph.outputs]


def bind_sizes(types: Sequence[TensorType], arrays: Sequence[Any]) -> dict[str, int]:
    """The value of every symbol that the shapes of the inputs determine."""
    if len(types) != len(arrays):
        raise ExecutionError(f"the graph takes {len(types)} inputs, {len(arrays)} were given")
    sizes: dict[str, int] = {}
    pending = [
        (dim, size, index)
        for index, (t, a) in enumerate(zip(types, arrays, strict=True))
        for dim, size in zip(t.shape, np.shape(a), strict=False)
        if isinstance(dim, SymDim)
    ]
    # Plain symbols first, so that `2*n + 1` finds n known.
    pending.sort(key=lambda p: len(str(p[0])))
    for dim, size, _ in pending:
        found = solve(dim, size, sizes)
        if found is not None:
            sizes.setdefault(*found)
    return sizes


def resolve(attr: Any, sizes: Mapping[str, int], body: BodyMaker | None = None) -> Any:
    """An attribute with the symbolic sizes in it replaced by their values, a graph by a function.

    `body` makes that function; without one, it runs as this module runs graphs.
    """
    if isinstance(attr, SymDim):
        return evaluate(attr, sizes)
    if isinstance(attr, tuple):
        return tuple([resolve(a, sizes, body) for a in attr])
    if isinstance(attr, Graph):
        return (body or Body)(attr, sizes)
    return attr


class Body:
    """A graph in an attribute as a function of arrays, as the meaning of control flow wants it."""

    def __init__(self, graph: Graph, sizes: Mapping[str, int]) -> None:
        self.graph = graph
        self.sizes = sizes

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        return tuple(run(self.graph, arrays, sizes=self.sizes))

    @property
    def output_shapes(self) -> list[tuple[int, ...]]:
        """Known before it runs, for a loop that does not run at all."""
        return [resolve(v.type.shape, self.sizes) for v in self.graph.outputs]


BodyMaker = Callable[[Graph, Mapping[str, int]], Body]


def run_node(
    node: Node,
    arrays: Sequence[Array],
    sizes: Mapping[str, int] | None = None,
    body: BodyMaker | None = None,
) -> list[Array]:
    """A node's outputs for these operands; `sizes` gives the value of each symbol.

    `body` says how graphs in its attributes are run, as in `resolve`.

    Symbols that only the result of an opaque node determines (how many elements are not zero) are
    added to `sizes` when it is a dict.
    """
    sizes = {} if sizes is None else sizes
    if node.op.name == "fused":
        return run(node.attrs["body"], arrays, sizes=sizes)
    # A node that PyTorch runs takes microseconds: there is nothing to resolve in most.
    fixed = node.op.name == "opaque" and all(_is_fixed(v.type.shape) for v in node.outputs)
    attrs: Mapping[str, Any] = node.attrs
    if not fixed:
        attrs = {key: resolve(value, sizes, body) for key, value in attrs.items()}
    try:
        with np.errstate(all="ignore"):
            out = node.op.ref(*arrays, **attrs)
    except Exception as error:
        raise failed(node, arrays, error) from error
    many = out if isinstance(out, tuple) else (out,)
    finished = [finish(a, v.type.dtype) for a, v in zip(many, node.outputs, strict=True)]
    if node.op.name == "opaque" and not fixed and isinstance(sizes, dict):
        for name, size in bind_sizes([v.type for v in node.outputs], finished).items():
            sizes.setdefault(name, size)
    for array, value in zip(finished, node.outputs, strict=True):
        wanted = value.type.shape if fixed else tuple(resolve(d, sizes) for d in value.type.shape)
        if array.shape != wanted:
            raise wrong_shape(node, array.shape, wanted)
    return finished


def failed(node: Node, operands: Sequence[Any], error: Exception) -> Exception:
    """What to raise where a node's meaning did."""
    if isinstance(error, GlasshouseError) and error.where:
        return error
    said = error.message if isinstance(error, GlasshouseError) else str(error)
    shapes = ", ".join(str(list(a.shape)) for a in operands)
    return ExecutionError(
        f"{node.op.name} failed on operands of shape {shapes}: {said}", str(node.origin.source)
    )


def wrong_shape(node: Node, found: Sequence[int], wanted: Sequence[Any]) -> ExecutionError:
    return ExecutionError(
        f"{node.op.name} gave shape {list(found)}, its type says {list(wanted)}",
        str(node.origin.source),
    )


def _is_fixed(shape: Sequence[Any]) -> bool:
    return not any(isinstance(d, SymDim) for d in shape)


def _run_node(
    node: Node, env: Mapping[Value, Array], sizes: Mapping[str, int], state: Mapping[str, Array]
) -> list[Array]:
    if node.op is INPUT:
        return [env[node.output]]
    if node.op is CONSTANT or node.op is VARIABLE:
        return [_held_data(node, state)]
    return run_node(node, [env[v] for v in node.inputs], sizes)


def _held_data(node: Node, state: Mapping[str, Array]) -> Array:
    name = node.attrs["name"] or f"%{node.id}"
    if node.op is VARIABLE and name in state:
        return state[name]
    data = node.attrs["data"]
    if data is None:
        raise ExecutionError(
            f"{node.op.label} {name} has no data",
            str(node.origin.source),
            "a graph that was parsed from text or read without its weights can be viewed, not run",
        )
    return from_storage(np.asarray(data), node.output.type.dtype)


def _checked_input(value: Value, given: Any, sizes: Mapping[str, int]) -> Array:
    array = from_storage(np.asarray(given), value.type.dtype)
    name = value.node.attrs["name"] or f"input {value.node.id}"
    wanted = tuple(resolve(d, sizes) for d in value.type.shape)
    if array.shape != wanted:
        raise ExecutionError(f"{name} must have shape {value.type}, got {list(array.shape)}")
    return finish(array, value.type.dtype)
