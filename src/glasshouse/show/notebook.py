"""Decides how a graph stands in a notebook cell: the whole page, in a frame of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from html import escape
from typing import Any

from glasshouse.record.reader import Recording
from glasshouse.show.page import page
from glasshouse.show.subject import recording_of


def in_notebook() -> bool:
    """Whether results are shown in cells: Jupyter, VS Code and their kin, not a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "Terminal" not in type(shell).__name__


def cell(x: Any) -> str:
    """What can be shown, as a notebook shows it when a cell ends with it."""
    return inline(recording_of(x))


def inline(
    recording: Recording,
    title: str = "",
    options: Mapping[str, Any] | None = None,
    height: int = 640,
) -> str:
    """The page as a frame with its own content: it needs no server, so a saved notebook keeps it.

    The sandbox gives it scripts and downloads and nothing of the notebook around it.
    """
    inner = escape(page(recording, title, options), quote=True)
    return (
        f'<iframe srcdoc="{inner}" sandbox="allow-scripts allow-downloads" title="Glasshouse" '
        f'style="width:100%;height:{int(height)}px;border:1px solid #8884;border-radius:6px">'
        "</iframe>"
    )
