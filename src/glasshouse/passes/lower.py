"""Lowering as a step of the pipeline: it always runs, between the passes that it reads and those
that decide on its kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from glasshouse.lower.lower import lower
from glasshouse.lower.program import Program
from glasshouse.passes.auto_mix_precision import TF32, TF32_CONVS, TF32_PRODUCTS
from glasshouse.passes.base import ProgramPass

if TYPE_CHECKING:
    from glasshouse.passes.context import PassContext


@dataclass(frozen=True)
class Lower(ProgramPass):
    """Turn every node of the optimised graph into a kernel of the target, or a fallback."""

    def decide(self, program: Program, ctx: PassContext) -> Program:
        products, convs = (ctx.precision in (TF32, x) for x in (TF32_PRODUCTS, TF32_CONVS))
        target = ctx.target
        if products or convs:
            target = replace(target, tf32=products, tf32_convs=convs)
        return lower(program, target)
