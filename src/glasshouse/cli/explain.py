"""Decides what `glasshouse explain` prints: the report of a recording, or of a model file."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

HELP = "print what a recording says: passes, kernels by time, fusions and why not, accuracy"


def add_arguments(parser: ArgumentParser) -> None:
    """What to read, how much to print."""
    parser.add_argument(
        "file", metavar="FILE", help="a recording, any file that view opens, or path.py:function"
    )
    parser.add_argument("--top", type=int, default=15, help="lines of each table (15)")


def run(args: Namespace) -> int:
    """Read and print."""
    from glasshouse.cli.model_argument import shown
    from glasshouse.show.report import report
    from glasshouse.show.subject import recording_of

    print(report(recording_of(shown(args.file)), max(1, args.top)), end="")
    return 0
