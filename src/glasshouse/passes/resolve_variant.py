"""Variants: which of several ways computes an op, by measurement or by estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from glasshouse.backend.base import backend_named
from glasshouse.errors import PassError
from glasshouse.lower.choice import Choice, Chooser, Problem, by_estimate, unmeasured
from glasshouse.lower.program import Program
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

    lowered: ClassVar[bool] = False

    measure: str = "large"
    tolerance: float = TOLERANCE
    prefer: tuple[str, ...] = ()

    def decide(self, program: Program, ctx: PassContext) -> Program:
        if self.measure not in MEASURED:
            known = ", ".join(MEASURED)
            raise PassError(f"resolve_variant measures {known}, not {self.measure!r}")
        choose: Chooser = by_estimate
        if self.measure != "none":
            backend = backend_named(ctx.target.name)
            choose = Tuner(backend, self.measure == "all", self.tolerance, ctx.progress)
        return replace(program, choose=_Preferring(self.prefer, choose) if self.prefer else choose)


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
