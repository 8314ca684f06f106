"""Repeated training steps: what one step of an optimiser recorded is taken again as a whole.

Recording a step costs 10 us a node, and backward and update are three quarters of its nodes. They
follow from the forward work, the options of the optimiser and which leaves are its parameters. So
a step that was recorded once is kept as a `RepeatedStep`: the key of all of its work, and where
that takes its data from and puts its results. Where the forward work is the same again, and it was
compiled, that runs at once, without nodes for gradients and updates.

Whatever makes a difference to the recording is part of the key, or lets the step be recorded anew:
gradients that stop somewhere, values that were read before the step, other tensors that wait.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from glasshouse.tensor.bound_step import BoundStep, bind, held_value
from glasshouse.tensor.execute import (
    KeyedExecutor,
    Pending,
    current_executor,
    gather_pending,
    gather_waiting,
    owned,
    run_gathered,
)
from glasshouse.tensor.grad import forget
from glasshouse.tensor.live import live_tensors
from glasshouse.tensor.pending import (
    Array,
    LazyValue,
    is_embedded,
    resolve,
)
from glasshouse.tensor.state import STATE, TRACING
from glasshouse.tensor.step_memory import StepMemory, is_free, lets_go
from glasshouse.tensor.step_pattern import pattern_of
from glasshouse.tensor.structure import StructureKey, attributes_of, data_of, pending_key

SMALL = 1 << 26
"""Bytes of parameters and moments that may be held twice, to save 30 us of a step."""

KEPT = 16
"""Steps that an optimiser remembers: models that take turns, batches of several sizes."""


@dataclass(frozen=True)
class Forward:
    """The work that waits when a step begins, and the leaves that it reads, in the key's order;
    and the tensors of the optimiser, with the values that they have then."""

    key: StructureKey
    pending: Pending
    leaves: Sequence[LazyValue]
    loss: Any
    tensors: Sequence[Any]
    before: Sequence[LazyValue]
    options: Any
    uses: dict[int, int]  # how often nodes read these, by their number
    alone: bool  # whether no other leaves than these tensors get a gradient


@dataclass(frozen=True)
class RepeatedStep:
    """Where the work of a whole step takes its data from, and where its results go.

    Tensors of the optimiser are known by their number, leaves and nodes of the forward work by
    their place in it.
    """

    key: StructureKey
    reads: tuple[tuple[str, Any], ...]  # "tensor", number; "leaf", place; "array", data
    gives: tuple[tuple[str, int], ...]  # "node", place; "tensor", number: one for each result
    fixed: tuple[tuple[int, Array], ...]  # tensors that get the same data in every step
    memory: StepMemory = field(default_factory=StepMemory)

    def tensors_given(self) -> list[int]:
        """The tensors that get new values, in the order of the results."""
        return [where for kind, where in self.gives if kind == "tensor"]

    def written(self) -> dict[int, int]:
        """Results that are the new values of tensors which the step reads."""
        places = {where: i for i, (kind, where) in enumerate(self.reads) if kind == "tensor"}
        return {
            i: places[where]
            for i, (kind, where) in enumerate(self.gives)
            if kind == "tensor" and where in places
        }


class RepeatedSteps:
    """The steps that an optimiser has taken, by their forward work."""

    def __init__(self) -> None:
        self._steps: OrderedDict[StructureKey, RepeatedStep | None] = OrderedDict()
        self._last: RepeatedStep | None = None  # that was found by its key
        self._bound: BoundStep | None = None

    def __reduce__(self) -> Any:
        """A copy of an optimiser has tensors of its own, and begins anew."""
        return RepeatedSteps, ()

    def run_bound(self, loss: Any, tensors: Sequence[Any], options: Any, in_place: bool) -> bool:
        """Take the step that was taken last once more, if it is that; False where it has to be
        found by its key. `in_place`: as of `run`."""
        bound = self._bound
        if bound is None:
            return False
        if bound.run(loss, tensors, options, in_place):
            return True
        self._bound = self._last = None  # what it holds would count as held by somebody
        return False

    def forward(self, loss: Any, tensors: Sequence[Any], options: Any) -> Forward | None:
        """What waits now, if a step from here can be told by its key."""
        state = STATE.own
        if state.capture is not None or state.keeping or TRACING.is_on:
            return None
        before: list[LazyValue] = []
        for tensor in tensors:
            value = tensor.value
            if value.node.results is None:
                value = resolve(value)
                if value.node.results is None:
                    return None
            before.append(value)
        pending = gather_waiting(live_tensors())
        return None if pending is None else _forward(pending, loss, tensors, before, options)

    def run(self, forward: Forward, in_place: bool) -> bool:
        """Take the step as a whole; False where it has to be recorded. `in_place`: nobody will ask
        for gradients of the loss again."""
        step = self._steps.get(forward.key)
        executor = current_executor()
        if step is None or not isinstance(executor, KeyedExecutor):
            return False
        given = _given(step, forward)
        written = executor.overwrites(step.key)
        all_go = in_place and lets_go(forward.pending.targets, forward.loss.value.node)
        over = _free(step, forward, given, written, all_go)
        again = self._last is step
        self._last = step
        changed = step.tensors_given()
        over_tensors = frozenset(step.gives[number][1] for number in over)
        is_one = len(over) == len(changed) > 0
        # Where the compiled step cannot write all in place, a second set costs memory for the rest.
        rest = [i for i in changed if i not in over_tensors]
        small = sum(data_of([forward.before[i]])[0].nbytes for i in rest) <= SMALL
        apart = not in_place or (len(written) < len(changed) and small)
        pattern = pattern_of(forward) if again and (is_one or apart) else None
        results = executor.run_compiled(step.key, given, step.memory.outputs(given, over))
        if results is None:
            return False
        forget(forward.loss)
        _give(step, forward, results, given, over)
        if pattern is not None:
            self._bound = bind(step, pattern, forward.options, forward.tensors, over_tensors)
        return True

    def take(self, forward: Forward) -> None:
        """Run a step that has been recorded, and remember it."""
        waiting = live_tensors()
        pending = gather_pending([t.value for t in waiting], waiting)
        if pending is None:
            return
        step = self._steps.get(forward.key)
        if forward.key not in self._steps:
            step = self._steps[forward.key] = _step(forward, pending)
            if len(self._steps) > KEPT:
                self._steps.popitem(last=False)
        run_gathered(pending if step is None else replace(pending, written=step.written()))


def _given(step: RepeatedStep, forward: Forward) -> list[Array]:
    """What the step reads. In a function of its own: a variable that still held the last value
    would keep it from being written over."""
    given: list[Array] = []
    for kind, where in step.reads:
        if kind == "array":
            given.append(where)
            continue
        value = (forward.before if kind == "tensor" else forward.leaves)[where]
        given.append(value.node.results[value.index])
    return given


def _free(
    step: RepeatedStep,
    forward: Forward,
    given: list[Array],
    written: Mapping[int, int],
    all_go: bool,
) -> dict[int, int]:
    """Of the results that may be written over inputs, those whose old values nobody has. Unless
    `all_go`, somebody may ask for gradients of the forward work, and with that for what it reads;
    it does not read moments."""
    if threading.active_count() > 1:
        return {}  # another thread may read a tensor at any time, or fork in the middle of a step
    free: dict[int, int] = {}
    for number, place in written.items():
        at = step.gives[number][1]
        tensor, uses = forward.tensors[at], forward.uses.get(at, 0)
        if (all_go or not uses) and is_free(tensor, forward.before, at, given, place, uses):
            free[number] = place
    return free


def _forward(
    pending: Pending,
    loss: Any,
    tensors: Sequence[Any],
    before: Sequence[LazyValue],
    options: Any,
) -> Forward | None:
    """None where a gradient may depend on more than the key tells."""
    own = {v.node.id: i for i, v in enumerate(before)}
    numbers: dict[tuple[int, int], int] = {}
    leaves: list[LazyValue] = []
    parts: list[Any] = [options]
    uses: dict[int, int] = {}
    alone = True
    for node in pending.nodes:
        if node.results is not None:
            if node.inputs and node.needs_grad:
                return None  # was read already: a gradient goes on through it
            continue
        operands: list[int] = []
        for value in node.inputs:
            found: LazyValue = value  # type: ignore[assignment]  # all are lazy
            source = found.node
            stops = source.alias is not None and source.results is None
            if stops:  # what stands for another value that waits: detached, or assigned
                if source.needs_grad:
                    return None
                found = resolve(found)
                source = found.node
            place = (source.id, found.index)
            number = numbers.get(place)
            if number is None:
                number = numbers[place] = len(numbers)
                if is_embedded(source):
                    parts.append(attributes_of(source))
                else:
                    leaves.append(found)
                    mine = own.get(source.id)
                    parts.append((found.type, source.needs_grad, mine))
                    alone = alone and (mine is not None or not source.needs_grad)
            if source.id in own:
                uses[own[source.id]] = uses.get(own[source.id], 0) + 1
            operands.append(-1 - number if stops else number)
        for index in range(len(node.types)):
            numbers[node.id, index] = len(numbers)
        parts.append((node.op.name, tuple(operands), attributes_of(node), node.needs_grad))
    wanted = (loss.value.node.id, loss.value.index)
    if wanted not in numbers:
        return None
    parts.append(numbers[wanted])
    parts.append(tuple([numbers[node.id, 0] for node in pending.targets]))
    key = StructureKey(tuple(parts))
    return Forward(key, pending, leaves, loss, tensors, before, options, uses, alone)


def _step(forward: Forward, pending: Pending) -> RepeatedStep | None:
    """None where data comes from, or results go, where the next step would not find them."""
    before, tensors = forward.before, forward.tensors
    first = max(n.id for n in forward.pending.nodes)  # what has a higher id was recorded since
    outputs = pending.outputs
    key, leaves = pending_key(pending.nodes, outputs)
    slots = {(v.node.id, v.index): i for i, v in enumerate(before)}
    places = {(v.node.id, v.index): i for i, v in enumerate(forward.leaves)}
    reads: list[tuple[str, Any]] = []
    for leaf in leaves:
        at = (leaf.node.id, leaf.index)
        if at in slots:
            reads.append(("tensor", slots[at]))
        elif at in places:
            reads.append(("leaf", places[at]))
        elif leaf.node.id > first:
            reads.append(("array", data_of([leaf])[0]))
        else:
            return None
    known = {n.id: i for i, n in enumerate(forward.pending.nodes)}
    after = [resolve(t.value) for t in tensors]
    holders = {(v.node.id, v.index): i for i, v in enumerate(after)}
    gives: list[tuple[str, int]] = []
    for value in outputs:
        at = (value.node.id, value.index)
        if value.node.id in known:
            gives.append(("node", known[value.node.id]))
        elif at in holders:
            gives.append(("tensor", holders[at]))
        else:
            return None  # somebody else holds it: a gradient that is kept
    if len(holders) != len(after) or len(slots) != len(before):
        return None  # two tensors share one value
    if [where for kind, where in gives if kind == "node"] != [
        known[node.id] for node in forward.pending.targets for _ in node.types
    ]:
        return None  # something else began to wait while the step was recorded
    computed = {(v.node.id, v.index) for v in outputs}
    fixed = []
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        if new != old and (new.node.id, new.index) not in computed:
            if new.node.id <= first or new.node.results is None:
                return None
            fixed.append((i, data_of([new])[0]))
    made = RepeatedStep(key, tuple(reads), tuple(gives), tuple(fixed))
    written = made.written()
    return replace(made, key=key.with_written(written)) if written else made


def _give(
    step: RepeatedStep,
    forward: Forward,
    results: Sequence[Array],
    given: Sequence[Array],
    over: Mapping[int, int],
) -> None:
    of_nodes: list[Array] = []  # in the order of the targets: both are in that of ids
    arrays = list(map(np.asarray, results))
    step.memory.learn(arrays)
    for i, (kind, where) in enumerate(step.gives):
        if kind == "node":
            of_nodes.append(arrays[i])
        elif i not in over or arrays[i] is not given[over[i]]:
            [old] = data_of([forward.before[where]])
            tensor = forward.tensors[where]
            tensor.value = held_value(tensor, owned(arrays[i]))
            step.memory.keep(i, old)
    for number, array in step.fixed:
        tensor = forward.tensors[number]
        tensor.value = held_value(tensor, array)
    forward.pending.deliver(of_nodes)
