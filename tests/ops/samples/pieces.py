"""Samples of joining, cutting and bordering."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from ops.samples.sample import INTS, Sample, integers, values


def _concat(*xs: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.cat(xs, axis)


def _split(x: torch.Tensor, axis: int, sizes: Any) -> Any:
    return torch.split(x, sizes, axis)


def _slice(x: torch.Tensor, starts: Any, ends: Any, steps: Any = ()) -> torch.Tensor:
    steps = steps or [1] * x.ndim
    return x[tuple(slice(*s) for s in zip(starts, ends, steps, strict=True))]


def _pad(x: torch.Tensor, padding: Any, mode: str = "constant", value: float = 0.0) -> torch.Tensor:
    n = x.ndim
    ordered = [p for i in reversed(range(n)) for p in (padding[i], padding[n + i])]
    if mode == "constant":
        return F.pad(x, ordered, value=value)
    # torch pads at most three axes of a batch with channels: a leading pair of axes, all others.
    inner = F.pad(x[None, None], ordered, mode={"edge": "replicate"}.get(mode, mode))
    return inner[0, 0]


def _cut(*shape: int, **attrs: Any) -> Sample:
    return Sample((values(*shape),), _slice, attrs)


def _border(*shape: int, **attrs: Any) -> Sample:
    return Sample((values(*shape),), _pad, attrs)


SAMPLES = {
    "concat": [
        Sample((values(3, 4), values(3, 2, seed=1), values(3, 1, seed=2)), _concat, {"axis": -1}),
        Sample((values(2, 3), values(5, 3, seed=1)), _concat, {"axis": 0}),
        Sample((values(2, 3),), _concat, {"axis": 1}),
        Sample((values(0, 3), values(2, 3)), _concat, {"axis": 0}),
        Sample((integers(2, 3), integers(2, 3, seed=1)), _concat, {"axis": 0}, dtypes=INTS),
    ],
    "split": [
        Sample((values(3, 6),), _split, {"axis": -1, "sizes": (1, 2, 3)}),
        Sample((values(4, 3),), _split, {"axis": 0, "sizes": (4,)}),
        Sample((values(5, 2),), _split, {"axis": 0, "sizes": (2, 0, 3)}),
        Sample((values(0, 4),), _split, {"axis": 1, "sizes": (2, 2)}),
    ],
    "slice": [
        _cut(10, 3, starts=(1, 0), ends=(9, 3), steps=(3, 2)),
        _cut(10, starts=(0,), ends=(10,), steps=(4,)),
        _cut(7, 2, starts=(6, 0), ends=(7, 2), steps=(5, 1)),
        _cut(7, 4, starts=(2, 1), ends=(7, 3)),
        _cut(6, starts=(2,), ends=(2,), steps=(3,)),
        _cut(0, 4, starts=(0, 1), ends=(0, 4), steps=(1, 2)),
        _cut(starts=(), ends=()),
    ],
    "pad": [
        _border(2, 3, padding=(1, 0, 2, 3), value=1.5),
        _border(3, 4, 5, padding=(0, 2, 1, 0, 0, 3), mode="reflect"),
        _border(5, padding=(4, 3), mode="reflect"),
        _border(3, 4, 2, padding=(1, 0, 3, 0, 2, 1), mode="edge"),
        _border(2, 3, padding=(0, 0, 0, 0)),
        _border(0, 3, padding=(2, 0, 1, 1), value=-1.0),
        _border(padding=()),
        Sample((integers(2, 3),), _pad, {"padding": (0, 1, 1, 0), "value": 7}, dtypes=INTS),
    ],
}
HOLES = {
    ("concat", "scalar"): "scalars have no axis to be joined along",
    ("split", "scalar"): "a scalar has no axis to be cut",
}
