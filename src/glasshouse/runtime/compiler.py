"""Decides the way from a model to a compiled module: optimise, lower, lay out, build, load."""

from __future__ import annotations

from typing import Any

from glasshouse.backend.cpu.build import Progress, build
from glasshouse.backend.cpu.emit import emit
from glasshouse.backend.cpu.target import CPU
from glasshouse.ir.graph import Graph
from glasshouse.lower.lower import lower
from glasshouse.passes import optimize
from glasshouse.runtime.layout import layout_of
from glasshouse.runtime.module import Module
from glasshouse.tensor.trace import trace


def compile_graph(graph: Graph, progress: Progress | None = None) -> Module:
    """A module that computes exactly this graph, without optimising it."""
    program = lower(graph, CPU)
    layout = layout_of(program)
    source = emit(program, layout)
    return Module(program, layout, build(source, progress), source)


def compile(
    model: Any, *inputs: Any, target: str = "cpu", progress: Progress | None = None
) -> Module:
    """Trace, optimise and compile a model or a graph."""
    graph = model if isinstance(model, Graph) else trace(model, *inputs)
    return compile_graph(optimize(graph), progress)
