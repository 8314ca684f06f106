"""The recording of a model that a command line names: compiled, timed and compared with float64."""

from __future__ import annotations

from typing import Any

from glasshouse.errors import CompilerMissing, GlasshouseError
from glasshouse.model_argument import is_function, read_model, shown


def measured(text: str, target: str = "cpu", precision: str | None = None, runs: int = 10) -> Any:
    """The recording with times and errors; without a compiler, the graph; a file that cannot be
    compiled, as it is in the file."""
    from glasshouse.cli.progress import Progress, say
    from glasshouse.runtime.compiler import compile_optimized

    try:
        given = read_model(text)
    except GlasshouseError as error:
        if is_function(text):
            raise
        say(f"{text} is shown as it is in the file: {error}")
        return text
    given.graph.name = given.graph.name or given.name
    progress = Progress()
    try:
        module = compile_optimized(given.graph, target, progress, precision=precision)
    except CompilerMissing as error:
        say(f"{given.name} is shown without kernels: {error}")
        return given.graph
    finally:
        progress.end()
    return module.recording(*given.inputs, count=max(1, runs))


def page_subject(text: str, compiled: bool) -> Any:
    """What a page shows of an argument: a function's model compiled and measured, or its traced
    graph; a file as it is."""
    return measured(text) if compiled and is_function(text) else shown(text)
