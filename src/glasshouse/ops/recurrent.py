"""The loop over time of recurrent layers (LSTM, GRU, plain cells), and its gradient.

The input's share of the gates does not depend on the state, so it is a product of its own for all
steps; what is left is a loop that adds the state's share and goes through the cell. The gradient
knows all states, so it computes the state's share of all steps as one product, too, and loops over
the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.attrs import BOOL, STR
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import float32, float64
from glasshouse.ir.op import Kind, NoGradient
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.arrays import Array
from glasshouse.ops.control import as_tuple
from glasshouse.ops.create import zeros_like_type
from glasshouse.ops.declare import op
from glasshouse.ops.matmul import matmul
from glasshouse.ops.pieces import concat, cut
from glasshouse.ops.shape import reshaped
from glasshouse.ops.shapes import require_equal

GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}


def _check(what: str, given: TensorType, shape: tuple[Dim, ...], near: TensorType) -> None:
    if given.dtype is not near.dtype:
        raise TypeMismatch(f"{what} is {given.dtype}, the gates are {near.dtype}")
    if given.rank != len(shape):
        raise ShapeError(f"{what} has {given.rank} dimensions, not {len(shape)}")
    for a, b in zip(given.shape, shape, strict=True):
        require_equal(a, b, f"{what} has another size than the gates say")


def _sizes(given: TensorType, weights: TensorType, cell: str) -> tuple[Dim, Dim, Dim]:
    """Steps, batch and width of the state."""
    if cell not in GATES:
        raise ShapeError(f"there is no cell {cell!r}; there are {', '.join(GATES)}")
    if given.dtype not in (float32, float64):
        raise TypeMismatch(f"recurrent cells are float32 or float64, not {given.dtype}")
    if given.rank != 3 or weights.rank != 2:
        raise ShapeError("the gates have 3 dimensions (step, batch, gate), the weights 2")
    steps, batch, _ = given.shape
    hidden = weights.shape[1]
    _check("the gates' input", given, (steps, batch, hidden * GATES[cell]), given)
    _check("the weight", weights, (hidden * GATES[cell], hidden), given)
    return steps, batch, hidden


def _recurrent(
    given: TensorType, state: TensorType, weights: TensorType, *rest: TensorType, cell: str,
    reverse: bool,
) -> tuple[TensorType, ...]:  # fmt: skip
    steps, batch, hidden = _sizes(given, weights, cell)
    _check("the first state", state, (batch, hidden), given)
    wanted: list[tuple[str, tuple[Dim, ...]]] = []
    if cell == "lstm":
        wanted = [("the first memory", (batch, hidden))]
    elif cell == "gru":
        wanted = [("the bias of the reset part", (hidden,))]
    if len(rest) != len(wanted):
        raise ShapeError(f"{cell} takes {3 + len(wanted)} operands, not {3 + len(rest)}")
    for (what, shape), type in zip(wanted, rest, strict=True):
        _check(what, type, shape, given)
    out = tensor_type(given.dtype, (steps, batch, hidden))
    return (out, out) if cell == "lstm" else (out,)


def _sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        out: Array = 1 / (1 + np.exp(-x))
    return out


def _order(steps: int, reverse: bool) -> Iterator[tuple[int, int]]:
    """Steps in turn, each with the one before it (-1: none)."""
    turn = list(range(steps))[:: -1 if reverse else 1]
    return iter(list(zip(turn, [-1, *turn][: len(turn)], strict=True)))


def _recurrent_ref(
    given: Array, state: Array, weights: Array, *rest: Array, cell: str, reverse: bool
) -> tuple[Array, ...]:
    steps, batch, _ = given.shape
    out = np.empty((steps, batch, weights.shape[1]), given.dtype)
    memories = np.empty_like(out)
    memory = rest[0] if cell == "lstm" else None
    for t, _ in _order(steps, reverse):
        x = np.split(given[t], GATES[cell], -1)
        r = np.split(state @ weights.T, GATES[cell], -1)
        if cell == "lstm":
            i, f, o = (_sigmoid(x[k] + r[k]) for k in (0, 1, 3))
            memory = memories[t] = f * memory + i * np.tanh(x[2] + r[2])
            state = o * np.tanh(memory)
        elif cell == "gru":
            reset, keep = (_sigmoid(x[k] + r[k]) for k in (0, 1))
            now = np.tanh(x[2] + reset * (r[2] + rest[0]))
            state = now + keep * (state - now)
        else:
            state = np.tanh(x[0] + r[0]) if cell == "tanh" else np.maximum(x[0] + r[0], 0)
        out[t] = state
    return (out, memories) if cell == "lstm" else (out,)


# ---------------------------------------------------------------------------------------- gradient
def _grad(
    g: TensorType, given: TensorType, recurred: TensorType, weights: TensorType,
    *rest: TensorType, cell: str, reverse: bool,
) -> tuple[TensorType, ...]:  # fmt: skip
    steps, batch, hidden = _sizes(given, weights, cell)
    all_states = (steps, batch, hidden)
    _check("the gradient", g, all_states, given)
    _check("the state's share", recurred, given.shape, given)
    wanted: list[tuple[Dim, ...]] = []
    if cell == "lstm":
        wanted = [all_states, all_states, (batch, hidden)]
    elif cell == "gru":
        wanted = [all_states, (hidden,)]
    if len(rest) != len(wanted):
        raise ShapeError(f"{cell} takes {4 + len(wanted)} operands, not {4 + len(rest)}")
    for shape, type in zip(wanted, rest, strict=True):
        _check("an operand", type, shape, given)
    state = tensor_type(given.dtype, (batch, hidden))
    more = {"lstm": (state,), "gru": (given,)}
    return (given, state, *more.get(cell, ()))


def _grad_ref(
    g: Array, given: Array, recurred: Array, weights: Array, *rest: Array, cell: str, reverse: bool
) -> tuple[Array, ...]:
    steps, batch, hidden = g.shape
    by_given, by_recurred = np.zeros_like(given), np.zeros_like(given)
    by_state, by_memory = np.zeros((2, batch, hidden), g.dtype)
    for t, before in reversed(list(_order(steps, reverse))):
        x = np.split(given[t], GATES[cell], -1)
        r = np.split(recurred[t], GATES[cell], -1)
        dh = g[t] + by_state
        kept: Any = 0
        if cell == "lstm":
            by_memories, memories, first = rest
            i, f, o = (_sigmoid(x[k] + r[k]) for k in (0, 1, 3))
            new, bent = np.tanh(x[2] + r[2]), np.tanh(memories[t])
            dc = by_memory + by_memories[t] + dh * o * (1 - bent * bent)
            old = first if before < 0 else memories[before]
            parts = [
                dc * new * i * (1 - i), dc * old * f * (1 - f), dc * i * (1 - new * new),
                dh * bent * o * (1 - o),
            ]  # fmt: skip
            through = parts
            by_memory = dc * f
        elif cell == "gru":
            olds, bias = rest
            reset, keep = (_sigmoid(x[k] + r[k]) for k in (0, 1))
            inside = r[2] + bias
            now = np.tanh(x[2] + reset * inside)
            dn = dh * (1 - keep) * (1 - now * now)
            dr = dn * inside * reset * (1 - reset)
            dz = dh * (olds[t] - now) * keep * (1 - keep)
            parts, through, kept = [dr, dz, dn], [dr, dz, dn * reset], dh * keep
        else:
            pre = x[0] + r[0]
            slope = 1 - np.tanh(pre) ** 2 if cell == "tanh" else (pre > 0)
            through = parts = [np.asarray(dh * slope)]
        by_given[t] = np.concatenate(parts, -1)
        by_recurred[t] = np.concatenate(through, -1)
        by_state = by_recurred[t] @ weights + kept
    more = {"lstm": (by_memory,), "gru": (by_recurred,)}
    return (by_given, by_state, *more.get(cell, ()))


recurrent_grad = op(
    "recurrent_grad", kind=Kind.OPAQUE, family="recurrent", infer=_grad, ref=_grad_ref,
    inputs=("g", "given", "recurred", "weights", "*rest"),
    vjp=NoGradient("the gradient of a gradient over time; written as a scan, a cell has one"),
    doc="What reaches the gates, and the first state, of `recurrent`: `g` is the gradient of its "
    "states, `recurred` their share of the gates. `rest`: gradients of the memories, memories, "
    "first memory (lstm); states before each step, bias (gru). A third result is the gradient of "
    "the first memory (lstm), or that of the state's share (gru).",
    cell=STR, reverse=BOOL(False),
)  # fmt: skip


def states_before(states: Any, first: Any, reverse: bool) -> Any:
    """The state that each step found."""
    steps = states.shape[0]
    head = reshaped(first, (1, *first.shape))
    if reverse:
        return concat(cut(states, 0, 1, steps), head, axis=0)
    return concat(head, cut(states, 0, 0, steps - 1), axis=0)


def _vjp(
    gs: Any, given: Any, state: Any, weights: Any, *rest: Any, cell: str, reverse: bool
) -> tuple[Any, ...]:
    attrs: dict[str, Any] = {"cell": cell, "reverse": reverse}
    arrived = as_tuple(gs)
    states = rest[1 if cell in ("lstm", "gru") else 0]
    more: tuple[Any, ...] = ()
    g = zeros_like_type(states) if arrived[0] is None else arrived[0]
    before = states_before(states, state, reverse)
    recurred = matmul(before, weights, transpose_y=True)
    if cell == "lstm":
        memory, _, memories = rest
        by_memories = zeros_like_type(memories) if arrived[1] is None else arrived[1]
        by_gates, by_state, by_memory = recurrent_grad(
            g, given, recurred, weights, by_memories, memories, memory, **attrs
        )
        more, through = (by_memory,), by_gates
    elif cell == "gru":
        bias = rest[0]
        by_gates, by_state, through = recurrent_grad(
            g, given, recurred, weights, before, bias, **attrs
        )
        hidden = weights.shape[1]
        inside = cut(through, 2, 2 * hidden, 3 * hidden)
        more = (inside.apply("sum", axes=[0, 1]),)
    else:
        by_gates, by_state = recurrent_grad(g, given, recurred, weights, **attrs)
        through = by_gates
    rows = product(before.shape[:2])
    flat = (reshaped(v, (rows, v.shape[2])) for v in (through, before))
    return by_gates, by_state, matmul(*flat, transpose_x=True), *more


recurrent = op(
    "recurrent", kind=Kind.OPAQUE, family="recurrent", infer=_recurrent, ref=_recurrent_ref,
    vjp=_vjp, inputs=("given", "state", "weights", "*rest"),
    doc="A recurrent layer's states at every step (and an LSTM's memories). `given` [step, batch, "
    "gate] is the input's share of the gates with all biases, `weights` [gate, width] give the "
    "state's share. Gates: input, forget, new, output (lstm); reset, keep, new (gru). `rest`: the "
    "first memory (lstm); the bias of the new gate's state share, inside of the reset (gru).",
    cell=STR, reverse=BOOL(False, "begin with the last step"),
)  # fmt: skip
