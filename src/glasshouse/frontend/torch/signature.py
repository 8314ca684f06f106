"""How a PyTorch model is called, read off the trees that `torch.export` keeps of arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

from torch.utils import _pytree as pytree

from glasshouse.frontend.torch import sparse_parts
from glasshouse.frontend.torch.program import Captured
from glasshouse.frontend.torch.sparse_parts import SparseParts
from glasshouse.ir.signature import Container, Fixed, Leaf, Signature, Structure

_PLAIN = {tuple: "tuple", list: "list", dict: "dict"}


def signature_of(
    captured: Captured,
    forward: Callable[..., Any] | None = None,
    examples: tuple[Sequence[Any], Mapping[str, Any]] | None = None,
) -> Signature | None:
    """How the model of a captured graph is called; None where the capture does not tell.

    `forward` is the model's; `examples` are the arguments of the capture.
    """
    in_spec, out_spec, results = captured.in_spec, captured.out_spec, captured.outputs
    if in_spec is None or out_spec is None or out_spec.num_leaves != len(results):
        return None
    places = {number: i for i, number in enumerate(captured.inputs)}
    values = pytree.tree_leaves(examples) if examples is not None else []

    def argument(number: int) -> Structure:
        if (how := captured.apart.get(number)) is not None:
            parts = tuple(Leaf(i) for i, n in enumerate(captured.inputs) if n == number)
            return Container(how.kind, how.names, parts, how.take, how.make, True)
        if number in places:
            return Leaf(places[number])
        return Fixed(values[number] if number < len(values) else None)

    def result(number: int) -> Structure:
        found = results[number]
        if not isinstance(found, int):
            return Fixed(found.value)
        kind = "int" if found in captured.numbers else "tensor"
        return Leaf(found, "complex" if found in captured.complex else kind)

    numbers = count()
    positional, named = in_spec.children()
    args = [_structure(child, numbers, argument) for child in positional.children()]
    keywords = {
        key: _structure(child, numbers, argument)
        for key, child in zip(named.context, named.children(), strict=True)
    }
    parameters = _parameters(forward)
    try:
        given = _named(captured, args, keywords, parameters)
    except TypeError:  # a wrapper whose forward takes other arguments than it was given
        parameters, given = None, _named(captured, args, keywords, None)
    written = tuple((places[i], o) for i, o in captured.written)
    return Signature(given, _structure(out_spec, count(), result), parameters, written)


def _named(
    captured: Captured,
    args: Sequence[Structure],
    keywords: Mapping[str, Structure],
    parameters: inspect.Signature | None,
) -> dict[str, Structure]:
    """Arguments by parameter; without parameters, by the names of the graph's inputs."""
    if parameters is not None:
        return _grouped(parameters.bind(*args, **keywords))
    inputs = captured.graph.inputs
    names = [
        inputs[x.number].node.attrs["name"] if isinstance(x, Leaf) else f"argument_{i}"
        for i, x in enumerate(args)
    ]
    return {**dict(zip(names, args, strict=True)), **keywords}


def _parameters(forward: Callable[..., Any] | None) -> inspect.Signature | None:
    try:
        return None if forward is None else inspect.signature(forward)
    except (TypeError, ValueError):
        return None


def _grouped(bound: inspect.BoundArguments) -> dict[str, Structure]:
    """By parameter; what `*args` and `**kwargs` took are groups."""
    out: dict[str, Structure] = {}
    for name, value in bound.arguments.items():
        if isinstance(value, tuple):
            value = Container("tuple", tuple(range(len(value))), value)
        elif isinstance(value, dict):
            value = Container("dict", tuple(value), tuple(value.values()))
        out[name] = value
    return out


def _structure(spec: Any, numbers: Iterator[int], leaf: Callable[[int], Structure]) -> Structure:
    """A tree of PyTorch's as a structure; arguments are nested a few levels deep."""
    if spec.type is None:
        return leaf(next(numbers))
    parts = tuple(_structure(child, numbers, leaf) for child in spec.children())
    if spec.type in _PLAIN:
        names = spec.context if spec.type is dict else range(len(parts))
        return Container(_PLAIN[spec.type], tuple(names), parts)
    if spec.type is SparseParts:
        kind, names = sparse_parts.kind_of(spec.context), sparse_parts.names_of(spec.context)
        take_parts = partial(sparse_parts.taken, context=spec.context)
        put = partial(sparse_parts.whole, context=spec.context)
        return Container(kind, names, parts, take_parts, put, True)
    kind, entry = spec.type, pytree.SUPPORTED_NODES[spec.type]

    def take(given: Any) -> Sequence[Any] | None:
        return list(entry.flatten_fn(given)[0]) if type(given).__name__ == kind.__name__ else None

    make = partial(_made, entry.unflatten_fn, spec.context)
    return Container(kind.__name__, _field_names(spec, len(parts)), parts, take, make)


def _made(unflatten: Callable[[Any, Any], Any], context: Any, parts: Sequence[Any]) -> Any:
    return unflatten(list(parts), context)


def _field_names(spec: Any, number: int) -> tuple[str, ...]:
    """Names of the parts of a class, where its tree functions or its fields tell them."""
    fields = getattr(spec.type, "_fields", None)
    if fields is not None and len(fields) == number:
        return tuple(fields)
    made = pytree.tree_unflatten(list(range(spec.num_leaves)), spec) if number else ()
    try:
        entry = pytree.SUPPORTED_NODES[spec.type].flatten_with_keys_fn
        pairs = [] if entry is None else entry(made)[0]
        names = tuple(str(getattr(k, "key", getattr(k, "name", k))) for k, _ in pairs)
    except Exception:  # tree functions of the user's, on leaves that are numbers
        names = ()
    return names if len(names) == number else tuple(str(i) for i in range(number))
