"""How a long command shows that it works: steps on stderr, and a line that is rewritten."""

from __future__ import annotations

import sys

from glasshouse.show.progress import Progress

__all__ = ["Progress", "say"]


def say(text: str) -> None:
    """A step of the work, for those who wait."""
    print(text, file=sys.stderr, flush=True)
