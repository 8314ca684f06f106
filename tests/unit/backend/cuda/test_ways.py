"""Programs of few kernels that are started one by one on the stream instead of as a graph, on a
driver that runs kernels without a GPU; and what was found out about a program, kept on disk."""

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
from glasshouse.backend.cuda.ways import Way, fastest
from glasshouse.errors import ExecutionError

STARTED, LAUNCHED = "cuLaunchKernelEx", "cuGraphLaunch"
LAUNCHES = {Way.APART: 3e-6, Way.OVERLAPPING: 2e-6, Way.ONE_BY_ONE: 1e-6}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[set[Way]]:
    """The ways that were timed, of each program that was; launches one by one win."""
    seen: list[set[Way]] = []

    def timed(_: Any, started: Mapping[Way, Any]) -> dict[Way, float]:
        seen.append(set(started))
        return {way: LAUNCHES[way] for way in started}

    monkeypatch.setattr(loaded, "timed", timed)
    monkeypatch.setattr(ways, "made_cache_folder", lambda: tmp_path)
    return seen


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch, asked: list[set[Way]]) -> Iterator[FakeCuda]:
    with fake_cuda(monkeypatch) as fake:
        monkeypatch.delenv("GLASSHOUSE_OVERLAP")
        yield fake


class Few(nn.Module):
    """Two kernels."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.softmax(-1) @ y


def made(model: nn.Module, *given: torch.Tensor) -> gh.Module:
    return gh.compile(model, *given, target="cuda", progress=False)


def given() -> list[torch.Tensor]:
    return [torch.randn(4, 8), torch.randn(8, 8)]


def test_the_fastest_way_is_taken_launches_where_they_win_by_3_per_cent() -> None:
    graphs = {Way.APART: 2.0, Way.OVERLAPPING: 1.0}
    assert fastest(graphs) is Way.OVERLAPPING
    assert fastest({**graphs, Way.APART: 0.5}) is Way.APART
    assert fastest({**graphs, Way.ONE_BY_ONE: 0.98}) is Way.OVERLAPPING
    assert fastest({**graphs, Way.ONE_BY_ONE: 0.96}) is Way.ONE_BY_ONE


def test_kernels_start_one_by_one_on_any_memory(cuda: FakeCuda, asked: list[set[Way]]) -> None:
    model, first = Few(), given()
    module = made(model, *first)
    torch.testing.assert_close(module(*first), model(*first))
    assert asked == [set(Way)]
    count = len(module.program.steps)
    for inputs in (first, given(), given(), given()):
        cuda.forget()
        torch.testing.assert_close(module(*inputs), model(*inputs))
        assert cuda.calls.count(STARTED) == count
        assert LAUNCHED not in cuda.calls
    assert module.settled()["seconds of launches that overlap"] == "1e-06"


def test_a_call_on_known_memory_sets_nothing(cuda: FakeCuda) -> None:
    model, (x, y) = Few(), given()
    module, out = made(model, x, y), torch.empty(4, 8)
    for _ in range(3):
        module.run_with_tensors([x, y], [out])
    cuda.forget()
    x.mul_(2)
    module.run_with_tensors([x, y], [out])
    assert cuda.calls == ["cuStreamIsCapturing", *[STARTED] * len(module.program.steps)]
    torch.testing.assert_close(out, model(x, y))


def test_bound_functions_keep_their_memory(cuda: FakeCuda) -> None:
    model, first, second = Few(), given(), given()
    module, outs = made(model, *first), [torch.empty(4, 8) for _ in range(2)]
    runs = [module.bound(g, [o]) for g, o in zip((first, second), outs, strict=True)]
    for _ in range(2):
        for run, inputs, out in zip(runs, (first, second), outs, strict=True):
            out.zero_()
            module(*given())
            run()
            torch.testing.assert_close(out, model(*inputs))


def test_profiles_are_of_a_graph(cuda: FakeCuda) -> None:
    module, inputs = made(Few(), *given()), given()
    module(*inputs)
    cuda.forget()
    module.profile(*inputs, count=1)
    assert LAUNCHED in cuda.calls


class Many(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = x.softmax(-1) @ y
        return x


def test_many_kernels_are_a_graph(cuda: FakeCuda, asked: list[set[Way]]) -> None:
    model, inputs = Many(), given()
    module = made(model, *inputs)
    torch.testing.assert_close(module(*inputs), model(*inputs))
    assert asked == [{Way.APART, Way.OVERLAPPING}]


def test_a_captured_stream_is_refused(cuda: FakeCuda) -> None:
    inputs = given()
    module = made(Few(), *inputs)
    module(*inputs)
    cuda.fail("cuStreamIsCapturing", 900)
    cuda.forget()
    try:
        with pytest.raises(ExecutionError, match=r"outside of torch\.cuda\.graph"):
            module(*inputs)
    finally:
        cuda.fail("cuStreamIsCapturing", 0)
    assert STARTED not in cuda.calls


def test_what_was_found_is_kept(cuda: FakeCuda, asked: list[set[Way]], tmp_path: Path) -> None:
    model, inputs = Few(), given()
    made(model, *inputs)(*inputs)
    cuda.forget()
    module = made(model, *inputs)
    torch.testing.assert_close(module(*inputs), model(*inputs))
    assert len(asked) == 1
    assert cuda.calls.count(STARTED) == len(module.program.steps), "started once"
    assert "seconds of nodes" in module.settled()
    made(Many(), *inputs)(*inputs)
    assert len(asked) == 2, "another program"
    for file in tmp_path.iterdir():
        file.write_text("{}")
    made(model, *inputs)(*inputs)
    assert len(asked) == 3, "what cannot be read is timed again"
