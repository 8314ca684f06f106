"""How gradients are asked for: of a function, of tensors, into `.grad`, or of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

from glasshouse.errors import GradientError
from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.graph import Graph, Value
from glasshouse.ir.op import REGISTRY, NoGradient
from glasshouse.ops.reverse import backward_origin, reverse
from glasshouse.tensor.builder import LAZY
from glasshouse.tensor.create import as_tensor
from glasshouse.tensor.late import postpone
from glasshouse.tensor.nested import flatten, rebuild
from glasshouse.tensor.pending import LazyNode, LazyValue
from glasshouse.tensor.state import STATE, TRACING, at, keeping_operands, no_grad
from glasshouse.tensor.tensor import Tensor


# ------------------------------------------------------------------------------------- of functions
def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that gives the gradient of a scalar function by its first (or other) arguments.

    `grad(grad(f))` is the second derivative. An argument may be a tuple, list or dict of tensors;
    the gradient has the same form.
    """
    both = value_and_grad(function, argnums)

    @wraps(function)
    def gradient(*args: Any, **keywords: Any) -> Any:
        return both(*args, **keywords)[1]

    return gradient


def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """As `grad`, with the value: `(value, gradient)`. With `has_aux`, the function gives a pair of
    which the first is differentiated."""
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)

    @wraps(function)
    def both(*args: Any, **keywords: Any) -> tuple[Any, Any]:
        given = list(args)
        seen: set[LazyValue] = set()
        for number in numbers:
            if not -len(given) <= number < len(given):
                raise GradientError(f"there is no argument {number}", LAZY.where())
            given[number] = rebuild(given[number], lambda _, leaf: _distinct(leaf, seen))
        with keeping_operands():
            result = function(*given, **keywords)
            output = result[0] if has_aux else result
            wrt = [leaf for n in numbers for _, leaf in flatten(given[n])]
            found = iter(_gradients([_scalar(output)], wrt, None, independent=True))
        shaped = [rebuild(given[n], lambda _, __: next(found)) for n in numbers]
        return result, shaped[0] if isinstance(argnums, int) else tuple(shaped)

    return both


def _distinct(leaf: Any, seen: set[LazyValue]) -> Tensor:
    """A tensor that was given twice is two variables."""
    tensor = as_tensor(leaf)
    if not tensor.dtype.is_float:
        raise GradientError(f"only floats have gradients, not {tensor.type}", LAZY.where())
    if tensor.value in seen:
        tensor = tensor.apply("reshape", shape=tensor.shape)
    seen.add(tensor.value)
    return tensor


def _scalar(output: Any) -> Tensor:
    if not isinstance(output, Tensor):
        raise GradientError(
            f"a function with a gradient gives a tensor, not {output!r}", LAZY.where()
        )
    if output.type.numel != 1:
        raise GradientError(
            f"the gradient of {output.type} needs a scalar",
            LAZY.where(),
            "take its sum() or mean()",
        )
    return output


# --------------------------------------------------------------------------------------- of tensors
def gradients(
    outputs: Tensor | Sequence[Tensor], wrt: Sequence[Tensor], seeds: Sequence[Tensor] | None = None
) -> list[Tensor]:
    """The gradient of the sum of `outputs` by each of `wrt`; zeros where nothing depends on it."""
    many = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    return _gradients(many, wrt, seeds, independent=False)


def _gradients(
    many: Sequence[Tensor],
    wrt: Sequence[Tensor],
    seeds: Sequence[Tensor] | None,
    independent: bool,
) -> list[Tensor]:
    start: dict[Value, Tensor] = {
        o.value: ones_like(o.value) if seeds is None else seeds[i] for i, o in enumerate(many)
    }
    targets = [t.value for t in wrt]
    first = min((v.node.id for v in targets), default=0)
    order = _ancestors(start, lambda node: node.id >= first)
    found = reverse(LAZY, at, order, start, targets, independent=independent)
    return [_zeros(t) if g is None else g for g, t in zip(found, wrt, strict=True)]


def backward(tensor: Tensor, gradient: Any = None, retain_graph: bool = False) -> None:
    """Add gradients to `.grad` of the leaves that need one; see `Tensor.backward`."""
    if not tensor.requires_grad:
        raise GradientError(
            "nothing that this tensor is computed from needs a gradient, or it was taken already",
            LAZY.where(),
            "requires_grad_() asks for one; backward(retain_graph=True) lets it be taken again",
        )
    if gradient is None:
        _scalar(tensor)
        if not retain_graph and can_wait(tensor):
            postpone(tensor)
            return
    seed = ones_like(tensor.value) if gradient is None else as_tensor(gradient)
    if seed.type != tensor.type:
        raise GradientError(f"a gradient of {seed.type} for {tensor.type}", LAZY.where())
    for leaf, found in gradients_of_leaves(tensor.value, seed):
        leaf.grad = found if leaf.grad is None else leaf.grad + found
    if not retain_graph:
        forget(tensor)


def can_wait(loss: Tensor) -> bool:
    """Whether the gradients of a loss need not be recorded before they are read (`late.py`): an op
    that has none is to be told of now."""
    state = STATE.own
    if state.capture is not None or state.keeping or TRACING.is_on:
        return False
    first = loss.value.node
    if first.owner is not None:
        return False
    seen = {first.id}
    stack = [first]
    while stack:
        node = stack.pop()
        if node.stands_for is not None:
            if not node.stands_for.has_gradients:
                return False
        elif node.inputs and isinstance(node.op.vjp, NoGradient):
            return False
        for value in node.inputs:
            above: LazyNode = value.node  # type: ignore[assignment]  # all are lazy
            if above.inputs and above.needs_grad and above.id not in seen:
                seen.add(above.id)
                stack.append(above)
    return True


def leaf_gradients(tensor: Tensor, leaves: Iterable[Tensor]) -> list[Tensor | None]:
    """For each leaf the gradient of the sum of a tensor, or None where nothing flows to it."""
    value = tensor.value
    by_leaf = {id(leaf): found for leaf, found in gradients_of_leaves(value, ones_like(value))}
    return [by_leaf.get(id(leaf)) for leaf in leaves]


def forget(tensor: Tensor) -> None:
    """Let a tensor drop its graph once it is computed: its gradient will not be asked again."""
    if tensor.value.node.owner is None:
        tensor.value.node.needs_grad = False


def gradients_of_leaves(value: LazyValue, seed: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The leaves that a gradient flows to from a value, with theirs."""
    start: dict[Value, Tensor] = {value: seed}
    order = _ancestors(start, lambda node: node.needs_grad)
    leaves = []
    for node in order:
        owner = None if node.owner is None else node.owner()
        if owner is not None:
            leaves.append((owner, node.outputs[0]))
    with no_grad():
        found = reverse(LAZY, at, order, start, [value for _, value in leaves])
    return [(leaf, g) for (leaf, _), g in zip(leaves, found, strict=True) if g is not None]


def _ancestors(start: Iterable[Value], wanted: Callable[[LazyNode], bool]) -> list[LazyNode]:
    """The nodes above these values, executed or not, producers first."""
    seen: dict[int, LazyNode] = {}
    stack = [v.node for v in start]
    while stack:
        node = stack.pop()
        if isinstance(node, LazyNode) and node.id not in seen and wanted(node):
            seen[node.id] = node
            if node.stands_for is not None:
                node.stands_for.open(node)
            stack.extend([v.node for v in node.inputs])
    return [seen[i] for i in sorted(seen)]


def ones_like(value: LazyValue) -> Tensor:
    """The gradient of a value by itself."""
    shape, dtype = value.type.shape, value.type.dtype
    with at(backward_origin(value.node)):
        return LAZY.make("full", shape=shape, value=1, dtype=dtype)  # type: ignore[no-any-return]  # one output


def _zeros(tensor: Tensor) -> Tensor:
    with at(backward_origin(tensor.value.node)):
        return LAZY.make("full", shape=tensor.shape, value=0, dtype=tensor.dtype)  # type: ignore[no-any-return]  # one output


# ---------------------------------------------------------------------------------------- of graphs
def differentiate(
    graph: Graph,
    outputs: Sequence[int] | None = None,
    wrt: Sequence[Value | int] | None = None,
    *,
    seeds: str = "ones",
) -> Graph:
    """A graph with the outputs of `graph` and, after them, the gradients by `wrt`.

    `outputs` are the numbers of the outputs that are differentiated (their sum; default: 0),
    `wrt` values or node ids of `graph` (default: all inputs that are floats). With `seeds="inputs"`
    the gradients of the outputs are further inputs of the new graph, in place of ones. Forward
    nodes keep their ids.
    """
    out = graph.copy()
    builder = GraphBuilder()
    builder.graph = out
    numbers = [0] if outputs is None else list(outputs)
    if wrt is None:
        wrt = [v for v in graph.inputs if v.type.dtype.is_float]
    targets = [
        out.node(w).output if isinstance(w, int) else out.node(w.node.id).outputs[w.index]
        for w in wrt
    ]
    order = list(out.nodes)
    start: dict[Value, Any] = {}
    for number in numbers:
        value = out.outputs[number]
        with builder.at(backward_origin(value.node)):
            if seeds == "inputs":
                name = out.output_names[number] if number < len(out.output_names) else str(number)
                seed = builder.input(value.type.dtype, value.type.shape, f"grad:{name}")
            else:
                seed = _full(builder, value, 1)
            start[value] = start[value] + seed if value in start else seed
    found = reverse(builder, builder.at, order, start, targets)
    made = []
    for grad_handle, target in zip(found, targets, strict=True):
        with builder.at(backward_origin(target.node)):
            made.append(_full(builder, target, 0) if grad_handle is None else grad_handle)
    names = list(out.output_names) or [""] * len(out.outputs)
    names += [f"grad:{t.node.attrs.get('name') or t.node.id}" for t in targets]
    out._set_outputs([*out.outputs, *(g.value for g in made)], names)
    return without_dead_nodes(out)


def _full(builder: GraphBuilder, like: Value, value: int) -> Any:
    attrs = {"shape": like.type.shape, "value": value, "dtype": like.type.dtype}
    return builder.wrap(REGISTRY["full"].emit(builder, [], attrs).output)


def without_dead_nodes(graph: Graph) -> Graph:
    """The same graph, ids included, without nodes that no output or update needs; inputs stay."""
    needed: set[int] = set()
    stack = [v.node for v in (*graph.outputs, *graph.updates.values(), *graph.inputs)]
    stack += list(graph.updates)
    while stack:
        node = stack.pop()
        if node.id not in needed:
            needed.add(node.id)
            stack.extend([v.node for v in node.inputs])
    for node in reversed(list(graph.nodes)):
        if node.id not in needed:
            graph._remove(node)
    return graph
