"""When pending work of lazy tensors is compiled: beside the program, once it has run a while.

A graph is known by its structure. The reference runs it; when that has cost a tenth of what
compiling would, and it was seen twice, a thread compiles it, and the first run after that takes the
compiled module. So nobody waits for a compiler, and a graph that runs a few times costs none. While
trace data is kept, compiling happens at once, and each kernel is reported with its ops.

The compiler is imported when it is needed: that alone takes longer than most graphs that run once.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from glasshouse.errors import CompilerMissing, GlasshouseError, OnReference
from glasshouse.forking import ForkLock
from glasshouse.ir.graph import Graph
from glasshouse.ir.op import Kind
from glasshouse.ops.cost import bytes_read, bytes_written, operations
from glasshouse.runtime.background import BackgroundJob
from glasshouse.tensor.execute import BoundRun, KeyedExecutor, Report, reference
from glasshouse.tensor.pending import Array
from glasshouse.tensor.structure import StructureKey, structure_key
from glasshouse.watched import watched_stream

if TYPE_CHECKING:
    from glasshouse.runtime.fused_groups import FusedGroup
    from glasshouse.runtime.module import Module

# Seconds; measured on two cores of 2022 with a warm compiler, headers parsed.
_COMPILE, _COMPILE_NODE = 1.0, 0.02
_SHARE = 0.1  # of them that a structure must have cost before a processor is spent on it
_SLOW = 0.1  # a step of the reference that somebody who watches is told about
_RUN_NODE = 15e-6
_OPERATIONS, _BYTES = 2e9, 4e9  # of the reference, in a second
KEPT = 512
"""Structures that are remembered; the one that was not used for longest goes first."""


_LOG = logging.getLogger("glasshouse.compile")

Compiled = tuple["Module", Sequence["FusedGroup"]]


@dataclass
class _Seen:
    """What is known of a structure."""

    owed: float  # seconds of the reference until it is compiled; below 0: it was tried
    each: float  # seconds that one run of the reference takes
    job: BackgroundJob[Compiled] | None = None  # while a thread compiles it
    begin: float = 0.0  # when that began
    module: Module | None = None
    groups: Sequence[FusedGroup] = ()  # the kernels, by positions of nodes
    fills: bool | None = None  # whether results are stored as they are carried; None: not known


class LazyExecutor(KeyedExecutor):
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
        made = self.run_compiled(key, inputs)
        if made is not None:
            return made
        graph = make()
        if self._module(key, graph) is None:
            return reference(graph, inputs)
        again = self.run_compiled(key, inputs)
        return reference(graph, inputs) if again is None else again

    def run_compiled(
        self, key: StructureKey, inputs: Sequence[Array], outputs: Sequence[Array] | None = None
    ) -> Sequence[Array] | None:
        """Run what has this key, if it is compiled, into `outputs` where they can hold it."""
        seen = self._seen.get(key)
        if seen is None or seen.module is None:
            return None
        self._seen.move_to_end(key)
        if outputs is not None and seen.fills is None:
            stored = [v.type.dtype.storage for v in seen.module.graph.outputs]
            seen.fills = stored == [a.dtype for a in outputs]  # bfloat16 is carried as float32
        if outputs is not None and seen.fills:
            return seen.module.run_with_tensors(inputs, outputs)
        made = seen.module(*inputs)
        return made if isinstance(made, tuple) else (made,)

    def bound(
        self,
        key: StructureKey,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array | None],
    ) -> BoundRun | None:
        """A run of what has this key on these arrays, if it is compiled."""
        found = self._seen.get(key)
        if found is None or found.module is None or not found.fills:
            return None
        run: BoundRun | None = found.module.partly_bound(inputs, outputs)
        if run is None:
            return None

        def again(given: Sequence[Array]) -> Sequence[Array] | None:
            if key in self._seen:
                self._seen.move_to_end(key)
            return run(given)

        return again

    def overwrites(self, key: StructureKey) -> Mapping[int, int]:
        """Outputs that may be written over inputs, whose new values they are."""
        seen = self._seen.get(key)
        if seen is None or seen.module is None or not seen.fills:
            return {}
        return seen.module.plan.overwrites

    def compiled(self) -> int:
        """How many structures have been compiled."""
        return sum(seen.module is not None for seen in self._seen.values())

    def settle(self) -> None:
        """Wait for what is being compiled."""
        with self._lock.lock:
            for seen in self._seen.values():
                if seen.job is not None:
                    seen.job.wait()
                    self._collect(seen)

    def _module(self, key: StructureKey, graph: Graph, at_once: bool = False) -> Module | None:
        with self._lock.lock:
            seen = self._seen.get(key)
            is_new = seen is None
            if seen is None:
                seen = self._seen[key] = self._first(graph)
                if len(self._seen) > KEPT:
                    self._seen.popitem(last=False)
            else:
                self._seen.move_to_end(key)
            if seen.job is not None and (at_once or seen.job.is_done):
                seen.job.wait()
                self._collect(seen)
            if seen.module is None and seen.owed >= 0:
                seen.owed = max(0.0, seen.owed - seen.each)
                if at_once or self._at_once:
                    self._take(seen, lambda: _compile(graph))
                elif seen.owed <= 0 and not is_new:  # what parameters begin with runs but once
                    nodes = f"a graph of {len(graph.nodes)} nodes"
                    _tell(seen, f"compiling {nodes} in the background; uncompiled until then")
                    seen.begin = time.perf_counter()
                    seen.job = BackgroundJob(lambda: _compile(graph))
                    seen.owed = -1.0
            return seen.module

    def _collect(self, seen: _Seen) -> None:
        """Take what a thread has compiled."""
        job, seen.job = seen.job, None
        if job is not None and job.is_lost:
            seen.owed = 0.0
        elif job is not None:
            self._take(seen, job.result)
            if seen.module is not None:
                taken = time.perf_counter() - seen.begin
                _tell(seen, f"compiled in {taken:.0f} s; the graph runs compiled from now on")

    def _take(self, seen: _Seen, compiled: Callable[[], Compiled]) -> None:
        """What was compiled; warns where no compiler is, or it could not build this."""
        seen.owed = -1.0
        try:
            seen.module, seen.groups = compiled()
        except GlasshouseError as error:
            if self._at_once:
                raise
            if isinstance(error, CompilerMissing):  # reported once, not for every graph
                missing, self._missing = self._missing, True
                if missing:
                    return
            warnings.warn(f"lazy tensors run uncompiled: {error}", OnReference, stacklevel=2)

    def _first(self, graph: Graph) -> _Seen:
        nodes = [n for n in graph.nodes if n.op.kind is not Kind.SOURCE]
        work = sum(operations(n) for n in nodes) / _OPERATIONS
        moved = sum(bytes_read(n) + bytes_written(n) for n in nodes) / _BYTES
        each = len(nodes) * _RUN_NODE + work + moved
        return _Seen(_SHARE * (_COMPILE + len(nodes) * _COMPILE_NODE), each)


def _tell(seen: _Seen, what: str) -> None:
    """Log it; say it to a person who watches, where steps are so slow that one would wonder."""
    _LOG.info(what)
    stream = watched_stream() if seen.each >= _SLOW else None
    if stream is not None:
        print(f"glasshouse: {what}", file=stream, flush=True)


def _compile(graph: Graph) -> Compiled:
    """The module and its kernels."""
    from glasshouse.passes import PassContext, optimize
    from glasshouse.runtime.compiler import compile_graph
    from glasshouse.runtime.fused_groups import Roots, groups_of

    with PassContext() as ctx:  # one of its own: the user's instruments watch other work
        roots = Roots()
        ctx.add(roots)
        module = compile_graph(optimize(graph, ctx))
        return module, groups_of(module, graph, roots)


def auto() -> LazyExecutor:
    """The executor of lazy tensors, unless another is set."""
    return LazyExecutor()


def compiled() -> LazyExecutor:
    """An executor that compiles everything, and fails where that fails."""
    return LazyExecutor(at_once=True)
