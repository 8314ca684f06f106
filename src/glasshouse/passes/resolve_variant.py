"""Variants: which of several algorithms computes an op, by measurement or by estimate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from glasshouse.backend.base import backend_named
from glasshouse.errors import PassError
from glasshouse.lower.choice import Choice, Chooser, Problem, by_estimate, unmeasured
from glasshouse.lower.kernel.kernel import Kernel
from glasshouse.lower.program import Call, Program, Step
from glasshouse.lower.target import Target
from glasshouse.lower.variants import candidates, chosen
from glasshouse.passes.base import ProgramPass, register_pass
from glasshouse.passes.tune import TOLERANCE, Tuner

if TYPE_CHECKING:
    from glasshouse.passes.context import PassContext

MEASURED = ("large", "all", "none")


@register_pass()
@dataclass(frozen=True)
class ResolveVariant(ProgramPass):
    """Choose how ops are computed that the target has several variants for.

    `measure`: "large" layers are measured once on a machine, or "all", or "none" and an estimate
    decides. `tolerance` is the error, relative to the largest result, that a variant may have.
    `prefer` names variants that are taken wherever a target has them.
    """

    measure: str = "large"
    tolerance: float = TOLERANCE
    prefer: tuple[str, ...] = ()

    def decide(self, program: Program, ctx: PassContext) -> Program:
        if self.measure not in MEASURED:
            known = ", ".join(MEASURED)
            raise PassError(f"resolve_variant measures {known}, not {self.measure!r}")
        choose: Chooser = by_estimate
        begin: Callable[[Kernel], None] | None = None
        if self.measure != "none":
            backend = backend_named(ctx.target.name)
            choose = tuner = Tuner(backend, self.measure == "all", self.tolerance, ctx.progress)
            if not self.prefer:
                tuner.expect(_asked(program), program.kernels, _asking(program))
                begin = tuner.begin
        if self.prefer:
            choose = _Preferring(self.prefer, choose)
        return resolved(program, choose, ctx.target, begin)

    def result(self, program: Program) -> dict[str, tuple[Choice, ...]]:
        """The choices of each kernel that had any, by its name."""
        calls = (s for s in program.steps if isinstance(s, Call))
        return {call.kernel.name: call.choices for call in calls if call.choices}


def _asked(program: Program) -> list[tuple[Problem, tuple[str, ...]]]:
    """Problems of a program with the variants that there are."""
    kernels = [step.kernel for step in program.steps if isinstance(step, Call)]
    tiles = [tile for kernel in kernels for tile in kernel.tiles]
    return [(tile.problem, candidates(tile)) for tile in tiles if tile.problem is not None]


def _asking(program: Program) -> dict[Problem, Call]:
    """The first call of a program with each problem."""
    calls = [step for step in program.steps if isinstance(step, Call)]
    pairs = [(tile.problem, call) for call in calls for tile in call.kernel.tiles]
    return {problem: call for problem, call in reversed(pairs) if problem is not None}


def resolved(
    program: Program,
    choose: Chooser,
    target: Target,
    begin: Callable[[Kernel], None] | None = None,
) -> Program:
    """The program with every tile in the variant chosen for it; equal kernels are asked once, and
    `begin` is told of each as soon as it is chosen."""
    known: dict[str, tuple[Kernel, tuple[Choice, ...]]] = {}
    steps: list[Step] = []
    for step in program.steps:
        if isinstance(step, Call):
            if step.kernel.name not in known:
                known[step.kernel.name] = kernel, choices = chosen(step.kernel, choose, target)
                if begin is not None and choices:
                    begin(kernel)
            kernel, choices = known[step.kernel.name]
            if choices:
                step = replace(step, kernel=kernel, choices=choices)
        steps.append(step)
    return replace(program, steps=steps)


@dataclass(frozen=True)
class _Preferring:
    """Takes the first of some names that there is, and asks somebody else where there is none."""

    names: tuple[str, ...]
    otherwise: Chooser

    def __call__(self, problem: Problem, names: Sequence[str], usual: str) -> Choice:
        wanted = next((n for n in self.names if n in names), None)
        if wanted is None:
            return self.otherwise(problem, names, usual)
        return unmeasured(names, wanted, "asked for")
