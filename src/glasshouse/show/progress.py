"""Progress of a build: one line that is rewritten, on a terminal or in a notebook's cell."""

from __future__ import annotations

from glasshouse.watched import watched_stream


class Progress:
    """Called with (done, in all, name); silent where nobody watches."""

    def __init__(self) -> None:
        self._shown = 0
        self._out = watched_stream()

    def __call__(self, done: int, total: int, name: str) -> None:
        if self._out is not None:
            text = f"building {done}/{total}  {name[:50]}"
            print(f"\r{text:<{self._shown}}", end="", file=self._out, flush=True)
            self._shown = len(text)

    def end(self) -> None:
        """Take the line away."""
        if self._shown:
            print(f"\r{'':<{self._shown}}\r", end="", file=self._out, flush=True)
            self._shown = 0
