"""Decides the way from a graph to a compiled module: lower, lay out, emit, build, load."""

from __future__ import annotations

from glasshouse.backend.base import Progress, backend_named, target_named
from glasshouse.ir.graph import Graph
from glasshouse.lower.choice import Chooser, by_estimate
from glasshouse.lower.lower import lower
from glasshouse.lower.target import Target
from glasshouse.passes import PassContext, optimize
from glasshouse.passes.pipeline import no_collection
from glasshouse.runtime.layout import layout_of
from glasshouse.runtime.module import Module
from glasshouse.runtime.room import Room, room_for
from glasshouse.runtime.tune import TOLERANCE, Tuner


def compile_graph(
    graph: Graph,
    progress: Progress | None = None,
    num_runtimes: int = 1,
    choose: Chooser = by_estimate,
    room: Room | None = None,
    target: Target | str = "cpu",
) -> Module:
    """A module that computes exactly this graph, without optimising it."""
    target = target_named(target)
    backend = backend_named(target.name)
    with no_collection():
        program = lower(graph, target, choose)
        plan = layout_of(program)
        source = backend.render(program, plan)
    library = backend.build(source, progress)
    module = Module(program, plan, backend, library, source, num_runtimes=num_runtimes, room=room)
    module.bodies.prepare(program)
    return module


def compile_optimized(
    graph: Graph,
    target: Target | str | None = None,
    progress: Progress | None = None,
    num_runtimes: int = 1,
    tune: bool | None = None,
    tolerance: float = TOLERANCE,
    precision: object = None,
) -> Module:
    """Optimise with the passes of the context that holds now, compile, and keep what happened.

    `target` is that of the context unless it is given.
    """
    ctx = PassContext.current() or PassContext()
    before = ctx.precision, ctx.target
    if target is not None:
        ctx.target = target_named(target)
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
        used = ctx.target
        ctx.precision, ctx.target = before
    backend = backend_named(used.name)
    choose = by_estimate if tune is False else Tuner(backend, bool(tune), tolerance, progress)
    module = compile_graph(optimized, progress, num_runtimes, choose, room, used)
    module.base_recording = record.recording
    return module
