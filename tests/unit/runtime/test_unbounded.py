"""Sizes without an upper bound: one compilation, memory as each run needs it."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

import glasshouse as gh
from glasshouse.errors import OutOfMemory, Unsupported
from glasshouse.ir import Graph, GraphBuilder, Value, symbol
from glasshouse.lower.program import Fallback
from glasshouse.numpy_ref import run
from glasshouse.passes import optimize
from glasshouse.passes.plan_memory import plan_memory
from glasshouse.runtime.compiler import compile_graph
from glasshouse.runtime.sized_memory import SizedMemory


def test_any_size_runs_and_none_is_saved(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = symbol("n")
    b = GraphBuilder()
    x = b.input("float32", (n, 20))
    hidden = x.apply("matmul", b.weight(rng.standard_normal((20, 40), "f"), "float32"))
    similar = hidden.apply("matmul", hidden, transpose_y=True).apply("softmax")  # [n, n]
    mixed = similar.apply("matmul", hidden)
    count = b.apply("full", shape=(1,), value=n, dtype="float32")
    image = mixed.apply("reshape", shape=(1, 1, n, 40))
    smaller = image.apply("adaptive_avg_pool", size=(3, 7))
    larger = image.apply("resize", size=(5, 11), mode="linear")
    graph = b.finish(mixed / count, smaller, larger)
    module = compile_graph(optimize(graph))
    assert not [s for s in module.program.steps if isinstance(s, Fallback)]
    for size in (3, 130, 4):
        given = rng.standard_normal((size, 20), "f")
        for ours, theirs in zip(module(given), run(graph, [given]), strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-4, 1e-4)
    with pytest.raises(Unsupported, match="upper bound"):
        module.save(tmp_path)


def _similar(layers: int = 6) -> Graph:
    """Rows against rows, again and again: [n, n] and [n, 16], none of them with a bound."""
    rng = np.random.default_rng(1)
    b = GraphBuilder()
    x = b.input("float32", (symbol("n", 1), 16))
    for _ in range(layers):
        y = x.apply("matmul", b.weight(rng.standard_normal((16, 16), "f"), "float32"))
        x = x.apply("matmul", y, transpose_y=True).apply("softmax").apply("matmul", y)
    return b.finish(x)


def test_memory_is_laid_out_again_only_when_sizes_change(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _similar()
    module = compile_graph(optimize(graph))
    plan = module.plan
    assert plan.unbounded, "without such values nothing is tested"
    assert len(plan.rooms) < len(plan.unbounded), "dead values give their memory to later ones"
    fitted: list[tuple[int, ...]] = []
    fit = SizedMemory.fit
    monkeypatch.setattr(
        SizedMemory,
        "fit",
        lambda self, workspace, sizes: (fitted.append(sizes), fit(self, workspace, sizes))[1],
    )
    module = compile_graph(optimize(graph))
    monkeypatch.setattr(module, "_run", None)  # the general path
    rng = np.random.default_rng(2)
    for size in (5, 5, 700, 1, 5, 5):
        given = rng.standard_normal((size, 16), "f")
        (expected,) = run(graph, [given])
        np.testing.assert_allclose(module(given), expected, 1e-4, 1e-4)
    assert fitted == [(5,), (700,), (1,), (5,)]
    assert module._workspaces[0].sized is not None
    assert module._workspaces[0].sized.size < 1 << 20, "what 700 rows needed was given back"


def test_rooms_are_of_values_that_are_not_alive_together() -> None:
    program = compile_graph(optimize(_similar())).program
    lives: dict[Value, list[int]] = {}
    for number, step in enumerate(program.steps):
        for value in (*step.node.inputs, *step.node.outputs):
            lives.setdefault(program.buffer_of(value), []).append(number)
    rooms = program.memory.rooms
    assert sorted(v.node.id for r in rooms for v in r) == sorted(
        v.node.id for v in program.memory.unbounded
    )
    for room in rooms:
        for before, after in itertools.pairwise(room):
            assert max(lives[before]) < min(lives[after])


def test_steps_without_a_kernel_read_values_without_a_bound() -> None:
    model = _Spectrum().eval()
    size = torch.export.Dim("n", min=1)
    module = gh.compile(model, torch.randn(5, 8), dynamic_shapes=({0: size},))
    assert [s for s in module.program.steps if isinstance(s, Fallback)]
    assert module.plan.unbounded
    for count in (5, 5, 300, 2):
        x = torch.randn(count, 8)
        torch.testing.assert_close(module(x), model(x))


class _Spectrum(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.softmax(self.layer(x), 0)
        found = torch.linalg.svdvals(torch.relu(y).unflatten(1, (2, 4))).repeat(1, 4)
        made: torch.Tensor = found * self.layer(torch.tanh(y) * y)
        return made


def test_a_bound_beyond_memory_is_none() -> None:
    """A billion rows, of a model that is called with five: 4 TB were asked for between kernels."""
    rng, b = np.random.default_rng(3), GraphBuilder()
    x = b.input("float32", (symbol("n", 1, 10**9), 16))
    y = x.apply("matmul", b.weight(rng.standard_normal((16, 1024), "f"), "float32")).apply("tanh")
    graph = b.finish(y.apply("matmul", b.weight(rng.standard_normal((1024, 16), "f"), "float32")))
    module = compile_graph(optimize(graph))
    assert module.plan.unbounded
    assert module.plan.arena_bytes < 1 << 30
    given = rng.standard_normal((5, 16), "f")
    np.testing.assert_allclose(module(given), run(graph, [given])[0], 1e-4, 1e-4)
    small = plan_memory(module.program)
    assert not small.unbounded, "without a limit its bound is a bound"


def test_memory_that_is_not_there_is_refused_with_what_takes_it() -> None:
    b = GraphBuilder("vast")
    x = b.input("float32", (1, 1 << 22))
    y = x.apply("reshape", shape=(1 << 22, 1)).apply("matmul", x).apply("softmax")
    graph = b.finish(y.apply("matmul", y).apply("sum", axes=(0, 1)))
    with pytest.raises(OutOfMemory, match=r"(?s)kernels of vast.*float32\[4194304, 4194304\]"):
        compile_graph(optimize(graph))


def test_a_call_without_memory_leaves_none_of_the_call_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What 5 rows had was given back for 70,000: their next call must not find it in its tables."""
    graph = _similar()
    module = compile_graph(optimize(graph))
    given = np.random.default_rng(4).standard_normal((5, 16)).astype("f")
    before = module(given)
    with monkeypatch.context() as patched:
        patched.setattr("glasshouse.runtime.sized_memory.aligned_bytes", _no_memory)
        with pytest.raises(OutOfMemory, match="with n = 70000"):
            module(np.zeros((70_000, 16), "f"))
    assert module._workspaces[0].sized is None
    np.testing.assert_array_equal(module(given), before)
    assert module._workspaces[0].sized is not None


def _no_memory(count: int) -> None:
    raise MemoryError(count)
