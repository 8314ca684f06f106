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
