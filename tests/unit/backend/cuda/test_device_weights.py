"""Weights that are on the GPU already: read there in place, fetched only when the host needs them,
on a driver that runs kernels without a GPU and takes the host's tensors for its own."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh
from fake_cuda import FakeCuda, fake_cuda
from glasshouse.errors import ExecutionError, StaleWeights
from glasshouse.runtime import held_constants, late_array
from glasshouse.runtime.late_array import DeviceArray


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Shapes of the weights that were copied to the host."""
    seen: list[tuple[int, ...]] = []
    inner = DeviceArray.fetched

    def fetched(self: DeviceArray) -> np.ndarray:
        seen.append(self.shape)
        return inner(self)

    monkeypatch.setattr(DeviceArray, "fetched", fetched)
    monkeypatch.setattr(late_array, "DEVICES", ("cpu",))
    monkeypatch.setattr(held_constants, "DEVICES", ("cpu",))
    return seen


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    with fake_cuda(monkeypatch) as fake:
        yield fake


class Bounded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(128, 160), requires_grad=False)
        self.shift = nn.Parameter(torch.randn(160), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.minimum(x, self.table) + self.shift


def test_large_weights_are_read_where_they_lie(cuda: FakeCuda, fetches: list[object]) -> None:
    model, x = Bounded(), torch.randn(128, 160)
    module = gh.compile(model, x, target="cuda", progress=False)
    torch.testing.assert_close(module(x), model(x))
    assert not fetches
    assert cuda.calls.count("cuMemcpyHtoDAsync_v2") == 1, "the small one is a copy"
    module(x)
    assert cuda.calls.count("cuMemcpyHtoDAsync_v2") == 1


def test_they_outlive_the_model(cuda: FakeCuda, fetches: list[object]) -> None:
    model, x = Bounded(), torch.randn(128, 160)
    wanted = model(x)
    module = gh.compile(model, x, target="cuda", progress=False)
    del model
    torch.testing.assert_close(module(x), wanted)


def test_new_weights_are_read_where_they_lie(cuda: FakeCuda, fetches: list[object]) -> None:
    model, x = Bounded(), torch.randn(128, 160)
    module = gh.compile(model, x, target="cuda", progress=False)
    module(x)
    uploads = cuda.calls.count("cuMemcpyHtoDAsync_v2")
    other = Bounded()
    module.update_weights(other)
    torch.testing.assert_close(module(x), other(x))
    assert not fetches
    assert cuda.calls.count("cuMemcpyHtoDAsync_v2") == uploads + 1, "the small one is a copy"
    with torch.no_grad():
        model.table.zero_()
    with pytest.warns(StaleWeights):
        torch.testing.assert_close(module(x), other(x))
    module.set_constant("table", np.ones((128, 160), np.float32))
    torch.testing.assert_close(module(x), x.clamp(max=1) + other.shift)


def test_new_weights_may_lie_in_any_order(cuda: FakeCuda, fetches: list[object]) -> None:
    model, x = Bounded(), torch.randn(128, 160)
    module = gh.compile(model, x, target="cuda", progress=False)
    wanted = model(x)
    module(x)
    turned = torch.randn(160, 128).T
    module.set_constant("table", turned)
    torch.testing.assert_close(module(x), torch.minimum(x, turned) + model.shift)
    assert not fetches
    module.update_weights(model.state_dict())
    torch.testing.assert_close(module(x), wanted)


def test_new_weights_of_another_kind_are_refused(cuda: FakeCuda, fetches: list[object]) -> None:
    model, x = Bounded(), torch.randn(128, 160)
    module = gh.compile(model, x, target="cuda", progress=False)
    with pytest.raises(ExecutionError, match=r"float32\[128, 160\], got float64"):
        module.set_constant("table", torch.zeros(128, 160, dtype=torch.float64))
    with pytest.raises(ExecutionError, match=r"got shape \[160, 128\]"):
        module.set_constant("table", torch.zeros(160, 128))
    with pytest.raises(ExecutionError, match="sparse"):
        module.set_constant("table", torch.zeros(128, 160).to_sparse())
    torch.testing.assert_close(module(x), model(x))


def test_modules_of_the_host_take_copies(fetches: list[object]) -> None:
    model, x = Bounded(), torch.randn(128, 160)
    module = gh.compile(model, x, target="cpu", progress=False)
    other = Bounded()
    module.update_weights(other.state_dict())
    torch.testing.assert_close(module(x), other(x))


def test_memory_that_kernels_cannot_read_is_copied(cuda: FakeCuda, fetches: list[object]) -> None:
    model, x = Bounded(), torch.randn(128, 160)
    whole = torch.randn(128 * 160 + 1)
    model.table = nn.Parameter(whole[1:].view(128, 160), requires_grad=False)
    assert model.table.data_ptr() % 16
    module = gh.compile(model, x, target="cuda", progress=False)
    torch.testing.assert_close(module(x), model(x))
    assert fetches == [(128, 160)]


def test_forms_and_folded_ones_are_made_on_the_host(cuda: FakeCuda, fetches: list[object]) -> None:
    class Turned(Bounded):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ (self.table * 2).T

    model, x = Turned(), torch.randn(24, 160)
    module = gh.compile(model, x, target="cuda", progress=False)
    assert fetches
    torch.testing.assert_close(module(x), model(x), atol=1e-4, rtol=1e-4)


def test_they_are_saved_with_their_elements(
    cuda: FakeCuda, fetches: list[object], tmp_path: Path
) -> None:
    model, x = Bounded(), torch.randn(128, 160)
    graph = gh.trace(model, x)
    held = next(n.attrs["data"] for n in graph.nodes if n.attrs.get("name") == "table")
    assert isinstance(held, DeviceArray)
    assert np.array_equal(pickle.loads(pickle.dumps(held)), model.table.numpy())
    copied = np.array(held)
    copied[:] = 0
    assert np.array_equal(held, model.table.numpy()), "a copy was asked for"
    gh.compile(graph, progress=False).save(tmp_path / "host")
    torch.testing.assert_close(gh.load(tmp_path / "host")(x), model(x))


class Counting(nn.Module):
    """A cache that every run changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.randn(128, 160))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.cache + x
        self.cache.copy_(y * 0.5)
        return y


@pytest.fixture
def counting(cuda: FakeCuda, fetches: list[object]) -> tuple[gh.Module, torch.Tensor, torch.Tensor]:
    """A module, its input, and what its cache holds."""
    model, x = Counting(), torch.randn(128, 160)
    module = gh.compile(model, x, target="cuda", progress=False)
    return module, x, model.cache.clone()


def test_variables_stay_on_the_device(
    counting: tuple[gh.Module, torch.Tensor, torch.Tensor],
    cuda: FakeCuda,
    fetches: list[object],
) -> None:
    module, x, held = counting
    for _ in range(3):
        torch.testing.assert_close(module(x), held + x)
        held = (held + x) * 0.5
    assert not fetches
    assert cuda.calls.count("cuMemcpyHtoDAsync_v2") == 0, "nothing of the host's is read"
    (name,) = module.constant_names()
    node = next(n for n in module.graph.updates if n.attrs["name"] == name)
    np.testing.assert_allclose(module.source_array(node), held.numpy(), rtol=1e-5, atol=1e-5)


def test_variables_are_what_they_were_when_the_model_was_compiled(
    cuda: FakeCuda, fetches: list[object]
) -> None:
    model, x = Counting(), torch.randn(128, 160)
    module = gh.compile(model, x, target="cuda", progress=False)
    held = model.cache.clone()
    with torch.no_grad():
        model(x)
    assert not torch.equal(model.cache, held)
    with pytest.warns(StaleWeights):
        torch.testing.assert_close(module(x), held + x)
    assert not fetches


def test_variables_come_to_the_host_when_it_asks(
    counting: tuple[gh.Module, torch.Tensor, torch.Tensor],
) -> None:
    module, x, held = counting
    (node,) = module.graph.updates
    np.testing.assert_array_equal(module.source_array(node), held.numpy())
    with module.unchanged():
        torch.testing.assert_close(module(x), held + x)
    torch.testing.assert_close(module(x), held + x)


def test_variables_are_left_as_they_were_before_the_first_run(
    counting: tuple[gh.Module, torch.Tensor, torch.Tensor],
) -> None:
    module, x, held = counting
    with module.unchanged():
        module(x)
    torch.testing.assert_close(module(x), held + x)


def test_variables_are_set_and_saved_before_the_first_run(
    counting: tuple[gh.Module, torch.Tensor, torch.Tensor], tmp_path: Path
) -> None:
    module, x, held = counting
    module.save(tmp_path / "saved")
    torch.testing.assert_close(gh.load(tmp_path / "saved")(x), held + x)
    (name,) = module.constant_names()
    module.set_constant(name, np.ones((128, 160), np.float32))
    torch.testing.assert_close(module(x), x + 1)
