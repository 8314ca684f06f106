"""From a graph to a compiled module: passes, rendering, building, loading."""

from __future__ import annotations

from glasshouse.backend.base import Progress, backend_named, target_named
from glasshouse.collection import no_collection, stage_over
from glasshouse.errors import Unsupported
from glasshouse.ir.graph import Graph
from glasshouse.lower.program import Program
from glasshouse.lower.target import Target
from glasshouse.passes import PassContext
from glasshouse.passes.pipeline import optimize_program
from glasshouse.runtime.lineage import Lineage, StandsFor
from glasshouse.runtime.module import Module
from glasshouse.runtime.prefault import Prefaulted, prefaulted_for
from glasshouse.runtime.taken import Taker

_MEASURE = {None: "large", True: "all", False: "none"}


def get_ready(target: Target | str | None = None) -> None:
    """Begin what every program of a target needs: to be called before a model is traced."""
    given = target_named(target) if target is not None else _context().target
    backend_named(given.name).get_ready()


def _context(target: Target | str | None = None) -> PassContext:
    """The context that holds now. One for `target` alone imports no other backend: that of the CPU
    took 40 ms of a GPU's first result, 230 where no bytecode is kept."""
    return PassContext.current() or PassContext(target=target or "cpu")


def compile_graph(
    graph: Graph,
    ctx: PassContext | None = None,
    progress: Progress | None = None,
    num_runtimes: int = 1,
    threads: int | None = None,
) -> Module:
    """A module that computes exactly this graph, without optimising it as a graph.

    Passes over its program are those of `ctx`; by default all, and nothing is measured.
    """
    ctx = ctx or PassContext(options={"resolve_variant": {"measure": "none"}})
    program = optimize_program(graph, ctx, over_graph=False)
    return _built(program, ctx.target, progress, num_runtimes, threads=threads)


def compile_optimized(
    graph: Graph,
    target: Target | str | None = None,
    progress: Progress | None = None,
    num_runtimes: int = 1,
    tune: bool | None = None,
    tolerance: float | None = None,
    precision: object = None,
    threads: int | None = None,
    owner: Taker | None = None,
    shares: bool = False,
    prefaulted: Prefaulted | None = None,
) -> Module:
    """Optimise with the passes of the context that holds now, compile, and keep what happened.

    What is not given is as the context has it. `owner` is whose weights the module takes over;
    with `shares` it shares packed ones with other modules of the same weights. `prefaulted` is
    memory for packed weights, where the caller knew how much they take.
    """
    ctx = _context(target)
    before = ctx.precision, ctx.is_precision_given, ctx.target, ctx.options, ctx.progress
    record, stands = ctx.record(), StandsFor()
    ctx.instruments.append(stands)
    try:
        if target is not None:
            ctx.target = target_named(target)
        if precision is not None:
            ctx.set_precision(precision)
        ctx.progress = progress
        ctx.options = _with_tuning(ctx.options, tune, tolerance)
        passes = ctx.graph_passes()
        program = optimize_program(graph, ctx)
        stage_over()
        module = _built(
            program, ctx.target, progress, num_runtimes, threads, owner, shares, prefaulted
        )
    finally:
        ctx.instruments.remove(record)
        ctx.instruments.remove(stands)
        ctx.precision, ctx.is_precision_given, ctx.target, ctx.options, ctx.progress = before
    module.watched = record
    module.lineage = Lineage(graph, passes, stands.of)
    return module


def _with_tuning(
    options: dict[str, dict[str, object]], tune: bool | None, tolerance: float | None
) -> dict[str, dict[str, object]]:
    given = {"measure": _MEASURE[tune]} if tune is not None else {}
    wanted: dict[str, object] = {**options.get("resolve_variant", {}), **given}
    if tolerance is not None:
        wanted["tolerance"] = tolerance
    return {**options, "resolve_variant": wanted}


def _built(
    program: Program,
    target: Target,
    progress: Progress | None,
    num_runtimes: int,
    threads: int | None = None,
    owner: Taker | None = None,
    shares: bool = False,
    ahead: Prefaulted | None = None,
) -> Module:
    """A decided program as a module."""
    backend = backend_named(target.name)
    if owner is not None and backend.elsewhere:
        raise Unsupported(
            f"take_weights is for modules that run on the host, not on {target.name}",
            hint="a GPU has copies of its own; `del model` frees the host's",
        )
    # Weights that go one by one as they are packed leave room for the packed ones.
    prefaulted = None
    if owner is None:
        has_begun = ahead is not None and ahead.has_begun
        prefaulted = ahead if has_begun else prefaulted_for(program, shares)
    try:
        with no_collection():
            source = backend.render(program)
        library = backend.build(source, progress)
        module = Module(
            program, backend, library, source,
            num_runtimes=num_runtimes, prefaulted=prefaulted, threads=threads,
            owner=owner, shares=shares,
        )  # fmt: skip
    finally:
        if prefaulted is not None:
            prefaulted.close()
    module.packed_bytes = 0 if prefaulted is None else prefaulted.wanted
    module.bodies.prepare(program)
    return module
