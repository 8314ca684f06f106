"""How a command says what its page starts with: style rules, theme, grouping, colours."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from glasshouse.errors import Unsupported


def add_page_options(parser: ArgumentParser) -> None:
    """The options that every command with a page has."""
    parser.add_argument(
        "--no-compile", action="store_true", help="of path.py:function, the traced graph alone"
    )
    parser.add_argument("--rules", default=None, help="style rules to apply, as JSON")
    parser.add_argument("--theme", choices=("light", "dark"), help="instead of the system's")
    parser.add_argument("--group-by", dest="grouping", help="module, kernel, phase ...")
    parser.add_argument("--color-by", dest="color", help="time, error, bytes, type or named data")


def output_file(text: str) -> str:
    """A file to write; "-" is none."""
    if text == "-":
        raise Unsupported(
            "- is no file: what is written here is not for a terminal", hint="name a file: -o NAME"
        )
    return text


def page_start(args: Namespace) -> dict[str, Any]:
    """How the page starts, where something was asked for."""
    return {k: getattr(args, k) for k in ("theme", "grouping", "color") if getattr(args, k)}
