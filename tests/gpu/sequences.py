"""Orders, scatters, recurrent layers and transforms of models' sizes, on a GPU beside PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

import glasshouse as gh
from glasshouse.lower.program import Fallback

Case = tuple[str, Callable[..., Any], tuple[Any, ...], float]
"""A title, a function or module, its inputs, and the error that it may have: 0 for none."""


class _Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


class _States(nn.Module):
    """All states of a layer, and its last ones."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> tuple[Any, ...]:
        out, last = self.layer(x)
        return (out, *last) if isinstance(last, tuple) else (out, last)


def awkward(*shape: int, dtype: Any = torch.float32) -> Any:
    """Numbers with ties, NaN, infinities and zeros of both signs."""
    x = (torch.randn(*shape) * 3).round(decimals=1).to(dtype)
    odd = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, float("nan")]
    x.view(-1)[torch.randperm(x.numel())[: len(odd)]] = torch.tensor(odd, dtype=dtype)
    return x


def orders() -> Iterator[Case]:
    for shape, dtype in (
        ((4, 100), torch.float32), ((64, 2048), torch.float16), ((4, 4096), torch.float32),
        ((4, 50257), torch.float32), ((1, 300000), torch.float32), ((4, 5000), torch.float64),
    ):  # fmt: skip
        for down in (False, True):

            def by(x: Any, down: bool = down) -> Any:
                return torch.sort(x, dim=-1, descending=down, stable=True)

            yield f"sort {shape} {dtype}", by, (awkward(*shape, dtype=dtype),), 0
    yield "sort along rows", lambda x: x.sort(dim=0, stable=True), (awkward(3000, 7),), 0
    apart = torch.stack([torch.randperm(40000).float() for _ in range(8)])
    for k in (1, 50, 500, 3000):
        yield f"top {k} of 40000", lambda x, k=k: torch.topk(x, k), (apart,), 0
    yield "places of extremes", lambda x: (x.argmax(1), x.argmin(0)), (apart,), 0


def places() -> Iterator[Case]:
    named, rows = torch.randint(0, 1000, (8000,)), torch.randn(8000, 64)

    def add(i: Any, y: Any) -> Any:
        return torch.zeros(1000, y.shape[1], device=y.device).index_add(0, i, y)

    yield "8000 rows to 1000 places", add, (named, rows), 1e-5
    yield "8000 rows to one place", add, (named * 0 + 7, rows), 1e-5
    yield "300000 rows", add, (torch.randint(0, 100, (300000,)), torch.randn(300000, 8)), 1e-5

    def most(i: Any, y: Any) -> Any:
        start = torch.full((1000, 4), -9.0, device=y.device)
        return start.scatter_reduce(0, i[:, None].expand(-1, 4), y, "amax")

    yield "largest of 8000", most, (named, torch.randn(8000, 4)), 0

    def along(i: Any, y: Any) -> Any:
        return torch.zeros(16, 700, device=y.device).scatter_add(1, i, y)

    yield "along an axis", along, (torch.randint(0, 700, (16, 5000)), torch.randn(16, 5000)), 1e-5


def layers() -> Iterator[Case]:
    for layer, shape in (
        (nn.LSTM(256, 256, 2), (50, 8, 256)), (nn.LSTM(128, 200), (100, 1, 128)),
        (nn.LSTM(64, 512), (20, 32, 64)), (nn.LSTM(64, 1024), (10, 16, 64)),
        (nn.LSTM(20, 33, bidirectional=True), (30, 70, 20)), (nn.GRU(200, 256), (60, 8, 200)),
        (nn.RNN(64, 128), (50, 16, 64)),
    ):  # fmt: skip
        yield f"{layer} {shape}", _States(layer), (torch.randn(*shape),), 1e-4
    yield (
        "LSTM of float64",
        _States(nn.LSTM(32, 64)).double(),
        (torch.randn(9, 3, 32).double(),),
        1e-9,
    )
    half = torch.randn(60, 8, 64).half()
    yield "GRU of float16", _States(nn.GRU(64, 128, bidirectional=True)).half(), (half,), 4e-3


def transforms() -> Iterator[Case]:
    """Along the last axis and along one before others, forwards and back."""

    def there_and_back(x: Any, axis: int) -> tuple[Any, ...]:
        pairs = torch.fft.fft(torch.complex(x, x.flip(0)), dim=axis)
        back = torch.fft.ifft(pairs, dim=axis)
        half = torch.fft.rfft(x, dim=axis)
        signal = torch.fft.irfft(half * half, n=x.shape[axis], dim=axis)
        return pairs.real, pairs.imag, back.real, back.imag, half.real, half.imag, signal

    for length in (1, 2, 9, 16, 77, 180, 200, 338, 512, 1000, 1024, 2187, 4096, 8192):
        many = max(1, min(3000, (1 << 20) // length))
        for axis, shape in ((1, (many + 1, length)), (1, (3, length, many // 3 + 5))):
            for dtype, bound in ((torch.float32, 2e-6), (torch.float64, 4e-15)):
                if length * dtype.itemsize <= 32768 and (length < 8192 or shape[-1] == length):

                    def by(x: Any, axis: int = axis) -> Any:
                        return there_and_back(x, axis)

                    yield f"fft {shape} {dtype}", by, (torch.randn(*shape).to(dtype),), bound
    yield "two axes", lambda x: torch.fft.rfft2(x).abs(), (torch.randn(8, 180, 200),), 2e-6


def compared(function: Any, inputs: tuple[Any, ...], bound: float) -> str:
    """Our results beside PyTorch's, and beside our own of a second run."""
    model = function if isinstance(function, nn.Module) else _Function(function)
    model, given = model.cuda().eval(), [x.cuda() for x in inputs]
    module = gh.compile(model, *given, progress=False)
    assert not any(isinstance(s, Fallback) for s in module.program.steps), "a step has no kernel"
    with torch.no_grad():
        found, again, wanted = ([*_flat(run(*given))] for run in (module, module, model))
    worst = 0.0
    for ours, second, theirs in zip(found, again, wanted, strict=True):
        assert torch.equal(ours.view(torch.uint8), second.view(torch.uint8)), "two runs differ"
        if not bound:
            same = (ours == theirs) | ((ours != ours) & (theirs != theirs))
            assert bool(same.all()), f"{int((~same).sum())} elements differ"
        else:
            scale = max(float(theirs.double().abs().max()), 1e-6)
            worst = max(worst, float((ours.double() - theirs.double()).abs().max()) / scale)
    assert worst <= bound, f"error {worst:.1e}, at most {bound:.0e} wanted"
    return f"error {worst:.1e}"


def _flat(made: Any) -> Iterator[Any]:
    yield from made if isinstance(made, (tuple, list)) else (made,)
