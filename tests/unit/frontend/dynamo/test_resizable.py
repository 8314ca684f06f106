"""FSDP2 frees and refills parameters by resizing their storages: compiled graphs must let it."""

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse.runtime.tensor_memory import tensor_array


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
