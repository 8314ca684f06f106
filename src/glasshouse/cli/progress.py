"""Decides how a long command shows that it works: one line on stderr, rewritten on a terminal."""

from __future__ import annotations

import sys


class Progress:
    """Called with (done, in all, name); silent where nobody watches."""

    def __init__(self) -> None:
        self._shown = 0

    def __call__(self, done: int, total: int, name: str) -> None:
        if sys.stderr.isatty():
            text = f"building {done}/{total}  {name[:50]}"
            print(f"\r{text:<{self._shown}}", end="", file=sys.stderr, flush=True)
            self._shown = len(text)

    def end(self) -> None:
        """Take the line away."""
        if self._shown:
            print(f"\r{'':<{self._shown}}\r", end="", file=sys.stderr, flush=True)
            self._shown = 0


def say(text: str) -> None:
    """A step of the work, for those who wait."""
    print(text, file=sys.stderr, flush=True)
