"""Requests that are answered by one call of a model: joined along its batch axis, and split again.

A model can be batched when all of its inputs and outputs begin with the same symbolic size, which
stands nowhere else: then row i of the outputs is taken for the answer to row i of the inputs. Any
other model answers one request at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glasshouse.errors import ExecutionError, GlasshouseError, Unsupported
from glasshouse.ir.dim import Symbol, as_symbol, evaluate, symbols_of
from glasshouse.ir.graph import Graph
from glasshouse.numpy_ref.executor import bind_sizes
from glasshouse.runtime.arguments import ordered
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.checks import checked_input
from glasshouse.runtime.module import Module

Answer = tuple[Array, ...] | GlasshouseError


class BatchedModel:
    """A module that answers requests, several in one call where they fit together."""

    def __init__(self, module: Module) -> None:
        if module.graph.updates:
            raise Unsupported(
                "a model that updates its variables is not served: answers would depend on who "
                "asked before",
                hint="save the model for inference",
            )
        self.module = module
        self.batch = batch_symbol(module.graph)  # None: one request at a time

    def checked(self, given: Sequence[Any], named: Mapping[str, Any]) -> list[Array]:
        """A request's inputs as arrays that the model can be run on, or why it cannot.

        Whoever comes into a batch was checked before: one wrong request spoils no other's answer.
        """
        graph = self.module.graph
        arrays = self.module.arguments(ordered(graph.inputs, given, named))
        sizes = bind_sizes([v.type for v in graph.inputs], arrays)
        for number, (value, array) in enumerate(zip(graph.inputs, arrays, strict=True)):
            checked_input(value, array, sizes, number)
        if self.batch is not None and sizes[self.batch.name] == 0:
            raise ExecutionError("a request without rows", hint="send at least one")
        return arrays

    def answers(self, requests: Sequence[list[Array]]) -> list[Answer]:
        """For each request its outputs, or the error that its run ended in."""
        out: list[Answer] = [()] * len(requests)
        for together in self._groups(requests):
            joined = [requests[i] for i in together]
            try:
                made = self._run(joined)
            except GlasshouseError as error:
                # One that fails alone gets its error; the others get their answers.
                made = [error] if len(joined) == 1 else [self.answers([r])[0] for r in joined]
            for place, answer in zip(together, made, strict=True):
                out[place] = answer
        return out

    @property
    def output_names(self) -> list[str]:
        """What outputs are called; the one of a model that returns just a tensor has no name."""
        return [n or f"output_{i}" for i, n in enumerate(self.module.output_names)]

    def rows(self, request: Sequence[Array]) -> int:
        return int(request[0].shape[0]) if self.batch is not None else 1

    def smallest(self) -> list[Array]:
        """Zeros of the smallest sizes: a request that shows whether the model runs."""
        names = [s for v in self.module.graph.inputs for d in v.type.shape
                 for s in symbols_of(d).values()]  # fmt: skip
        sizes = {s.name: max(s.low, 1) for s in names}
        return [
            np.zeros([evaluate(d, sizes) for d in v.type.shape], v.type.dtype.carrier)
            for v in self.module.graph.inputs
        ]

    def _groups(self, requests: Sequence[list[Array]]) -> list[list[int]]:
        """Requests that one call can answer: of equal sizes but for their rows, in order."""
        if self.batch is None:
            return [[i] for i in range(len(requests))]
        most = self.batch.high
        groups: list[list[int]] = []
        latest: dict[Any, tuple[list[int], int]] = {}  # by sizes: the group that is filled
        for i, request in enumerate(requests):
            key = tuple(a.shape[1:] for a in request)
            group, rows = latest.get(key, (None, 0))
            rows += self.rows(request)
            if group is None or (most is not None and rows > most):
                groups.append(group := [])
                rows = self.rows(request)
            group.append(i)
            latest[key] = group, rows
        return groups

    def _run(self, requests: Sequence[list[Array]]) -> list[Answer]:
        if len(requests) == 1:
            return [tuple(self.module.run_flat(requests[0]))]
        inputs = [np.concatenate(parts) for parts in zip(*requests, strict=True)]
        made = self.module.run_flat(inputs)
        ends = np.cumsum([self.rows(r) for r in requests])[:-1]
        return list(zip(*(np.split(array, ends) for array in made), strict=True))


def raise_error(answer: Answer) -> tuple[Array, ...]:
    """The outputs, where the answer is not an error."""
    if isinstance(answer, GlasshouseError):
        raise answer
    return answer


def batch_symbol(graph: Graph) -> Symbol | None:
    """The size that counts rows of inputs and outputs alike; None where there is none."""
    shapes = [v.type.shape for v in (*graph.inputs, *graph.outputs)]
    firsts = {as_symbol(s[0]) if s else None for s in shapes}
    if not graph.inputs or len(firsts) != 1:
        return None
    (found,) = firsts
    if found is None or any(found.name in symbols_of(d) for s in shapes for d in s[1:]):
        return None
    return found
