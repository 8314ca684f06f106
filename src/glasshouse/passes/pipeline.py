"""Decides how passes are run: on a copy, verified after each, watched by instruments."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident

from glasshouse.forking import ForkAware
from glasshouse.ir.graph import Graph
from glasshouse.ir.rewriter import Rewriter
from glasshouse.ir.verify import verify
from glasshouse.passes.base import Pass
from glasshouse.passes.context import PassContext
from glasshouse.passes.instrument import Instrument


def optimize(graph: Graph, ctx: PassContext | None = None) -> Graph:
    """A new graph that computes the same; nodes that stay keep their ids.

    `ctx` is the one given, or that of the enclosing `with PassContext()`, or the default.
    """
    ctx = ctx or PassContext.current() or PassContext()
    with no_collection():
        return run_passes(graph.copy(), ctx.pipeline(), ctx)


def run_passes(graph: Graph, passes: Sequence[Pass], ctx: PassContext | None = None) -> Graph:
    """Run passes on the graph itself; what a pass returns goes to `ctx.results`."""
    ctx = ctx or PassContext.current() or PassContext()
    verify(graph)
    with no_collection():
        for instrument in ctx.instruments:
            instrument.begin(graph, ctx)
        for pass_ in passes:
            run_pass(pass_, graph, ctx)
        for instrument in ctx.instruments:
            instrument.end(graph)
    return graph


def run_pass(pass_: Pass, graph: Graph, ctx: PassContext, depth: int = 0) -> None:
    """One pass and its inner ones, with the instruments told of each once."""
    watching: Sequence[Instrument] = ctx.instruments
    for instrument in watching:
        instrument.begin_pass(pass_, graph, depth)
    start = time.perf_counter()
    try:
        if pass_.inner():
            for part in pass_.inner():
                run_pass(part, graph, ctx, depth + 1)
        else:
            result = apply_pass(pass_, graph, watching)
            if result is not None:
                ctx.results[pass_.name] = result
                for instrument in watching:
                    instrument.result(pass_, graph, result)
        seconds = time.perf_counter() - start
        for instrument in watching:
            instrument.end_pass(pass_, graph, seconds, depth)
    except BaseException as error:
        for instrument in watching:
            instrument.failed(pass_, graph, error)
        raise


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


@contextmanager
def no_collection() -> Iterator[None]:
    """Graphs are cycles of objects that stay: collecting while they grow only walks them again."""
    enabled = gc.isenabled()
    gc.disable()
    if enabled:
        _COLLECTOR.paused_by = get_ident()
    try:
        yield
    finally:
        if enabled:
            _COLLECTOR.paused_by = 0
            gc.enable()


class _Collector(ForkAware):
    """The thread that keeps Python's collector from running; in a child it may be gone."""

    def __init__(self) -> None:
        self.paused_by = 0
        self.watch_forks()

    def after_fork_in_child(self) -> None:
        if self.paused_by not in (0, get_ident()):
            self.paused_by = 0
            gc.enable()


_COLLECTOR = _Collector()
