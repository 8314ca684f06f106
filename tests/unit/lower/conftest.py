"""Programs of small graphs as the CPU target lowers them; nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from glasshouse.ir import Expr, Graph, GraphBuilder
from glasshouse.lower.kernel.kernel import Kernel
from glasshouse.lower.program import Program
from glasshouse.passes import PassContext
from glasshouse.passes.pipeline import optimize_program

Build = Callable[[GraphBuilder], Expr]


def program_of(graph: Graph, **variants: object) -> Program:
    """The decided program of a graph that is optimised as usual, by estimates alone."""
    options = {"resolve_variant": {"measure": "none", **variants}}
    return optimize_program(graph, PassContext(options=options))


def kernel_of(build: Build) -> Kernel:
    builder = GraphBuilder()
    (kernel,) = program_of(builder.finish(build(builder))).kernels
    return kernel


@pytest.fixture
def lowered() -> Callable[[Build], Kernel]:
    """The only kernel of what a function builds."""
    return kernel_of


@pytest.fixture
def decided() -> Callable[..., Program]:
    return program_of
