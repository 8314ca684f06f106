"""Weights that are other tensors in every call (a buffer that is assigned anew, say) become
arguments of the graph: as constants they would be folded into others, and compiled each time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from glasshouse.frontend.torch.dtypes import dtype_of
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.sources import CONSTANT, INPUT

PATIENCE = 3
"""Calls in a row that bring other tensors, and a module made anew, before these are arguments."""


class WithArguments:
    """A module whose last inputs are weights, called as if they were constants of it."""

    def __init__(self, module: Any, weights: Mapping[str, torch.Tensor]) -> None:
        self._module = module
        self._weights = {name: weight.detach() for name, weight in weights.items()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def run_flat(self, given: Sequence[Any]) -> Any:
        return self._module.run_flat([*given, *self._weights.values()])

    def run_over(self, given: Sequence[Any]) -> Any:
        return self._module.run_over([*given, *self._weights.values()])

    def quick_call(self, kind: type) -> Callable[[Sequence[Any]], Any] | None:
        quick = self._module.quick_call(kind)
        return quick and (lambda given: quick([*given, *self._weights.values()]))

    def set_many_constants(self, constants: Mapping[str, torch.Tensor]) -> None:
        own = {n: t.detach() for n, t in constants.items() if n in self._weights}
        self._module.set_many_constants({n: t for n, t in constants.items() if n not in own})
        self._weights = {**self._weights, **own}


def take_as_arguments(graph: Graph, names: Sequence[str]) -> None:
    """Let constants of these names be inputs, in this order behind its own."""
    named = _constants(graph)
    for name in names:
        node = named[name]
        made = graph._add(INPUT, (), {"name": name}, [node.output.type], node.origin)
        graph._redirect(node.output, made.output, ())
        graph._remove(node)
        graph.inputs.append(made.output)


def can_be_arguments(graph: Graph, weights: Mapping[str, torch.Tensor]) -> list[str]:
    """Those of some weights that are constants of the graph as they lie in PyTorch."""
    named = _constants(graph)
    return [n for n, weight in weights.items() if n in named and _is_as_it_lies(named[n], weight)]


def _constants(graph: Graph) -> dict[str, Node]:
    return {str(n.attrs.get("name", "")): n for n in graph.nodes_of(CONSTANT)}


def _is_as_it_lies(node: Node, weight: torch.Tensor) -> bool:
    kind = node.output.type
    same = not weight.is_complex() and kind.dtype is dtype_of(weight.dtype)
    return same and kind.shape == tuple(weight.shape)
