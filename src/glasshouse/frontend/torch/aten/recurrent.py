"""How ATen's recurrent layers are spelled: layer by layer, direction by direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.random import dropped
from glasshouse.frontend.torch.aten.registry import Context, aten
from glasshouse.ops import composite
from glasshouse.ops.composite.recurrent import LayerWeights, recurrent_layer
from glasshouse.ops.pieces import concat, cut
from glasshouse.ops.shape import reshaped


def _item(x: Any, number: int) -> Any:
    return reshaped(cut(x, 0, number, number + 1), x.shape[1:])


def _layers(
    ctx: Context, cell: str, x: Any, firsts: list[Any], params: list[Any], biased: bool, count: int,
    p: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """All layers; `firsts` are the first states, and the first memories of an LSTM."""
    directions = 2 if bidirectional else 1
    each, left = divmod(len(params), count * directions)
    projected = each - (4 if biased else 2)
    if left or projected not in (0, 1):
        raise Unsupported(f"a recurrent layer with {len(params)} weights")
    if batch_first:
        x = composite.transpose(x, 0, 1)
    ends: list[list[Any]] = [[] for _ in firsts]
    for layer in range(count):
        found = []
        for direction in range(directions):
            number = layer * directions + direction
            given = params[number * each : (number + 1) * each]
            projection = given.pop() if projected else None
            by_input, by_state, *biases = given
            first, second = biases or (None, None)
            weights = LayerWeights(by_input, by_state, first, second, projection)
            state, *memory = (_item(f, number) for f in firsts)
            states, *last = recurrent_layer(
                x, weights, state, memory[0] if memory else None, cell, direction == 1
            )
            found.append(states)
            for end, value in zip(ends, last, strict=False):
                end.append(value)
        x = concat(*found, axis=2) if bidirectional else found[0]
        if train and p and layer < count - 1:
            x = dropped(ctx, x, p)
    out = composite.transpose(x, 0, 1) if batch_first else x
    return out, *(composite.stack(end, 0) for end in ends)


@aten("lstm.input", context=True)
def lstm(ctx: Context, x: Any, firsts: list[Any], params: list[Any], *rest: Any) -> Any:
    return _layers(ctx, "lstm", x, list(firsts), list(params), *rest)


def _without_memory(cell: str) -> Callable[..., Any]:
    def spelling(ctx: Context, x: Any, first: Any, params: list[Any], *rest: Any) -> Any:
        return _layers(ctx, cell, x, [first], list(params), *rest)

    return spelling


aten("gru.input", context=True)(_without_memory("gru"))
aten("rnn_tanh.input", context=True)(_without_memory("tanh"))
aten("rnn_relu.input", context=True)(_without_memory("relu"))


@aten("lstm_cell.default")
def lstm_cell(
    x: Any, last: list[Any], by_input: Any, by_state: Any, first: Any = None, second: Any = None
) -> tuple[Any, ...]:
    """One step: the new state and the new memory. PyTorch's own decomposition of a cell fixes how
    many rows there are, and asks for sizes on the way."""
    state, memory = last
    gates = composite.linear(x, by_input, first), composite.linear(state, by_state, second)
    new, memory, _ = fused_lstm_cell(*gates, memory)
    return new, memory


@aten("gru_cell.default")
def gru_cell(
    x: Any, state: Any, by_input: Any, by_state: Any, first: Any = None, second: Any = None
) -> Any:
    gates = composite.linear(x, by_input, first), composite.linear(state, by_state, second)
    return fused_gru_cell(*gates, state)[0]


def _plain_cell(function: str) -> Callable[..., Any]:
    def spelling(
        x: Any, state: Any, by_input: Any, by_state: Any, first: Any = None, second: Any = None
    ) -> Any:
        gates = composite.linear(x, by_input, first), composite.linear(state, by_state, second)
        return _summed(*gates).apply(function)

    return spelling


aten("rnn_tanh_cell.default")(_plain_cell("tanh"))
aten("rnn_relu_cell.default")(_plain_cell("relu"))


@aten("_thnn_fused_lstm_cell.default")
def fused_lstm_cell(
    by_input: Any, by_state: Any, memory: Any, input_bias: Any = None, state_bias: Any = None
) -> tuple[Any, ...]:
    """A cell on a GPU, where PyTorch's own spelling of one ends: the new state, the new memory, and
    the gates, which its gradient reads."""
    gates = _summed(by_input, by_state, input_bias, state_bias)
    first, second, third, fourth = composite.chunk(gates, 4, 1)
    let, keep, show = (x.apply("sigmoid") for x in (first, second, fourth))
    new = third.apply("tanh")
    memory = keep * memory + let * new
    return show * memory.apply("tanh"), memory, concat(let, keep, new, show, axis=1)


@aten("_thnn_fused_gru_cell.default")
def fused_gru_cell(
    by_input: Any, by_state: Any, state: Any, input_bias: Any = None, state_bias: Any = None
) -> tuple[Any, ...]:
    """The new state, and what its gradient reads."""
    x = composite.chunk(_summed(by_input, input_bias), 3, 1)
    r = composite.chunk(_summed(by_state, state_bias), 3, 1)
    reset, keep = ((x[k] + r[k]).apply("sigmoid") for k in (0, 1))
    now = (x[2] + reset * r[2]).apply("tanh")
    return now + keep * (state - now), concat(reset, keep, now, state, r[2], axis=1)


def _summed(*parts: Any) -> Any:
    given = [p for p in parts if p is not None]
    return sum(given[1:], given[0])
