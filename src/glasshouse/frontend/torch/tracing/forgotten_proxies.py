"""The table of traced tensors that PyTorch's exporter keeps until the next export.

It looks there for tensors that a model has kept from being traced. Each entry holds a node, and so
the whole graph with its fake tensors: 10 MB for a Llama of 22 layers, for as long as the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch.fx.experimental import proxy_tensor

_TABLE = "_FAKE_TENSOR_ID_TO_PROXY_MAP_FOR_EXPORT"


@contextmanager
def forgotten_proxies() -> Iterator[None]:
    """The table is empty after it, where this version of PyTorch has one."""
    try:
        yield
    finally:
        getattr(proxy_tensor, _TABLE, {}).clear()
