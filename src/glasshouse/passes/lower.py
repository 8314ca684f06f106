"""Lowering as a step of the pipeline: it always runs, between the passes that it reads and those
that decide on its kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from glasshouse.lower.lower import lower
from glasshouse.lower.program import Program
from glasshouse.passes.auto_mix_precision import TF32
from glasshouse.passes.base import ProgramPass

if TYPE_CHECKING:
    from glasshouse.passes.context import PassContext


@dataclass(frozen=True)
class Lower(ProgramPass):
    """Turn every node of the optimised graph into a kernel of the target, or a fallback."""

    def decide(self, program: Program, ctx: PassContext) -> Program:
        tf32 = ctx.precision == TF32
        return lower(program, replace(ctx.target, tf32=True) if tf32 else ctx.target)
