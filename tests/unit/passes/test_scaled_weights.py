"""Weights with a norm's scale in them: the same bits on the host and where a tensor lies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse.ir import GraphBuilder
from glasshouse.ir.dtype import DType, bfloat16, float16, from_storage, to_storage
from glasshouse.ir.graph import Value
from glasshouse.passes.subgraph_rewrite.scaled_weights import largest, scaled
from glasshouse.runtime import late_array
from glasshouse.runtime.late_array import DeviceArray

WIDE = 256


def _tensor(data: Any, dtype: DType) -> torch.Tensor:
    return torch.from_numpy(np.asarray(data, np.float32)).to(getattr(torch, dtype.name))


def _constants(data: Any, dtype: DType) -> tuple[Value, Value]:
    """On the host, and as data of a device."""
    builder = GraphBuilder()
    host = builder.constant(np.asarray(data, np.float32), dtype)
    there = DeviceArray(_tensor(data, dtype), np.dtype(dtype.storage))
    return host, builder.stored(there, dtype)


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
def test_the_same_bits_on_the_host_and_elsewhere(dtype: DType) -> None:
    random = np.random.default_rng(0)
    weight = random.standard_normal((64, 512)) * 0.05
    weight[0], weight[1], weight[2, 3] = 0, -1e-6, 300.0  # -1e-6: no normal number of float16
    scale, shift = random.uniform(-2, 2, 512), random.standard_normal(512)
    scale[7], shift[8] = -0.0, 1e-7
    along = [_constants(v, dtype)[0] for v in (scale, shift)]
    host, there = _constants(weight, dtype)
    (mine, known), (held, told) = scaled(host, *along), scaled(there, *along)
    assert isinstance(held, DeviceArray)
    np.testing.assert_array_equal(mine.view(np.uint16), np.asarray(held).view(np.uint16))
    np.testing.assert_array_equal(known, told)
    w, g, b = (from_storage(v.node.attrs["data"], dtype).astype(np.float64) for v in (host, *along))
    np.testing.assert_array_equal(mine, to_storage((w * g).astype(np.float32), dtype))
    rounded = from_storage(mine, dtype).astype(np.float64)
    exact = np.stack([rounded.sum(1), w @ b])
    sizes = np.stack([np.abs(rounded).sum(1), np.abs(w) @ np.abs(b)])
    assert (np.abs(known - exact) <= 2.0**-24 * np.abs(exact) + 2.0**-43 * sizes).all()


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
@pytest.mark.parametrize("worst", [-3.0, 0.0, np.inf, -np.inf, np.nan])
def test_the_largest_magnitude(dtype: DType, worst: float) -> None:
    data = np.zeros((3, 5))
    data[1, 2], data[2, 2] = worst, 2.0 if worst else 0.0
    for value in _constants(data, dtype):
        np.testing.assert_equal(largest(value), abs(worst))


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out, self.up = nn.Linear(WIDE, WIDE), nn.Linear(WIDE, WIDE)
        self.norm = nn.LayerNorm(WIDE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.up(self.norm(x + self.out(x)))
        return made


def test_weights_of_a_device_are_scaled_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling copies none of them to the host, and leaves the model's own as they were."""
    fetched: list[tuple[int, ...]] = []
    inner = DeviceArray.fetched
    monkeypatch.setattr(late_array, "DEVICES", ("cpu",))

    def counted(self: DeviceArray) -> np.ndarray:
        fetched.append(self.shape)
        return inner(self)

    monkeypatch.setattr(DeviceArray, "fetched", counted)
    model, x = _Layer().half().eval(), torch.randn(64, WIDE).half()
    nn.init.uniform_(model.norm.weight, 0.5, 2.0)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with torch.no_grad():
        graph = gh.trace(model, x, freeze=False)
    module = gh.compile(graph, target="cuda", arch="sm_90", progress=False)
    assert any("normedproduct" in s.kernel.name for s in module.program.steps)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    held = [n.attrs["data"] for n in module.program.graph.nodes if n.op.name == "constant"]
    there = [d for d in held if isinstance(d, DeviceArray)]
    wanted = (before["up.weight"].float() * before["norm.weight"].float()).half()
    assert any(torch.equal(d.tensor, wanted) for d in there)
    assert not fetched
