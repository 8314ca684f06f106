"""The loop over slices, and its gradient: a loop over the same slices in reverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.attrs import BOOL, INT, OPT_DIM
from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.dim import Dim
from glasshouse.ir.graph import Graph
from glasshouse.ir.op import Kind
from glasshouse.ir.sources import INPUT
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.arrays import Array
from glasshouse.ops.control import (
    GRAPH,
    Body,
    Types,
    as_tuple,
    check_body,
    filled,
    handles_of,
    placed,
    shown,
)
from glasshouse.ops.create import zeros_like_type
from glasshouse.ops.declare import op
from glasshouse.ops.pullback import clone, floats, pullback
from glasshouse.ops.shapes import require_equal


def _length(xs: Types, length: Dim | None) -> Dim:
    found: Dim | None = length
    for x in xs:
        if x.rank == 0:
            raise ShapeError("a scalar has no slices to scan")
        what = "scanned operands differ in length"
        found = x.shape[0] if found is None else require_equal(found, x.shape[0], what)
    if found is None:
        raise ShapeError("without scanned operands, give length=")
    return found


def _scan(
    *operands: TensorType,
    body: Graph,
    carries: int,
    scanned: int,
    length: Dim | None,
    reverse: bool,
) -> Types:
    if carries < 0 or scanned < 0 or carries + scanned > len(operands):
        raise ShapeError(f"{carries} carries and {scanned} scanned of {len(operands)} operands")
    state, xs = operands[:carries], operands[carries : carries + scanned]
    count = _length(xs, length)
    slices = tuple(tensor_type(x.dtype, x.shape[1:]) for x in xs)
    given = check_body("body", body, (*state, *slices, *operands[carries + scanned :]))
    if given[:carries] != state:
        raise TypeMismatch(f"body gives the carries {shown(given[:carries])}, not {shown(state)}")
    return (*state, *(tensor_type(y.dtype, (count, *y.shape)) for y in given[carries:]))


def _scan_ref(
    *operands: Array, body: Body, carries: int, scanned: int, length: int | None, reverse: bool
) -> tuple[Array, ...]:
    state, xs = operands[:carries], operands[carries : carries + scanned]
    rest = operands[carries + scanned :]
    count = xs[0].shape[0] if xs else length or 0
    if any(x.shape[0] != count for x in xs):
        raise ShapeError(f"scanned operands differ in length: {[x.shape[0] for x in xs]}")
    steps: list[tuple[Array, ...]] = []
    for i in reversed(range(count)) if reverse else range(count):
        out = body(*state, *[x[i] for x in xs], *rest)
        state = out[:carries]
        steps.append(out[carries:])
    if not steps:
        return (*state, *_nothing(body, carries))
    ordered = steps[::-1] if reverse else steps
    return (*state, *[np.stack(ys) for ys in zip(*ordered, strict=True)])


def _nothing(body: Any, carries: int) -> list[Array]:
    """What a scan over nothing collects, with the shapes that whoever runs the body knows."""
    return [np.zeros((0, *shape)) for shape in body.output_shapes[carries:]]


def _with_carries(body: Graph, carries: int) -> Graph:
    """A body that also hands out the carries that it was given."""
    builder, twin = clone(body)
    outputs = [twin[v] for v in body.outputs]
    return builder.finish(*outputs, *[twin[v] for v in body.inputs[:carries]])


def _scan_vjp(
    gs: Any, *rest: Any, body: Graph, carries: int, scanned: int, length: Dim | None, reverse: bool
) -> tuple[Any, ...]:
    count = len(body.inputs)
    operands, outputs = rest[:count], rest[count:]
    if not floats(operands):
        return (None,) * count
    state, xs = operands[:carries], operands[carries : carries + scanned]
    fixed = operands[carries + scanned :]
    arrived = filled(as_tuple(gs), outputs)
    split = len(floats(outputs[:carries]))
    replayed = handles_of(
        scan(
            *operands, body=_with_carries(body, carries), carries=carries, scanned=scanned,
            length=length, reverse=reverse,
        )
    )  # fmt: skip
    before = replayed[len(outputs) :]  # the carries as each step found them
    zeros = [zeros_like_type(fixed[i]) for i in floats(fixed)]
    step = _backward_step(body, carries, scanned)
    grads = handles_of(
        scan(
            *arrived[:split], *zeros, *arrived[split:], *xs, *before, *fixed, body=step,
            carries=split + len(zeros), scanned=len(arrived) - split + len(xs) + len(before),
            length=length, reverse=not reverse,
        )
    )  # fmt: skip
    by_state, by_fixed = grads[:split], grads[split : split + len(zeros)]
    return (
        *placed(by_state, state), *placed(grads[split + len(zeros) :], xs),
        *placed(by_fixed, fixed),
    )  # fmt: skip


def _backward_step(body: Graph, carries: int, scanned: int) -> Graph:
    """One step back. Carried: gradients of the carries and sums of those of the fixed operands.
    Scanned: gradients of what the step handed out, its slices, its carries. Given out: gradients
    of the slices."""
    inner = pullback(body)
    builder = GraphBuilder(f"{body.name}_grad")
    state, xs = body.inputs[:carries], body.inputs[carries : carries + scanned]
    fixed = body.inputs[carries + scanned :]
    given, ys = body.outputs[:carries], body.outputs[carries:]

    def inputs(values: Sequence[Any], only: Sequence[int]) -> list[Any]:
        return [builder.input(values[i].type.dtype, values[i].type.shape) for i in only]

    slopes = inputs(given, floats(given))
    sums = inputs(fixed, floats(fixed))
    arrived = inputs(ys, floats(ys))
    slices, before, rest = (inputs(vs, range(len(vs))) for vs in (xs, state, fixed))
    found = iter(_inlined(builder, inner, [*before, *slices, *rest, *slopes, *arrived]))
    by_state = [next(found) for _ in floats(state)]
    by_slices = [next(found) for _ in floats(xs)]
    totals = [total + next(found) for total in sums]
    return builder.finish(*by_state, *totals, *by_slices)


def _inlined(builder: GraphBuilder, graph: Graph, operands: Sequence[Any]) -> list[Any]:
    """A graph's nodes again in another one, its inputs being these handles."""
    twin = {v: h.value for v, h in zip(graph.inputs, operands, strict=True)}
    for node in graph.nodes:
        if node.op is INPUT:
            continue
        with builder.at(node.origin):
            types = [v.type for v in node.outputs]
            made = builder.emit(node.op, tuple(twin[v] for v in node.inputs), node.attrs, types)
        twin.update(zip(node.outputs, made.outputs, strict=True))
    return [builder.wrap(twin[v]) for v in graph.outputs]


scan = op(
    "scan", folds=False, merges=False,
    kind=Kind.OPAQUE, family="control", infer=_scan, ref=_scan_ref, vjp=_scan_vjp,
    inputs=("*xs",),
    doc="A loop over slices. The operands are `carries`, then `scanned` tensors of which each step "
    "sees one slice of the first axis, then what every step sees whole. `body` gives new carries "
    "and what is collected; the op gives the last carries and what was collected along a new first "
    "axis. `reverse` begins with the last slice.",
    body=GRAPH, carries=INT, scanned=INT(1), length=OPT_DIM, reverse=BOOL(False),
)  # fmt: skip
