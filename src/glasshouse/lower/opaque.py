"""Programs without calls of libraries: what is saved for machines that have none, and what runs
where a library refuses a call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from glasshouse.errors import Unsupported
from glasshouse.lower.choice import Choice, Problem
from glasshouse.lower.kernel.kernel import Kernel
from glasshouse.lower.kernel.statement import Statement, Tile
from glasshouse.lower.plan import ALIGN, upper_bytes
from glasshouse.lower.program import Call, Program, Step
from glasshouse.lower.target import Target
from glasshouse.lower.variants import assembled, chosen, with_variant


def without_opaque(program: Program, target: Target, kernel: str = "", why: str = "") -> Program:
    """The program with the fastest of a target's own variants in place of each opaque one, or of
    those of one `kernel`, with the reason `why` among its candidates; the very same program where
    there is none. Workspaces lie behind everything else in the arena, which grows where one needs
    more."""

    def own(step: Step) -> Step:
        if not isinstance(step, Call) or not _is_opaque(step, target):
            return step
        return _own(step, target, why) if kernel in ("", step.kernel.name) else step

    steps = list(map(own, program.steps))
    if all(a is b for a, b in zip(steps, program.steps, strict=True)):
        return program
    plan = program.memory
    most = max(upper_bytes(s.workspace) for s in steps if isinstance(s, Call))
    grown = max(plan.arena_bytes, plan.work_offset + most + ALIGN)
    return replace(program, steps=steps, plan=replace(plan, arena_bytes=grown))


def _is_opaque(call: Call, target: Target) -> bool:
    return any(isinstance(s, Tile) and s.variant in target.opaque for s in call.kernel.body)


def _own(call: Call, target: Target, why: str) -> Step:
    earlier = iter(call.choices)  # of each tile that was asked about, in order

    def choose(problem: Problem, names: Sequence[str], usual: str) -> Choice:
        return _next_best(next(earlier, None), names, usual, target, why)

    kernel, choices = chosen(_measured_or_own(call.kernel, target), choose, target)
    made = replace(call, kernel=kernel, choices=choices or call.choices)
    if _is_opaque(made, target):
        raise Unsupported(
            f"{call.kernel.name} is a call of a library that nothing here stands for in a saved "
            "module: there is no kernel of our own for it",
            hint="save the model without this step, or run it where it was compiled",
        )
    if not set(kernel.forms) <= set(call.kernel.forms):
        raise Unsupported(
            f"{call.kernel.name} is a call of a library, and what would stand for it in a saved "
            "module needs its weights in another form",
            hint="compile with GLASSHOUSE_CUBLASLT=0 and GLASSHOUSE_CUDNN=0 in the environment, "
            "then save",
        )
    return made


def _measured_or_own(kernel: Kernel, target: Target) -> Kernel:
    """The kernel with the first of our own variants for tiles that nobody measures: a library was
    taken at once, since it rounds float32 to TF32; ours do not."""

    def own(s: Statement) -> Statement:
        if not isinstance(s, Tile) or s.problem is not None or s.variant not in target.opaque:
            return s
        names = [name for name in s.variants if name not in target.opaque]
        return with_variant(s, names[0], target) if names else s

    body = [own(s) for s in kernel.body]
    return assembled(kernel.name, kernel.buffers, body, kernel.ops)


def _next_best(
    earlier: Choice | None, names: Sequence[str], usual: str, target: Target, why: str
) -> Choice:
    """What was chosen, or the fastest that is no library's; `why` is told of those that are."""
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
    told = [
        replace(c, why="; ".join(filter(None, (c.why, why)))) if c.name in target.opaque else c
        for c in earlier.candidates
    ]
    return replace(earlier, name=best, candidates=tuple(told))
