"""Faults of memory: buffers that overlap while both are alive, and memory read before it is
written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glasshouse.checking.finding import Finding, place
from glasshouse.ir.dtype import from_storage
from glasshouse.passes.verify_plan import overlaps, overwritten
from glasshouse.record.titles import full_titles
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.module import Module, step_name

POISON = 0xFF
"""Every byte of it: NaN as a float of any size, -1 as an integer."""


def plan_findings(module: Module) -> list[Finding]:
    """What the verifier says of the plan, by the names of the kernels that write."""
    titles = full_titles(s.node for s in module.program.steps)
    writes = {
        v: (step_name(s), titles[i])
        for i, s in enumerate(module.program.steps)
        for v in s.node.outputs
    }
    out = []
    for clash in overlaps(module.program):
        names = [" ".join(writes.get(v, ("", "an operand"))).strip() for v in (clash.a, clash.b)]
        out.append(
            Finding(
                "memory", f"two live buffers overlap: results of {names[0]} and of {names[1]}, "
                f"{clash.bytes} bytes from {clash.at} on, steps {clash.first} to {clash.last}",
                op=clash.b.node.op.name, where=place(clash.b.node), pass_name="plan_memory",
                kernel=writes.get(clash.b, ("", ""))[0],
            )
        )  # fmt: skip
    steps = [step_name(s) for s in module.program.steps]
    for variable, writer, reader in overwritten(module.program):
        out.append(
            Finding(
                "memory", f"{variable.node.attrs['name'] or 'a variable'} is written over by "
                f"{steps[writer]} while {steps[reader]} still reads it", op=variable.node.op.name,
                where=place(module.program.steps[writer].node), pass_name="plan_memory",
                kernel=steps[writer],
            )
        )  # fmt: skip
    return out


def run_findings(module: Module, inputs: Sequence[Any]) -> list[Finding]:
    """Runs that should be equal, bit by bit: twice the same, on poisoned memory, step by step."""
    with module.unchanged():
        first = _results(module, module.run_flat(inputs))
    with module.unchanged():
        again = _results(module, module.run_flat(inputs))
    if not _same(first, again):
        return [Finding("drift", "two runs on the same inputs differ")]
    steps: list[Array] = []
    with module.unchanged():
        seen = module.watch(inputs, lambda step, read: steps.append(_last(step, read)))
        watched = _results(module, seen)
    if not _same(first, watched):
        return [Finding("runtime", "the whole program gives other values than its steps")]
    found: list[int] = []
    at = [0]

    def see(step: Any, read: Any) -> None:
        if not found and not _same([steps[at[0]]], [_last(step, read)]):
            found.append(at[0])
        at[0] += 1

    with module.unchanged():
        module.poison(POISON)
        poisoned = _results(module, module.watch(inputs, see))
    if found or not _same(first, poisoned):
        step = module.program.steps[found[0]] if found else None
        return [
            Finding(
                "memory", "a kernel reads memory that nothing has written: on a poisoned arena it "
                "gives other values", op=step.node.op.name if step else "",
                where=place(step.node) if step else "", kernel=step_name(step) if step else "",
            )
        ]  # fmt: skip
    with module.unchanged():
        one, two = (_seen(module.run_flat(inputs)) for _ in range(2))
    if any(a.size and np.may_share_memory(a, b) for a in one for b in two):
        return [Finding("memory", "a call writes its results over those of the call before")]
    return []


def _last(step: Any, read: Any) -> Array:
    made = [np.array(read(v)) for v in step.node.outputs]
    return np.concatenate([np.frombuffer(a.tobytes(), np.uint8) for a in made])


def _seen(arrays: Sequence[Any]) -> list[Array]:
    """Results as they lie; those of a device are copies."""
    return [np.asarray(a) for a in arrays]


def _results(module: Module, arrays: Sequence[Any]) -> list[Array]:
    """Copies, as numbers: a run that is watched gives what is stored."""
    pairs = zip(arrays, module.graph.outputs, strict=True)
    return [np.array(from_storage(np.asarray(a), v.type.dtype)) for a, v in pairs]


def _same(a: Sequence[Array], b: Sequence[Array]) -> bool:
    return all(
        x.tobytes() == y.tobytes() or np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
        for x, y in zip(a, b, strict=True)
    )
