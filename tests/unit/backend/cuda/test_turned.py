"""Products whose operands are copied first, so that Hopper's copy engine can fetch them: gradients
of linear layers, and rows that are not aligned; by the emulator against the reference."""

from __future__ import annotations

import numpy as np
import pytest

from cuda_emulator import run_emulated
from cuda_samples import program_of
from glasshouse.backend.cuda import matmul as cuda_matmul
from glasshouse.backend.cuda.render import render
from glasshouse.ir import GraphBuilder
from glasshouse.ir.dtype import float16
from glasshouse.lower.program import Call, Program
from glasshouse.numpy_ref import run


def kernel_of(program: Program) -> tuple[str, int]:
    """The variant of the product, and how many functions its kernel has."""
    (call,) = [s for s in program.steps if isinstance(s, Call)]
    (tile,) = call.kernel.tiles
    return tile.variant, len(render(call.kernel).launches)


@pytest.mark.parametrize("flags", [(True, False), (False, False), (True, True), (False, True)])
@pytest.mark.parametrize("sizes", [(72, 64, 136), (33, 50, 19)], ids=["aligned", "odd"])
def test_operands_are_copied_where_they_lie_wrong(
    sizes: tuple[int, int, int], flags: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every way that two operands can lie, with what follows the product, and hostile values in
    what lies behind rows."""
    monkeypatch.setattr(cuda_matmul, "_is_worth_turning", lambda operands, sizes: True)
    m, n, k = sizes
    across, along = flags
    builder = GraphBuilder()
    x = builder.input(float16, (k, m) if across else (m, k))
    y = builder.input(float16, (n, k) if along else (k, n))
    bias = builder.input(float16, (n,))
    graph = builder.finish(
        (x.apply("matmul", y, transpose_x=across, transpose_y=along) + bias).apply("gelu")
    )
    program = program_of(graph, over_graph=True)
    variant, functions = kernel_of(program)
    assert variant.startswith(("tma", "turns"))
    odd = m % 8 != 0
    assert functions == 1 + (across or odd) + (not along or odd)
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(v.type.shape).astype(np.float16) for v in graph.inputs]
    (ours,) = run_emulated(program, arrays, fall_back=False)
    (theirs,) = run(graph, arrays)
    np.testing.assert_allclose(ours, theirs, atol=4e-3 * np.abs(theirs).max())


def test_small_products_stay_where_they_are() -> None:
    builder = GraphBuilder()
    x, y = builder.input(float16, (64, 72)), builder.input(float16, (64, 40))
    program = program_of(builder.finish(x.apply("matmul", y, transpose_x=True)))
    variant, functions = kernel_of(program)
    assert (variant[:3], functions) == ("mma", 1)


def test_large_gradients_are_worth_a_copy() -> None:
    """Of a layer [768, 3072] and 4096 rows, and of 50257 words, whose rows are not aligned."""
    for m, n, k in ((3072, 768, 4096), (50257, 768, 4096)):
        builder = GraphBuilder()
        x, y = builder.input(float16, (k, m)), builder.input(float16, (k, n))
        program = program_of(builder.finish(x.apply("matmul", y, transpose_x=True)))
        variant, functions = kernel_of(program)
        assert variant.startswith(("tma", "turns"))
        assert functions == 3
