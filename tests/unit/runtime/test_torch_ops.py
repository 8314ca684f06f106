"""Ops in PyTorch's words against their NumPy meaning, sample by sample, on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glasshouse.backend.cuda.order import ROUTINES as ORDERS
from glasshouse.backend.cuda.places import ROUTINES as PLACES
from glasshouse.backend.cuda.target import FALLBACKS
from glasshouse.ir.dtype import DType, to_storage
from glasshouse.ir.op import op_named
from glasshouse.numpy_ref.executor import run_node
from glasshouse.runtime.tensor_memory import tensor_array
from glasshouse.runtime.torch_ops.run import OPS, exact, is_spelled, run_in_torch
from ops.harness import apply, assert_close, attrs_of, typed_inputs, types_of
from ops.samples import SAMPLES

HOST = {"opaque", "cond", "while_loop", "scan"}
"""What the table leaves to the host, or to whoever brought it."""
SOMETIMES = {
    "avg_pool_grad", "conv", "conv_transpose", "fft", "grouped_matmul", "max_pool_grad",
    "recurrent", "resize", "resize_grad",
}  # fmt: skip
"""What has a kernel for some sizes and not for others."""


def tensor(array: np.ndarray, dtype: DType) -> torch.Tensor:
    stored = np.ascontiguousarray(to_storage(array, dtype)).reshape(np.shape(array))
    if dtype.name == "bfloat16":
        return torch.from_numpy(stored.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(stored.copy())


def array(made: torch.Tensor, dtype: DType) -> np.ndarray:
    assert made.dtype is getattr(torch, dtype.name)
    return tensor_array(made.float() if dtype.name == "bfloat16" else made)


def test_what_no_gpu_kernel_computes_has_a_spelling() -> None:
    assert set(OPS) | HOST == {*FALLBACKS, *PLACES, *ORDERS, *SOMETIMES}


@pytest.mark.parametrize("name", sorted(OPS))
def test_it_is_what_the_op_means(name: str) -> None:
    op = op_named(name)
    done = 0
    for position, sample in enumerate(SAMPLES[name]):
        for dtype in sample.dtypes if position == 0 else sample.dtypes[:2]:
            given = typed_inputs(sample, dtype)
            _, node = apply(op, types_of(given, {}), attrs_of(op, sample, {}))
            if not is_spelled(node) or (name == "lu" and not node.attrs["pivot"]):
                continue  # PyTorch has LU without pivots on GPUs alone
            many = run_in_torch(node, [tensor(a, d) for d, a in given], {})
            wanted = run_node(node, [a for _, a in given])
            for ours, theirs, value in zip(many, wanted, node.outputs, strict=True):
                kind = value.type.dtype
                got = array(ours, kind)
                assert_close(got, theirs, kind.name, sample.tol * 20, f"{name} {dtype}")
            done += 1
    assert done


def test_places_from_the_end_and_places_that_repeat() -> None:
    x, places = torch.zeros(4), torch.tensor([-1, 0, 3])
    made = OPS["scatter"](x, places, torch.tensor([1.0, 2.0, 4.0]), axis=0, mode="add")
    assert made.tolist() == [2.0, 0.0, 0.0, 5.0]
    assert x.tolist() == [0.0] * 4, "the operand is another value's memory"


def test_tf32_is_as_before() -> None:
    before = torch.backends.cudnn.allow_tf32
    with exact():
        assert not torch.backends.cudnn.allow_tf32
    assert torch.backends.cudnn.allow_tf32 is before
