"""Layouts: the order of each value's axes in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from glasshouse.ir.graph import Value
from glasshouse.lower.order import Order, choose_orders
from glasshouse.lower.program import Program
from glasshouse.passes.base import ProgramPass, register_pass

if TYPE_CHECKING:
    from glasshouse.passes.context import PassContext


@register_pass()
@dataclass(frozen=True)
class AssignLayouts(ProgramPass):
    """Images between convolutions get their channels last; all else is row-major."""

    lowered: ClassVar[bool] = False

    def decide(self, program: Program, ctx: PassContext) -> Program:
        target = ctx.target
        return replace(program, orders=choose_orders(program.graph, target.images, target.turned))

    def result(self, program: Program) -> Mapping[Value, Order]:
        return program.orders
