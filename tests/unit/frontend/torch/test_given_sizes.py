"""Sizes that data decides: compiled once, called with inputs that give other sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import glasshouse as gh
from glasshouse.errors import ExecutionError
from glasshouse.frontend import dynamo
from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.dim import symbol
from glasshouse.ir.dtype import bool_, float32
from glasshouse.ir.op import REGISTRY
from glasshouse.ir.types import tensor_type


class Model(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.randn(5, 3, generator=torch.Generator().manual_seed(1)))

    def forward(self, *args: Any) -> Any:
        return self.function(self.weight, *args)


def routed(weight: torch.Tensor, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    """A mixture of experts: each expert sees the rows that chose it."""
    chosen = (x @ weight).argmax(-1)
    out = torch.zeros_like(x)
    for expert in range(3):
        rows = torch.nonzero(chosen == expert).squeeze(-1)
        part = torch.relu(x[rows] @ weight * (expert + 1)) @ weight.t()
        out = out.index_add(0, rows, part)
    return out


def kept_rows(weight: torch.Tensor, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x[x[:, 0] > 0] @ weight, -1)


def counted(weight: torch.Tensor, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    count = (x > 0).sum().item()
    return torch.arange(count) * 2 + torch.ones(count, dtype=torch.int64)


def floats(seed: int) -> torch.Tensor:
    x = torch.randn(8, 5, generator=torch.Generator().manual_seed(seed))
    return torch.zeros(8, 5) if seed == 3 else x


def ints(seed: int) -> torch.Tensor:
    return torch.randint(0, 9, (8,), generator=torch.Generator().manual_seed(seed))


# Each is called with the weight, eight rows of floats and eight ints.
CASES: dict[str, Callable[..., Any]] = {
    "mask": lambda w, x, n: x[x > 0] * 2,
    "masked_sum": lambda w, x, n: x[x > 0].exp().sum() + 1,
    "masked_select": lambda w, x, n: torch.masked_select(x, x > -0.5).tanh(),
    "written_back": lambda w, x, n: torch.zeros_like(x).index_put((x > 0,), x[x > 0] * 3),
    "rows": kept_rows,
    "nonzero": lambda w, x, n: torch.nonzero(x > 0) + 1,
    "where": lambda w, x, n: torch.where(x > 0)[1] * 2,
    "counted": counted,
    "two": lambda w, x, n: torch.cat([x[x > 0], x[x < -1] * 2]),
    "routed": routed,
    "unique": lambda w, x, n: torch.unique(n, return_inverse=True, return_counts=True),
    "bincount": lambda w, x, n: torch.bincount(n) * 2,
    "repeated": lambda w, x, n: torch.repeat_interleave(x, n, dim=0) @ w,
}
ALWAYS_ALIKE = {"masked_sum", "written_back", "routed"}


def every_case(*args: Any) -> list[Any]:
    return [function(*args) for function in CASES.values()]


def same(got: Any, wanted: Any) -> None:
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5)


def test_each_call_has_the_sizes_of_its_own_data() -> None:
    model = Model(every_case).eval()
    with torch.no_grad():
        module = gh.compile(model, floats(0), ints(0), tune=False)
        wanted = [model(floats(seed), ints(seed)) for seed in range(4)]
    for number, case in enumerate(CASES):
        shapes = {str([t.shape for t in tree_leaves(w[number])]) for w in wanted}
        assert len(shapes) > 1 or case in ALWAYS_ALIKE, case
    for seed in range(4):
        same(module(floats(seed), ints(seed)), wanted[seed])


def test_a_recording_and_given_buffers_know_such_sizes() -> None:
    model = Model(counted)
    module = gh.compile(model, floats(0), ints(0))
    assert module.recording(floats(1), ints(1), count=1) is not None
    wanted = model(floats(1), ints(1))
    out = torch.empty(wanted.shape, dtype=torch.int64)
    module.run_with_tensors([floats(1), ints(1)], [out])
    same(out, wanted)
    with pytest.raises(ExecutionError, match="output buffer 0 must be a contiguous int64"):
        module.run_with_tensors([floats(2), ints(2)], [torch.empty(1, dtype=torch.int64)])


def test_torch_compile_compiles_them_too() -> None:
    dynamo.reset()
    torch._dynamo.reset()
    model = Model(routed).eval()
    with torch.no_grad():
        compiled = torch.compile(model, backend="glasshouse")
        for seed in range(4):
            same(compiled(floats(seed), ints(seed)), model(floats(seed), ints(seed)))
    assert all(part.runner.module is not None for part in dynamo.compiled_graphs())


def test_a_size_that_breaks_its_bound_is_refused_before_memory_is_written() -> None:
    builder = GraphBuilder("bounded")
    x = builder.input(float32, (8,), "x")
    size = symbol("u0", 0, 4)
    attrs = {
        "target": "positive", "arguments": "%0", "call": lambda x: x[x > 0],
        "types": [tensor_type(float32, (size,))],
    }  # fmt: skip
    kept = builder.wrap(REGISTRY["opaque"].emit(builder, [x], attrs).output)
    module = gh.compile(builder.finish(kept.apply("exp").apply("exp")))
    few = torch.tensor([1.0, 2, 3, 4, -1, -1, -1, -1])
    same(module(few), few[:4].exp().exp())
    with pytest.raises(ExecutionError, match="the result of positive: u0 is 5, compiled for 0"):
        module(torch.tensor([1.0, 2, 3, 4, 5, -1, -1, -1]))


def test_what_needs_a_size_stands_behind_what_gives_it() -> None:
    builder = GraphBuilder("order")
    x = builder.input(float32, (8,), "x")
    size = symbol("u0", 0, 8)
    attrs = {
        "target": "size", "arguments": "%0", "call": lambda x: x > 0,
        "types": [tensor_type(bool_, (size,))],
    }  # fmt: skip
    giver = REGISTRY["opaque"].emit(builder, [x.apply("exp")], attrs)
    ones = builder.apply("full", shape=(size,), value=1, dtype=float32)
    graph = builder.finish(ones)
    graph._nodes = {n.id: n for n in reversed(graph.nodes)}  # as if it had been made last
    graph._order = None
    order = graph.nodes
    assert order.index(giver) < order.index(ones.value.node)
    assert giver in gh.optimize(graph).nodes or any(
        n.op.name == "opaque" for n in gh.optimize(graph).nodes
    )


@pytest.mark.parametrize("step", [-1.0, -2.0])
def test_positions_counted_by_a_float_have_as_many_elements_as_sizes_say(step: float) -> None:
    """As relative positions are written: `arange(size - 1, -1, -1.0)` was left to PyTorch."""

    class Positions(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.arange(x.shape[0] - 1, -1, step).sin().sum() + x

    size, model = torch.export.Dim.AUTO, Positions()
    program = torch.export.export(model, (torch.ones(6),), dynamic_shapes=({0: size},))
    module = gh.compile(program)
    assert not [n for n in module.graph.nodes if n.op.name == "opaque"]
    for count in (6, 9):
        x = torch.ones(count)
        torch.testing.assert_close(module(x), model(x))
