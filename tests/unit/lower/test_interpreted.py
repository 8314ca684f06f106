"""Kernels lowered for the CPU, interpreted: they mean what the graph means, without a compiler.

Every kernel is verified, and printed and parsed on the way: what is interpreted is what was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from generators import case_of
from glasshouse.backend.cpu.target import CPU
from glasshouse.backend.interp.program import run_program
from glasshouse.ir import Graph, GraphBuilder, op_named
from glasshouse.lower.kernel.kernel import Kernel
from glasshouse.lower.kernel.parser import parse_kernel
from glasshouse.lower.kernel.printer import print_kernel
from glasshouse.lower.kernel.verify import verify_kernel
from glasshouse.lower.lower import lower
from glasshouse.numpy_ref import run
from glasshouse.passes import optimize
from ops.harness import assert_close, attrs_of, typed_inputs, types_of
from ops.test_cpu import CASES


def checked(kernel: Kernel) -> Kernel:
    verify_kernel(kernel)
    text = print_kernel(kernel)
    again = parse_kernel(text)
    assert again == kernel
    assert print_kernel(again) == text
    return again


def check(graph: Graph, wanted: Graph, inputs: Sequence[Any], tolerance: float) -> None:
    found = run_program(lower(graph, CPU), inputs, checked)
    for ours, theirs, value in zip(found, run(wanted, inputs), graph.outputs, strict=True):
        assert_close(ours, theirs, value.type.dtype.name, tolerance, str(value.node))


@pytest.mark.parametrize("family", sorted(CASES[True]))
def test_every_op_of_the_registry(family: str) -> None:
    for name, sample, dtype in CASES[True][family]:
        op, builder = op_named(name), GraphBuilder()
        inputs = typed_inputs(sample, dtype)
        operands = [builder.input(t.dtype, t.shape) for t in types_of(inputs, {})]
        builder.apply(op, *operands, **attrs_of(op, sample, {}))
        node = builder.graph.nodes[-1]
        graph = builder.finish(*[builder.wrap(v) for v in node.outputs])
        check(graph, graph, [array for _, array in inputs], sample.tol * 20)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_as_built_and_optimised(seed: int, dtype: str) -> None:
    case = case_of(seed, 25, dtype)
    check(case.graph, case.graph, case.inputs, 200.0)
    check(optimize(case.graph), case.graph, case.inputs, 200.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_many_random_graphs(seed: int) -> None:
    case = case_of(seed, 40, "float32")
    check(optimize(case.graph), case.graph, case.inputs, 200.0)
