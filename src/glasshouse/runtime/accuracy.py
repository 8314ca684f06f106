"""How exact a compiled module is: each pass and each kernel against the model in float64.

The truth is the traced graph. A pass has the error of the graph that it left. A kernel's error has
two parts. Its own: its output against a float64 replay of its ops on its actual operands. What it
inherited: that replay against the truth. Fusion is not broken for it, because operands and outputs
of kernels lie in memory anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glasshouse.ir.dtype import float64, from_storage
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.rewriter import Place, place_of
from glasshouse.ir.sources import INPUT
from glasshouse.lower.program import Call, Step
from glasshouse.numerics import compare
from glasshouse.numerics.bound import ROOM, bound, length_of, members, nudged, unit_of
from glasshouse.numerics.truth import Values, values_of
from glasshouse.numerics.widen import NARROW, wide, widened
from glasshouse.numpy_ref.executor import bind_sizes, run
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.module import Module
from glasshouse.runtime.nonfinite import NonFinite, first_op
from glasshouse.runtime.stage_errors import StageError, stage_errors

FLOATS = (*NARROW, float64)
LEAST = 1e-13
"""What an error of a kernel may always be: functions of float64 err by some units, and the replay
that they are compared with does so, too."""


@dataclass(frozen=True)
class KernelError:
    """Largest errors of one output, relative to its largest element; infinite where an element is
    NaN or infinite and should not be (`wrong` of them, the first one `at`)."""

    node: Node
    port: int
    own: float
    inherited: float
    max_abs: float
    max_rel: float
    wrong: int = 0
    at: tuple[int, ...] = ()
    tolerance: float = 0.0  # what rounding explains of `own`
    overflows: bool = False  # its ops, one by one in their own types, give the same values
    differ: int = 0  # whole numbers that are not those of the ops

    @property
    def past(self) -> bool:
        """Whether the kernel itself is wrong."""
        return self.own > self.tolerance and not self.overflows


@dataclass
class Accuracy:
    """All that was measured in one run."""

    kernels: list[KernelError] = field(default_factory=list)
    stages: list[StageError] = field(default_factory=list)
    first: NonFinite | None = None  # NaN or infinite where it should not be
    own_nan: NonFinite | None = None  # NaN that the model gives in float64, too
    against: str = "the traced graph"


def measure_accuracy(
    module: Module, inputs: Sequence[Any], tolerance: float | None = None
) -> Accuracy:
    """Errors of every pass and of every kernel's output, for these inputs.

    Variables and random numbers are those of the next run, and stay so.
    """
    arrays = module.arguments(inputs)
    held = module.held()
    lineage = module.lineage
    out = Accuracy()
    stands: dict[Place, Place] = {}
    if lineage is None:
        truth = last = values_of(module.graph, arrays, held)
        out.against = "the optimised graph"
    else:
        truth = values_of(lineage.traced, arrays, held)
        out.stages, last = stage_errors(lineage, truth, arrays, held, tolerance)
        stands = dict(lineage.stands_for)
        results = [place_of(v) for v in (*module.graph.outputs, *module.graph.updates.values())]
        stands.update(zip(results, truth.results, strict=True))
    sizes = bind_sizes([v.type for v in module.graph.inputs], arrays)
    look = _Look(out, truth, last, stands, sizes, module.program.aliases)
    with module.unchanged():
        module.watch(inputs, look.see)
    return out


class _Look:
    """Sees every step of a run."""

    def __init__(
        self,
        out: Accuracy,
        truth: Values,
        last: Values,
        stands_for: dict[Place, Place],
        sizes: dict[str, int],
        views: Mapping[Value, Value],
    ) -> None:
        self._views = dict(views)  # those that were not looked at yet
        self._out = out
        self._truth = truth
        self._last = last
        self._stands_for = stands_for
        self._sizes = sizes

    def see(self, step: Step, read: Callable[[Value], Array]) -> None:
        node, sizes = step.node, self._sizes
        for value in node.inputs:
            self._look_at_view(value, read)
        stored = [np.array(read(v)) for v in node.inputs]
        operands = [wide(a, v.type.dtype) for a, v in zip(stored, node.inputs, strict=True)]
        made = [read(v) for v in node.outputs]
        sizes.update(bind_sizes([v.type for v in node.outputs], made))
        alone = _alone(node)
        exact = run(widened(alone), _given(node, operands), sizes=sizes)
        inside = members(node)
        unit = unit_of(inside)
        moved = run(widened(alone), _given(node, nudged(operands, unit)), sizes=sizes)
        length = length_of(inside, sizes)
        variant = step.kernel.variant if isinstance(step, Call) else ""
        pairs = zip(node.outputs, made, exact, moved, strict=True)
        whole = any(v.type.dtype not in FLOATS for v in node.outputs)
        sure = _sure(alone, _given(node, stored), operands, unit, sizes, exact) if whole else []
        for value, held, right, off in pairs:
            if value.type.dtype not in FLOATS:
                self._look_at_whole(node, value, held, right, sure[value.index])
            wanted = self._wanted(value)
            # Where data decides a size, float64 may decide otherwise; then nothing is comparable.
            if value.type.dtype not in FLOATS or not right.size or wanted is None:
                continue
            if wanted.shape != right.shape:
                continue
            actual = wide(held, value.type.dtype)
            own, total = compare(actual, right), compare(actual, wanted)
            worst = own if own.wrong else total
            overflows = bool(own.wrong) and _overflows(
                alone, _given(node, stored), sizes, value.index, actual, right
            )
            error = KernelError(
                node, value.index, own.of_largest, compare(right, wanted).of_largest,
                total.max_abs, total.of_largest, worst.wrong, worst.at if worst.wrong else (),
                max(bound(right, off, length, unit, variant) / (own.largest or 1.0), LEAST),
                overflows,
            )  # fmt: skip
            self._out.kernels.append(error)
            self._look_for_nan(step, alone, stored, actual, wanted)

    def _look_at_view(self, value: Value, read: Callable[[Value], Array]) -> None:
        """A view is no step: what lies in its memory must be what its op gives."""
        pending = [value]
        while pending:
            one = pending.pop()
            if self._views.pop(one, None) is None:
                continue
            node = one.node
            stored = [np.array(read(v)) for v in node.inputs]
            (right,) = run(_alone(node), _given(node, stored), sizes=self._sizes)
            found = compare(from_storage(read(one), one.type.dtype), right)
            if found.wrong or found.max_abs:
                size = found.of_largest
                self._out.kernels.append(
                    KernelError(node, one.index, size, 0.0, found.max_abs, size, found.wrong)
                )
            pending += node.inputs

    def _look_at_whole(
        self, node: Node, value: Value, held: Array, right: Array, sure: Array
    ) -> None:
        """Whole numbers and bools are right or wrong, where rounding cannot have decided them."""
        if held.shape != right.shape:
            return
        wrong = sure & (np.asarray(held) != right)
        if np.any(wrong):
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            count = int(wrong.sum())
            self._out.kernels.append(
                KernelError(node, value.index, 1.0, 0.0, 1.0, 1.0, 0, at, differ=count)
            )

    def _wanted(self, value: Value) -> Array | None:
        place = place_of(value)
        found = self._truth.by_place.get(self._stands_for.get(place, place))
        return self._last.by_place.get(place) if found is None else found

    def _look_for_nan(
        self, step: Step, alone: Graph, stored: Sequence[Array], actual: Array, wanted: Array
    ) -> None:
        bad = ~np.isfinite(actual) & np.isfinite(wanted)
        if self._out.first is None and np.any(bad):
            self._out.first = first_op(step, alone, _given(step.node, stored), actual, bad)
        own = np.isnan(actual) & np.isnan(wanted)
        if self._out.own_nan is None and np.any(own):
            self._out.own_nan = first_op(step, alone, _given(step.node, stored), actual, own)


def _sure(
    alone: Graph, stored: Sequence[Array], operands: Sequence[Array], unit: float,
    sizes: dict[str, int], exact: Sequence[Array],
) -> list[Array]:  # fmt: skip
    """Where outputs are the same in float64, in their own types, and on operands that are a few
    units off: not in the argmax of two sums that rounding alone tells apart."""
    known = dict(sizes)
    plain = run(alone, stored, sizes=known)
    node = alone.outputs[0].node
    off = run(widened(alone), _given(node, nudged(operands, ROOM * unit)), sizes=known)
    return [
        (a == b) & (b == c) if a.shape == b.shape == c.shape else np.zeros(a.shape, bool)
        for a, b, c in zip(plain, exact, off, strict=True)
    ]


def _overflows(
    alone: Graph,
    stored: Sequence[Array],
    sizes: dict[str, int],
    port: int,
    actual: Array,
    exact: Array,
) -> bool:
    """Whether all that is not finite is so by the ops' own types: exp(100) in float32."""
    plain = np.asarray(run(alone, stored, sizes=sizes)[port], np.float64)
    ours = np.where(np.isfinite(plain), actual, exact)
    return not compare(ours, exact).wrong


def _given(node: Node, operands: Sequence[Array]) -> list[Array]:
    """The operands in the order of `_alone`'s inputs: each value once."""
    by_value = dict(zip(node.inputs, operands, strict=True))
    return [by_value[v] for v in dict.fromkeys(node.inputs)]


def _alone(node: Node) -> Graph:
    """The node by itself, its operands as inputs."""
    alone = Graph()
    twin: dict[Value, Value] = {}
    for value in dict.fromkeys(node.inputs):
        type = value.type
        attrs = {"dtype": type.dtype, "shape": type.shape, "name": ""}
        made = alone._add(INPUT, (), attrs, (type,), value.node.origin)
        alone.inputs.append(made.output)
        twin[value] = made.output
    copy = alone._add(
        node.op, tuple(twin[v] for v in node.inputs), node.attrs,
        [v.type for v in node.outputs], node.origin,
    )  # fmt: skip
    alone._set_outputs(copy.outputs)
    return alone
