"""After an export PyTorch holds nothing of the graph that was traced."""

from __future__ import annotations

import gc
from contextlib import suppress

import pytest
import torch
from torch.fx.experimental import proxy_tensor

import glasshouse as gh
from glasshouse.frontend.torch.tracing import forgotten_proxies as where
from glasshouse.frontend.torch.tracing.forgotten_proxies import forgotten_proxies


def _nodes() -> set[int]:
    gc.collect()
    return {id(o) for o in gc.get_objects() if type(o) is torch.fx.Node}


def test_a_trace_leaves_no_nodes_of_pytorchs() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    before = _nodes()
    graph = gh.trace(model, torch.ones(2, 3))
    assert _nodes() <= before
    assert len(graph) > 0


def test_the_table_is_empty_after_an_error() -> None:
    table = proxy_tensor._FAKE_TENSOR_ID_TO_PROXY_MAP_FOR_EXPORT
    table[1] = None
    with suppress(ValueError), forgotten_proxies():
        raise ValueError("refused")
    assert not table


def test_a_pytorch_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(where, "_TABLE", "_no_such_table")
    with forgotten_proxies():
        pass
