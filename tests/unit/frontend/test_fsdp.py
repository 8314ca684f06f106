"""FSDP2 frees and refills parameters by resizing their storages: compiled graphs must let it."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse.runtime.tensor_memory import tensor_array


@pytest.mark.slow
def test_two_ranks_train_as_in_eager_with_every_graph_compiled(tmp_path):
    script = Path(__file__).with_name("fsdp_rank.py")
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "GLASSHOUSE_THREADS": "1"}
    outs = [tmp_path / f"rank{rank}" for rank in range(2)]
    ranks = [
        subprocess.Popen(
            [sys.executable, script, str(rank), "2", str(tmp_path / "store"), str(out)],
            env=environment, stderr=subprocess.PIPE, text=True,
        )
        for rank, out in enumerate(outs)
    ]  # fmt: skip
    try:
        said = [rank.communicate(timeout=300)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(said)
    for out in outs:
        apart, forward, backward, native = out.read_text().split()
        assert float(apart) < 1e-6
        # Both blocks are one graph, the last layer is another; each has a backward graph.
        assert (forward, backward, native) == ("2", "2", "True")


def test_compiling_and_calling_leave_storages_resizable():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
    x = torch.randn(2, 4)
    module = gh.compile(model, x)
    module(x)
    module(x.t().contiguous().t())  # not row by row: the general way
    module.set_constant("0.weight", model[0].weight)
    for tensor in (x, *model.parameters()):
        assert tensor.untyped_storage().resizable()


@pytest.mark.parametrize(
    "dtype",
    ["bool", "uint8", "uint16", "int8", "int64", "float16", "float32", "float64", "complex64"],
)
def test_an_array_lies_where_its_tensor_does(dtype):
    tensor = torch.arange(24).reshape(2, 3, 4).to(getattr(torch, dtype)).transpose(0, 2)[1:]
    array = tensor_array(tensor)
    assert array.dtype == np.dtype(dtype)
    assert array.ctypes.data == tensor.data_ptr()
    assert tensor.untyped_storage().resizable()
    assert np.array_equal(array, tensor.clone().numpy())


def test_bfloat16_comes_as_its_bits_and_nothing_has_its_shape():
    tensor = torch.randn(3, 5).bfloat16()
    assert np.array_equal(tensor_array(tensor), tensor.clone().view(torch.int16).numpy().view("u2"))
    assert tensor_array(torch.empty(0, 3)).shape == (0, 3)


def test_an_array_keeps_its_tensor():
    array = tensor_array(torch.full((1000,), 3.0))
    torch.full((1000,), 4.0)  # would take the place, were it free
    assert array.min() == array.max() == 3.0


def test_a_tensor_is_written_through_its_array():
    tensor = torch.zeros(4)
    tensor_array(tensor)[1] = 2
    assert tensor.tolist() == [0, 2, 0, 0]
