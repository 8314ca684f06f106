"""Buffers that a caller gives for outputs may lie on inputs; never on each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import glasshouse as gh
from glasshouse.errors import ExecutionError
from glasshouse.ir import GraphBuilder, symbol
from glasshouse.runtime import quick_arguments
from glasshouse.runtime.module import Module
from glasshouse.runtime.overlap import overlap

N = symbol("n", 1, 64)


@pytest.fixture(scope="module")
def module() -> Module:
    """Every element of the first output is made of two of x: writing one spoils another."""
    builder = GraphBuilder()
    x = builder.input("float32", (N, 3), name="x")
    return gh.compile(builder.finish(x.apply("flip", axes=[0]) + x, x * 2.0))


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
@pytest.mark.parametrize("place", [0, 1])
def test_an_output_may_lie_on_an_input(module: Module, kind: Any, place: int) -> None:
    x = np.arange(24, dtype=np.float32).reshape(8, 3)
    wanted = [x[::-1] + x, x * 2]
    given, other = kind(x.copy()), kind(np.zeros_like(x))
    outputs = [given, other] if place == 0 else [other, given]
    module.run_with_tensors([given], outputs)
    for ours, theirs in zip(outputs, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(ours), theirs)


def test_an_output_may_lie_on_a_part_of_an_input(module: Module) -> None:
    whole = torch.arange(30, dtype=torch.float32).reshape(10, 3)
    x, out, other = whole[:8], whole[2:], torch.zeros(8, 3)
    wanted = x.flip(0) + x
    module.run_with_tensors([x], [out, other])
    assert torch.equal(out, wanted)


def test_outputs_in_one_place_are_refused(module: Module) -> None:
    x, whole = torch.ones(8, 3), torch.zeros(12, 3)
    for outputs in ([whole[:8], whole[:8]], [whole[:8], whole[4:]]):
        with pytest.raises(ExecutionError, match="two output buffers share memory"):
            module.run_with_tensors([x], outputs)


def test_what_touches_does_not_overlap() -> None:
    assert not overlap([(0, 8)], [(8, 16), (8, 16)])  # inputs may lie on each other
    assert not overlap([(4, 4), (4, 4)], [(0, 8)])  # nothing is written
    assert overlap([(0, 8)], [(7, 16)])
    assert overlap([(4, 6)], [(0, 16), (1, 2)])  # inside of the first, behind the second
    assert overlap([(0, 8), (2, 3)], [])


@pytest.mark.parametrize("pairs", [0, 12], ids=["many", "few"])
def test_the_quick_path_finds_every_pair(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_arguments, "PAIRS", pairs)
    types = {x: GraphBuilder().input("float32", (4,)).value for x in ("x0", "y0", "y1")}
    inputs, outputs = {"x0": types["x0"]}, {y: types[y] for y in ("y0", "y1")}
    line = quick_arguments.shared(inputs, outputs)
    assert ("overlap" in line) == (pairs == 0)

    def found(x0: int, y0: int, y1: int) -> bool:
        return bool(eval(line, {"overlap": overlap, "x0_at": x0, "y0_at": y0, "y1_at": y1}))

    assert not found(0, 16, 32)
    assert found(0, 15, 32)
    assert found(0, 16, 31)
    assert found(40, 0, 32)
