"""Runs passes: over a copy of a graph, verified after each, and over the program that it becomes;
watched by instruments."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from glasshouse.collection import no_collection
from glasshouse.errors import GlasshouseError
from glasshouse.ir.graph import Graph
from glasshouse.ir.rewriter import Rewriter
from glasshouse.ir.verify import verify
from glasshouse.lower.program import Program
from glasshouse.passes.base import Pass, ProgramPass
from glasshouse.passes.context import PassContext
from glasshouse.passes.instrument import Instrument
from glasshouse.passes.lower import Lower
from glasshouse.passes.plan_memory import plan_memory

_LOG = logging.getLogger("glasshouse.passes")


def optimize(graph: Graph, ctx: PassContext | None = None) -> Graph:
    """A new graph that computes the same; nodes that stay keep their ids.

    `ctx` is the one given, or that of the enclosing `with PassContext()`, or the default.
    """
    ctx = ctx or PassContext.current() or PassContext()
    with no_collection():
        return run_passes(graph.copy(), ctx.graph_passes(), ctx)


def optimize_program(graph: Graph, ctx: PassContext, over_graph: bool = True) -> Program:
    """The program of a graph, with all decisions in it; `over_graph`: optimised as a graph first.

    Passes over graphs come before those over programs, wherever they stand in the list.
    """
    graph = graph.copy() if over_graph else graph
    before = ctx.graph_passes() if over_graph else []
    deciding = ctx.program_passes()
    with no_collection(), _watched(graph, ctx):
        for pass_ in before:
            run_pass(pass_, graph, ctx)
        program = Program(graph)
        steps = [p for p in deciding if not p.lowered]
        steps += [Lower(), *(p for p in deciding if p.lowered)]
        for step in steps:
            program = run_program_pass(step, program, ctx)
    if program.plan is None:
        program = replace(program, plan=plan_memory(program, reuse=False))
    return program


def run_passes(graph: Graph, passes: Sequence[Pass], ctx: PassContext | None = None) -> Graph:
    """Run passes on the graph itself; what a pass returns goes to `ctx.results`."""
    ctx = ctx or PassContext.current() or PassContext()
    with no_collection(), _watched(graph, ctx):
        for pass_ in passes:
            run_pass(pass_, graph, ctx)
    return graph


@contextmanager
def _watched(graph: Graph, ctx: PassContext) -> Iterator[None]:
    """The beginning is reported to the instruments, and the end when there was no error."""
    verify(graph)
    for instrument in ctx.instruments:
        instrument.begin(graph, ctx)
    yield
    for instrument in ctx.instruments:
        instrument.end(graph)


@contextmanager
def _reported(pass_: Pass, graph: Graph, ctx: PassContext, depth: int = 0) -> Iterator[None]:
    """A pass is reported to the instruments once, with its time, or with its error."""
    for instrument in ctx.instruments:
        instrument.begin_pass(pass_, graph, depth)
    start = time.perf_counter()
    try:
        yield
        seconds = time.perf_counter() - start
        _LOG.debug("%s: %.1f ms, %d nodes", pass_.title, seconds * 1e3, len(graph))
        for instrument in ctx.instruments:
            instrument.end_pass(pass_, graph, seconds, depth)
    except BaseException as error:
        if not isinstance(pass_, Lower):  # what cannot be lowered is no fault of a pass
            _name(pass_, graph, error)
        for instrument in ctx.instruments:
            instrument.failed(pass_, graph, error)
        raise


def _name(pass_: Pass, graph: Graph, error: BaseException) -> None:
    """Let an error say which pass it comes from, where it does not say so already."""
    step = f"pass {pass_.title}" + (f" over {graph.name}" if graph.name else "")
    if isinstance(error, GlasshouseError):
        if type(pass_).__name__ not in error.message:
            error.during(step)
    elif isinstance(error, Exception) and sys.version_info >= (3, 11):
        error.add_note(f"in {step}")


def _keep(pass_: Pass, graph: Graph, ctx: PassContext, result: object) -> None:
    if result is not None:
        ctx.results[pass_.name] = result
        for instrument in ctx.instruments:
            instrument.result(pass_, graph, result)


def run_program_pass(pass_: ProgramPass, program: Program, ctx: PassContext) -> Program:
    """One pass over a program."""
    with _reported(pass_, program.graph, ctx):
        decided = pass_.decide(program, ctx)
        _keep(pass_, program.graph, ctx, pass_.result(decided))
    return decided


def run_pass(pass_: Pass, graph: Graph, ctx: PassContext, depth: int = 0) -> None:
    """One pass and its inner ones, each reported to the instruments once."""
    with _reported(pass_, graph, ctx, depth):
        for part in pass_.inner():
            run_pass(part, graph, ctx, depth + 1)
        if not pass_.inner():
            _keep(pass_, graph, ctx, apply_pass(pass_, graph, ctx.instruments))


def apply_pass(
    pass_: Pass,
    graph: Graph,
    watching: Sequence[Instrument] = (),
    allows: Callable[[int], bool] | None = None,
) -> object:
    """Run one pass that does the work itself and verify what it leaves."""
    rw = Rewriter(graph, type(pass_).__name__, watching, allows)
    result = pass_.run(graph, rw)
    verify(graph, after=type(pass_).__name__)
    return result
