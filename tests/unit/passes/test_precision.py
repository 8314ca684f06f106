"""Narrow floating types: where they are used, and that results stay close."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import primitive_models
from glasshouse.backend.base import target_named
from glasshouse.ir import GraphBuilder
from glasshouse.ir.dtype import bfloat16, float16, float32
from glasshouse.numerics import compare_all, random_inputs, tolerance_of
from glasshouse.numpy_ref import run
from glasshouse.passes import PassContext, optimize, pass_named
from glasshouse.passes.pipeline import apply_pass


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
@pytest.mark.parametrize("model", ["bert", "llama", "resnet_block"])
def test_models_stay_close_and_products_are_narrow(model: str, precision: str) -> None:
    graph = getattr(primitive_models, model)()
    after = optimize(graph, PassContext(precision=precision))
    inner = [n for k in after.nodes if k.op.name == "fused" for n in k.attrs["body"].nodes]
    nodes = [*after.nodes, *inner]
    low = {"float16": float16, "bfloat16": bfloat16}[precision]
    products = [n for n in nodes if n.op.name in ("matmul", "conv", "attention")]
    assert products
    assert all(n.output.type.dtype is low for n in products)
    norms = [n for n in nodes if n.op.family in ("norm", "softmax")]
    assert all(n.output.type.dtype is float32 for n in norms)
    assert [v.type for v in after.outputs] == [v.type for v in graph.outputs]
    inputs = random_inputs(graph)
    error = compare_all(run(after, inputs), run(graph, inputs))
    assert 0 < error.scaled < tolerance_of(after)


@pytest.mark.parametrize(
    ("dtype", "divisor"), [("float16", 1e-5), ("float32", 1e-40), ("float64", 1e-309)]
)
def test_division_by_what_has_no_inverse_stays(dtype: str, divisor: float) -> None:
    b = GraphBuilder()
    graph = b.finish(b.input(dtype, (3,)) / b.constant(np.array(divisor, dtype)))
    given = np.array([0.0, divisor, 2 * divisor], dtype)
    np.testing.assert_array_equal(run(optimize(graph), [given])[0], run(graph, [given])[0])


def test_a_target_that_gains_nothing_is_told(small, watch) -> None:
    apply_pass(pass_named("auto_mix_precision", {"precision": "float16"}), small, [watch])
    assert watch.rewrites, "it acts all the same"
    assert "cpu computes float16 no faster" in watch.rejects[0].why
    target = replace(target_named("cpu"), low_precision=("float16",))
    fast = pass_named("auto_mix_precision", {"precision": "float16", "target": target})
    watch.rejects.clear()
    apply_pass(fast, small, [watch])
    assert not any(r.rule == "precision" for r in watch.rejects)


def test_weights_that_do_not_fit_stay_wide(watch) -> None:
    b = GraphBuilder()
    x = b.input("float32", (2, 2))
    graph = b.finish(x @ b.weight(np.full((2, 2), 1e5, np.float32)))
    apply_pass(pass_named("auto_mix_precision", {"precision": "float16"}), graph, [watch])
    assert not watch.rewrites
    assert "1e+05 does not fit into float16" in watch.rejects[-1].why
