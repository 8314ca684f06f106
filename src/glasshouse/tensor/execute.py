"""When and by whom pending work is run: one graph for all that is asked, by one executor.

The executor is one that compiles what runs often (`runtime/lazy.py`), unless GLASSHOUSE_EXECUTOR or
`set_executor` names another. It gets a graph whose inputs are the leaves, so that the graph of the
second training step is the first one's, with other data: `structure.structure_key` finds what was
compiled for it.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from glasshouse.errors import CaptureError, TypeMismatch
from glasshouse.ir.graph import Graph
from glasshouse.ir.op import Kind
from glasshouse.ir.sources import INPUT
from glasshouse.tensor.late import settle
from glasshouse.tensor.live import live_tensors
from glasshouse.tensor.pending import (
    Array,
    Extraction,
    LazyNode,
    LazyValue,
    pending_nodes,
    resolve,
    result_of,
)  # fmt: skip
from glasshouse.tensor.place import current_origin
from glasshouse.tensor.state import STATE, TRACING
from glasshouse.tensor.structure import StructureKey, data_of, pending_key

Report = Callable[[Sequence[int], str, str], None]
"""What an executor tells of each kernel it ran: the ids of its nodes, its key, its source file."""


BoundRun = Callable[[Sequence[Array]], Sequence[Array] | None]
"""Takes the inputs that it is not bound to, in order, and gives such outputs; None: nothing ran."""


class Executor(Protocol):
    """Runs a graph; calls `report`, when there is one, for each kernel in the order they ran."""

    def __call__(
        self, graph: Graph, inputs: Sequence[Array], report: Report | None = None
    ) -> Sequence[Array]: ...


class KeyedExecutor(ABC):
    """One that knows graphs by their structure: `make` gives the graph where it needs that.

    A class, not a protocol: every step asks whether the executor is one, and looking for each of a
    protocol's methods took 10 us.
    """

    @abstractmethod
    def __call__(
        self, graph: Graph, inputs: Sequence[Array], report: Report | None = None
    ) -> Sequence[Array]: ...

    @abstractmethod
    def run_keyed(
        self, key: StructureKey, inputs: Sequence[Array], make: Callable[[], Graph]
    ) -> Sequence[Array]: ...

    @abstractmethod
    def run_compiled(
        self, key: StructureKey, inputs: Sequence[Array], outputs: Sequence[Array] | None = None
    ) -> Sequence[Array] | None:
        """The same where no graph is at hand; None where it is not compiled (yet). With `outputs`,
        results may be written there."""

    @abstractmethod
    def bound(
        self,
        key: StructureKey,
        inputs: Sequence[Array | None],
        outputs: Sequence[Array | None],
    ) -> BoundRun | None:
        """A run that reads and writes these arrays in every call, and is given or makes those that
        are None; None where it is not compiled, or cannot. An output may lie on the input that it
        is the new value of. Who calls it keeps the arrays, and knows of nobody else who has memory
        of theirs that is written."""

    @abstractmethod
    def overwrites(self, key: StructureKey) -> Mapping[int, int]:
        """Outputs that may be written over inputs, whose new values they are; none where it is not
        compiled."""


def reference(
    graph: Graph, inputs: Sequence[Array], report: Report | None = None
) -> Sequence[Array]:
    """Runs each node by itself with its NumPy meaning."""
    from glasshouse.numpy_ref.executor import run

    if report is None:
        return run(graph, inputs)

    def observe(node: Any, _: Any) -> None:
        if node.op.kind is not Kind.SOURCE:
            report([node.id], "", "")

    return run(graph, inputs, observer=observe)


# By name, because the compiler's layers stand above this one.
_NAMED = {"auto": "glasshouse.runtime.lazy", "compiled": "glasshouse.runtime.lazy"}


class _Current:
    """One executor for the process; found when it is first needed."""

    executor: Executor | None = None


def set_executor(executor: Executor | str | None) -> Executor:
    """Let `executor` run pending work from now on; gives the one before.

    "auto" (or None) compiles what runs often, "compiled" everything, "reference" nothing.
    """
    before = current_executor()
    _Current.executor = executor if callable(executor) else _named(executor or "auto")
    return before


def current_executor() -> Executor:
    """The one that runs pending work now."""
    if _Current.executor is None:
        _Current.executor = _named(os.environ.get("GLASSHOUSE_EXECUTOR") or "auto")
    return _Current.executor


def _named(name: str) -> Executor:
    if name == "reference":
        return reference
    if name not in _NAMED:
        raise TypeMismatch(
            f"there is no executor {name!r}; there are reference, {', '.join(_NAMED)}",
            hint="gh.set_executor and GLASSHOUSE_EXECUTOR take them",
        )
    found: Executor = getattr(import_module(_NAMED[name]), name)()
    return found


def execute(graph: Graph, inputs: Sequence[Array], report: Report | None = None) -> list[Array]:
    """The outputs of a graph, by the executor that is set."""
    return [np.asarray(a) for a in current_executor()(graph, inputs, report)]


def sync_all(*_: Any) -> None:
    """Run everything of this thread that is pending and held, as one graph."""
    settle()
    run_pending([t.value for t in live_tensors()])


@dataclass(frozen=True)
class Pending:
    """What one run computes: nodes with the leaves that they read, of which `targets` are kept, and
    the tensors that wait."""

    nodes: Sequence[LazyNode]
    targets: Sequence[LazyNode]
    tensors: Sequence[Any]
    written: Mapping[int, int] = field(default_factory=dict)  # as in the graph

    @property
    def outputs(self) -> list[LazyValue]:
        return [LazyValue(node, i, t) for node in self.targets for i, t in enumerate(node.types)]

    def deliver(self, results: Iterable[Array]) -> None:
        """Give the nodes what was computed for them."""
        arrays = iter(results)
        for node in self.targets:
            node.results = [owned(next(arrays)) for _ in node.types]
            if not node.needs_grad and not STATE.own.keeping:
                node.inputs, node.stands_for = (), None
        for tensor in self.tensors:
            _settle(tensor.value.node)


def gather_waiting(tensors: Sequence[Any]) -> Pending | None:
    """What has to run for all that waits; None for nothing. Nodes that stand for others are left as
    they are."""
    found: dict[int, LazyValue] = {}
    for tensor in tensors:
        value = resolve(tensor.value)
        if value.node.results is None:
            found[value.node.id] = value
    if not found:
        return None
    nodes = pending_nodes(found.values(), closed=True)
    return Pending(nodes, [found[i].node for i in sorted(found)], tensors)


def gather_pending(values: Iterable[LazyValue], tensors: Sequence[Any]) -> Pending | None:
    """What has to run for these values, and for `tensors` on the way; None for nothing."""
    wanted = [v for v in map(resolve, values) if v.node.results is None]
    if not wanted:
        return None
    nodes = pending_nodes(wanted)
    on_the_way = {n.id for n in nodes}
    held = [r for r in [resolve(t.value) for t in tensors] if r.node.id in on_the_way]
    # In the order in which they were recorded, so that the same loop makes the same graph.
    found = {v.node.id: v.node for v in [*wanted, *held]}
    return Pending(nodes, [found[i] for i in sorted(found)], tensors)


def run_pending(values: Iterable[LazyValue]) -> None:
    """Compute these values, and with them what the user holds among the nodes on the way."""
    settle()
    wanted = list(values)
    pending = gather_pending(wanted, live_tensors())
    if pending is not None:
        run_gathered(pending)


def run_gathered(pending: Pending) -> None:
    """Compute what was gathered."""
    _refuse_inputs(pending)
    pending.deliver(_run(pending))


def run_first_values(tensors: Iterable[Any]) -> None:
    """Run what tensors begin with by itself. In the graph of a loop's first turn, their random
    numbers and zeros would make it one of its own, compiled for nothing."""
    if not TRACING.is_on:
        run_pending([t.value for t in tensors if t.is_pending])


def _run(pending: Pending) -> list[Array]:
    """All outputs of the targets; a graph is made only where somebody wants to see one."""
    from glasshouse.tensor import trace_data  # it computes with tensors

    nodes, outputs = pending.nodes, pending.outputs

    def extracted() -> Extraction:
        made = Extraction(nodes)
        made.graph._set_outputs([made.value(v) for v in outputs])
        made.graph.written, made.graph.all_or_nothing = dict(pending.written), True
        return made

    executor = current_executor()
    if isinstance(executor, KeyedExecutor) and not TRACING.is_on:
        key, leaves = pending_key(nodes, outputs)
        key = key.with_written(pending.written) if pending.written else key
        results = executor.run_keyed(key, data_of(leaves), lambda: extracted().graph)
        return [np.asarray(a) for a in results]
    extraction = extracted()
    report = trace_data.recorder(extraction.graph, pending.tensors)
    return execute(extraction.graph, extraction.fed, report)


def _settle(node: LazyNode) -> None:
    """An alias whose data is there needs what it stood for no more."""
    if node.alias is not None:
        from glasshouse.tensor import trace_data  # it computes with tensors

        data = result_of(node.alias)
        if data is not None:
            trace_data.same_value(node.id, node.alias)
            node.results, node.alias = [data], None


def owned(array: Array) -> Array:
    """A view would keep all of what it looks into, and show later changes of it."""
    return array if array.base is None and array.flags.c_contiguous else np.array(array)


def _refuse_inputs(pending: Pending) -> None:
    if any(n.op is INPUT for n in pending.nodes):
        raise CaptureError(
            f"a traced tensor ({pending.targets[-1].types[0]}) has no data while its graph is "
            "captured",
            str(current_origin(sys._getframe(1)).source),
            "compute with tensors: where() in place of if, no item(), numpy() or bool()",
        )
