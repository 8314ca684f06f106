"""Equal layers are lowered once, and only equal ones: each keeps its own weights and results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn
from glasshouse.backend.cpu.target import CPU
from glasshouse.lower import lower as lowering
from glasshouse.numpy_ref.executor import run as reference


def layers(*sizes: tuple[int, int]) -> nn.Sequential:
    return nn.Sequential(*(m for a, b in sizes for m in (nn.Linear(a, b), nn.GELU())))


def test_equal_layers_are_lowered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[Any] = []
    plain = lowering.lower_group

    def counted(*arguments: Any) -> Any:
        lowered.append(arguments[0])
        return plain(*arguments)

    monkeypatch.setattr(lowering, "lower_group", counted)
    graph = gh.optimize(gh.trace(layers((8, 8), (8, 8), (8, 8), (8, 4)), gh.spec((3, 8))))
    program = lowering.lower(graph, CPU)
    assert (len(program.steps), len(program.kernels), len(lowered)) == (4, 2, 2)


def test_like_layers_with_other_weights_numbers_and_axes() -> None:
    """Same ops and shapes; what differs is data, a number, an axis, an operand that comes twice."""

    def model(x: Any, y: Any) -> Any:
        a = gh.relu(x * 2.0).sum(0) + gh.relu(y * 3.0).sum(0)
        b = gh.relu(x * 2.0).sum(1) + gh.relu(y * 2.0).sum(1)
        return a, b, gh.softmax(x @ y, 0), gh.softmax(y @ x, 0), gh.softmax(x @ x, 0)

    graph = gh.trace(model, gh.spec((6, 6)), gh.spec((6, 6)))
    random = np.random.default_rng(0)
    inputs = [random.standard_normal((6, 6), np.float32) for _ in range(2)]
    for got, wanted in zip(gh.compile(graph)(*inputs), reference(graph, inputs), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
