"""Numbers on the command line: how many runs, lines, layers; how long; how far off."""

from __future__ import annotations

import math
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


def positive(text: str) -> float:
    """A number above 0: seconds, or a limit that something can keep."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ArgumentTypeError(f"a number above 0 is wanted, got {text!r}")
    return number
