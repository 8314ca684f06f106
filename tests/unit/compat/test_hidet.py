"""A script written for Hidet, with its import lines changed."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch

import glasshouse.compat.hidet as hidet
from glasshouse.compat.hidet import Tensor
from glasshouse.compat.hidet.graph import nn, ops
from glasshouse.errors import Unsupported
from glasshouse.numpy_ref import run


class Attention(nn.Module):
    def __init__(self, width: int = 12, heads: int = 3) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.q_layer = nn.Linear(width, width)
        self.k_layer = nn.Linear(width, width)
        self.v_layer = nn.Linear(width, width)

    def split(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        return x.reshape([batch, length, self.heads, self.size]).rearrange([[0, 2], [1], [3]])

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (self.split(f(x)) for f in (self.q_layer, self.k_layer, self.v_layer))
        scores = ops.matmul(q, ops.transpose(k, [-1, -2])) / math.sqrt(self.size) + mask
        out = ops.matmul(ops.softmax(scores, axis=-1), v)
        return out.reshape([batch, self.heads, length, self.size]).rearrange([[0], [2], [1, 3]])


def test_the_flow_graph() -> None:
    model = Attention()
    x, mask = hidet.randn([1, 5, 12]), hidet.ones([1, 5], dtype="int32")
    graph = model.flow_graph_for(inputs=[x, mask])
    lines = str(graph).splitlines()
    assert lines[:4] == [
        "Graph(x: float32[1, 5, 12], x_1: int32[1, 5]){",
        "  c = Constant(float32[12, 12])",
        "  x_2: float32[1, 5, 12] = Matmul(x, c)",
        "  c_1 = Constant(float32[12])",
    ]
    assert "  x_4: float32[1, 5, 3, 4] = Reshape(x_3, shape=[1, 5, 3, 4])" in lines
    assert "  x_5: float32[3, 5, 4] = Rearrange(x_4, plan=[[0, 2], [1], [3]])" in lines
    assert any(re.search(r"= Cast\(x_1, dtype=float32\)", line) for line in lines)
    (out,) = run(graph, [x.numpy(), mask.numpy()])
    np.testing.assert_allclose(out, model(x, mask).numpy(), 1e-6)
    np.testing.assert_allclose(out, _wanted(model, x.numpy(), mask.numpy()), 1e-4, 1e-5)


def _wanted(model: Attention, x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    q, k, v = (
        torch.tensor(x @ f.weight.numpy() + f.bias.numpy()).view(1, 5, 3, 4).transpose(1, 2)
        for f in (model.q_layer, model.k_layer, model.v_layer)
    )
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, torch.tensor(mask).float())
    return out.transpose(1, 2).reshape(1, 5, 12).numpy()


def test_printing_a_model() -> None:
    assert repr(Attention()) == (
        "Attention(\n"
        "  (q_layer): Linear(in_features=12, out_features=12)\n"
        "  (k_layer): Linear(in_features=12, out_features=12)\n"
        "  (v_layer): Linear(in_features=12, out_features=12)\n"
        ")"
    )


def test_an_integer_mask_is_added_to_scores() -> None:
    scores = hidet.zeros([2, 3]) + hidet.ones([1, 3], dtype="i32", device="cuda")
    assert scores.dtype.name == "float32"
    assert scores.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_ops() -> None:
    x = hidet.asarray([[1.0, -2.0], [3.0, 4.0]])
    assert ops.transpose(x).tolist() == [[1, 3], [-2, 4]]
    assert ops.relu(x).tolist() == [[1, 0], [3, 4]]
    assert ops.concat([x, x], axis=0).shape == (4, 2)
    assert ops.sum(x, dims=[0], keep_dim=True).tolist() == [[4, 2]]
    assert ops.unsqueeze(x, [0]).shape == (1, 2, 2)
    assert hidet.from_torch(torch.ones(2)).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("where", "name"), [(hidet, "cuda"), (ops, "erf_inverse"), (nn, "GRU"), (hidet.graph, "magic")]
)
def test_what_is_missing_names_what_is_there(where, name: str) -> None:
    with pytest.raises(Unsupported, match=rf"has no {name} here; it has .*[a-z]"):
        getattr(where, name)
