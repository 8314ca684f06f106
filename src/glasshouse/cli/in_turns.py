"""Two models compiled, recorded and timed in turns on this machine, for `diff --runs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glasshouse.record.reader import Recording
    from glasshouse.show.confidence import Ratio


def measured(a: str, b: str, rounds: int) -> tuple[list[Recording], Ratio]:
    """Recordings of both, and the time of B over that of A."""
    from glasshouse.cli.progress import Progress
    from glasshouse.model_argument import read_model
    from glasshouse.runtime.compiler import compile_optimized
    from glasshouse.runtime.turns import take_turns
    from glasshouse.show.confidence import ratio

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
        times = take_turns([lambda: one.run_flat(x), lambda: two.run_flat(y)], rounds)
    recordings = [m.recording(*inputs, count=10) for m, inputs in modules]
    return recordings, ratio(times[:, 0], times[:, 1])
