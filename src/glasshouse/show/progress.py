"""Progress of a build: one line that is rewritten, on a terminal or in a notebook's cell."""

from __future__ import annotations

import sys
from typing import Any, TextIO


class Progress:
    """Called with (done, in all, name); silent where nobody watches."""

    def __init__(self) -> None:
        self._shown = 0
        # A notebook marks stderr as an error, in red.
        self._out: TextIO = sys.stdout if in_notebook() else sys.stderr
        self._watched = in_notebook() or self._out.isatty()

    def __call__(self, done: int, total: int, name: str) -> None:
        if self._watched:
            text = f"building {done}/{total}  {name[:50]}"
            print(f"\r{text:<{self._shown}}", end="", file=self._out, flush=True)
            self._shown = len(text)

    def end(self) -> None:
        """Take the line away."""
        if self._shown:
            print(f"\r{'':<{self._shown}}\r", end="", file=self._out, flush=True)
            self._shown = 0


def in_notebook() -> bool:
    """Whether results are shown in cells: Jupyter, VS Code and their kin, not a terminal."""
    found = shell()
    return found is not None and "Terminal" not in type(found).__name__


def shell() -> Any:
    """IPython's, where this process is one."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None
