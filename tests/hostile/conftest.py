"""PyTorch answers for hostile values with kernels of its own, the same on every machine.

oneDNN takes some ops over where the processor has AVX-512, with other results: its gelu of inf is
NaN, and that of the largest float32 is inf.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(scope="package", autouse=True)
def kernels_of_pytorch() -> Iterator[None]:
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    yield
    torch._C._set_mkldnn_enabled(before)
