"""Products, attention and norms name the alternatives, and why one was taken."""

from __future__ import annotations

from typing import Any

import numpy as np

import glasshouse as gh
from glasshouse import nn
from glasshouse.backend.cpu.target import CPU
from glasshouse.lower.choice import Choice
from glasshouse.lower.program import Call
from glasshouse.nn import functional as F
from glasshouse.passes import PassContext
from glasshouse.passes.pipeline import optimize_program


def choices(model: Any, *shapes: tuple[int, ...]) -> list[Choice]:
    gh.manual_seed(0)
    graph = gh.trace(model, *(np.ones(s, np.float32) for s in shapes))
    context = PassContext(options={"resolve_variant": {"measure": "none"}})
    steps = optimize_program(graph, context).steps
    return [c for s in steps if isinstance(s, Call) for c in CPU.alternatives(s, CPU)]


def test_a_product_with_a_weight() -> None:
    (choice,) = choices(nn.Linear(64, 32), (4, 64))
    assert choice.name == "panels packed once"
    assert "estimate" in choice.candidates[0].why
    assert "4 x 64 x 32; the weight is a constant" in choice.candidates[0].why
    assert [c.name for c in choice.candidates[1:]] == [
        "panels packed in each call", "one product for each item",
    ]  # fmt: skip


def test_a_product_of_two_inputs() -> None:
    (choice,) = choices(lambda x, y: x @ y, (4, 64), (64, 32))
    assert choice.name == "panels packed in each call"
    assert "needs a constant" in choice.candidates[1].why


def test_a_batch_of_products() -> None:
    (choice,) = choices(lambda x, y: x @ y, (3, 4, 64), (3, 64, 32))
    assert choice.name == "operands read where they lie"
    assert "3 x (4 x 64 x 32)" in choice.candidates[0].why


def test_attention() -> None:
    (choice,) = choices(F.scaled_dot_product_attention, *[(2, 3, 8, 16)] * 3)
    taken, apart = choice.candidates
    assert choice.name == taken.name == "one pass over the keys"
    assert "6 heads, 8 x 8 x 16" in taken.why
    assert float(apart.why.split()[1]) > float(taken.why.split()[1])


def test_a_norm_with_and_without_neighbours() -> None:
    norm = nn.LayerNorm(64)
    (choice,) = choices(norm, (4, 64))
    assert choice.name == "LayerNorm in loops of its own"
    (choice,) = choices(lambda x: norm(x) + x.tanh(), (4, 64))
    assert choice.name == "LayerNorm in the kernel's loops"
    assert "a pass over 2.048 kB more" in choice.candidates[1].why
