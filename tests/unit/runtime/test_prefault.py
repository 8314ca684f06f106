"""Memory for packed weights is asked for ahead: it is enough, used once, and too much goes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glasshouse as gh
from glasshouse import nn
from glasshouse.backend.cpu import matmul
from glasshouse.runtime import prefault
from glasshouse.runtime.prefault import Prefaulted, prefaulted_for

MB = 1 << 20
RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def resident() -> int:
    """Bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def test_what_is_too_much_goes_back() -> None:
    before = resident()
    prefaulted = Prefaulted(256 * MB)
    prefaulted._thread.join()
    assert resident() - before > 200 * MB
    block = prefaulted.take(64 * MB)
    assert block is not None
    assert block.size == 256 * MB
    assert 40 * MB < resident() - before < 120 * MB
    assert not block.any()
    assert prefaulted.take(MB) is None, "it is taken once"


def test_little_is_not_worth_a_thread() -> None:
    assert Prefaulted(prefault.SMALLEST - 1).take(1) is None


def test_shared_weights_are_counted_once() -> None:
    weight = gh.from_numpy(floats(2048, 2560))  # 20 MB
    module = gh.compile(lambda x: (x @ weight, (x + 1) @ weight), floats(1, 2048))
    block = prefaulted_for(module.program).take(0)
    assert block is not None
    assert block.size == 2048 * 2560 * 4


def test_weights_that_are_read_where_they_lie_need_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "_CACHED", 0)  # as in a model of many weights
    layer = torch.nn.Linear(2048, 2560, bias=False)  # 20 MB
    module = gh.compile(layer, torch.zeros(1, 2048))
    assert not module.plan.packed
    assert prefaulted_for(module.program).take(0) is None


def test_packed_forms_that_are_larger_go_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Winograd's are up to four times as large as the weights."""
    monkeypatch.setattr(prefault, "SMALLEST", 1)
    model = nn.Sequential(nn.Conv2d(32, 64, 3, padding=1), nn.Conv2d(64, 64, 3, padding=1))
    x = floats(1, 32, 16, 16)
    module = gh.compile(model, x)
    np.testing.assert_allclose(module(x), model(gh.from_numpy(x)).numpy(), rtol=1e-4, atol=1e-5)
    module.set_constant(
        module.constant_names()[0], np.zeros_like(module.source_array(_first(module)))
    )
    assert not np.allclose(module(x), model(gh.from_numpy(x)).numpy())


def _first(module: Any) -> Any:
    return module._by_name[module.constant_names()[0]].node
