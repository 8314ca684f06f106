"""Samples of the registry as programs for GPUs: for the emulator, and to be compiled."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from glasshouse.backend.cuda.target import FALLBACKS, cuda_target
from glasshouse.ir import Graph, GraphBuilder, Kind, op_named
from glasshouse.ir.dtype import to_storage
from glasshouse.lower.program import Program
from glasshouse.passes import PassContext
from glasshouse.passes.pipeline import optimize_program
from ops.harness import attrs_of, typed_inputs, types_of
from ops.samples import SAMPLES
from ops.samples.sample import Sample


def program_of(graph: Graph, over_graph: bool = False, arch: str = "sm_90") -> Program:
    ctx = PassContext(options={"resolve_variant": {"measure": "none"}})
    ctx.target = cuda_target(f"cuda:{arch}", arch)
    return optimize_program(graph, ctx, over_graph=over_graph)


def family_cases(every: bool) -> dict[str, list[tuple[str, Sample, str]]]:
    """All samples in all types, or the first of each op in two types."""
    out: dict[str, list[tuple[str, Sample, str]]] = defaultdict(list)
    for name, samples in SAMPLES.items():
        op = op_named(name)
        if op.kind is Kind.SOURCE or name in FALLBACKS:
            continue
        for position, sample in enumerate(samples):
            types = sample.dtypes if position == 0 else sample.dtypes[:2]
            if not every:
                few = [d for d in ("float16", "float32") if d in types] or list(types)
                types = few[:1] if position == 0 else []
            out[op.family] += [(name, sample, dtype) for dtype in types]
    return out


def family_program(
    cases: list[tuple[str, Sample, str]], arch: str = "sm_90"
) -> tuple[Program, list[Any], list[tuple[str, str, float]]]:
    builder = GraphBuilder()
    arrays: list[Any] = []
    outputs = []
    names: list[tuple[str, str, float]] = []
    for name, sample, dtype in cases:
        op = op_named(name)
        inputs = typed_inputs(sample, dtype)
        operands = [builder.input(t.dtype, t.shape) for t in types_of(inputs, {})]
        builder.apply(op, *operands, **attrs_of(op, sample, {}))
        node = builder.graph.nodes[-1]
        outputs += [builder.wrap(v) for v in node.outputs]
        names += [(name, dtype, sample.tol)] * len(node.outputs)
        arrays += [to_storage(a, d) for d, a in inputs]
    return program_of(builder.finish(*outputs), arch=arch), arrays, names


FEW, EVERY = family_cases(False), family_cases(True)
