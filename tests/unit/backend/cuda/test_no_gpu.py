"""What is said where there is no GPU that kernels can run on, or a tensor is on another one."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode

import glasshouse as gh
from fake_cuda import FakeCuda, fake_cuda
from glasshouse.backend.cuda import driver as driver_file
from glasshouse.backend.cuda.torch_device import TorchOnGpu, torch_on
from glasshouse.errors import ExecutionError, Unsupported
from glasshouse.ir import GraphBuilder
from glasshouse.ir.dtype import float32
from glasshouse.runtime.device_tensors import taken


def found(library: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The driver, where loading a library gives this one, or raises."""

    def load(name: str) -> Any:
        assert name == "libcuda.so.1"
        if isinstance(library, Exception):
            raise library
        return library

    stand_in = SimpleNamespace(**{**vars(ctypes), "CDLL": load})
    monkeypatch.setattr(driver_file, "ctypes", stand_in)
    return driver_file.driver.__wrapped__()


def test_no_driver_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExecutionError, match=r"no GPU to run on: libcuda\.so\.1, NVIDIA"):
        found(OSError("not there"), monkeypatch)


def test_an_old_driver_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExecutionError, match=r"the driver is too old .*CUDA 12 or later is needed"):
        found(SimpleNamespace(), monkeypatch)


def test_no_gpu_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda()
    fake.fail("cuInit", 100)
    try:
        with pytest.raises(ExecutionError, match="no GPU to run on: fake status 100"):
            found(fake.library, monkeypatch)
    finally:
        fake.fail("cuInit", 0)
    fake.be(devices=0)
    try:
        with pytest.raises(ExecutionError, match="no GPU to run on: the driver sees no GPU"):
            found(fake.library, monkeypatch)
    finally:
        fake.be()


def test_an_old_chip_is_one_line_before_anything_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with fake_cuda(monkeypatch) as fake:
        fake.be(7, 5)
        with pytest.raises(Unsupported, match=r"Fake GPU has compute capability 7\.5: "):
            gh.compile(lambda x: x + 1, torch.ones(3), target="cuda", progress=False)
        assert "cuDevicePrimaryCtxRetain" not in fake.calls


def test_a_call_inside_of_another_graph_says_what_to_do() -> None:
    driver = object.__new__(driver_file.Driver)
    driver.library = SimpleNamespace()
    driver.cuStreamSynchronize = lambda: 900  # type: ignore[attr-defined]  # made by name
    with pytest.raises(ExecutionError, match=r"status 900\s+.*outside of torch\.cuda\.graph"):
        driver.call("cuStreamSynchronize")


def test_a_tensor_of_another_gpu_is_named() -> None:
    builder = GraphBuilder()
    value = builder.finish(builder.input(float32, (2,)).apply("relu")).inputs[0]
    beside = TorchOnGpu(torch, 0)
    with FakeTensorMode():
        here, other = (torch.empty(2, device=f"cuda:{n}") for n in (0, 1))
    assert beside.holds(here)
    with pytest.raises(ExecutionError, match="is on cuda:1, and this module runs on cuda:0"):
        taken(torch, beside, value, other, 0)
    with pytest.raises(ExecutionError, match="on cuda:0 like the other inputs, got one on cpu"):
        taken(torch, beside, value, torch.ones(2), 0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="PyTorch can use a GPU here")
def test_pytorch_without_gpus_is_not_beside_one() -> None:
    assert torch_on(0) is None


class _OfDict(torch.nn.Module):
    def forward(self, batch: dict[str, list[torch.Tensor]]) -> torch.Tensor:
        return batch["rows"][0] * 2


def test_a_tensor_inside_of_an_argument_chooses_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def ready(target: object) -> None:
        asked.append(target)
        raise Unsupported("seen")

    monkeypatch.setattr("glasshouse.runtime.compiler.get_ready", ready)
    with FakeTensorMode():
        there = torch.empty(2, 3, device="cuda")
    for batch in ({"rows": [there]}, {"rows": [torch.ones(2, 3)]}):
        with pytest.raises(Unsupported, match="seen"):
            gh.compile(_OfDict(), batch)
    assert asked == ["cuda", None]


_FOR_A_GPU = """
import sys
import glasshouse as gh
from glasshouse.ir import GraphBuilder
b = GraphBuilder()
gh.compile(b.finish(b.input("float32", (4,)).apply("exp")), target="cuda", arch="sm_90")
print([name for name in sys.modules if name.startswith("glasshouse.backend.cpu")])
"""


def test_compiling_for_a_gpu_imports_no_other_backend() -> None:
    """That of the CPU is 60 files, which a first result would wait for."""
    told = subprocess.run(
        [sys.executable, "-c", _FOR_A_GPU], check=True, capture_output=True, text=True
    )
    assert told.stdout.splitlines()[-1] == "[]"
