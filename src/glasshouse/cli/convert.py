"""What `glasshouse convert` does: any known file into another format, by its extension."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

HELP = (
    "convert between formats by extension: .glass, .json, .onnx, .pkl, .dot, .txt, .svg, .html, "
    ".trace.json (Perfetto)"
)


def add_arguments(parser: ArgumentParser) -> None:
    """From where, to where."""
    parser.add_argument(
        "source", metavar="IN", help="any file that view opens, or path.py:function"
    )
    parser.add_argument("target", metavar="OUT", help="the file to write")
    parser.add_argument("--from", dest="given", default="", help="format of IN, if not by content")
    parser.add_argument(
        "--no-weights", action="store_true", help="a model file without them is what is wanted"
    )
    parser.add_argument("--to", dest="wanted", default="", help="format of OUT, if not by name")


def run(args: Namespace) -> int:
    """Read, write, name what got lost."""
    from glasshouse import formats
    from glasshouse.cli.page_options import output_file
    from glasshouse.formats.kinds import WEIGHTS
    from glasshouse.model_argument import is_function, shown
    from glasshouse.show.html import plot_graph
    from glasshouse.show.subject import recording_of

    output_file(args.target)
    if is_function(args.source):
        recording = recording_of(shown(args.source))
    else:
        recording = formats.read(args.source, format=args.given)
    if args.target.lower().endswith((".html", ".htm")) and not args.wanted:
        plot_graph(recording, args.target)
        return 0
    lost = formats.write(recording, args.target, format=args.wanted)
    if lost:
        print(f"{args.target} cannot hold: {', '.join(lost)}", file=sys.stderr)
    # A model without its weights is no model: a script that goes on with it must not.
    return 1 if WEIGHTS in lost and not args.no_weights else 0
