"""What `glasshouse view` does: files in the browser, served until Ctrl-C."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from glasshouse.cli.page_options import add_page_options, page_start

HELP = "open models, recordings or traces in the browser; without a file, a page to drop one on"


def add_arguments(parser: ArgumentParser) -> None:
    """Files, where to listen, how the page starts."""
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="models (also path.py:function), recordings, traces; node data, style rules",
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the link")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (any free one)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (this machine)")
    parser.add_argument("--compare", action="store_true", help="all files as one, in two panes")
    add_page_options(parser)


def run(args: Namespace) -> int:
    """Read all files first, so that a wrong one is reported before anything opens."""
    from glasshouse.cli.measured import page_subject
    from glasshouse.show.server import Server
    from glasshouse.show.start import checked_start
    from glasshouse.show.styling import styled
    from glasshouse.show.subject import recording_of, recordings_of
    from glasshouse.show.view import open_tab

    start = page_start(args)
    subjects = [page_subject(f, not args.no_compile) for f in args.files]
    if args.compare:
        start["compare"] = True
        shown = [recording_of(subjects)]
    else:
        shown = recordings_of(subjects)
    pages = [styled(recording, args.rules) for recording in shown]
    starts = [checked_start(recording, start) for recording in pages]
    server = Server(args.host, args.port)
    first = ""
    for recording, begin, file in zip(pages, starts, args.files, strict=False):
        id = server.add(recording, Path(file).name, begin).id
        first = first or id
    print(f"{server.url(first)}\nCtrl-C ends it.", flush=True)
    if args.host not in ("127.0.0.1", "localhost", "::1"):
        print("Anyone who can reach this address and has the link can see these files.", flush=True)
    if not args.no_browser:
        open_tab(server.url(first))
    try:
        server.wait()
    except KeyboardInterrupt:
        server.close()
    return 0
