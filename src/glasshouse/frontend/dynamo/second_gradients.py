"""Gradients of gradients of a compiled function, taken where they are asked for.

`create_graph=True` gives the compiled gradients; what is differentiated further (a gradient
penalty, a product with the Hessian, a step of meta-learning) is computed anew by PyTorch, op by op,
from the function's arguments. A step that asks for none pays for a reference to its arguments.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import fx
from torch.nn import functional as F

from glasshouse.errors import NotCompiled

_RANDOM = (
    "gradients of gradients of a function that draws random numbers (dropout, rand) are not "
    "compiled; take it out of torch.compile"
)
_WRITTEN = (
    "gradients of gradients of a function that writes to its arguments are not compiled; "
    "take it out of torch.compile"
)
_CHANGED = (
    "an argument of a compiled function was modified by an inplace operation before gradients of "
    "its gradients were taken"
)
_version = operator.attrgetter("_version")
_TOLD = "gradients of gradients of a compiled function are taken by PyTorch, op by op"


Kept = tuple[Sequence[Any], int]
"""What is kept of a call's arguments, and a number that changes when one of them is written to."""


class SecondGradients:
    """What differentiates the gradients of one function once more; `module` is Dynamo's graph."""

    def __init__(self, module: fx.GraphModule) -> None:
        graph = fx.Graph()
        graph.output(graph.graph_copy(module.graph, {}))
        for node in graph.nodes:
            node.meta = {}  # fake tensors and lines need not stay
        _leave_statistics(graph)
        parts = {str(n.target) for n in graph.nodes if n.op in ("get_attr", "call_module")}
        self._held = {name: operator.attrgetter(name)(module) for name in parts}
        self._graph = graph
        self._read = [bool(n.users) for n in graph.nodes if n.op == "placeholder"]
        self._reads_all = all(self._read)
        self._around = _autocast()
        self._run: Callable[..., Any] | None = None
        self._refusal = ""

    def look_at(self, forward: fx.Graph, written: Sequence[int]) -> None:
        """At the forward graph, of ATen ops, and which arguments are written to."""
        if any(self._read[i] for i in written):
            self._refusal = _WRITTEN
        for node in forward.nodes:  # these would draw other numbers
            if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
                self._refusal = _RANDOM

    def kept(self, flat: Sequence[Any]) -> Kept:
        return flat, self.versions(flat)

    def versions(self, flat: Sequence[Any]) -> int:
        """One number that changes when an argument is written to that is read again."""
        read = flat if self._reads_all else [x for x, r in zip(flat, self._read, strict=True) if r]
        try:
            return sum(map(_version, read))  # 0.3 us for five tensors; with a loop 1.1
        except AttributeError:  # sizes among them
            return sum(map(_version, [x for x in read if isinstance(x, torch.Tensor)]))

    def attached(self, found: Sequence[Any], kept: Kept, arrived: Sequence[Any]) -> list[Any]:
        """Gradients that were `found`, one for each argument, as functions of the arguments and
        of the gradients that arrived, one for each result."""
        given, version = kept
        made = iter(_Attached.apply(self, found, version, len(given), *given, *arrived))
        return [None if f is None else next(made) for f in found]

    def gradients(self, given: Sequence[Any], arrived: Sequence[Any]) -> list[Any]:
        """Those of all arguments, by PyTorch, as functions of all that is given here."""
        if self._refusal:
            raise RuntimeError(self._refusal)
        if self._run is None:
            warnings.warn(_TOLD, NotCompiled, stacklevel=2)
            self._run = fx.GraphModule(self._held, self._graph).forward
        with self._around():
            results = self._run(*given)
        pairs = [
            (r, a) for r, a in zip(results, arrived, strict=True) if a is not None and _follows(r)
        ]
        return _differentiated(pairs, given, True)


class _Attached(torch.autograd.Function):
    """Compiled gradients, whose own gradients are PyTorch's."""

    @staticmethod
    def forward(
        ctx: Any, of: SecondGradients, found: Any, version: int, count: int, *tensors: Any
    ) -> Any:
        ctx.of, ctx.version, ctx.count = of, version, count
        ctx.tensors = tensors  # not as saved ones, which cannot be read where one has changed
        ctx.there = [f is not None for f in found]
        ctx.set_materialize_grads(False)
        return tuple([f.detach() for f in found if f is not None])

    @staticmethod
    def backward(ctx: Any, *second: Any) -> Any:
        if ctx.of.versions(ctx.tensors[: ctx.count]) != ctx.version:
            raise RuntimeError(_CHANGED)
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            # Views: what one argument is computed of is not followed into another one here.
            tensors = [t.view_as(t) if _follows(t) else t for t in ctx.tensors]
            gradients = ctx.of.gradients(tensors[: ctx.count], tensors[ctx.count :])
            by = iter(second)
            pairs = [
                (g, s) for g, s in zip(gradients, [next(by) if t else None for t in ctx.there],
                                       strict=True)
                if s is not None and _follows(g)
            ]  # fmt: skip
            return (None, None, None, None, *_differentiated(pairs, tensors, again))


def _differentiated(
    pairs: Sequence[tuple[Any, Any]], by: Sequence[Any], create_graph: bool
) -> list[Any]:
    """The gradients of results, each with its own, by each of many; None where there is none."""
    wanted = [x for x in by if _follows(x)]
    if not pairs or not wanted:
        return [None] * len(by)
    results, arrived = zip(*pairs, strict=True)
    found = iter(
        torch.autograd.grad(results, wanted, arrived, create_graph=create_graph, allow_unused=True)
    )
    return [next(found) if _follows(x) else None for x in by]


def _follows(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.requires_grad


def _autocast() -> Callable[[], AbstractContextManager[Any]]:
    """What turns on the autocast that is on now."""
    if not torch.is_autocast_enabled("cpu"):
        return nullcontext
    dtype = torch.get_autocast_dtype("cpu")
    return lambda: torch.autocast("cpu", dtype)


def _leave_statistics(graph: fx.Graph) -> None:
    """Statistics of batch norms that are being trained decide nothing, and are not updated again
    here: neither they nor the count of batches."""
    for node in list(graph.nodes):
        is_statement = not node.users and node.all_input_nodes[:1] == list(node.args[:1])
        if node.target == "add_" and is_statement and node.args[0].op == "placeholder":
            if len(node.args[0].users) == 1:
                graph.erase_node(node)
        elif node.target is F.batch_norm and len(node.args) > 5 and node.args[5] is True:
            node.args = (node.args[0], None, None, *node.args[3:])
