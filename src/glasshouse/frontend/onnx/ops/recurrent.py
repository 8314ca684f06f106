"""How ONNX's recurrent layers are spelled: the op for recurrent layers, one for each direction.

Cells that the op does not have (other activations, peepholes, clipping, a GRU that resets before
its product) are a scan over time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from glasshouse.errors import Unsupported
from glasshouse.frontend.onnx.call import OnnxCall
from glasshouse.frontend.onnx.registry import spell
from glasshouse.ops import composite
from glasshouse.ops.composite.recurrent import LayerWeights, recurrent_layer
from glasshouse.ops.control import body_of, handles_of
from glasshouse.ops.pieces import concat
from glasshouse.ops.scan import scan as scan_op
from glasshouse.ops.shape import reshaped

Cell = Callable[..., Any]
_PLAIN = {
    "sigmoid": "sigmoid", "tanh": "tanh", "relu": "relu", "softplus": "softplus",
}  # fmt: skip


def _activations(c: OnnxCall, default: list[str], directions: int) -> list[list[Cell]]:
    names = [n.lower() for n in c.attr("activations") or default * directions]
    each = len(default)
    alphas, betas = list(c.attr("activation_alpha") or []), list(c.attr("activation_beta") or [])
    functions: list[Cell] = []
    for name in names:
        if name in _PLAIN:
            functions.append(lambda x, op=_PLAIN[name]: x.apply(op))
        elif name == "leakyrelu":
            slope = alphas.pop(0) if alphas else 0.01
            functions.append(lambda x, slope=slope: x.apply("leaky_relu", slope=slope))
        elif name == "elu":
            alpha = alphas.pop(0) if alphas else 1.0
            functions.append(lambda x, alpha=alpha: x.apply("elu", alpha=alpha))
        elif name == "softsign":
            functions.append(composite.softsign)
        elif name == "hardsigmoid":
            alpha, beta = alphas.pop(0) if alphas else 0.2, betas.pop(0) if betas else 0.5
            functions.append(
                lambda x, a=alpha, b=beta: (x * a + b).apply("clip", low=0.0, high=1.0)
            )
        else:
            raise Unsupported(f"the activation {name}")
    return [functions[i * each : (i + 1) * each] for i in range(directions)]


def _check_lengths(c: OnnxCall, steps: Any) -> None:
    if c.has(4):
        known = c.value(4)
        if known is None or not np.all(known == steps):
            raise Unsupported("samples of different lengths")


def _clipped(c: OnnxCall) -> Cell:
    limit = c.attr("clip")
    return (lambda x: x) if limit is None else lambda x: x.apply("clip", low=-limit, high=limit)


def _part(x: Any, number: int) -> Any:
    """One direction's slice of the first axis."""
    return reshaped(composite.narrow(x, 0, number, 1), x.shape[1:])


def _named(c: OnnxCall, gates: int, default: list[str], count: int) -> str | None:
    """The cell of the op for recurrent layers that this is, if any."""
    names = [n.lower() for n in c.attr("activations") or default * count]
    usual = [n.lower() for n in default * count]
    if c.attr("clip") is not None or c.attr("input_forget", 0) or c.has(7):
        return None
    if gates == 1 and len(set(names)) == 1 and names[0] in ("tanh", "relu"):
        return names[0]
    if names != usual or (gates == 3 and not c.attr("linear_before_reset", 0)):
        return None
    return {4: "lstm", 3: "gru"}.get(gates)


_GATES = {"lstm": (0, 2, 3, 1), "gru": (1, 0, 2)}  # ONNX's, in the op's order


def _in_order(x: Any, cell: str) -> Any:
    """Gates in the op's order, from ONNX's."""
    if cell not in _GATES:
        return x
    size = x.shape[0] // len(_GATES[cell])
    parts = x.apply("split", axis=0, sizes=[size] * len(_GATES[cell]))
    return concat(*(parts[k] for k in _GATES[cell]), axis=0)


def _layer(c: OnnxCall, cell: str, x: Any, d: int, begins: list[Any], backwards: bool) -> list[Any]:
    """One direction: last states, and all of them."""
    biases = _split(_part(c[3], d), 2) if c.has(3) else []
    weights = LayerWeights(*(_in_order(v, cell) for v in (_part(c[1], d), _part(c[2], d), *biases)))
    memory = begins[1] if len(begins) > 1 else None
    states, *last = recurrent_layer(x, weights, begins[0], memory, cell, backwards)
    return [*last[: len(begins)], states]


def _recurrent(c: OnnxCall, gates: int, states: int, default: list[str], cell: Cell) -> Any:
    direction = c.attr("direction", "forward")
    count = 2 if direction == "bidirectional" else 1
    x, w, r = c[0], c[1], c[2]
    batch_first = c.attr("layout", 0)
    if batch_first:
        x = composite.transpose(x, 0, 1)
    steps, batch, _ = x.shape
    _check_lengths(c, steps)
    hidden = r.shape[-1]
    named = _named(c, gates, default, count)
    chosen = _activations(c, default, count)
    ends: list[list[Any]] = []
    outputs = []
    for d in range(count):
        backwards = direction == "reverse" or d == 1
        bias = _part(c[3], d) if c.has(3) else c.full((2 * gates * hidden,), 0.0, x.dtype)
        begins = []
        for i in range(states):
            if c.has(5 + i):
                first = composite.transpose(c[5 + i], 0, 1) if batch_first else c[5 + i]
                begins.append(_part(first, d))
            else:
                begins.append(c.full((batch, hidden), 0.0, x.dtype))
        if named is not None:
            found = _layer(c, named, x, d, begins, backwards)
            ends.append(found[:states])
            outputs.append(found[states])
            continue
        fixed = [_part(r, d), bias]
        if states == 2 and c.has(7):
            fixed.append(_part(c[7], d))
        # The input's share does not depend on the state: one product for all steps.
        given = x.apply("matmul", _part(w, d), transpose_y=True)
        body = _body(c, cell, states, chosen[d], [*begins, given], fixed)
        found = handles_of(
            scan_op(*begins, given, *fixed, body=body, carries=states, scanned=1, reverse=backwards)
        )
        ends.append(found[:states])
        outputs.append(found[states])
    y = composite.stack(outputs, 1)
    last = [composite.stack([e[i] for e in ends], 0) for i in range(states)]
    if batch_first:
        y = composite.moveaxis(y, 2, 0)
        last = [composite.transpose(v, 0, 1) for v in last]
    return y, *last


def _body(
    c: OnnxCall, cell: Cell, states: int, functions: list[Cell], moving: list[Any], fixed: list[Any]
) -> Any:
    from glasshouse.ir.types import tensor_type

    given = moving[-1]
    types = [h.type for h in moving[:-1]] + [tensor_type(given.dtype, given.shape[1:])]
    types += [h.type for h in fixed]

    def step(*operands: Any) -> Any:
        state, now = operands[:states], operands[states]
        new = cell(c, functions, state, now, *operands[states + 1 :])
        return *new, new[0]

    return body_of(step, *types)


def _split(x: Any, count: int) -> list[Any]:
    size = x.shape[-1] // count
    return list(x.apply("split", axis=x.ndim - 1, sizes=[size] * count))


def _product(h: Any, r: Any) -> Any:
    return h.apply("matmul", r, transpose_y=True)


def _rnn_cell(c: OnnxCall, f: list[Cell], state: Any, now: Any, r: Any, bias: Any) -> Any:
    wb, rb = _split(bias, 2)
    return (f[0](_clipped(c)(now + _product(state[0], r) + (wb + rb))),)


def _lstm_cell(
    c: OnnxCall, f: list[Cell], state: Any, now: Any, r: Any, bias: Any, p: Any = None
) -> Any:
    h, old = state
    clip = _clipped(c)
    wb, rb = _split(bias, 2)
    i, o, forget, new = _split(now + _product(h, r) + (wb + rb), 4)
    pi, po, pf = _split(p, 3) if p is not None else (None, None, None)
    i = f[0](clip(i if pi is None else i + pi * old))
    if c.attr("input_forget", 0):
        keep = 1.0 - i
    else:
        keep = f[0](clip(forget if pf is None else forget + pf * old))
    memory = keep * old + i * f[1](clip(new))
    o = f[0](clip(o if po is None else o + po * memory))
    return o * f[2](memory), memory


def _gru_cell(c: OnnxCall, f: list[Cell], state: Any, now: Any, r: Any, bias: Any) -> Any:
    h = state[0]
    clip = _clipped(c)
    hidden = h.shape[-1]
    wb, rb = _split(bias, 2)
    z_now, r_now, h_now = _split(now + wb, 3)
    zr = composite.narrow(r, 0, 0, 2 * hidden)
    rh = composite.narrow(r, 0, 2 * hidden, hidden)
    z_rb, r_rb, h_rb = _split(rb, 3)
    z_old, r_old = _split(_product(h, zr), 2)
    z = f[0](clip(z_now + z_old + z_rb))
    reset = f[0](clip(r_now + r_old + r_rb))
    if c.attr("linear_before_reset", 0):
        new = h_now + reset * (_product(h, rh) + h_rb)
    else:
        new = h_now + _product(reset * h, rh) + h_rb
    return ((1.0 - z) * f[1](clip(new)) + z * h,)


@spell("RNN")
def rnn(c: OnnxCall) -> Any:
    return _recurrent(c, 1, 1, ["Tanh"], _rnn_cell)[: c.outputs]


@spell("LSTM")
def lstm(c: OnnxCall) -> Any:
    return _recurrent(c, 4, 2, ["Sigmoid", "Tanh", "Tanh"], _lstm_cell)[: c.outputs]


@spell("GRU")
def gru(c: OnnxCall) -> Any:
    return _recurrent(c, 3, 1, ["Sigmoid", "Tanh"], _gru_cell)[: c.outputs]
