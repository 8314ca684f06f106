"""Samples of the ops that give the same elements another shape or order."""

from __future__ import annotations

from typing import Any

import torch

from ops.samples.sample import INTS, Sample, integers, values

_X = values(2, 3, 4)


def _permute(x: torch.Tensor, axes: Any) -> torch.Tensor:
    return x.permute(axes)


def _merged(order: Any, *shape: int) -> Any:
    return lambda x, plan: x.permute(order).reshape(shape)


def _expand(x: torch.Tensor, shape: Any) -> torch.Tensor:
    return x.expand(shape)


def _flip(x: torch.Tensor, axes: Any) -> torch.Tensor:
    return x.flip(axes)


def _windows(
    x: torch.Tensor, axis: int, size: int, step: int = 1, dilation: int = 1
) -> torch.Tensor:
    return x.unfold(axis, (size - 1) * dilation + 1, step)[..., ::dilation]


def _roll(x: torch.Tensor, shifts: Any, axes: Any) -> torch.Tensor:
    return x.roll(shifts, axes) if axes else x


SAMPLES = {
    "reshape": [
        Sample((_X,), torch.reshape, {"shape": (6, 4)}),
        Sample((_X,), torch.reshape, {"shape": (2, 1, 12)}),
        Sample((values(),), torch.reshape, {"shape": (1, 1)}),
        Sample((values(1),), torch.reshape, {"shape": ()}),
        Sample((values(0, 3),), torch.reshape, {"shape": (3, 0, 2)}),
        Sample((integers(4, 3),), torch.reshape, {"shape": (12,)}, dtypes=INTS),
    ],
    "permute": [
        Sample((_X,), _permute, {"axes": (2, 0, 1)}),
        Sample((_X,), _permute, {"axes": (-1, 1, 0)}),
        Sample((values(),), _permute, {"axes": ()}),
        Sample((values(0, 3),), _permute, {"axes": (1, 0)}),
    ],
    "rearrange": [
        Sample(
            (values(2, 3, 4, 5),),
            _merged((0, 2, 1, 3), 8, 3, 5),
            {"plan": [[0, 2], [1], [3]]},
        ),
        Sample((_X,), _merged((2, 0, 1), 1, 4, 6), {"plan": [[], [2], [0, 1]]}),
        Sample((_X,), _merged((0, 1, 2), 24), {"plan": [[0, -2, -1]]}),
        Sample((values(),), _merged((), 1), {"plan": [[]]}),
        Sample((values(2, 0),), _merged((1, 0), 0), {"plan": [[1, 0]]}),
    ],
    "expand": [
        Sample((values(3, 1),), _expand, {"shape": (2, 3, 4)}),
        Sample((_X,), _expand, {"shape": (2, 3, 4)}),
        Sample((values(),), _expand, {"shape": (2, 2)}),
        Sample((values(1, 3),), _expand, {"shape": (0, 3)}),
        Sample((values(0, 1),), _expand, {"shape": (0, 5)}),
    ],
    "flip": [
        Sample((_X,), _flip, {"axes": (0, -1)}),
        Sample((_X,), _flip, {"axes": (1,)}),
        Sample((values(),), _flip, {"axes": ()}),
        Sample((values(0, 2),), _flip, {"axes": (0,)}),
    ],
    "windows": [
        Sample((_X,), _windows, {"axis": -1, "size": 2}),
        Sample((values(7, 3),), _windows, {"axis": 0, "size": 3, "step": 2}),
        Sample((values(2, 9),), _windows, {"axis": 1, "size": 3, "step": 3, "dilation": 2}),
        Sample((values(5),), _windows, {"axis": 0, "size": 5}),
        Sample((values(0, 3),), _windows, {"axis": 1, "size": 2}),
    ],
    "roll": [
        Sample((_X,), _roll, {"shifts": (1, -5), "axes": (0, 2)}),
        Sample((_X,), _roll, {"shifts": (7,), "axes": (-1,)}),
        Sample((values(0, 3),), _roll, {"shifts": (1,), "axes": (0,)}),
        Sample((values(),), _roll, {"shifts": (), "axes": ()}),
    ],
}

HOLES = {("windows", "scalar"): "windows lie along an axis"}
