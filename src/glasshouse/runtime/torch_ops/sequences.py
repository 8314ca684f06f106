"""Ops along one axis in PyTorch's words: order, FFT, recurrent layers."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch

from glasshouse.ops.recurrent import GATES

Tensor: TypeAlias = torch.Tensor


def sort(x: Tensor, *, axis: int, descending: bool) -> Any:
    return torch.sort(x, dim=axis, descending=descending, stable=True)


def nth(x: Tensor, ranks: Tensor, *, axis: int, descending: bool) -> Any:
    values, places = torch.sort(x, dim=axis, descending=descending, stable=True)
    at = ranks.long()
    return values.gather(axis, at), places.gather(axis, at)


def topk(x: Tensor, *, k: int, axis: int, largest: bool) -> Any:
    """Not `torch.topk`: among equal elements the first ones win."""
    if not x.ndim:
        return x, torch.zeros((), dtype=torch.int64, device=x.device)
    values, places = torch.sort(x, dim=axis, descending=largest, stable=True)
    return values.narrow(axis, 0, k), places.narrow(axis, 0, k)


def fft(x: Tensor, *, axis: int, form: str, inverse: bool, size: int) -> Tensor:
    if form == "real":
        return torch.view_as_real(torch.fft.rfft(x, dim=axis))
    given = torch.view_as_complex(x.contiguous())
    if form == "half":
        return torch.fft.irfft(given, size, axis, norm="forward")
    if inverse:
        return torch.view_as_real(torch.fft.ifft(given, dim=axis, norm="forward"))
    return torch.view_as_real(torch.fft.fft(given, dim=axis))


def recurrent(
    given: Tensor, state: Tensor, weights: Tensor, *rest: Tensor, cell: str, reverse: bool
) -> tuple[Tensor, ...]:
    steps = range(given.shape[0])
    if not steps:
        nothing = state.new_empty((0, *state.shape))
        return (nothing, nothing) if cell == "lstm" else (nothing,)
    states: dict[int, Tensor] = {}
    memories: dict[int, Tensor] = {}
    memory = rest[0] if cell == "lstm" else state
    for t in reversed(steps) if reverse else steps:
        x = given[t].chunk(GATES[cell], -1)
        r = (state @ weights.T).chunk(GATES[cell], -1)
        if cell == "lstm":
            i, f, o = (torch.sigmoid(x[k] + r[k]) for k in (0, 1, 3))
            memory = memories[t] = f * memory + i * torch.tanh(x[2] + r[2])
            state = o * torch.tanh(memory)
        elif cell == "gru":
            reset, keep = (torch.sigmoid(x[k] + r[k]) for k in (0, 1))
            now = torch.tanh(x[2] + reset * (r[2] + rest[0]))
            state = now + keep * (state - now)
        else:
            state = torch.tanh(x[0] + r[0]) if cell == "tanh" else torch.relu(x[0] + r[0])
        states[t] = state
    out = torch.stack([states[t] for t in steps])
    return (out, torch.stack([memories[t] for t in steps])) if cell == "lstm" else (out,)
