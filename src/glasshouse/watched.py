"""Whether a person watches what is printed, and where: a terminal, or a notebook's cell."""

from __future__ import annotations

import sys
from typing import Any, TextIO


def watched_stream() -> TextIO | None:
    """Where a person reads what a program says of itself; None where nobody watches."""
    if in_notebook():
        return sys.stdout  # a notebook marks stderr as an error, in red
    stream: TextIO | None = sys.stderr
    return stream if stream is not None and stream.isatty() else None


def in_notebook() -> bool:
    """Whether results are shown in cells: Jupyter, VS Code and their kin, not a terminal."""
    found = shell()
    return found is not None and "Terminal" not in type(found).__name__


def shell() -> Any:
    """IPython's, where this process is one."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None
