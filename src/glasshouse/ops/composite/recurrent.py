"""One direction of one recurrent layer, as PyTorch and ONNX have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glasshouse.ir.dtype import float32, float64
from glasshouse.ops.create import full_near
from glasshouse.ops.matmul import matmul
from glasshouse.ops.pieces import concat, cut
from glasshouse.ops.recurrent import recurrent
from glasshouse.ops.shape import reshaped


@dataclass(frozen=True)
class LayerWeights:
    """Of the input [gate, feature], of the state [gate, width], biases [gate] and, of an LSTM whose
    state is narrower than its memory, the projection [width, memory]. Gates in the op's order."""

    by_input: Any
    by_state: Any
    input_bias: Any = None
    state_bias: Any = None
    projection: Any = None


def recurrent_layer(
    x: Any, weights: LayerWeights, state: Any, memory: Any, cell: str, reverse: bool
) -> tuple[Any, Any, Any]:
    """All states, the last one, and the last memory (None but for an LSTM).

    `x` is [step, batch, feature]. Half floats are computed in float32.
    """
    dtype = x.dtype
    wide = float64 if dtype is float64 else float32
    x, state, by_input, by_state = (
        v.cast(wide) for v in (x, state, weights.by_input, weights.by_state)
    )
    given = matmul(x, by_input, transpose_y=True)
    biases = [b.cast(wide) for b in (weights.input_bias, weights.state_bias) if b is not None]
    rest = [memory.cast(wide)] if cell == "lstm" else []
    if cell == "gru":
        inside, biases = _gru_biases(given, weights.state_bias, biases)
        rest = [inside]
    if biases:
        given = given + sum(biases[1:], biases[0])
    projection = None
    if weights.projection is not None:
        projection = weights.projection.cast(wide)
        given, state, by_state = _unprojected(given, state, by_state, projection, reverse)
    found = recurrent(given, state, by_state, *rest, cell=cell, reverse=reverse)
    states, memories = found if cell == "lstm" else (found, None)
    if projection is not None:
        states = matmul(states, projection, transpose_y=True)
    out = states.cast(dtype)
    last = None if memories is None else _last(memories, reverse).cast(dtype)
    return out, _last(out, reverse), last


def _last(states: Any, reverse: bool) -> Any:
    at = 0 if reverse else states.shape[0] - 1
    return reshaped(cut(states, 0, at, at + 1), states.shape[1:])


def _gru_biases(given: Any, state_bias: Any, biases: list[Any]) -> tuple[Any, list[Any]]:
    """The bias that the reset gate multiplies, and the others, which are all the input's."""
    hidden = given.shape[2] // 3
    zeros = full_near(given, (hidden,), 0.0, given.dtype)
    if state_bias is None:
        return zeros, biases
    whole = biases[-1]
    inside = cut(whole, 0, 2 * hidden, 3 * hidden)
    return inside, [*biases[:-1], concat(cut(whole, 0, 0, 2 * hidden), zeros, axis=0)]


def _unprojected(
    given: Any, state: Any, weights: Any, projection: Any, reverse: bool
) -> tuple[Any, Any, Any]:
    """The loop over states before the projection, which goes into the weights.

    The first state has no such form: its share is added to what the first step is given.
    """
    share = matmul(state, weights, transpose_y=True)
    share = reshaped(share, (1, *share.shape))
    steps = given.shape[0]
    if reverse:
        first, others = cut(given, 0, steps - 1, steps), cut(given, 0, 0, steps - 1)
        given = concat(others, first + share, axis=0)
    else:
        given = concat(cut(given, 0, 0, 1) + share, cut(given, 0, 1, steps), axis=0)
    whole = matmul(weights, projection)
    begin = full_near(given, (given.shape[1], whole.shape[1]), 0.0, given.dtype)
    return given, begin, whole
