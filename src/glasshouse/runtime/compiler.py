"""Decides the way from a graph to a compiled module: lower, lay out, emit, build, load."""

from __future__ import annotations

from glasshouse.backend.cpu.build import Progress, build
from glasshouse.backend.cpu.emit import emit
from glasshouse.backend.cpu.target import CPU
from glasshouse.errors import Unsupported
from glasshouse.ir.graph import Graph
from glasshouse.lower.choice import Chooser, by_estimate
from glasshouse.lower.lower import lower
from glasshouse.passes import PassContext, optimize
from glasshouse.passes.pipeline import no_collection
from glasshouse.runtime.layout import layout_of
from glasshouse.runtime.module import Module
from glasshouse.runtime.room import Room, room_for
from glasshouse.runtime.tune import TOLERANCE, Tuner

TARGETS = ("cpu",)


def compile_graph(
    graph: Graph,
    progress: Progress | None = None,
    num_runtimes: int = 1,
    choose: Chooser = by_estimate,
    room: Room | None = None,
) -> Module:
    """A module that computes exactly this graph, without optimising it."""
    with no_collection():
        program = lower(graph, CPU, choose)
        layout = layout_of(program)
        source = emit(program, layout)
    library = build(source, progress)
    module = Module(program, layout, library, source, num_runtimes=num_runtimes, room=room)
    module.bodies.prepare(program)
    return module


def compile_optimized(
    graph: Graph,
    target: str = "cpu",
    progress: Progress | None = None,
    num_runtimes: int = 1,
    tune: bool | None = None,
    tolerance: float = TOLERANCE,
    precision: object = None,
) -> Module:
    """Optimise with the passes of the context that holds now, compile, and keep what happened."""
    if target not in TARGETS:
        raise Unsupported(f"there is no target {target!r}; there are: {', '.join(TARGETS)}")
    ctx = PassContext.current() or PassContext()
    before = ctx.precision
    if precision is not None:
        ctx.set_precision(precision)
    record = ctx.record()
    room = room_for(graph, precision)
    try:
        optimized = optimize(graph, ctx)
    except BaseException:
        room.close()
        raise
    finally:
        ctx.instruments.remove(record)
        ctx.precision = before
    choose = by_estimate if tune is False else Tuner(bool(tune), tolerance, progress)
    module = compile_graph(optimized, progress, num_runtimes, choose, room)
    module.base_recording = record.recording
    return module
