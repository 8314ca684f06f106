"""Recurrent layers that are trained: their loops over time stay one op each, forward and backward.

PyTorch would hand over calls of oneDNN, whose saved values only its own gradient reads. So calls of
`torch.lstm` and the like are spelled, before gradients are taken, as products and ops of ours that
are the core ops `recurrent` and `recurrent_grad`; states and memories are what is saved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from glasshouse.errors import Unsupported
from glasshouse.frontend.dynamo.replaced_calls import replace_calls
from glasshouse.frontend.torch.aten.registry import aten
from glasshouse.ops import recurrent as core


# ------------------------------------------------------------ for whoever runs the graph by himself
def _by_reference(op: Any, operands: Sequence[Tensor], cell: str, reverse: bool) -> tuple[Any, ...]:
    arrays = [x.detach().cpu().numpy() for x in operands]
    made = op.ref(*arrays, cell=cell, reverse=reverse)
    return tuple(torch.from_numpy(m).to(operands[0].device) for m in made)


def _operands(*given: Tensor | None) -> list[Tensor]:
    return [x for x in given if x is not None]


@torch.library.custom_op("glasshouse::lstm", mutates_args=())
def _lstm(
    given: Tensor, state: Tensor, weights: Tensor, memory: Tensor, reverse: bool
) -> tuple[Tensor, Tensor]:
    """States and memories at every step, as `recurrent` has them."""
    states, memories = _by_reference(
        core.recurrent, (given, state, weights, memory), "lstm", reverse
    )
    return states, memories


@torch.library.custom_op("glasshouse::lstm_backward", mutates_args=())
def _lstm_backward(
    g: Tensor, given: Tensor, recurred: Tensor, weights: Tensor, by_memories: Tensor,
    memories: Tensor, memory: Tensor, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """What reaches gates, first state and first memory."""
    operands = (g, given, recurred, weights, by_memories, memories, memory)
    gates, state, first = _by_reference(core.recurrent_grad, operands, "lstm", reverse)
    return gates, state, first


@torch.library.custom_op("glasshouse::recurrent", mutates_args=())
def _recurrent(
    given: Tensor, state: Tensor, weights: Tensor, bias: Tensor | None, cell: str, reverse: bool
) -> Tensor:
    """States at every step of the cells without memories; `bias` is of a GRU."""
    operands = _operands(given, state, weights, bias)
    (states,) = _by_reference(core.recurrent, operands, cell, reverse)
    made: Tensor = states
    return made


@torch.library.custom_op("glasshouse::recurrent_backward", mutates_args=())
def _recurrent_backward(
    g: Tensor, given: Tensor, recurred: Tensor, weights: Tensor, before: Tensor,
    bias: Tensor | None, cell: str, reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """What reaches gates and first state, and what reaches the state's share of the gates."""
    operands = [g, given, recurred, weights, *([] if bias is None else [before, bias])]
    gates, state, *through = _by_reference(core.recurrent_grad, operands, cell, reverse)
    return gates, state, through[0] if through else gates.clone()


@_lstm.register_fake
def _(given: Tensor, state: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    shape = (given.shape[0], *state.shape)
    return given.new_empty(shape), given.new_empty(shape)


@_lstm_backward.register_fake
def _(g: Tensor, given: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    state = g.new_empty(g.shape[1:])
    return given.new_empty(given.shape), state, torch.empty_like(state)


@_recurrent.register_fake
def _(given: Tensor, state: Tensor, *_: Any) -> Tensor:
    return given.new_empty((given.shape[0], *state.shape))


@_recurrent_backward.register_fake
def _(g: Tensor, given: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    gates = given.new_empty(given.shape)
    return gates, g.new_empty(g.shape[1:]), torch.empty_like(gates)


# ---------------------------------------------------------------------------------------- gradients
def _share(states: Tensor, first: Tensor, weights: Tensor, reverse: bool) -> tuple[Tensor, Tensor]:
    """The state that each step found, and its share of the gates."""
    before = torch.cat([states[1:], first[None]] if reverse else [first[None], states[:-1]])
    return before, before @ weights.t()


def _by_weights(through: Tensor, before: Tensor) -> Tensor:
    return through.flatten(0, 1).t() @ before.flatten(0, 1)


def _keep_lstm(ctx: Any, inputs: Any, output: Any) -> None:
    given, state, weights, memory, ctx.reverse = inputs
    ctx.save_for_backward(given, state, weights, memory, *output)


def _lstm_gradient(ctx: Any, g: Tensor, by_memories: Tensor) -> Any:
    given, state, weights, memory, states, memories = ctx.saved_tensors
    with torch.autocast(g.device.type, enabled=False):  # who takes gradients may be inside of one
        before, share = _share(states, state, weights, ctx.reverse)
        gates, by_state, by_memory = _lstm_backward(
            g, given, share, weights, by_memories, memories, memory, ctx.reverse
        )
        return gates, by_state, _by_weights(gates, before), by_memory, None


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    given, state, weights, bias, ctx.cell, ctx.reverse = inputs
    ctx.save_for_backward(given, state, weights, bias, output)


def _gradient(ctx: Any, g: Tensor) -> Any:
    given, state, weights, bias, states = ctx.saved_tensors
    with torch.autocast(g.device.type, enabled=False):
        before, share = _share(states, state, weights, ctx.reverse)
        gates, by_state, through = _recurrent_backward(
            g, given, share, weights, before, bias, ctx.cell, ctx.reverse
        )
        inside = None if bias is None else through.chunk(3, 2)[2].sum((0, 1))
        return gates, by_state, _by_weights(through, before), inside, None, None


_lstm.register_autograd(_lstm_gradient, setup_context=_keep_lstm)
_recurrent.register_autograd(_gradient, setup_context=_keep)


# --------------------------------------------------------------------------------- as core ops
@aten("glasshouse::lstm")
def _core_lstm(given: Any, state: Any, weights: Any, memory: Any, reverse: bool) -> Any:
    return core.recurrent(given, state, weights, memory, cell="lstm", reverse=reverse)


@aten("glasshouse::lstm_backward")
def _core_lstm_backward(*given: Any) -> Any:
    *operands, reverse = given
    return core.recurrent_grad(*operands, cell="lstm", reverse=reverse)


@aten("glasshouse::recurrent")
def _core_recurrent(
    given: Any, state: Any, weights: Any, bias: Any, cell: str, reverse: bool
) -> Any:
    rest = [] if bias is None else [bias]
    return core.recurrent(given, state, weights, *rest, cell=cell, reverse=reverse)


@aten("glasshouse::recurrent_backward")
def _core_recurrent_backward(
    g: Any, given: Any, recurred: Any, weights: Any, before: Any, bias: Any, cell: str,
    reverse: bool,
) -> Any:  # fmt: skip
    rest = [] if bias is None else [before, bias]
    found = core.recurrent_grad(g, given, recurred, weights, *rest, cell=cell, reverse=reverse)
    return found if bias is not None else (*found, found[0])


# -------------------------------------------------------------------------------- layers of PyTorch
def _direction(
    x: Tensor, params: Sequence[Tensor], biased: bool, firsts: Sequence[Tensor], cell: str,
    reverse: bool,
) -> tuple[Tensor, list[Tensor]]:  # fmt: skip
    """One direction of one layer, as `recurrent_layer` has it: its states, and the last ones."""
    by_input, by_state, *others = params
    biases = others[:2] if biased else []
    projection = others[-1] if len(others) > len(biases) else None
    state, *memory = firsts
    given = x @ by_input.t()
    inside = None
    if cell == "gru":
        # Of the new gate, the state's bias stands inside of the reset.
        inside = biases[1].chunk(3)[2] if biases else given.new_zeros(by_state.shape[1])
        if biases:
            reset, keep, new = biases[1].chunk(3)
            biases = [biases[0], torch.cat([reset, keep, torch.zeros_like(new)])]
    for bias in biases:
        given = given + bias
    if projection is not None:  # it goes into the weights; the first state's share has no such form
        share = (state @ by_state.t())[None]
        parts = [given[:-1], given[-1:] + share] if reverse else [given[:1] + share, given[1:]]
        given, by_state = torch.cat(parts), by_state @ projection
        state = given.new_zeros((given.shape[1], by_state.shape[1]))
    at = 0 if reverse else -1
    if cell == "lstm":
        states, memories = _lstm(given, state, by_state, memory[0], reverse)
        last = [memories[at]]
    else:
        states, last = _recurrent(given, state, by_state, inside, cell, reverse), []
    if projection is not None:
        states = states @ projection.t()
    return states, [states[at], *last]


def _layers(
    cell: str, x: Tensor, firsts: Any, params: Sequence[Tensor], biased: bool, count: int, p: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """All layers. Half floats are computed in float32."""
    if torch.is_autocast_enabled(x.device.type):
        raise Unsupported("a recurrent layer that is trained inside of autocast")
    dtype = x.dtype
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    x, *firsts = (v.to(wide) for v in (x, *(firsts if cell == "lstm" else [firsts])))
    params = [v.to(wide) for v in params]
    directions = 2 if bidirectional else 1
    each = len(params) // (count * directions)
    x = x.transpose(0, 1) if batch_first else x
    ends: list[list[Tensor]] = [[] for _ in firsts]
    for layer in range(count):
        found = []
        for number in range(layer * directions, (layer + 1) * directions):
            given = params[number * each : (number + 1) * each]
            reverse = number % directions == 1
            begin = [f[number] for f in firsts]
            states, last = _direction(x, given, biased, begin, cell, reverse)
            found.append(states)
            for end, value in zip(ends, last, strict=True):
                end.append(value)
        x = torch.cat(found, 2) if bidirectional else found[0]
        if train and p and layer < count - 1:
            x = torch.dropout(x, p, True)
    x = x.transpose(0, 1) if batch_first else x
    return x.to(dtype), *(torch.stack(end).to(dtype) for end in ends)


def _spelled(cell: str) -> Callable[..., tuple[Tensor, ...]]:
    def layers(*args: Any) -> tuple[Tensor, ...]:
        return _layers(cell, *args)

    layers.__name__ = cell
    return layers


_SPELLED = {
    torch.lstm: _spelled("lstm"), torch.gru: _spelled("gru"), torch.rnn_tanh: _spelled("tanh"),
    torch.rnn_relu: _spelled("relu"),
}  # fmt: skip


def keep_recurrent(module: torch.fx.GraphModule) -> None:
    """Calls of PyTorch's recurrent layers become ours; packed sequences stay PyTorch's."""
    replace_calls(module, _SPELLED, _replaced)


def _replaced(node: torch.fx.Node) -> bool:
    # Of packed sequences, the sizes of batches stand second and the weights fourth.
    if node.kwargs or len(node.args) != 9 or not isinstance(node.args[2], (list, tuple)):
        return False
    node.target = _SPELLED[node.target]
    return True
