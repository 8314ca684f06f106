"""Programs without calls of libraries: what is saved for machines that have none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from glasshouse.errors import Unsupported
from glasshouse.lower.choice import Choice, Problem
from glasshouse.lower.kernel.statement import Tile
from glasshouse.lower.program import Call, Program, Step
from glasshouse.lower.target import Target
from glasshouse.lower.variants import chosen


def without_opaque(program: Program, target: Target) -> Program:
    """The program with the fastest of a target's own variants in place of each opaque one, in the
    memory that is planned; the very same one where there is none."""
    steps = [_own(s, target) if isinstance(s, Call) and _is_opaque(s, target) else s for s in
             program.steps]  # fmt: skip
    same = all(a is b for a, b in zip(steps, program.steps, strict=True))
    return program if same else replace(program, steps=steps)


def _is_opaque(call: Call, target: Target) -> bool:
    return any(isinstance(s, Tile) and s.variant in target.opaque for s in call.kernel.body)


def _own(call: Call, target: Target) -> Step:
    earlier = iter(call.choices)  # of each tile that was asked about, in order

    def choose(problem: Problem, names: Sequence[str], usual: str) -> Choice:
        return _next_best(next(earlier, None), names, usual, target)

    kernel, choices = chosen(call.kernel, choose, target)
    made = replace(call, kernel=kernel, choices=choices)
    if _is_opaque(made, target):
        raise Unsupported(
            f"{call.kernel.name} is a call of a library that nothing here stands for in a saved "
            "module: a convolution without a kernel of our own, or one that rounds to TF32",
            hint="compile with GLASSHOUSE_CUDNN=0 in the environment, then save",
        )
    fits = kernel.workspace == call.kernel.workspace or _fits(kernel.workspace, call)
    if not fits or not set(kernel.forms) <= set(call.kernel.forms):
        raise Unsupported(
            f"{call.kernel.name} is a call of a library, and what would stand for it in a saved "
            "module needs more memory than is planned",
            hint="compile with GLASSHOUSE_CUBLASLT=0 and GLASSHOUSE_CUDNN=0 in the environment, "
            "then save",
        )
    return made


def _fits(workspace: object, call: Call) -> bool:
    most = call.kernel.workspace
    return isinstance(workspace, int) and isinstance(most, int) and workspace <= most


def _next_best(earlier: Choice | None, names: Sequence[str], usual: str, target: Target) -> Choice:
    """What was chosen, or the fastest that is no library's."""
    if earlier is None:
        return Choice(usual)
    if earlier.name not in target.opaque:
        return earlier
    measured = [
        c for c in earlier.candidates
        if c.seconds and c.name in names and c.name not in target.opaque
        and "too large" not in c.why
    ]  # fmt: skip
    best = min(measured, key=lambda c: c.seconds).name if measured else usual
    return replace(earlier, name=best)
