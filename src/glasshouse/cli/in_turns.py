"""Two models compiled, recorded and timed in turns on this machine, for `diff --runs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glasshouse.record.reader import Recording
    from glasshouse.show.confidence import InTurns


def measured(a: str, b: str, pairs: int, limit: float | None) -> tuple[list[Recording], InTurns]:
    """Recordings of both, and the time of B over that of A."""
    from glasshouse.checking.slower import in_turns
    from glasshouse.cli.progress import Progress
    from glasshouse.model_argument import read_model
    from glasshouse.runtime.compiler import compile_optimized

    modules: list[tuple[Any, Any]] = []
    for text in (a, b):
        given = read_model(text)
        given.graph.name = given.graph.name or given.name
        progress = Progress()
        try:
            module = compile_optimized(given.graph, "cpu", progress)
        finally:
            progress.end()
        modules.append((module, module.arguments(given.inputs)))
    (one, x), (two, y) = modules
    with one.unchanged(), two.unchanged():
        found = in_turns(lambda: one.run_flat(x), lambda: two.run_flat(y), pairs, limit)
    recordings = [m.recording(*inputs, count=10) for m, inputs in modules]
    return recordings, found
