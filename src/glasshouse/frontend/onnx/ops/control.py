"""How ONNX's If, Loop and Scan are spelled: as control ops with nested graphs, or inlined
where it is known what they do."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import TypeMismatch, Unsupported
from glasshouse.frontend.onnx.bodies import OuterValues, inlined
from glasshouse.frontend.onnx.call import OnnxCall
from glasshouse.frontend.onnx.opaque import opaque_call
from glasshouse.frontend.onnx.registry import spell
from glasshouse.ir.dim import Dim, SymDim
from glasshouse.ir.dtype import bool_, int64
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops import composite
from glasshouse.ops.control import cond as cond_op
from glasshouse.ops.control import handles_of, while_loop
from glasshouse.ops.scan import scan as scan_op
from glasshouse.ops.shape import reshaped


@spell("If")
def if_(c: OnnxCall) -> Any:
    branches = {True: c.attr("then_branch"), False: c.attr("else_branch")}
    test = c.value(0)
    if test is not None:
        return tuple(inlined(c.importer, branches[bool(test.reshape(-1)[0])]))
    captured = OuterValues(c.importer, list(branches.values()))
    then, other = (captured.body(branches[b], []) for b in (True, False))
    pred = reshaped(c[0], ())
    return tuple(handles_of(cond_op(pred, *captured.handles, then=then, other=other)))


# --------------------------------------------------------------------------------------------- Loop
@spell("Loop")
def loop(c: OnnxCall) -> Any:
    body = c.attr("body")
    carried = [c[i] for i in range(2, len(c))]
    captured = OuterValues(c.importer, [body])
    count = _trips(c)
    if _always(c, body) and count is not None:
        return _counted(c, body, carried, captured, count)
    if len(body.output) > 1 + len(carried):
        return _collected(c, body, carried, captured)
    return _open_ended(c, body, carried, captured)


def _trips(c: OnnxCall) -> Dim | None:
    known = c.value(0) if c.has(0) else None
    if known is None:
        return None
    found = known.reshape(-1)[0]
    return found if isinstance(found, SymDim) else max(0, int(found))


def _always(c: OnnxCall, body: Any) -> bool:
    """Whether nothing but the count ends the loop."""
    if c.has(1):
        begin = c.value(1)
        if begin is None or not bool(begin.reshape(-1)[0]):
            return False
    name = body.output[0].name
    makers = {output: node for node in body.node for output in node.output}
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].input[0]
    if name == body.input[1].name:
        return True
    if name in makers and makers[name].op_type == "Constant":
        from glasshouse.frontend.onnx.tensors import array_of

        value = next((a.t for a in makers[name].attribute if a.name == "value"), None)
        return value is not None and bool(array_of(value, None)[0].reshape(-1)[0])
    stored = next((t for t in body.initializer if t.name == name), None)
    return stored is not None and bool(np.asarray(stored.int32_data or [*stored.raw_data])[0])


def _shape_of(body: Any, place: int, default: TensorType) -> TensorType:
    """The type of an own input of a body: a scalar may be declared as one element."""
    info = body.input[place].type.tensor_type
    if info.HasField("shape") and len(info.shape.dim) == 1:
        return tensor_type(default.dtype, (1,))
    return default


def _counted(c: OnnxCall, body: Any, carried: list[Any], captured: OuterValues, count: Dim) -> Any:
    state = [h.type for h in carried]
    number = _shape_of(body, 0, tensor_type(int64, ()))
    flag = _shape_of(body, 1, tensor_type(bool_, ()))
    carries = len(state)

    def wrap(builder: Any, run: Any, own: list[Any], _: list[Any]) -> list[Any]:
        yes = builder.apply("full", shape=flag.shape, value=True, dtype=bool_)
        out = run([reshaped(own[carries], number.shape), yes, *own[:carries]])
        return list(out[1:])

    graph = captured.body(body, [*state, tensor_type(int64, ())], wrap)
    numbers = c.builder.apply("arange", stop=count)
    out = scan_op(
        *carried, numbers, *captured.handles, body=graph, carries=carries, scanned=1, length=count
    )
    return tuple(handles_of(out))


def _open_ended(c: OnnxCall, body: Any, carried: list[Any], captured: OuterValues) -> Any:
    """Number, limit and flag are carried besides the loop's own values and what it reads."""
    state = [h.type for h in carried]
    number = _shape_of(body, 0, tensor_type(int64, ()))
    flag = _shape_of(body, 1, tensor_type(bool_, ()))
    scalar, truth = tensor_type(int64, ()), tensor_type(bool_, ())
    own_types = [scalar, scalar, truth, *state]

    def step(builder: Any, run: Any, own: list[Any], outside: list[Any]) -> list[Any]:
        out = run([reshaped(own[0], number.shape), reshaped(own[2], flag.shape), *own[3:]])
        return [own[0] + 1, own[1], reshaped(out[0], ()), *out[1:], *outside]

    def test(builder: Any, run: Any, own: list[Any], outside: list[Any]) -> list[Any]:
        return [own[2].apply("logical_and", own[0] < own[1])]

    limit = reshaped(c[0].cast(int64), ()) if c.has(0) else c.full((), 2**63 - 1, int64)
    begin = reshaped(c[1], ()) if c.has(1) else c.full((), True, bool_)
    out = while_loop(
        c.full((), 0, int64), limit, begin, *carried, *captured.handles,
        test=captured.body(body, own_types, test), body=captured.body(body, own_types, step),
    )  # fmt: skip
    return tuple(handles_of(out)[3 : 3 + len(carried)])


def _collected(c: OnnxCall, body: Any, carried: list[Any], captured: OuterValues) -> Any:
    """How much it collects is known when it runs only: the whole loop stays one opaque node."""
    state = [h.type for h in carried]
    own = [_shape_of(body, 0, tensor_type(int64, ())), _shape_of(body, 1, tensor_type(bool_, ()))]
    graph = captured.body(body, [*own, *state])
    found = [v.type for v in graph.outputs[1:]]
    if found[: len(state)] != state:
        raise Unsupported("a loop whose values change their shape")
    count = c.importer.model.symbols.fresh()
    collected = [tensor_type(t.dtype, (count, *t.shape)) for t in found[len(state) :]]
    why = "a loop of unknown length that collects values"
    c.importer.model.refused.append((c.node.op_type, why))
    types = [t for t, name in zip([*state, *collected], c.node.output, strict=False) if name]
    return opaque_call(c.importer, c, types)


# --------------------------------------------------------------------------------------------- Scan
@spell("Scan")
def scan(c: OnnxCall) -> Any:
    body, scanned = c.attr("body"), c.attr("num_scan_inputs")
    if c.opset < 9:
        return _batched(c, body, scanned)
    operands = c.handles()
    carries = len(operands) - scanned
    collected = len(body.output) - carries
    in_axes = c.attr("scan_input_axes") or [0] * scanned
    out_axes = c.attr("scan_output_axes") or [0] * collected
    backwards = c.attr("scan_input_directions") or [0] * scanned
    turned = c.attr("scan_output_directions") or [0] * collected
    xs = []
    for x, axis, back in zip(operands[carries:], in_axes, backwards, strict=True):
        x = composite.moveaxis(x, axis, 0)
        xs.append(x.apply("flip", axes=[0]) if back else x)
    captured = OuterValues(c.importer, [body])
    state = operands[:carries]
    types = [h.type for h in state] + [tensor_type(x.dtype, x.shape[1:]) for x in xs]
    graph = captured.body(body, types)
    found = handles_of(
        scan_op(*state, *xs, *captured.handles, body=graph, carries=carries, scanned=scanned)
    )
    ys = []
    for y, axis, back in zip(found[carries:], out_axes, turned, strict=True):
        y = y.apply("flip", axes=[0]) if back else y
        ys.append(composite.moveaxis(y, 0, axis))
    return *found[:carries], *ys


def _batched(c: OnnxCall, body: Any, scanned: int) -> Any:
    """Opset 8: a batch axis in front of everything; the batch is a scan around the scan."""
    if c.has(0):
        raise Unsupported("Scan with sequence lengths")
    if any(c.attr("directions") or []):
        raise Unsupported("Scan of opset 8 in reverse")
    operands = [c[i] for i in range(1, len(c))]
    carries = len(operands) - scanned
    captured = OuterValues(c.importer, [body])
    if captured.operands:
        raise TypeMismatch("Scan of opset 8 that reads values from outside")
    slices = [tensor_type(x.dtype, x.shape[1:]) for x in operands]
    steps = [*slices[:carries], *(tensor_type(t.dtype, t.shape[1:]) for t in slices[carries:])]
    inner = captured.body(body, steps)

    def sample(builder: Any, _: Any, own: list[Any], __: list[Any]) -> list[Any]:
        return handles_of(scan_op(*own, body=inner, carries=carries, scanned=scanned))

    graph = captured.body(body, slices, sample)
    found = scan_op(*operands, body=graph, carries=0, scanned=len(operands))
    return tuple(handles_of(found))
