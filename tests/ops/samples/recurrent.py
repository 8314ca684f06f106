"""Samples of the loop over time of recurrent layers."""

from __future__ import annotations

from typing import Any

import torch

from glasshouse.ops.recurrent import GATES
from ops.samples.sample import WIDE, Array, Sample, values


def _torch(
    given: torch.Tensor, state: torch.Tensor, weights: torch.Tensor, *rest: torch.Tensor, cell: str,
    reverse: bool = False,
) -> Any:  # fmt: skip
    """Step by step: PyTorch's layers do not give the memories of all steps."""
    hidden = weights.shape[1]
    steps = range(given.shape[0])
    outputs, memories = [given.new_zeros(given.shape[1], hidden)] * len(steps), {}
    for t in reversed(steps) if reverse else steps:
        x = given[t].split(hidden, -1)
        r = (state @ weights.T).split(hidden, -1)
        if cell == "lstm":
            rest = (
                torch.sigmoid(x[1] + r[1]) * rest[0]
                + torch.sigmoid(x[0] + r[0]) * torch.tanh(x[2] + r[2]),
            )
            memories[t] = rest[0]
            state = torch.sigmoid(x[3] + r[3]) * torch.tanh(rest[0])
        elif cell == "gru":
            state = _gru(x, r, state, rest[0])
        else:
            state = (torch.tanh if cell == "tanh" else torch.relu)(x[0] + r[0])
        outputs[t] = state
    out = torch.stack(outputs) if outputs else given.new_zeros(0, given.shape[1], hidden)
    if cell != "lstm":
        return out
    return out, torch.stack([memories[t] for t in steps]) if outputs else out


def _gru(x: Any, r: Any, state: Any, bias: Any) -> Any:
    keep = torch.sigmoid(x[1] + r[1])
    return (1 - keep) * torch.tanh(x[2] + torch.sigmoid(x[0] + r[0]) * (r[2] + bias)) + keep * state


def _operands(cell: str, steps: int, batch: int, hidden: int) -> list[Array]:
    width = GATES[cell] * hidden
    more = {"lstm": [values(batch, hidden, seed=3)], "gru": [values(hidden, seed=4)]}
    return [
        values(steps, batch, width), values(batch, hidden, seed=1),
        values(width, hidden, low=-0.5, high=0.5, seed=2), *more.get(cell, []),
    ]  # fmt: skip


def _sample(cell: str, steps: int, batch: int, hidden: int, reverse: bool = False) -> Sample:
    attrs = {"cell": cell, "reverse": reverse}
    operands = _operands(cell, steps, batch, hidden)
    sizes = {hidden, hidden * GATES[cell]}
    return Sample(
        operands, _torch, attrs, dtypes=WIDE, second=False, static=tuple(sizes), tol=3,
        why="products are summed in another order",
    )  # fmt: skip


def _grad_sample(cell: str, steps: int, batch: int, hidden: int, reverse: bool = False) -> Sample:
    given, _, weights, *rest = _operands(cell, steps, batch, hidden)
    states = [values(steps, batch, hidden, seed=s) for s in (5, 6, 7)]
    recurred = values(steps, batch, given.shape[-1], seed=8)
    more = {"lstm": [states[1], states[2], *rest], "gru": [states[1], *rest]}
    return Sample(
        [states[0], given, recurred, weights, *more.get(cell, [])], None,
        {"cell": cell, "reverse": reverse}, dtypes=WIDE,
        static=(hidden, hidden * GATES[cell]), tol=3,
        why="PyTorch has no such op; the gradient of recurrent checks it",
    )  # fmt: skip


_HALF = "front ends compute half floats in float32"
_SHAPES = "its operands have 1 to 3 dimensions"
HOLES = {
    ("recurrent", "half"): _HALF,
    ("recurrent_grad", "half"): _HALF,
    ("recurrent", "scalar"): _SHAPES,
    ("recurrent_grad", "scalar"): _SHAPES,
    ("recurrent", "second"): "the gradient of its gradient is declared not to exist",
    ("recurrent_grad", "torch"): "PyTorch has no such op",
}
SAMPLES = {
    "recurrent": [
        *(_sample(cell, 5, 3, 4) for cell in GATES),
        *(_sample(cell, 3, 2, 19, reverse=True) for cell in GATES),
        _sample("lstm", 4, 1, 7),
        _sample("gru", 2, 0, 5),
    ],
    "recurrent_grad": [
        *(_grad_sample(cell, 5, 3, 4) for cell in GATES),
        *(_grad_sample(cell, 3, 2, 19, reverse=True) for cell in GATES),
        _grad_sample("gru", 2, 0, 5),
    ],
}
