"""Odd models give what PyTorch gives, and leave in their inputs what PyTorch leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import glasshouse as gh
from hostile.odd_models import MODELS, Case

RTOL = {torch.float16: 1e-2, torch.float32: 1e-5, torch.float64: 1e-9, torch.complex64: 1e-5}


class _Each(torch.nn.Module):
    """All models of a theme, each on its own share of the inputs."""

    def __init__(self, cases: dict[str, Case]) -> None:
        super().__init__()
        self.cases = cases

    def forward(self, *given: Any) -> Any:
        out, at = {}, 0
        for name, (function, inputs) in self.cases.items():
            out[name] = function(*given[at : at + len(inputs)])
            at += len(inputs)
        return out


def _copied(x: torch.Tensor) -> torch.Tensor:
    """The same numbers in the same strides, in memory of their own."""
    if x.is_contiguous():
        return x.clone()
    size = x.untyped_storage().nbytes() // x.element_size()
    memory = torch.as_strided(x, (size,), (1,), 0).clone()
    return torch.as_strided(memory, x.shape, x.stride(), x.storage_offset())


def _flat(out: Any) -> list[torch.Tensor]:
    if isinstance(out, torch.Tensor):
        return [out.resolve_conj().resolve_neg()]
    return [t for part in (out.values() if isinstance(out, dict) else out) for t in _flat(part)]


def _check(theme: str, compiled: Callable[..., Any]) -> None:
    cases = MODELS[theme]
    model = _Each(cases)
    inputs = [x for _, given in cases.values() for x in given]
    ours, theirs = [_copied(x) for x in inputs], [_copied(x) for x in inputs]
    module = compiled(model, *map(_copied, inputs))
    wanted, found = model(*theirs), module(*ours)
    wrong: list[str] = []
    for name in cases:
        for number, (a, b) in enumerate(zip(_flat(found[name]), _flat(wanted[name]), strict=True)):
            tol = RTOL.get(b.dtype, 0.0)
            try:
                torch.testing.assert_close(a, b, rtol=tol, atol=tol, equal_nan=True)
            except AssertionError as error:
                wrong.append(f"{name}, output {number}: {error}: {a.tolist()}, not {b.tolist()}")
    assert not wrong, "\n".join(wrong)
    for a, b in zip(ours, theirs, strict=True):
        assert np.array_equal(_flat(a)[0].numpy(), _flat(b)[0].numpy(), equal_nan=True)


@pytest.mark.filterwarnings("ignore")  # NumPy warns of what is tested
@pytest.mark.parametrize("theme", list(MODELS))
def test_kernels_interpreted(theme: str) -> None:
    _check(theme, lambda model, *given: gh.compile(model, *given, target="interp"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("theme", list(MODELS))
def test_kernels_compiled(theme: str) -> None:
    _check(theme, gh.compile)
