"""How the command line is taken apart: which commands there are, and how each one ends.

A command is one file here, named in COMMANDS, with three things:

    HELP: str                                            what it does, in one sentence
    def add_arguments(parser: ArgumentParser) -> None    its options
    def run(args: Namespace) -> int                      its work; the exit code

All files are imported to print the help, so a command imports what it works with inside `run`.

Exit codes: 0 done; 1 done, and the answer is no (a diff past its limits); 2 bad input; 130 stopped
by the user.
"""

from __future__ import annotations

import argparse
import difflib
import io
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn, Protocol, cast

from glasshouse import __version__
from glasshouse.errors import GlasshouseError

COMMANDS: tuple[str, ...] = (
    "demo",
    "view",
    "html",
    "convert",
    "compile",
    "tune",
    "bench",
    "explain",
    "check",
    "bisect",
    "ablate",
    "diff",
    "cache",
)


class Command(Protocol):
    """What the module of a command offers."""

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options."""

    def run(self, args: argparse.Namespace) -> int:
        """Do the work and give the exit code."""


def command(name: str) -> Command:
    """The module of a command."""
    return cast(Command, import_module(f"glasshouse.cli.{name}"))


class _Parser(argparse.ArgumentParser):
    """Says which command or choice was meant, where one is like what was written."""

    def error(self, message: str) -> NoReturn:
        found = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if found:
            known = re.findall(r"[\w-]+", found[2])
            close = difflib.get_close_matches(found[1], known, 1)
            meant = f" (did you mean {close[0]!r}?)" if close else ""
            message = message.replace(
                found[0], f"there is no {found[1]!r}{meant}: {', '.join(known)}"
            )
        super().error(message)


def build_parser(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """The parser with all commands."""
    parser = _Parser(
        prog="glasshouse", description="A deep-learning compiler that you can see into."
    )
    parser.add_argument("--version", action="version", version=f"glasshouse {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for name in names:
        module = command(name)
        sub = commands.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; errors of the user end in a message and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name that the terminal has no letters for is spelled out, not an error.
            stream.reconfigure(errors="backslashreplace")
    parser = build_parser()
    args = parser.parse_args(argv)
    if args.command is None:
        parser.print_help()
        return 0
    try:
        code = int(args.run(args))
        if sys.stdout is not None:  # it is closed
            sys.stdout.flush()  # here, where what goes wrong with it is reported
        return code
    except GlasshouseError as error:
        if args.debug:
            raise
        print(f"glasshouse {args.command}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        # A file that is not there or may not be read, a full disk. A closed pipe (`| head`) is no
        # error at all.
        if args.debug and not isinstance(error, BrokenPipeError):
            raise
        if error.filename is None:  # standard output; Python would try to flush it once more
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 0
        where = f"{error.filename}: " if error.filename is not None else ""
        print(f"glasshouse {args.command}: {where}{error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
