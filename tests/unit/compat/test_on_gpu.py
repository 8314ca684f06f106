"""Scripts for AITemplate and Hidet that ask for a GPU, with their import lines changed, on a driver
that runs kernels without one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import glasshouse.compat.hidet as hidet
from fake_cuda import FakeCuda, fake_cuda
from glasshouse.compat.aitemplate.compiler import Model, compile_model
from glasshouse.compat.aitemplate.frontend import Tensor
from glasshouse.compat.aitemplate.frontend import nn as ait_nn
from glasshouse.compat.aitemplate.testing import Target, detect_target
from glasshouse.compat.hidet.graph import nn, ops
from glasshouse.errors import GlasshouseError, Unsupported
from glasshouse.numpy_ref import run


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    with fake_cuda(monkeypatch) as fake:
        yield fake


class Attention(nn.Module):
    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def split(self, x: hidet.Tensor) -> hidet.Tensor:
        batch, length, _ = x.shape
        return x.reshape([batch, length, self.heads, self.size]).rearrange([[0, 2], [1], [3]])

    def forward(self, x: hidet.Tensor, mask: hidet.Tensor) -> hidet.Tensor:
        batch, length, _ = x.shape
        q, k, v = (self.split(f(x)) for f in (self.query, self.key, self.value))
        scores = ops.matmul(q, ops.transpose(k, [-1, -2])) / math.sqrt(self.size) + mask
        out = ops.matmul(ops.softmax(scores, axis=-1), v)
        return out.reshape([batch, self.heads, length, self.size]).rearrange([[0], [2], [1, 3]])


def test_a_flow_graph_runs_on_the_device_of_its_inputs(cuda: FakeCuda) -> None:
    x = hidet.randn([1, 6, 16], device="cuda")
    mask = hidet.ones([1, 6], dtype="int32", device="cuda")
    graph = Attention().flow_graph_for(inputs=[x, mask])
    assert graph.device == "cuda"
    with hidet.graph.PassContext() as ctx:
        ctx.profile_pass_instrument(print_stdout=False)
        graph_opt = hidet.graph.optimize(graph)
        assert ctx.target.name == "cpu", "as it was"
    cuda.forget()
    y = graph_opt(x, mask)
    assert "cuGraphLaunch" in cuda.calls
    assert graph_opt.module.backend.target.name == "cuda"
    assert y.device == "cuda"
    (wanted,) = run(graph, [x.numpy(), mask.numpy()])
    np.testing.assert_allclose(y.numpy(), wanted, 1e-4, 1e-5)
    assert graph_opt.latency(warmup=1, number=2, repeat=1) > 0


def test_a_module_on_the_gpu_takes_its_graphs_there(cuda: FakeCuda) -> None:
    model = nn.Linear(4, 3).cuda()
    x = hidet.randn([2, 4])
    assert model.flow_graph_for([x]).device == "cuda"
    assert model.cpu().flow_graph_for([x]).device == "cpu"
    assert x.cuda().device == "cuda"
    assert x.cuda().cpu().device == "cpu"


def test_devices_that_are_not_there() -> None:
    with pytest.raises(Unsupported, match="no device 'tpu' here"):
        hidet.zeros([2], device="tpu")
    with pytest.raises(Unsupported, match="no device 'cuda:1' here"):
        hidet.zeros([2], device="cuda:1")
    graph = nn.Linear(4, 3).flow_graph_for([hidet.randn([2, 4], device="cuda")])
    with pytest.raises(GlasshouseError, match=r"driver|GPU"):
        hidet.graph.optimize(graph)
    with pytest.raises(GlasshouseError, match=r"driver|GPU"):
        graph(hidet.randn([2, 4]))


class Mlp(ait_nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.dense1 = ait_nn.Linear(hidden, 4 * hidden, specialization="fast_gelu")
        self.dense2 = ait_nn.Linear(4 * hidden, hidden)
        self.layernorm = ait_nn.LayerNorm(hidden, eps=1e-5)

    def forward(self, x: Tensor) -> Tensor:
        return self.layernorm(self.dense2(self.dense1(x)))


def test_the_inference_tutorial_in_half_floats(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Compiled, run into a tensor, saved with its weights, and loaded again."""
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: True)
        target = detect_target(use_fp16_acc=True)
    assert isinstance(target, Target)
    assert target.name() == "cuda"
    torch.manual_seed(0)
    hidden, batch = 16, 24
    dense1, dense2 = torch.nn.Linear(hidden, 4 * hidden), torch.nn.Linear(4 * hidden, hidden)
    norm = torch.nn.LayerNorm(hidden)
    theirs = torch.nn.Sequential(dense1, torch.nn.GELU(approximate="tanh"), dense2, norm).half()
    parts = {"dense1": dense1, "dense2": dense2, "layernorm": norm}
    weights = {f"{k}_{n}": p.detach() for k, m in parts.items() for n, p in m.named_parameters()}
    model = Mlp(hidden)
    model.name_parameter_tensor()
    y = model(Tensor(shape=[batch, hidden], name="X", dtype="float16", is_input=True))
    y._attrs["is_output"] = True
    y._attrs["name"] = "Y"
    x, made = torch.randn(batch, hidden).half(), torch.empty(batch, hidden).half()
    with compile_model(y, target, tmp_path, "mlp", constants=weights) as module:
        module.run_with_tensors({"X": x}, {"Y": made})
        torch.testing.assert_close(made, theirs(x).detach(), rtol=2e-3, atol=4e-3)
        mean, _, _ = module.benchmark_with_tensors([x], [made], count=3)
        assert mean > 0
    again = torch.empty_like(made)
    Model(tmp_path / "mlp").run_with_tensors([x], [again])
    assert torch.equal(again, made)
