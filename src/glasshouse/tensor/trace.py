"""How a Python function on tensors becomes a graph: it is run once on inputs without data.

Tensors that the function finds outside of itself (parameters, buffers, closures) become constants;
those that it assigns to (an optimiser's parameters, running statistics) become variables with an
update, and have their old values again afterwards. So a whole training step can be captured.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glasshouse.errors import CaptureError
from glasshouse.ir.dim import Dim, symbol
from glasshouse.ir.dtype import DType, as_dtype, bfloat16, to_storage
from glasshouse.ir.graph import Graph, Value
from glasshouse.ir.origin import Origin
from glasshouse.ir.signature import Fixed, Leaf, Signature, Structure
from glasshouse.ir.sources import CONSTANT, INPUT, VARIABLE
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.tensor.builder import LAZY
from glasshouse.tensor.execute import run_pending
from glasshouse.tensor.late import LateBackward, settle
from glasshouse.tensor.nested import described, flatten, rebuild
from glasshouse.tensor.pending import (
    Extraction,
    LazyNode,
    LazyValue,
    add_source,
    is_embedded,
    next_id,
    pending_nodes,
    resolve,
)  # fmt: skip
from glasshouse.tensor.place import current_origin
from glasshouse.tensor.random import new_seed, seed_node
from glasshouse.tensor.renumber import renumbered
from glasshouse.tensor.state import STATE
from glasshouse.tensor.tensor import Tensor


@dataclass(frozen=True)
class Spec:
    """An input by its type: `spec(("batch", 768), "float32")`; names in the shape are symbols."""

    type: TensorType
    name: str = ""


def spec(shape: Sequence[Dim | str], dtype: object = "float32", name: str = "") -> Spec:
    """The type of an input. A size may be a number, a name (at least 1), or a `gh.symbol`."""
    sizes = [symbol(s, low=1) if isinstance(s, str) else s for s in shape]
    return Spec(tensor_type(as_dtype(dtype), sizes), name)


class Capture:
    """What `trace` keeps while the user's function runs."""

    def __init__(self) -> None:
        self.first = next_id()  # nodes from here on belong to the function
        self.modules: list[Any] = []  # called from outside of any module
        self.names: dict[int, str] = {}  # id of a module -> how its scope is called
        self._before: dict[int, tuple[Tensor, LazyValue, Tensor | LateBackward | None]] = {}
        self._seed: Tensor | None = None

    def remember(self, tensor: Tensor) -> None:
        """Called before a tensor gets another value or gradient."""
        self._before.setdefault(id(tensor), (tensor, tensor.value, tensor._grad))

    def seed(self, offset: int) -> Any:
        """A seed that differs in every run of the captured graph."""
        if self._seed is None:
            self._seed = Tensor(seed_node(new_seed(), "seed").outputs[0], "seed")
            self._base = Tensor(self._seed.value)
            self._seed.assign(self._seed + 1)
        return (self._base + offset).value

    def assigned(self) -> dict[Tensor, tuple[LazyValue, LazyValue]]:
        """Tensors that hold something else now: value before, value now."""
        return {t: (v, t.value) for t, v, _ in self._before.values() if v != t.value}

    def restore(self) -> None:
        """Give tensors what they held before the function ran."""
        for tensor, value, grad in self._before.values():
            tensor.value, tensor._grad = value, grad


def trace(
    function: Callable[..., Any],
    *inputs: Any,
    name: str = "",
    variables: bool = False,
    **keywords: Any,
) -> Graph:
    """The graph that a function or module computes for inputs like these.

    Arrays, tensors and specs are inputs of the graph; other arguments (numbers, strings, None) are
    given to the function as they are. With `variables`, all parameters become variables, not only
    those that the function changes.
    """
    return trace_structured(function, *inputs, name=name, variables=variables, **keywords).graph


@dataclass(frozen=True)
class Traced:
    """A graph together with the shape of the arguments and results that it stands for."""

    graph: Graph
    results: Any  # containers as the function returned them, with output numbers as leaves

    def unflatten(self, outputs: Sequence[Any]) -> Any:
        """What the function returns, from the outputs of a run."""
        return rebuild(self.results, lambda _, number: outputs[number])


def trace_structured(
    function: Callable[..., Any],
    *inputs: Any,
    name: str = "",
    variables: bool = False,
    **keywords: Any,
) -> Traced:
    """As `trace`, with what is needed to give results back as the function does."""
    if STATE.own.capture is not None:
        raise CaptureError("trace was called by a function that is being traced", LAZY.where())
    capture = Capture()
    if hasattr(function, "named_parameters"):
        capture.names[id(function)] = ""
    origin = current_origin(sys._getframe(1))
    labels = _argument_names(function, inputs)
    made: list[Tensor] = []

    def as_input(path: tuple[str, ...], given: Any) -> Any:
        kind = _input_type(given)
        if kind is None:
            return given
        label = getattr(given, "name", "") if isinstance(given, Spec) else ""
        attrs = {
            "dtype": kind.dtype, "shape": kind.shape,
            "name": label or ".".join([labels.get(path[0], path[0]), *path[1:]]),
        }  # fmt: skip
        made.append(Tensor(LazyNode(INPUT, (), attrs, (kind,), origin).outputs[0]))
        return made[-1]

    settle()  # what was asked for before is no part of it
    STATE.own.capture = capture
    try:
        slots = {str(i): given for i, given in enumerate(inputs)} | keywords
        slots = {k: rebuild(v, as_input, (k,)) for k, v in slots.items()}
        positional = [slots.pop(str(i)) for i in range(len(inputs))]
        arguments = _arguments(function, positional, slots, made)
        result = function(*positional, **slots)
        updates = {t: now for t, (_, now) in capture.assigned().items()}
    finally:
        STATE.own.capture = None
        capture.restore()
    traced = _finished(capture, made, result, updates, name, variables)
    results = described(traced.results, lambda n: Fixed(None) if n is None else Leaf(n))
    traced.graph.signature = Signature(arguments, results, signature_or_none(function))
    return traced


def _arguments(
    function: Callable[..., Any], args: Sequence[Any], keywords: dict[str, Any], made: list[Tensor]
) -> dict[str, Structure]:
    """The structure of each argument by the name of its parameter."""
    numbers = {id(t): i for i, t in enumerate(made)}

    def leaf(given: Any) -> Structure:
        return Leaf(numbers[id(given)]) if id(given) in numbers else Fixed(given)

    parameters = signature_or_none(function)
    if parameters is None:
        given = {f"input_{i}": x for i, x in enumerate(args)} | keywords
    else:
        given = parameters.bind(*args, **keywords).arguments
    return {name: described(x, leaf) for name, x in given.items()}


def signature_or_none(function: Callable[..., Any]) -> inspect.Signature | None:
    """The parameters of a function, or of a module's `forward`; built-in ones do not tell."""
    try:
        return inspect.signature(getattr(function, "forward", function))
    except (TypeError, ValueError):
        return None


def _finished(
    capture: Capture,
    inputs: list[Tensor],
    result: Any,
    updates: dict[Tensor, LazyValue],
    name: str,
    variables: bool,
) -> Traced:
    leaves = flatten(result)
    outputs = [_output(path, leaf) for path, leaf in leaves]
    roots = [t.value for t in inputs] + outputs + list(updates.values())
    # What was pending before belongs to the world outside: it is data by now.
    nodes = pending_nodes(roots)
    outside = [n for n in nodes if n.id < capture.first and n.results is None and n.op is not INPUT]
    if outside:
        read = [
            resolve(v)
            for n in nodes
            if n.id >= capture.first
            for v in n.inputs
            if isinstance(v, LazyValue) and resolve(v).node.id < capture.first
        ]
        run_pending([*read, *(v for v in map(resolve, roots) if v.node.id < capture.first)])
    run_pending([t.value for t in updates])
    nodes = pending_nodes(roots)
    names = _parameter_names(capture)
    changed = {resolve(t.value): t for t in updates}

    def as_leaf(graph: Graph, lazy: LazyValue, reader: Origin) -> Value:
        if is_embedded(lazy.node):
            node = lazy.node
            return graph._add(CONSTANT, (), node.attrs, node.types, node.origin, node.id).output
        known = names.get((lazy.node.id, lazy.index), "")
        if lazy in changed:
            known = known or changed[lazy].name or f"state_{lazy.node.id}"
        assert lazy.node.results is not None
        data = to_storage(lazy.node.results[lazy.index], lazy.type.dtype)
        op = VARIABLE if lazy in changed or (variables and known) else CONSTANT
        # A weight belongs where it is used: the line that made it has nothing to do with the graph.
        labels = reader.labels if reader.grad_of is None else ()
        origin = Origin(reader.source, known, labels=labels) if known else lazy.node.origin
        return add_source(graph, op, lazy, known, data, origin)

    extraction = Extraction(nodes, as_leaf, name)
    graph = extraction.graph
    graph.inputs[:] = [extraction.value(t.value) for t in inputs]  # as given, not as they were met
    graph._set_outputs([extraction.value(v) for v in outputs], [".".join(p) for p, _ in leaves])
    for tensor, now in updates.items():
        graph._set_update(extraction.value(tensor.value).node, extraction.value(now))
    numbers = iter(range(len(leaves)))
    return Traced(renumbered(graph), rebuild(result, lambda _, __: next(numbers)))


def _output(path: tuple[str, ...], leaf: Any) -> LazyValue:
    if isinstance(leaf, Tensor):
        return leaf.value
    if isinstance(leaf, (bool, int, float, np.ndarray, np.generic)):
        value = LAZY.value_of(leaf, None)
        assert isinstance(value, LazyValue)
        return value
    where = ".".join(path) or "the result"
    raise CaptureError(
        f"the traced function returns {type(leaf).__name__} for {where}, not a tensor"
    )


def _input_type(given: Any) -> TensorType | None:
    if isinstance(given, Spec):
        return given.type
    if isinstance(given, Tensor):
        return given.type
    if isinstance(given, (np.ndarray, np.generic)) or _is_foreign_tensor(given):
        name = str(given.dtype).removeprefix("torch.")
        kind: DType = bfloat16 if name == "uint16" else as_dtype(name)
        return tensor_type(kind, [int(s) for s in given.shape])
    return None


def _is_foreign_tensor(given: Any) -> bool:
    return hasattr(given, "__dlpack__") and hasattr(given, "shape") and hasattr(given, "dtype")


def _argument_names(function: Callable[..., Any], inputs: Sequence[Any]) -> dict[str, str]:
    """Position -> name of the parameter that receives it."""
    known = signature_or_none(function)
    parameters = [] if known is None else list(known.parameters.values())
    out = {}
    for i in range(len(inputs)):
        if i < len(parameters) and parameters[i].kind is not inspect.Parameter.VAR_POSITIONAL:
            out[str(i)] = parameters[i].name
        else:
            out[str(i)] = f"input_{i}"
    return out


def _parameter_names(capture: Capture) -> dict[tuple[int, int], str]:
    """The names of parameters and buffers, by the value that they hold."""
    names: dict[tuple[int, int], str] = {}
    several = len(capture.modules) > 1
    for module in capture.modules:
        prefix = capture.names.get(id(module), "") if several else ""
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            found = resolve(tensor.value)
            full = f"{prefix}.{name}" if prefix else name
            names.setdefault((found.node.id, found.index), full)
    return names
