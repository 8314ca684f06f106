"""What a training step keeps for its backward part, and what it computes again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn
from glasshouse.ir import Graph
from glasshouse.passes import PassContext, optimize, pass_named
from glasshouse.passes.pipeline import apply_pass, optimize_program
from glasshouse.passes.recompute import is_backward

ROWS, SIZE, LAYERS = 64, 64, 4


class Deep(nn.Module):
    def __init__(self) -> None:
        self.layers = nn.ModuleList([nn.Linear(SIZE, SIZE) for _ in range(LAYERS)])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x).relu()
        return x


@pytest.fixture(scope="module")
def step() -> Graph:
    gh.manual_seed(0)
    model = Deep()
    optimiser = gh.optim.SGD(model.parameters(), lr=0.1)

    def train(x: Any, y: Any) -> Any:
        loss = ((model(x) - y) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    rng = np.random.default_rng(0)
    given = [rng.standard_normal((ROWS, SIZE)).astype(np.float32) for _ in range(2)]
    return gh.trace(train, *given)


def context(**options: Any) -> PassContext:
    return PassContext(options={"recompute": {"min_bytes": 1024, **options}})


def test_cheap_values_are_computed_again_behind_barriers(step, watch) -> None:
    graph = step.copy()
    apply_pass(pass_named("recompute", {"min_bytes": 1024}), graph, [watch])
    # The first layer's input is no value of the graph's own; each relu is read by the next product.
    assert sum(n.op.name == "barrier" for n in graph.nodes) == LAYERS - 1
    saved = [
        n.op.name for n in graph.nodes if n.op.name == "relu" and not is_backward(n)
        and any(is_backward(user) for user in n.users)
    ]  # fmt: skip
    assert saved == []
    assert {s.rule for s in watch.rewrites} == {"recompute"}
    assert any("Add" in r.why or "operands" in r.why for r in watch.rejects)


def test_the_step_stays_right_and_needs_less_memory(step) -> None:
    ctx = context()
    check = ctx.check_numerics_instrument()
    program = optimize_program(step, ctx)
    assert max(error.scaled for error, _ in check.errors) < 1e-5
    keeping = context(share=0.0)
    more = optimize_program(step, keeping)
    assert program.memory.work_offset < more.memory.work_offset


def test_barriers_are_gone_at_the_end(step) -> None:
    assert all(n.op.name != "barrier" for n in optimize(step, context()).nodes)


def test_graphs_without_a_backward_part_are_left_alone(small, watch) -> None:
    apply_pass(pass_named("recompute"), small, [watch])
    assert not watch.rewrites
    assert not watch.rejects
