"""What `glasshouse html` does: any known file becomes one offline page.

The model of `path.py:function` is compiled and run first, so that its page has passes, kernels,
times and errors.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from glasshouse.cli.page_options import add_page_options, output_file, page_start

HELP = "write one HTML page that shows a model, a recording or a trace, offline"


def add_arguments(parser: ArgumentParser) -> None:
    """Files, where to write, how the page starts."""
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a model (also path.py:function), recording or trace; then further graphs, "
        "node data or style rules",
    )
    parser.add_argument("-o", "--output", default="", help="the page (FILE.html beside you)")
    parser.add_argument("--title", default="", help="the page's title")
    add_page_options(parser)


def run(args: Namespace) -> int:
    """Read, embed, write, say where."""
    from glasshouse.cli.measured import page_subject
    from glasshouse.model_argument import is_function
    from glasshouse.show.html import plot_graph

    start = page_start(args)
    first = args.files[0]
    name = first.rpartition(":")[2] if is_function(first) else Path(first).name
    out = output_file(args.output) or f"{name}.html"
    subjects = [page_subject(f, not args.no_compile) for f in args.files]
    path = plot_graph(subjects, out, title=args.title, rules=args.rules, **start)
    print(f"{path} ({path.stat().st_size / 1e6:.2f} MB)")
    return 0
