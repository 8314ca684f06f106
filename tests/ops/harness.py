"""How a sample becomes graphs: the op alone, its gradient, and the gradient of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from glasshouse.ir import Expr, Graph, GraphBuilder, Node, NoGradient, Op, TensorType, Value
from glasshouse.ir.dim import SymDim
from glasshouse.ir.dtype import DType, as_dtype, bfloat16, finish, float16
from glasshouse.ir.types import tensor_type
from ops.samples.sample import Array, Sample

HALF = ("float16", "bfloat16")
# A few units in the last place; reductions and long formulas declare a wider `tol`.
_RTOL = {"float64": 1e-13, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}


def typed_inputs(sample: Sample, dtype: str) -> list[tuple[DType, Array]]:
    """The operands with `dtype` where the sample leaves the element type open."""
    free = sample.dtypes[0]
    out = []
    for given in sample.inputs:
        array = np.asarray(given)
        wanted = as_dtype(dtype if array.dtype.name == free else array.dtype)
        out.append((wanted, finish(array, wanted)))
    return out


def types_of(
    inputs: Sequence[tuple[DType, Array]], sizes: Mapping[int, SymDim]
) -> list[TensorType]:
    """Their types, with each size in `sizes` replaced by its symbol."""
    return [tensor_type(d, [sizes.get(n, n) for n in a.shape]) for d, a in inputs]


def attrs_of(op: Op, sample: Sample, sizes: Mapping[int, SymDim]) -> dict[str, Any]:
    """The attributes, with sizes among them replaced as in the operands."""

    def symbolic(given: Any) -> Any:
        if isinstance(given, (list, tuple)):
            return [symbolic(g) for g in given]
        return sizes.get(given, given) if isinstance(given, int) else given

    kinds = {k: a.kind.rstrip("?") for k, a in op.attrs.items()}
    return {
        k: symbolic(v) if kinds.get(k) in ("dim", "dims") else v for k, v in sample.attrs.items()
    }


def apply(
    op: Op, types: Sequence[TensorType], attrs: Mapping[str, Any]
) -> tuple[GraphBuilder, Node]:
    """A graph under construction that holds the op and inputs for its operands."""
    builder = GraphBuilder()
    operands = [builder.input(t.dtype, t.shape) for t in types]
    builder.apply(op, *operands, **attrs)
    return builder, builder.graph.nodes[-1]


def forward_graph(op: Op, types: Sequence[TensorType], attrs: Mapping[str, Any]) -> Graph:
    builder, node = apply(op, types, attrs)
    return builder.finish(*node.outputs)


def gradient_graph(
    op: Op, types: Sequence[TensorType], attrs: Mapping[str, Any], only: int | None = None
) -> tuple[Graph, list[int]]:
    """Operands and a cotangent for each float output in, gradients of the operands out.

    Gives also which operands have a gradient. `only` lets a cotangent arrive at one output alone.
    """
    builder, node = apply(op, types, attrs)
    cotangents = [
        builder.input(v.type.dtype, v.type.shape)
        if v.type.dtype.is_float and only in (None, v.index) else None
        for v in node.outputs
    ]  # fmt: skip
    grads = call_vjp(builder, node, cotangents)
    have = [i for i, g in enumerate(grads) if g is not None]
    for i in have:
        wanted, got = node.inputs[i].type, grads[i].type
        assert got == wanted, f"the gradient of operand {i} has type {got}, the operand {wanted}"
        assert got.dtype.is_float, f"operand {i} of type {wanted} has a gradient"
    return builder.finish(*[grads[i] for i in have]), have


def call_vjp(
    builder: GraphBuilder, node: Node, cotangents: Sequence[Expr | None]
) -> list[Expr | None]:
    vjp = node.op.vjp
    assert not isinstance(vjp, NoGradient), f"{node.op.name} has no gradient: {vjp.why}"
    handles = [builder.wrap(v) for v in (*node.inputs, *node.outputs)]
    g = cotangents[0] if len(node.outputs) == 1 else tuple(cotangents)
    grads = list(vjp(g, *handles, **node.attrs))
    assert len(grads) == len(node.inputs), f"{len(grads)} gradients for {len(node.inputs)} operands"
    return grads


def pullback(graph: Graph, wrt: Sequence[int]) -> Graph:
    """Reverse mode over a whole graph: its inputs and a cotangent for each output in, gradients of
    the inputs at `wrt` out (zeros where nothing depends on them)."""
    builder = GraphBuilder()
    twin: dict[Value, Value] = {}
    for node in graph.nodes:
        inputs = tuple(twin[v] for v in node.inputs)
        made = builder.emit(node.op, inputs, node.attrs, [v.type for v in node.outputs])
        twin.update(zip(node.outputs, made.outputs, strict=True))
    builder.graph.inputs = [twin[v] for v in graph.inputs]
    sources = [builder.graph.inputs[i] for i in wrt]
    nodes = list(builder.graph.nodes)
    active: set[Value] = set(sources)
    for node in nodes:
        if any(v in active for v in node.inputs):
            active.update(node.outputs)
    grads: dict[Value, Any] = {}
    for value in graph.outputs:
        g = builder.input(value.type.dtype, value.type.shape)
        grads[twin[value]] = g + grads[twin[value]] if twin[value] in grads else g
    for node in reversed(nodes):
        arrived = [grads.get(v) for v in node.outputs]
        if not any(v in active for v in node.inputs) or all(g is None for g in arrived):
            continue
        for value, g in zip(node.inputs, call_vjp(builder, node, arrived), strict=True):
            if g is not None and value in active:
                grads[value] = grads[value] + g if value in grads else g
    results = [grads.get(v) for v in sources]
    zeros = [
        g if g is not None else builder.wrap(v) * 0.0 for g, v in zip(results, sources, strict=True)
    ]
    return builder.finish(*zeros)


def torch_outputs(
    sample: Sample, inputs: Sequence[tuple[DType, Array]]
) -> tuple[list[Array], list[str | None]]:
    """What torch computes, and each output's element type.

    Half types run in float32 on the rounded operands (torch lacks many of them on a CPU); then the
    output's own type says nothing, and is None.
    """
    assert sample.torch is not None
    half = next((d for d, _ in inputs if d in (float16, bfloat16)), None)
    tensors = [
        torch.from_numpy(np.array(a, np.float32 if d in (float16, bfloat16) else d.carrier))
        for d, a in inputs
    ]
    out = sample.torch(*tensors, **sample.attrs)
    many = list(out) if isinstance(out, (tuple, list)) else [out]
    arrays = [t.detach().numpy() for t in many]
    if half is None:
        return arrays, [a.dtype.name for a in arrays]
    return [finish(a, half) if a.dtype == np.float32 else a for a in arrays], [None] * len(arrays)


def assert_close(actual: Array, expected: Array, dtype: str, tol: float, what: str) -> None:
    """Equal for integers; for floats within `tol` times the tolerance of `dtype`, NaN as NaN."""
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, not {expected.shape}"
    if dtype not in _RTOL:
        np.testing.assert_array_equal(actual, expected, what)
        return
    rtol = _RTOL[dtype] * tol
    np.testing.assert_allclose(
        np.asarray(actual, np.float64),
        np.asarray(expected, np.float64),
        rtol,
        rtol / 2,
        err_msg=what,
    )
