"""Items of a batched product: loops of an operand's axes, and each axis from a running number."""

from __future__ import annotations

from glasshouse.backend.cxx.words import size_text
from glasshouse.ir.dim import Dim
from glasshouse.ir.graph import Value
from glasshouse.lower.kernel.index import Loop


def aligned(operand: Value, batch: list[Loop], last: tuple[Loop, Loop]) -> list[Loop]:
    """The loops of an operand's axes; a batch axis of size 1 is broadcast and stays at 0."""
    own = operand.type.shape[:-2]
    loops = batch[len(batch) - len(own) :]
    return [Loop(x.name, 1) if d == 1 else x for x, d in zip(loops, own, strict=True)] + list(last)


def batch_lines(batch: tuple[Dim, ...], index: str = "int64_t") -> list[str]:
    """Finds the index of each batch axis from one running number `b`, both of a type of C++."""
    cast = "" if index == "int64_t" else f"({index})"  # sizes are int64_t
    lines: list[str] = []
    step: Dim = 1
    for axis in reversed(range(len(batch))):
        if batch[axis] != 1:
            at = f"b / {cast}{size_text(step)}" if step != 1 else "b"
            lines.append(f"const {index} b{axis}_ = {at} % {cast}{size_text(batch[axis])};")
        step = step * batch[axis]
    return lines
