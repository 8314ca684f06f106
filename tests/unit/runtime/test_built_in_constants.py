"""Constants that stand in the code of a kernel: other data is refused, never ignored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import glasshouse as gh
from glasshouse.errors import ExecutionError
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir.dtype import as_dtype
from glasshouse.runtime.module import Module


def test_a_single_number() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", [4])
    module = gh.compile(builder.finish(x * builder.weight(np.array([2], np.float32), name="scale")))
    module.set_constant("scale", [2.0])  # what it is already
    with pytest.raises(ExecutionError, match=r"scale is built into the code of k0_mul\w*"):
        module.set_constant("scale", [5.0])


def layer() -> Graph:
    builder = GraphBuilder()
    rng = np.random.default_rng(0)
    scale, zero = builder.constant(np.float32(0.05)), builder.constant(np.uint8(3))
    x = builder.input("float32", [5, 8]).apply("quantize", scale, zero, dtype=as_dtype("uint8"))
    w = builder.weight(rng.integers(-9, 9, (8, 6)).astype(np.int8), name="w")
    scales = builder.weight(np.full(6, 0.01, np.float32), name="scales")
    zeros = builder.weight(np.zeros(6, np.int8), name="zeros")
    real = w.apply("dequantize", scales, zeros, axis=1)
    return builder.finish(x.apply("dequantize", scale, zero).apply("matmul", real))


@pytest.fixture(scope="module")
def quantized() -> Module:
    module = gh.compile(layer())
    assert "int8" in [k.variant for k in module.program.kernels]
    return module


@pytest.mark.parametrize("way", ["set_constant", "set_double_buffer_constant"])
def test_zero_points_of_whole_products(quantized: Module, way: str) -> None:
    getattr(quantized, way)("zeros", np.zeros(6, np.int8))
    with pytest.raises(ExecutionError, match="zeros is built into the code"):
        getattr(quantized, way)("zeros", np.ones(6, np.int8))


def test_zero_points_of_whole_products_on_a_gpu() -> None:
    module = gh.compile(layer(), target="cuda", arch="sm_90", progress=False)
    assert any(k.variant.startswith("int8_") for k in module.program.kernels)
    with pytest.raises(ExecutionError, match="zeros is built into the code"):
        module.set_constant("zeros", np.ones(6, np.int8))


def test_it_holds_for_saved_modules(quantized: Module, tmp_path: Path) -> None:
    module = gh.load(quantized.save(tmp_path / "saved"))
    with pytest.raises(ExecutionError, match="zeros is built into the code"):
        module.set_constant("zeros", np.ones(6, np.int8))
    x = np.random.default_rng(1).standard_normal((5, 8), np.float32)
    before = module(x)
    module.set_constant("scales", np.full(6, 0.02, np.float32))
    np.testing.assert_allclose(module(x), before * 2, rtol=1e-6)
