"""When pending work of lazy tensors is compiled: as soon as that pays for itself.

A graph is known by its structure. The reference runs it until it has cost as much time as compiling
it would, then it is compiled, at once and for good: so nobody waits seconds for a graph that runs a
few times, and at worst the sum is twice that of the better choice. Both times are estimates from
the graph alone, so that a program changes over at the same step on every machine and in every run.
While trace data is kept, compiling happens at once, and each kernel is told of with its ops.

The compiler is imported when it is needed: that alone takes longer than most graphs that run once.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from glasshouse.errors import CompilerMissing, GlasshouseError, OnReference
from glasshouse.forking import ForkLock
from glasshouse.ir.graph import Graph
from glasshouse.ir.op import Kind
from glasshouse.ops.cost import bytes_read, bytes_written, operations
from glasshouse.tensor.execute import Report, reference
from glasshouse.tensor.pending import Array
from glasshouse.tensor.structure import StructureKey, structure_key

if TYPE_CHECKING:
    from glasshouse.runtime.fused_groups import FusedGroup
    from glasshouse.runtime.module import Module

# Seconds; measured on two cores of 2022 with a warm compiler, headers parsed.
_COMPILE, _COMPILE_NODE = 1.0, 0.05
_RUN_NODE = 15e-6
_OPERATIONS, _BYTES = 2e9, 4e9  # of the reference, in a second
KEPT = 512
"""Structures that are remembered; the one that was not used for longest goes first."""


@dataclass
class _Seen:
    """What is known of a structure."""

    owed: float  # seconds of the reference until compiling pays; below 0: never
    each: float  # seconds that one run of the reference takes
    module: Module | None = None
    groups: Sequence[FusedGroup] = ()  # the kernels, by positions of nodes


class LazyExecutor:
    """Runs pending graphs; with `at_once`, compiled from the first time on."""

    def __init__(self, at_once: bool = False) -> None:
        self._at_once = at_once
        self._missing = False  # whether it was reported that there is no compiler
        self._seen: OrderedDict[StructureKey, _Seen] = OrderedDict()
        self._lock = ForkLock()

    def __call__(
        self, graph: Graph, inputs: Sequence[Array], report: Report | None = None
    ) -> Sequence[Array]:
        key = structure_key(graph)
        if report is None:
            return self.run_keyed(key, inputs, lambda: graph)
        if self._module(key, graph, at_once=True) is None:
            return reference(graph, inputs, report)
        made = self.run_keyed(key, inputs, lambda: graph)
        nodes = graph.nodes
        for group in self._seen[key].groups:
            report([nodes[i].id for i in group.positions], group.key, group.file)
        return made

    def run_keyed(
        self, key: StructureKey, inputs: Sequence[Array], make: Callable[[], Graph]
    ) -> Sequence[Array]:
        """Run what has this key; its graph is made where it is not compiled yet."""
        seen = self._seen.get(key)
        if seen is None or seen.module is None:
            graph = make()
            module = self._module(key, graph)
            if module is None:
                return reference(graph, inputs)
        else:
            module = seen.module
            self._seen.move_to_end(key)
        made = module(*inputs)
        return made if isinstance(made, tuple) else (made,)

    def compiled(self) -> int:
        """How many structures have been compiled."""
        return sum(seen.module is not None for seen in self._seen.values())

    def _module(self, key: StructureKey, graph: Graph, at_once: bool = False) -> Module | None:
        with self._lock.lock:
            seen = self._seen.get(key)
            if seen is None:
                seen = self._seen[key] = self._first(graph)
                if len(self._seen) > KEPT:
                    self._seen.popitem(last=False)
            else:
                self._seen.move_to_end(key)
            if seen.module is None and seen.owed >= 0:
                seen.owed -= seen.each
                if seen.owed <= 0 or at_once:
                    seen.module, seen.groups = self._compile(graph) or (None, ())
                    seen.owed = -1.0
            return seen.module

    def _first(self, graph: Graph) -> _Seen:
        nodes = [n for n in graph.nodes if n.op.kind is not Kind.SOURCE]
        work = sum(operations(n) for n in nodes) / _OPERATIONS
        moved = sum(bytes_read(n) + bytes_written(n) for n in nodes) / _BYTES
        each = len(nodes) * _RUN_NODE + work + moved
        return _Seen(0.0 if self._at_once else _COMPILE + len(nodes) * _COMPILE_NODE, each)

    def _compile(self, graph: Graph) -> tuple[Module, Sequence[FusedGroup]] | None:
        """The module and its kernels; None where no compiler is, or it could not build this."""
        from glasshouse.passes import PassContext, optimize
        from glasshouse.runtime.compiler import compile_graph
        from glasshouse.runtime.fused_groups import Roots, groups_of

        try:
            with PassContext() as ctx:  # one of its own: the user's instruments watch other work
                roots = Roots()
                ctx.add(roots)
                module = compile_graph(optimize(graph, ctx))
                return module, groups_of(module, graph, roots)
        except GlasshouseError as error:
            if self._at_once:
                raise
            if isinstance(error, CompilerMissing):  # told once, not for every graph
                missing, self._missing = self._missing, True
                if missing:
                    return None
            warnings.warn(f"lazy tensors run uncompiled: {error}", OnReference, stacklevel=2)
        return None


def auto() -> LazyExecutor:
    """The executor of lazy tensors, unless another is set."""
    return LazyExecutor()


def compiled() -> LazyExecutor:
    """An executor that compiles everything, and fails where that fails."""
    return LazyExecutor(at_once=True)
