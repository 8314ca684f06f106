"""Products, attention and norms name the alternatives, and why one was taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn
from glasshouse.backend.cpu.alternatives import KEY_BLOCK
from glasshouse.backend.cpu.blocking import product_problem
from glasshouse.backend.cpu.headers import header_texts
from glasshouse.backend.cpu.measure import measure_variants
from glasshouse.backend.cpu.render import render
from glasshouse.backend.cpu.target import CPU
from glasshouse.ir.dtype import float32
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
    choice, blocks = choices(F.scaled_dot_product_attention, *[(2, 3, 8, 16)] * 3)
    assert [c.name for c in blocks.candidates] == ["keys in blocks of 8"]
    taken, apart = choice.candidates
    assert choice.name == taken.name == "one pass over the keys"
    assert "6 heads, 8 x 8 x 16" in taken.why
    assert float(apart.why.split()[1]) > float(taken.why.split()[1])


def test_blocks_of_keys_are_those_of_the_kernel() -> None:
    text = header_texts()["glasshouse/attention.h"]
    assert f"kKeyBlock = {KEY_BLOCK};" in text
    _, blocks = choices(F.scaled_dot_product_attention, *[(1, 2, 2048, 16)] * 3)
    assert blocks.name == "keys in blocks of 1024"
    figures = {c.name: float(c.why.split()[1]) for c in blocks.candidates}
    assert list(figures) == [f"keys in blocks of {n}" for n in (1024, 256, 512)]
    assert figures["keys in blocks of 256"] > figures["keys in blocks of 512"]


def blockings(**options: Any) -> tuple[Call, Choice]:
    gh.manual_seed(0)
    graph = gh.trace(nn.Linear(96, 64), np.ones((80, 96), np.float32))
    context = PassContext(options={"resolve_variant": options})
    (step,) = optimize_program(graph, context).steps
    assert isinstance(step, Call)
    (choice,) = step.choices
    return step, choice


def test_blockings_of_a_product() -> None:
    step, choice = blockings(measure="none")
    assert choice.name == step.kernel.variant == "blocks_by_cache"
    told = {c.name: c.why for c in choice.candidates}
    assert list(told) == ["blocks_by_cache", "blocks_of_32", "blocks_of_64"]
    assert all(why.startswith("estimate ") for why in told.values())
    assert "read the weight 3 times" in told["blocks_of_32"]
    _, unasked = blockings(measure="large")
    assert "measured when asked for (tune)" in unasked.candidates[0].why


def test_few_rows_have_one_blocking() -> None:
    gh.manual_seed(0)
    graph = gh.trace(nn.Linear(96, 64), np.ones((4, 96), np.float32))
    (step,) = optimize_program(graph, PassContext()).steps
    assert isinstance(step, Call)
    assert step.choices == ()


def test_a_blocking_that_is_taken_runs() -> None:
    step, choice = blockings(measure="none", prefer=("blocks_of_32",))
    assert choice.name == step.kernel.variant == "blocks_of_32"
    assert "gh::Blocked<gh::RowsA<float>, 32>{{x0, 96}}" in render(step.kernel, ()).text


@pytest.mark.slow
def test_blockings_give_equal_results_and_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLASSHOUSE_CACHE", str(tmp_path))
    gh.manual_seed(0)
    model, x = nn.Linear(96, 64), np.random.default_rng(0).random((300, 96), np.float32)
    wanted = np.asarray(gh.compile(model, x, tune=False)(x))
    for rows in (32, 64, 128, 256):
        context = PassContext(
            options={"resolve_variant": {"measure": "none", "prefer": (f"blocks_of_{rows}",)}}
        )
        with context:
            np.testing.assert_array_equal(np.asarray(gh.compile(model, x)(x)), wanted)
    problem = product_problem(300, 64, 96, float32)
    names = ("blocks_by_cache", "blocks_of_32")
    found = measure_variants(problem, names) or []  # None: the machine is too busy
    assert [c.name for c in found] in ([], [*names])
    assert all(c.seconds > 0 and c.error == 0 for c in found)


def test_a_norm_with_and_without_neighbours() -> None:
    norm = nn.LayerNorm(64)
    (choice,) = choices(norm, (4, 64))
    assert choice.name == "LayerNorm in loops of its own"
    (choice,) = choices(lambda x: norm(x) + x.tanh(), (4, 64))
    assert choice.name == "LayerNorm in the kernel's loops"
    assert "a pass over 2.048 kB more" in choice.candidates[1].why
