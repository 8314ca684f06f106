"""What was found out about a program on a GPU, whether its kernels overlap, is kept on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import glasshouse as gh
from fake_cuda import FakeCuda, fake_cuda
from glasshouse.backend.cuda import loaded, ways
from glasshouse.backend.cuda.ways import Succession


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[set[Succession]]:
    """The ways that were timed, of each program that was; overlap wins."""
    seen: list[set[Succession]] = []

    def timed(_: Any, started: Mapping[Succession, Any]) -> dict[Succession, float]:
        seen.append(set(started))
        return {Succession.APART: 2e-6, Succession.OVERLAPPING: 1e-6}

    monkeypatch.setattr(loaded, "timed", timed)
    monkeypatch.setattr(ways, "made_cache_folder", lambda: tmp_path)
    return seen


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch, asked: list[set[Succession]]) -> Iterator[FakeCuda]:
    with fake_cuda(monkeypatch) as fake:
        monkeypatch.delenv("GLASSHOUSE_OVERLAP")
        yield fake


class Mixed(nn.Module):
    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for _ in range(self.times):
            x = x.softmax(-1) @ y
        return x


def made(times: int, given: list[torch.Tensor]) -> gh.Module:
    """A module that has run once, rightly."""
    model = Mixed(times)
    module = gh.compile(model, *given, target="cuda", progress=False)
    torch.testing.assert_close(module(*given), model(*given))
    return module


def test_what_was_found_is_kept(
    cuda: FakeCuda, asked: list[set[Succession]], tmp_path: Path
) -> None:
    given = [torch.randn(4, 8), torch.randn(8, 8)]
    first = made(1, given)
    assert asked == [set(Succession)]
    cuda.forget()
    module = made(1, given)
    assert asked == [set(Succession)], "not timed again"
    assert cuda.calls.count("cuGraphLaunch") == 1
    assert module.settled() == first.settled()
    assert module.settled()["seconds of nodes that overlap"] == "1e-06"
    assert module._executable.loaded.last._overlapping
    made(2, given)
    assert len(asked) == 2, "another program"


@pytest.mark.parametrize("text", ["{}", "[1]", "no", '{"nodes": 1e-6}', '{"nodes": "x"}'])
def test_what_cannot_be_read_is_timed_again(
    cuda: FakeCuda, asked: list[set[Succession]], tmp_path: Path, text: str
) -> None:
    given = [torch.randn(4, 8), torch.randn(8, 8)]
    made(1, given)
    (file,) = tmp_path.iterdir()
    file.write_text(text)
    made(1, given)
    assert len(asked) == 2
    made(1, given)
    assert len(asked) == 2
