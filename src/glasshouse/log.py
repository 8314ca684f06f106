"""What Glasshouse logs, and where it goes: Python's `logging`, under `glasshouse.*`.

Loggers are `glasshouse.compile`, `glasshouse.passes` and `glasshouse.build`. GLASSHOUSE_LOG=info
(debug, warning, error) prints them to stderr; without it they go where the program sends its own.
"""

from __future__ import annotations

import logging
import sys

LEVELS = ("debug", "info", "warning", "error")


def configure(level: str) -> None:
    """Print what is logged from this level on."""
    name = level.strip().lower()
    if name not in LEVELS:
        print(
            f"glasshouse: GLASSHOUSE_LOG is {level!r}, and must be one of {', '.join(LEVELS)}",
            file=sys.stderr,
        )
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    logger = logging.getLogger("glasshouse")
    logger.addHandler(handler)
    logger.setLevel(name.upper())
    logger.propagate = False  # the program's own handlers would print it again
