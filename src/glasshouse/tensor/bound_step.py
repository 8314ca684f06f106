"""A training step that is bound to the memory of its parameters: what is left of a repeated step
when nothing but its data is new.

Parameters and moments that are updated in place have the same values, nodes, arrays and addresses
in every step. So a step that was taken twice is bound to them: the next one is recognised by
comparing its nodes (`step_pattern.py`), made sure of by counting references, and run by one call
that takes the batch and gives the loss. An MLP of four parameters takes 10 us of Python so, where
finding the step by its key takes 37.

What may not be written over has two sides, each with values, nodes and arrays, of which a step
writes one while it reads the other: behind `backward()`, whose gradients somebody may yet ask for,
the parameters (moments are in place there too: no gradient reads them); beside other threads, all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import is_, itemgetter
from sys import getrefcount
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from glasshouse.ir.sources import VARIABLE
from glasshouse.tensor.execute import BoundRun, KeyedExecutor, current_executor, owned
from glasshouse.tensor.grad import forget
from glasshouse.tensor.live import live_tensors
from glasshouse.tensor.pending import Array, LazyNode, LazyValue
from glasshouse.tensor.state import STATE, TRACING
from glasshouse.tensor.step_pattern import Matched, StepPattern

if TYPE_CHECKING:
    from glasshouse.tensor.repeated import RepeatedStep

_BESIDE = next(map(getrefcount, [np.empty(0)])) - 1
"""References that `map` itself has, while it counts, to what one list holds."""


class StepValues:
    """The values that tensors have after one of two steps, with their nodes and arrays."""

    def __init__(self, values: list[LazyValue], elsewhere: Sequence[int]) -> None:
        """`elsewhere`: how many references there are to each value outside of this object, while it
        may be written to."""
        nodes = [v.node for v in values]
        self.values = values
        self.arrays = [_data(v) for v in values]
        self._held: list[Any] = [*values, *nodes, *self.arrays]
        # A value is in two lists here, a node in one and its value, an array in two and its node.
        self._counts = [_BESIDE + 2 + n for n in elsewhere]
        self._counts += [_BESIDE + 2] * len(nodes) + [_BESIDE + 3] * len(nodes)

    def is_free(self) -> bool:
        """Whether nobody else knows any of it."""
        return list(map(getrefcount, self._held)) == self._counts

    def another(self, tensors: Sequence[Any]) -> StepValues:
        """One with memory of its own, for the same tensors, which do not hold it yet."""
        pairs = zip(tensors, self.arrays, strict=True)
        return StepValues([held_value(t, np.empty_like(a)) for t, a in pairs], [0] * len(tensors))


def held_value(tensor: Any, array: Array) -> LazyValue:
    """A value with this data for a tensor to hold as a leaf, as `assign` makes it."""
    old = tensor.value
    node = LazyNode(VARIABLE, (), old.node.attrs, (old.type,), old.node.origin, [array])
    if old.node.owner is not None:
        node.needs_grad = True
        node.owner = ref(tensor)
    return LazyValue(node, 0, old.type)


class BoundStep:
    """A repeated step with the memory that it reads and writes."""

    def __init__(
        self,
        step: RepeatedStep,
        pattern: StepPattern,
        options: Any,
        tensors: Sequence[Any],
        over: StepValues,
        sides: Sequence[StepValues],
        over_tensors: Collection[int],
        executor: KeyedExecutor,
        runs: Sequence[BoundRun],
    ) -> None:
        """`over` is written in place, by the tensors with these numbers, and one of `sides` while
        the other is read; without sides all is in place. `runs` are by the side that is read."""
        self._pattern = pattern
        self._options = options
        self._tensors = tensors
        self._over = over
        self._sides = sides
        self._executor = executor
        self._runs = runs
        self._reading = 0
        written = step.tensors_given()
        rest = [i for i in written if i not in over_tensors]
        self._rest = [tensors[i] for i in rest]
        self._of_over = _picked([i for i in written if i in over_tensors])
        self._of_rest = _picked(rest)
        # Whether gradients of the forward work may not be asked for any more.
        self._is_last = any(pattern.uses(i) for i in over_tensors)
        # What every call brings: leaves, and tensors that no step writes to, as the learning rate.
        self._brought = [
            (kind, where)
            for kind, where in step.reads
            if kind == "leaf" or (kind == "tensor" and where not in written)
        ]

    def run(self, loss: Any, tensors: Sequence[Any], options: Any, in_place: bool) -> bool:
        """Take a step; False where it is another, or somebody has what would be written over."""
        state = STATE.own
        if (
            options != self._options
            or len(tensors) != len(self._tensors)
            or not all(map(is_, tensors, self._tensors))
            or current_executor() is not self._executor
            or state.capture is not None
            or state.keeping
            or TRACING.is_on
        ):
            return False
        if self._is_last and not in_place:
            return False
        over, sides = self._over, self._sides
        if over.values and threading.active_count() > 1:
            return False
        found = self._found(loss, tensors)
        if found is None or not over.is_free():
            return False
        writing = sides[self._reading - 1] if sides else None
        if writing is not None and not writing.is_free():
            return False
        results = self._runs[self._reading](found[1])
        if results is None:
            return False
        forget(loss)
        self._deliver(found[0], results)
        if writing is not None:
            self._reading = 1 - self._reading
            for tensor, value in zip(self._rest, writing.values, strict=True):
                tensor.value = value
        return True

    def _found(
        self, loss: Any, tensors: Sequence[Any]
    ) -> tuple[list[LazyNode], list[Array]] | None:
        """The step's nodes and what it is brought. In a function of its own, whose variables are
        gone when references are counted."""
        values = [t.value for t in tensors]
        if not all(map(is_, self._of_over(values), self._over.values)):
            return None
        reading = self._sides[self._reading].values if self._sides else ()
        if not all(map(is_, self._of_rest(values), reading)):
            return None
        matched: Matched | None = self._pattern.match(live_tensors(), loss.value, values)
        if matched is None:
            return None
        brought: list[Array] = []
        for kind, where in self._brought:
            value = matched[1][where] if kind == "leaf" else values[where]
            results = value.node.results
            if results is None:
                return None  # a learning rate that is yet to be computed
            brought.append(results[value.index])
        return matched[0], brought

    def _deliver(self, nodes: Sequence[LazyNode], results: Sequence[Array]) -> None:
        arrays = iter(results)
        for place, count in self._pattern.targets:
            node = nodes[place]
            node.results = [owned(next(arrays)) for _ in range(count)]
            if not node.needs_grad:
                node.inputs, node.stands_for = (), None


def bind(
    step: RepeatedStep,
    pattern: StepPattern,
    options: Any,
    tensors: Sequence[Any],
    over_tensors: Collection[int],
) -> BoundStep | None:
    """Bind a step that was just taken to the memory that tensors have now, of which some are
    written over; None where the executor cannot, or a tensor's data is not its own."""
    executor = current_executor()
    if step.fixed or not isinstance(executor, KeyedExecutor):
        return None
    written = step.tensors_given()
    values = {i: tensors[i].value for i in written}
    if not written or not all(
        v.node.alias is None and v.node.results and _is_own(_data(v)) for v in values.values()
    ):
        return None
    # Each once: whoever has a value in a list besides would count as somebody who holds it.
    above = [i for i in written if i in over_tensors]
    rest = [i for i in written if i not in over_tensors]
    over = StepValues([values[i] for i in above], [1 + pattern.uses(i) for i in above])
    sides: list[StepValues] = []
    if rest:
        side = StepValues([values[i] for i in rest], [0] * len(rest))
        sides = [side, side.another([tensors[i] for i in rest])]
    in_place = dict(zip(above, over.arrays, strict=True))
    runs: list[BoundRun] = []
    for number in range(len(sides) or 1):
        old, new = dict(in_place), dict(in_place)
        if sides:
            old.update(zip(rest, sides[number].arrays, strict=True))
            new.update(zip(rest, sides[number - 1].arrays, strict=True))
        run = executor.bound(step.key, *_places(step, old, new))
        if run is None:
            return None
        runs.append(run)
    return BoundStep(step, pattern, options, tensors, over, sides, over_tensors, executor, runs)


def _picked(places: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What a list has at these places."""
    if not places:
        return lambda _: ()
    pick: Callable[[Sequence[Any]], Any] = itemgetter(*places)
    return pick if len(places) > 1 else lambda values: (pick(values),)


def _places(
    step: RepeatedStep, read: Mapping[int, Array], written: Mapping[int, Array]
) -> tuple[list[Array | None], list[Array | None]]:
    """What the step's inputs and outputs are bound to; None for what differs from call to call."""
    inputs = [
        where if kind == "array" else read.get(where) if kind == "tensor" else None
        for kind, where in step.reads
    ]
    outputs = [written[where] if kind == "tensor" else None for kind, where in step.gives]
    return inputs, outputs


def _is_own(array: Array) -> bool:
    return array.flags.owndata and array.flags.carray


def _data(value: LazyValue) -> Array:
    results = value.node.results
    assert results is not None
    return results[value.index]
