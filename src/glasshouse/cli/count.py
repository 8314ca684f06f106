"""Whole numbers on the command line: how many runs, lines, layers."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable


def at_least(least: int) -> Callable[[str], int]:
    """What reads such a number; a smaller one, or something else, is refused."""

    def read(text: str) -> int:
        try:
            count = int(text)
        except ValueError:
            count = least - 1
        if count < least:
            raise ArgumentTypeError(f"a whole number from {least} on is wanted, got {text!r}")
        return count

    return read
