"""Faults that leave every number right and take more time: found by comparing with a recording."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from faults.fault import SLOWER, fault
from faults.native import in_dispatcher
from glasshouse.backend.cpu import emit
from glasshouse.backend.cpu.backend import CpuBackend
from glasshouse.backend.cpu.render import KernelFunction
from glasshouse.passes.fuse_operator import FuseOperator
from glasshouse.passes.subgraph_rewrite import RULES
from glasshouse.passes.subgraph_rewrite.rule import Match

Patch = pytest.MonkeyPatch

AGAIN = "for (volatile int again_ = 0; again_ < 3000; again_ = again_ + 1)"
"""So often that no load of the machine hides it: a kernel of these models takes a microsecond."""


def repeated(patch: Patch, word: str) -> None:
    """Kernels with a word in their names compute everything again and again."""
    was = emit.render

    def render(kernel: Any, symbols: Any) -> KernelFunction:
        made = was(kernel, symbols)
        if word not in made.name:
            return made
        head, body = made.text.split("\n", 1)
        lines = (made.lines[0], (), *made.lines[1:], ())
        return replace(made, text=f"{head}\n  {AGAIN} {{\n{body}\n}}", lines=lines)

    patch.setattr(emit, "render", render)


def against(*limits: str) -> tuple[str, ...]:
    return (*SLOWER[:3], *limits)


@fault("spread", "past the limit: B takes at least", "tanh", "models.py:", command=SLOWER)
def a_nest_runs_again_and_again(patch: Patch) -> None:
    repeated(patch, "tanh")


@fault("linear", "past the limit: B takes at least", "models.py:", "2 ", command=SLOWER)
def a_product_runs_again_and_again(patch: Patch) -> None:
    repeated(patch, "k1_matmul")


@fault("attention", "past the limit: B takes at least", "attention", command=SLOWER)
def attention_runs_again_and_again(patch: Patch) -> None:
    repeated(patch, "attention")


@fault("chain", "Alarms", "slow: 2", "its 4 equals", command=("explain", "{}", "--runs", "40"))
def one_layer_of_equal_ones_is_slow(patch: Patch) -> None:
    in_dispatcher(patch, "case 2: ", f"case 2: {AGAIN} ")


@fault(
    "fused_gelu", "past the limit: unfused: Add behind Gelu", "ops", slow=False,
    command=against("--fail-on", "unfused"),
)  # fmt: skip
def kernels_hold_one_op_each(patch: Patch) -> None:
    was = FuseOperator.run
    patch.setattr(
        FuseOperator, "run", lambda self, graph, rw: was(replace(self, max_ops=1), graph, rw)
    )


@fault(
    "spread",
    "fallback: 1 x fused runs through Python",
    "tanh",
    command=("check", "{}", "--fail-on", "fallback"),
)
def an_op_has_lost_its_loops(patch: Patch) -> None:
    cpu = CpuBackend.target
    patch.setattr(CpuBackend, "target", replace(cpu, elementwise=cpu.elementwise - {"tanh"}))


@fault(
    "gelu", "past the limit: ", "recognise-gelu  1  0", slow=False,
    command=against("--max-nodes", "0"),
)  # fmt: skip
def a_gelu_is_no_longer_recognised(patch: Patch) -> None:
    def find(node: Any, rw: Any) -> Match | None:
        return None

    patch.setitem(RULES, "recognise-gelu", replace(RULES["recognise-gelu"], find=find))
