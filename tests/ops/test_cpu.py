"""Every op of the registry on the CPU target, against the reference executor, on all samples.

The samples of a family are compiled as one program. An op that is declared a fallback must really
be one, and every other must not.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from glasshouse.backend.cpu.target import FALLBACKS
from glasshouse.ir import GraphBuilder, Kind, op_named
from glasshouse.ir.dtype import DType, to_storage
from glasshouse.ir.op import REGISTRY
from glasshouse.lower.program import Fallback
from glasshouse.numpy_ref import run
from glasshouse.runtime.compiler import compile_graph
from ops.harness import assert_close, attrs_of, typed_inputs, types_of
from ops.samples import SAMPLES
from ops.samples.sample import Sample

# Kernels round differently from NumPy: by a few units in the last place for functions, more for
# long sums. Half floats are rounded once at the end of a kernel instead of after each op.
_LOOSER = {"float64": 100.0, "float32": 20.0, "float16": 4.0, "bfloat16": 4.0}


def _cases(every: bool) -> dict[str, list[tuple[str, Sample, str]]]:
    """By family: all element types on an op's first sample, float64 or float32 in turns on the next
    two (`every`: both, on all others), because each of them is a kernel to compile."""
    out: dict[str, list[tuple[str, Sample, str]]] = defaultdict(list)
    for name, samples in SAMPLES.items():
        op = op_named(name)
        if op.kind is Kind.SOURCE:
            continue
        for position, sample in enumerate(samples if every else samples[:3]):
            wide = sample.dtypes[:2]
            others = wide if every else [wide[position % len(wide)]]
            for dtype in sample.dtypes if position == 0 else others:
                out[op.family].append((name, sample, dtype))
    return out


CASES = {every: _cases(every) for every in (False, True)}


@pytest.mark.parametrize("family", sorted(CASES[False]))
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_samples_equal_the_reference(family: str, every: bool) -> None:
    builder = GraphBuilder()
    arrays: list[np.ndarray] = []
    outputs = []
    names: list[tuple[str, str, float]] = []
    for name, sample, dtype in CASES[every][family]:
        op = op_named(name)
        inputs = typed_inputs(sample, dtype)
        types = types_of(inputs, {})
        operands = [builder.input(t.dtype, t.shape) for t in types]
        builder.apply(op, *operands, **attrs_of(op, sample, {}))
        node = builder.graph.nodes[-1]
        outputs += [builder.wrap(v) for v in node.outputs]
        names += [(name, dtype, sample.tol)] * len(node.outputs)
        arrays += [to_storage(a, d) for d, a in inputs]
    graph = builder.finish(*outputs)
    module = compile_graph(graph)
    fell_back = {s.node.op.name for s in module.program.steps if isinstance(s, Fallback)}
    undeclared = {
        f"{s.node}: {s.why}"
        for s in module.program.steps
        if isinstance(s, Fallback) and s.node.op.name not in FALLBACKS
    }
    assert not undeclared, "no kernel and not declared a fallback"
    assert fell_back <= set(REGISTRY)
    actual = module(*arrays)
    actual = actual if isinstance(actual, tuple) else (actual,)
    expected = run(graph, arrays)
    wrong: list[str] = []
    for (name, dtype, tol), ours, theirs, value in zip(
        names, actual, expected, graph.outputs, strict=True
    ):
        kind: DType = value.type.dtype
        looser = tol * _LOOSER.get(kind.name, 1.0)
        if name == "normal":  # its logarithm and cosine are taken in float32 for every type
            looser *= 1e5 if kind.name == "float64" else 1.0
        try:
            assert_close(ours, theirs, kind.name, looser, f"{name} {dtype}")
        except AssertionError as error:
            wrong.append(" ".join(str(error).split())[:300])
    assert not wrong, "\n".join(wrong)
