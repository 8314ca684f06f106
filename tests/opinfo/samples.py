"""Which of PyTorch's samples stand for an op: at most `LIMIT`, spread over its list.

The samples of an op are drawn after the generators were seeded with its name, so they are the same
whatever else runs. An op that does not take float32 (bitwise ops) is tried with int64, one that
takes neither with complex64, and one of half floats alone with float16.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

LIMIT = 8
"""Samples of one op. Lists hold up to 1,440, which differ in one argument at a time."""

LARGEST = 200_000
"""Elements of all tensors of a sample: the reference executor is no place for large ones."""


@cache
def op_infos() -> dict[str, Any]:
    """PyTorch's table, by full name ("addmm.decomposed"); importing it takes ten seconds.

    It also forbids the whole process to assign to flags of `torch.backends`, as other tests do.
    """
    from torch.testing._internal.common_methods_invocations import op_db

    setattr(torch.backends, "__allow_nonbracketed_mutation_flag", True)
    return {op.full_name: op for op in op_db}


def samples_of(name: str) -> Iterator[Any]:
    """First, last, and evenly between them."""
    op = op_infos()[name]
    dtype = dtype_for(op)
    if dtype is None:
        return
    seed = zlib.crc32(name.encode())
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  # PyTorch's generators of samples draw from it
    random.seed(seed)
    with_gradient = op.supports_autograd and dtype.is_floating_point
    drawn = op.sample_inputs("cpu", dtype, requires_grad=with_gradient)
    found = [s for s in drawn if _size(s) <= LARGEST]
    count = min(LIMIT, len(found))
    places = {round(i * (len(found) - 1) / max(count - 1, 1)) for i in range(count)}
    yield from (found[p] for p in sorted(places))


def dtype_for(op: Any) -> Any:
    """The element type that an op is tried with; None where it takes none of them.

    Some are tested by PyTorch on GPUs alone, and run here all the same.
    """
    tried = (torch.float32, torch.int64, torch.complex64, torch.float8_e4m3fn, torch.float16)
    device = "cpu" if op.supported_dtypes("cpu") else "cuda"
    takes = (d for d in tried if op.supports_dtype(d, device))
    return next(takes, None)


def _size(sample: Any) -> int:
    leaves = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    return sum(leaf.numel() for leaf in leaves if isinstance(leaf, torch.Tensor))
