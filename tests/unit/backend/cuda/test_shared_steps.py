"""Unrolled steps on a GPU share kernels: the call says how many bytes behind an operand's beginning
a step reads, in multiples of 16."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

import glasshouse as gh
from cuda_emulator import run_emulated
from cuda_samples import program_of
from fake_cuda import FakeCuda, fake_cuda
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.lower.program import Call, Program
from glasshouse.numpy_ref import run


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    with fake_cuda(monkeypatch) as fake:
        yield fake


def unrolled(steps: int, width: int, dtype: str) -> Graph:
    """A loop over time; each step ends in a softmax and a product: none is fused into the next."""
    b = GraphBuilder()
    x, state = b.input(dtype, [steps, 4, width]), b.input(dtype, [4, width])
    weights = b.input(dtype, [width, width])
    for t in range(steps):
        now = x.apply("slice", starts=[t, 0, 0], ends=[t + 1, 4, width])
        now = now.apply("reshape", shape=[4, width])
        state = (state * 0.5 + now).apply("softmax", axis=-1).apply("matmul", weights)
    return b.finish(state)


def calls(program: Program) -> list[Call]:
    found = [s for s in program.steps if isinstance(s, Call)]
    assert len(found) == len(program.steps)
    return found


@pytest.mark.parametrize(
    ("width", "dtype", "kinds"), [(32, "float16", 1), (5, "float32", 1), (3, "float16", 2)]
)
def test_steps_that_begin_alike_are_one_kernel(width: int, dtype: str, kinds: int) -> None:
    """A step is 256, 80 or 24 bytes behind the one before: the last begin in two ways modulo 16."""
    graph = unrolled(8, width, dtype)
    program = program_of(graph)
    sliced = [c for c in calls(program) if "Slice" in c.kernel.ops]
    later = sliced[2:]  # what the first ones hold besides differs
    assert len({c.kernel.name for c in later}) == kinds
    begins = [begin for c in sliced for _, begin in c.starts() if begin]
    assert begins
    assert all(begin % 16 == 0 for begin in begins)
    random = np.random.default_rng(0)
    shapes = [(8, 4, width), (4, width), (width, width)]
    arrays = [random.standard_normal(s).astype(dtype) for s in shapes]
    (found,), (wanted,) = run_emulated(program, arrays), run(graph, arrays)
    np.testing.assert_allclose(found, wanted, rtol=1e-2 if dtype == "float16" else 1e-5, atol=1e-3)


class Steps(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mix = torch.nn.Linear(8, 8)
        self.given = torch.nn.Parameter(torch.randn(4, 3, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros_like(x[0])
        y = x.exp()  # not an argument, but in the arena
        for t in range(4):
            state = torch.softmax(self.mix(state + x[t] * y[3 - t]) + self.given[t], -1)
        return state


def test_steps_run_from_arguments_constants_and_the_arena(cuda: FakeCuda) -> None:
    model = Steps().eval()
    x = torch.randn(4, 3, 8, generator=torch.Generator().manual_seed(1))
    module = gh.compile(model, x, target="cuda", progress=False)
    begins = [begin for c in calls(module.program) for _, begin in c.starts() if begin]
    assert begins, "steps share kernels"
    for turn in range(3):
        given = x + turn
        torch.testing.assert_close(module(given), model(given), rtol=1e-5, atol=1e-6)
