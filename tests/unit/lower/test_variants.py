"""Variants: what a tile needs follows from the one that is chosen, and equal layers ask once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from glasshouse.backend.cpu.target import CPU
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.lower.choice import Choice, Problem
from glasshouse.lower.program import Call, Program
from glasshouse.passes import PassContext
from glasshouse.passes.pipeline import optimize_program
from glasshouse.passes.resolve_variant import resolved


def two_layers() -> Graph:
    b = GraphBuilder()
    x = b.input("float32", [1, 32, 8, 8])
    for _ in range(2):
        x = x.apply("conv", b.weight(np.ones((32, 32, 3, 3), "f")), padding=[1, 1]).apply("relu")
    return b.finish(x)


@pytest.mark.parametrize(
    ("variant", "form", "scratch"),
    [("winograd2", "winograd", 0), ("winograd4", "winograd", 0), ("im2col", "taps", 1)],
)
def test_a_variant_brings_its_form_and_scratch(
    variant: str, form: str, scratch: int, decided: Callable[..., Program]
) -> None:
    calls = [s for s in decided(two_layers(), prefer=(variant,)).steps if isinstance(s, Call)]
    for call in calls:
        (tile,) = call.kernel.tiles
        assert (call.kernel.variant, tile.variant) == (variant, variant)
        assert [f.kind for f in tile.forms] == [p.form.kind for p in call.packed] == [form]
        assert call.packed[0].source is call.operands[1]
        assert len(tile.scratch) == scratch
        assert [c.name for c in call.choices] == [variant]


def test_without_the_pass_it_is_the_first(decided: Callable[..., Program]) -> None:
    ctx = PassContext()
    ctx.skip("resolve_variant")
    program = optimize_program(two_layers(), ctx)
    variants = {t.variant for k in program.kernels for t in k.tiles}
    assert variants == {t.variants[0] for k in program.kernels for t in k.tiles} == {"winograd2"}


def test_each_kernel_asks_once() -> None:
    asked: list[str] = []

    def choose(problem: Problem, names: Sequence[str], usual: str) -> Choice:
        asked.append(problem.key)
        assert usual in names
        return Choice("direct")

    b = GraphBuilder()
    x = b.input("float32", [1, 32, 8, 8])
    weights = [b.weight(np.ones((32, 32, 3, 3), "f") * i) for i in range(4)]
    outputs = [x.apply("conv", w, padding=[1, 1]) for w in weights]
    ctx = PassContext()
    ctx.skip("resolve_variant", "subgraph_rewrite")
    program = optimize_program(b.finish(*outputs), ctx)
    after = resolved(program, choose, CPU)
    assert len(program.steps) == len(after.steps) == 4
    assert len(asked) == len(program.kernels) == 1
    assert {t.variant for k in after.kernels for t in k.tiles} == {"direct"}
    assert {t.variant for k in program.kernels for t in k.tiles} == {"winograd2"}
