"""8-bit floats on a GPU: bytes as the reference has them, products on tensor cores."""

from __future__ import annotations

import numpy as np
import pytest

from cuda_emulator import run_emulated
from cuda_samples import program_of
from glasshouse.backend.cuda import float8
from glasshouse.backend.cuda.render import render
from glasshouse.backend.cuda.tiles import variant_named
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir.dtype import as_dtype, finish
from glasshouse.numpy_ref import run

TYPES = ("float8_e4m3fn", "float8_e5m2")


def scaled(
    shape: tuple[int, ...], columns: int, types: tuple[str, str], constant: bool, by_row: bool
) -> Graph:
    """What `torch._scaled_mm` is, with a bias and float16 results."""
    random = np.random.default_rng(0)
    builder = GraphBuilder()
    x = builder.input(types[0], shape)
    kind, sizes = as_dtype(types[1]), (columns, shape[-1])
    if constant:
        w = builder.weight(finish(random.standard_normal(sizes), kind), kind)
    else:
        w = builder.input(types[1], sizes)
    scales = [(*shape[:-1], 1), (1, columns)] if by_row else [(), ()]
    a, b = (builder.weight(random.uniform(0.1, 2, s).astype("f"), "float32") for s in scales)
    bias = builder.weight(random.standard_normal(columns, "f"), "float32")
    product = x.cast("float32").apply("matmul", w.cast("float32"), transpose_y=True)
    return builder.finish((product * a * b + bias).cast("float16"))


@pytest.mark.parametrize(
    ("shape", "columns", "types", "constant", "by_row"),
    [
        ((5, 32), 48, (TYPES[0], TYPES[0]), False, False),
        ((70, 272), 40, (TYPES[0], TYPES[1]), True, True),  # depth past two boxes, odd columns
        ((2, 65, 64), 96, (TYPES[1], TYPES[0]), True, False),
        ((33, 128), 64, (TYPES[1], TYPES[1]), False, True),
    ],
)
def test_products_are_of_bytes(
    shape: tuple[int, ...], columns: int, types: tuple[str, str], constant: bool, by_row: bool
) -> None:
    graph = scaled(shape, columns, types, constant, by_row)
    program = program_of(graph, over_graph=True)
    (kernel,) = program.kernels
    assert kernel.variant.startswith("float8_tma")
    assert "gh::f8x2<" in render(kernel).text
    random = np.random.default_rng(1)
    inputs = [
        finish(random.standard_normal([int(d) for d in v.type.shape]), v.type.dtype)
        for v in graph.inputs
    ]
    (ours,) = run_emulated(program, inputs, fall_back=False)
    np.testing.assert_allclose(
        ours.astype("f"), run(graph, inputs)[0].astype("f"), rtol=2e-3, atol=2e-3
    )


@pytest.mark.parametrize(
    "tile", ["tma128x256x64", "tma128x192x64", "tma128x128x64", "tma64x64x64_join2"]
)
def test_columns_of_wide_tiles_come_in_turns(tile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(float8, "candidates", lambda *sizes: [variant_named(tile)])
    graph = scaled((70, 272), 288, (TYPES[0], TYPES[0]), True, True)
    program = program_of(graph, over_graph=True)
    assert program.kernels[0].variant == f"float8_{tile}"
    x = finish(np.random.default_rng(1).standard_normal((70, 272)), as_dtype(TYPES[0]))
    (ours,) = run_emulated(program, [x], fall_back=False)
    wanted = run(graph, [x])[0].astype("f")
    np.testing.assert_allclose(ours.astype("f"), wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("depth", [24, 40])
def test_rows_that_are_not_aligned_are_widened_first(depth: int) -> None:
    graph = scaled((4, depth), 8, (TYPES[0], TYPES[0]), True, False)
    program = program_of(graph, over_graph=True)
    assert not any(k.variant.startswith("float8") for k in program.kernels)
    x = finish(np.random.default_rng(1).standard_normal((4, depth)), as_dtype(TYPES[0]))
    (ours,) = run_emulated(program, [x], fall_back=False)
    np.testing.assert_allclose(ours.astype("f"), run(graph, [x])[0].astype("f"), rtol=2e-3)


@pytest.mark.parametrize("name", TYPES)
def test_bytes_are_those_of_the_reference(name: str) -> None:
    """Every half float there and back, with all that is infinite, denormal or no number."""
    builder = GraphBuilder()
    x = builder.input("float16", (65536,))
    graph = builder.finish(x.cast(name).cast("float32"))
    program = program_of(graph, over_graph=True)
    given = np.arange(65536, dtype=np.uint16).view(np.float16)
    (ours,) = run_emulated(program, [given], fall_back=False)
    np.testing.assert_array_equal(ours, run(graph, [given])[0])
