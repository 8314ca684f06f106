"""Modules for GPUs from call to result, on a driver that runs kernels without a GPU."""

from __future__ import annotations

import copy
import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import glasshouse as gh
from fake_cuda import FakeCuda, HostTorch, fake_cuda
from glasshouse.backend.cuda import order, ways
from glasshouse.backend.cuda.device import Gpu
from glasshouse.errors import ExecutionError
from glasshouse.lower.plan import Arrival
from glasshouse.lower.program import Fallback
from glasshouse.record.schema import KernelRow, TimeRow


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    with fake_cuda(monkeypatch) as fake:
        yield fake


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    with fake_cuda(monkeypatch, beside_torch=False) as fake:
        yield fake


@pytest.fixture(autouse=True)
def no_sorts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sorts of any length are as long ones: they have no kernel."""
    monkeypatch.setattr(order, "MOST_ITEMS", 0)


class Ordered(torch.nn.Module):
    """A kernel, a sort, which has none, and a kernel on its results."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.linspace(-1, 1, 5))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, places = (x * self.scale).sort(dim=-1)
        return values + 1, places


def check(module: gh.Module, model: torch.nn.Module, x: torch.Tensor) -> None:
    for ours, theirs in zip(module(x), model(x), strict=True):
        torch.testing.assert_close(ours, theirs.detach())


def test_pytorch_runs_what_has_no_kernel_on_the_device(cuda: FakeCuda) -> None:
    model, x = Ordered(), torch.randn(3, 5)
    module = gh.compile(model, x, target="cuda", progress=False)
    assert any(isinstance(s, Fallback) for s in module.program.steps)
    check(module, model, x)
    cuda.forget()
    check(module, model, torch.randn(3, 5))
    assert "cuMemcpyDtoHAsync_v2" not in cuda.calls
    assert "cuMemcpyHtoDAsync_v2" not in cuda.calls
    assert cuda.calls.count("cuGraphLaunch") == 2


def test_without_pytorch_the_host_runs_it_between_copies(without_torch: FakeCuda) -> None:
    model, x = Ordered(), torch.randn(3, 5)
    module = gh.compile(model, x, target="cuda", progress=False)
    check(module, model, x)
    without_torch.forget()
    check(module, model, x)
    # In: the input, and two results of the sort; out: their operand, and two outputs.
    assert without_torch.calls.count("cuMemcpyHtoDAsync_v2") == 3
    assert without_torch.calls.count("cuMemcpyDtoHAsync_v2") == 3


def kernels_of(module: gh.Module, x: torch.Tensor) -> list[KernelRow]:
    return list(module.recording(x, count=1).graphs[0].table(KernelRow))


def test_kernels_and_the_gaps_between_them_are_rows_with_times(cuda: FakeCuda) -> None:
    """The clock of the driver without a GPU goes on by one with each look at it."""
    model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(3)])
    x = torch.randn(4, 8)
    module = gh.compile(model, x, target="cuda", progress=False)
    graph = module.recording(x, count=2).graphs[0]
    rows = {row.id: row for row in graph.table(KernelRow)}
    seconds = {t.kernel: t.seconds for t in graph.table(TimeRow) if t.run == "profile"}
    steps = [n for n, row in rows.items() if row.target == "cuda"]
    gaps = [n for n, row in rows.items() if row.target == "gap"]
    assert len(steps) == 3
    assert len(gaps) == 2, "between three kernels"
    assert all(rows[n].title.startswith("gap before ") for n in gaps)
    assert all(seconds[n] > 0 for n in (*steps, *gaps))


def test_copies_to_the_host_are_rows_with_bytes_and_time(without_torch: FakeCuda) -> None:
    module = gh.compile(gh.trace(Ordered(), torch.randn(3, 5)), target="cuda", progress=False)
    rows = kernels_of(module, torch.randn(3, 5))
    copies = {row.name: row.bytes_read for row in rows if row.target == "copy"}
    assert copies == {"copy_to_host": 3 * 5 * 4, "copy_to_device": 3 * 5 * (4 + 8)}
    assert [row.target for row in rows if row.name == "fallback_sort"] == ["python"]


def test_a_recording_says_that_pytorch_ran_a_step(cuda: FakeCuda) -> None:
    module = gh.compile(gh.trace(Ordered(), torch.randn(3, 5)), target="cuda", progress=False)
    rows = kernels_of(module, torch.randn(3, 5))
    assert [row.target for row in rows if row.name == "fallback_sort"] == ["pytorch"]
    assert not [row for row in rows if row.target == "copy"]


def test_memory_goes_with_the_module(cuda: FakeCuda) -> None:
    gc.collect()
    before = cuda.taken
    module = gh.compile(Ordered(), torch.randn(3, 5), target="cuda", progress=False)
    module(torch.randn(3, 5))
    assert cuda.taken > before
    del module
    gc.collect()
    assert cuda.taken == before
    for kind in ("cuModuleUnload", "cuGraphExecDestroy", "cuGraphDestroy", "cuMemFreeHost"):
        assert kind in cuda.calls


def test_no_room_is_one_error_and_leaves_the_module_as_it_was(cuda: FakeCuda) -> None:
    n = gh.symbol("n", 1, None)
    graph = gh.trace(lambda x: (x * 2).softmax(), gh.spec((n, 64), "float32"))
    module = gh.compile(graph, target="cuda", progress=False)
    x = np.ones((4, 64), np.float32)
    wanted = module(x)
    cuda.room(cuda.taken + 4096)
    with pytest.raises(ExecutionError, match=r"Fake GPU has no room for .* MB more"):
        module(np.ones((256, 64), np.float32))
    cuda.room()
    np.testing.assert_array_equal(module(x), wanted)
    np.testing.assert_allclose(module(np.ones((256, 64), np.float32)), 1 / 64)


def test_runs_on_two_streams_follow_one_another(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = gh.compile(gh.trace(Ordered(), torch.randn(3, 5)), target="cuda", progress=False)
    x = torch.randn(3, 5)
    module(x)
    cuda.forget()
    module(x)
    assert "cuStreamSynchronize" not in cuda.calls, "the same stream is in order by itself"
    monkeypatch.setattr(HostTorch, "stream", lambda self: 8)
    module(x)
    assert cuda.calls.count("cuStreamSynchronize") == 1, "they share memory between steps"


def test_weights_are_read_where_they_lie(cuda: FakeCuda) -> None:
    model, x = Ordered(), torch.randn(3, 5)
    module = gh.compile(gh.trace(model, x), target="cuda", progress=False)
    assert module.lend_weights({"scale": model.scale}) == ["scale"]
    check(module, model, x)
    with torch.no_grad():
        model.scale.mul_(-3)
    check(module, model, x)


def test_a_tensor_in_the_wrong_place_is_named(cuda: FakeCuda) -> None:
    module = gh.compile(
        lambda x, y: x + y, torch.randn(3), torch.randn(3), target="cuda", progress=False
    )
    with pytest.raises(ExecutionError, match="must be float32\\[3\\] on cpu like the other inputs, "
                       "got one on the host, a ndarray"):  # fmt: skip
        module(torch.randn(3), np.ones(3, np.float32))
    with pytest.raises(ExecutionError, match="got one on meta"):
        module(torch.randn(3), torch.empty(3, device="meta"))
    with pytest.raises(ExecutionError, match=r"got a sparse_coo float32.3.\n  give its to_dense"):
        module(torch.randn(3), torch.randn(3).to_sparse())


def test_complex_numbers_are_taken_as_pairs(cuda: FakeCuda) -> None:
    x = torch.randn(3, 4, dtype=torch.complex64)
    module = gh.compile(lambda x: x * x + 1, x, target="cuda", progress=False)
    for given in (x, x.conj(), x[:, ::2].repeat(1, 2), torch.randn(4, 3, dtype=x.dtype).t()):
        torch.testing.assert_close(module(given), given * given + 1)
    with pytest.raises(ExecutionError, match=r"must be float32.3, 4, 2., got float64"):
        module(x.to(torch.complex128))


def test_an_output_may_lie_on_an_input(cuda: FakeCuda) -> None:
    module = gh.compile(lambda x: x - x.flip(0), torch.randn(64), target="cuda", progress=False)
    x = torch.randn(64)
    wanted = x - x.flip(0)
    with pytest.raises(ExecutionError, match="an output lies on an input"):
        module.bound([x], [x])
    module.run_with_tensors([x], [x])
    torch.testing.assert_close(x, wanted)


def test_a_bound_function_keeps_the_memory_that_it_runs_in(cuda: FakeCuda) -> None:
    model, x = torch.nn.Linear(8, 8), torch.randn(4, 8)
    module = gh.compile(model, x, target="cuda", progress=False)
    out = torch.zeros(4, 8)
    again = module.bound([x], [out])
    gc.collect()  # what tests before this one have left
    taken = cuda.taken
    del module
    gc.collect()
    assert cuda.taken == taken > 0
    out.zero_()
    again()
    torch.testing.assert_close(out, model(x).detach())
    del again
    gc.collect()
    assert cuda.taken < taken


class Cached(torch.nn.Module):
    """A cache of eight rows: one is written, then all are summed by a look-up that may fail."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(8, 4))

    def forward(self, place: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        self.rows.index_copy_(0, place, x)
        return self.rows.cumsum(0)[place] + self.rows.sum()


def test_a_bound_function_changes_variables_as_calls_do(cuda: FakeCuda) -> None:
    model, place, x = Cached(), torch.tensor([2]), torch.ones(1, 4)
    module = gh.compile(model, place, x, target="cuda", progress=False)
    twin, out = Cached(), torch.zeros(1, 4)
    again = module.bound([place, x], [out])
    for row in (2, 5, 3):
        place.fill_(row)
        x.fill_(float(row))
        again()
        torch.testing.assert_close(out, twin(place, x))
    torch.testing.assert_close(torch.from_numpy(module.held()["rows"]), twin.rows)


class Remembering(torch.nn.Module):
    """Writes a row of a cache, and sums it up: the row lies beside the old cache until a run ends;
    what was counted is written over."""

    def __init__(self, counts: bool) -> None:
        super().__init__()
        self.counts = counts
        self.register_buffer("cache", torch.zeros(64, 8))
        self.register_buffer("count", torch.zeros(8))

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        self.cache.index_copy_(0, place, self.cache[:1] + x)
        if self.counts:
            self.count.add_(1)
        return self.cache.sum(0) + self.count


@pytest.fixture
def timing(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeCuda:
    """Whether kernels overlap is timed, whatever was found out before."""
    monkeypatch.delenv("GLASSHOUSE_OVERLAP")
    monkeypatch.setattr(ways, "made_cache_folder", lambda: tmp_path)
    return cuda


@pytest.mark.parametrize(("launch", "turns", "replays"), [(2e-3, 3, 1), (1e-4, 31, 5)])
def test_graphs_that_take_long_are_launched_less_often_to_be_timed(
    timing: FakeCuda, monkeypatch: pytest.MonkeyPatch, launch: float, turns: int, replays: int
) -> None:
    """Once for each way, in turns that are timed, and once to run. A small one: a turn of one
    launch, then until 30 ms are spent."""
    cuda = timing
    before: list[int] = []

    def seconds(self: Gpu, begin: int, end: int) -> float:
        counted = cuda.calls.count("cuGraphLaunch")
        before.append(counted)
        return launch * (counted - (before[-2] if len(before) > 1 else 2))

    monkeypatch.setattr(Gpu, "seconds_between", seconds)
    x = torch.randn(4, 8)
    module = gh.compile(torch.nn.Softmax(-1), x, target="cuda", progress=False)
    cuda.forget()
    torch.testing.assert_close(module(x), torch.softmax(x, -1))
    timed = 2 * (1 + (turns - 1) * replays)
    assert cuda.calls.count("cuGraphLaunch") == 2 + timed + 1


@pytest.mark.parametrize("counts", [False, True])
def test_runs_that_are_repeated_to_be_timed_change_nothing(timing: FakeCuda, counts: bool) -> None:
    cuda = timing
    torch.manual_seed(0)
    model = Remembering(counts)
    inputs = [(torch.randn(1, 8), torch.tensor([i])) for i in (0, 5, 0)]
    module = gh.compile(model, *inputs[0], target="cuda", progress=False)
    cuda.forget()
    twin = copy.deepcopy(model)
    for given in inputs:
        torch.testing.assert_close(module(*given), twin(*given))
    in_place = any(u.how is Arrival.IN_PLACE for u in module.program.memory.updates)
    assert in_place == counts
    assert (cuda.calls.count("cuGraphLaunch") > len(inputs)) == (not counts)
    assert bool(module.settled()) == (not counts)
