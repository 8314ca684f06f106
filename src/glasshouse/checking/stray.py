"""Kernels that read or write around inputs and outputs: runs on memory with fences on both sides.

A kernel that reads one element too many is right as long as a zero lies there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glasshouse.checking.finding import Finding, place
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.module import Module, step_name

FENCE = 4096
"""Bytes on each side: a row that lies too far, not only an element."""
FILLS = (0xFF, 0x40)
"""Every byte of a fence: NaN as a float and -1 as an integer, or about 3 and a large number."""


class Fenced:
    """A copy of an array in memory of its own, with a fence on both sides."""

    def __init__(self, array: Array, fill: int) -> None:
        self._fill = fill
        self._block = np.full(array.nbytes + 2 * FENCE + 64, fill, np.uint8)
        self._begin = FENCE + -self._block.ctypes.data % 64
        self._end = self._begin + array.nbytes
        inside = self._block[self._begin : self._end].view(array.dtype)
        self.array = inside.reshape(array.shape)
        np.copyto(self.array, array)

    @property
    def whole(self) -> bool:
        """Whether nobody wrote on the fence."""
        around = (self._block[: self._begin], self._block[self._end :])
        return all(bool(np.all(side == self._fill)) for side in around)


def stray_findings(module: Module, inputs: Sequence[Any]) -> list[Finding]:
    """The first kernel whose result depends on what lies around inputs, or that writes there."""
    values = (*module.graph.inputs, *module.graph.outputs)
    if any(v.type.dtype.storage != v.type.dtype.carrier for v in values):
        return []  # given as numbers, copied into what kernels read
    arrays = [np.asarray(a) for a in module.arguments(inputs)]
    runs: list[list[bytes]] = []
    for fill in FILLS:
        given = [Fenced(a, fill) for a in arrays]
        made, touched = _steps(module, given)
        if touched is not None:
            return [_found(module, touched, "writes outside of an input")]
        runs.append(made)
    for number, (one, two) in enumerate(zip(*runs, strict=True)):
        if one != two:
            what = "reads outside of an input: what lies around it changes its result"
            return [_found(module, number, what)]
    with module.unchanged():
        outputs = [Fenced(np.array(a), FILLS[0]) for a in module.run_flat(arrays)]
    with module.unchanged():
        module.run_with_tensors(arrays, [o.array for o in outputs])
    nodes = [s.node for s in module.program.steps]
    for value, output in zip(module.graph.outputs, outputs, strict=True):
        if not output.whole:
            number = nodes.index(value.node) if value.node in nodes else -1
            return [_found(module, number, "writes outside of an output")]
    return []


def _steps(module: Module, given: Sequence[Fenced]) -> tuple[list[bytes], int | None]:
    """What each step gave, and which was the first to write on a fence."""
    made: list[bytes] = []
    touched: list[int] = []

    def see(step: Any, read: Any) -> None:
        if not touched and not all(g.whole for g in given):
            touched.append(len(made))
        made.append(b"".join(np.array(read(v)).tobytes() for v in step.node.outputs))

    with module.unchanged():
        module.watch([g.array for g in given], see)
    return made, touched[0] if touched else None


def _found(module: Module, number: int, what: str) -> Finding:
    if number < 0:
        return Finding("memory", f"a kernel {what}")
    step = module.program.steps[number]
    return Finding(
        "memory", f"a kernel {what}", op=step.node.op.name, where=place(step.node),
        kernel=step_name(step),
    )  # fmt: skip
