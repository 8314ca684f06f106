"""What `glasshouse explain` prints: the report of a recording, or of a model file.

The model of `path.py:function` is compiled and run on its inputs, so that the report has kernels by
time and their errors.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

HELP = "print what a recording says: passes, kernels by time, fusions and why not, accuracy"


def add_arguments(parser: ArgumentParser) -> None:
    """What to read, how much to print."""
    parser.add_argument(
        "file", metavar="FILE", help="a recording, any file that view opens, or path.py:function"
    )
    parser.add_argument("--top", type=int, default=15, help="lines of each table (15)")


def run(args: Namespace) -> int:
    """Read and print."""
    from glasshouse.cli.model_argument import is_function
    from glasshouse.show.report import report
    from glasshouse.show.subject import recording_of

    subject = _measured(args.file) if is_function(args.file) else args.file
    print(report(recording_of(subject), max(1, args.top)), end="")
    return 0


def _measured(text: str) -> Any:
    """The recording of a function's model with times and errors; without a compiler, its graph."""
    from glasshouse.cli.model_argument import read_model
    from glasshouse.cli.progress import Progress, say
    from glasshouse.errors import CompilerMissing
    from glasshouse.runtime.compiler import compile_optimized

    given = read_model(text)
    given.graph.name = given.graph.name or given.name
    progress = Progress()
    try:
        module = compile_optimized(given.graph, "cpu", progress)
    except CompilerMissing as error:
        say(f"{given.name} is shown without kernels: {error}")
        return given.graph
    finally:
        progress.end()
    return module.recording(*given.inputs)
