"""What `view` does: a tab of the browser or a cell of the notebook, without waiting."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import webbrowser
from collections.abc import Mapping, Sequence
from typing import Any

from glasshouse.forking import ForkLock
from glasshouse.show.notebook import inline
from glasshouse.show.server import Server
from glasshouse.show.start import checked_start
from glasshouse.show.styling import styled
from glasshouse.show.subject import recording_of
from glasshouse.watched import in_notebook


class _Running:
    """The server that calls of this process share."""

    held = ForkLock()
    server: Server | None = None


class View:
    """Something on show: its `url`, and in a notebook its picture."""

    def __init__(self, server: Server, url: str, html: str = "") -> None:
        self.server = server
        self.url = url
        self._html = html

    def __repr__(self) -> str:
        return f"<glasshouse view at {self.url}>"

    def _repr_html_(self) -> str:
        return self._html or f"<code>{self.url}</code>"

    def close(self) -> None:
        """End the server; pages that are open stay as they are."""
        with _Running.held.lock:
            if _Running.server is self.server:
                _Running.server = None
        if self.server.is_running:
            self.server.close()


def view(
    x: Any = None,
    *,
    title: str = "",
    reuse_server: bool = True,
    block: bool = False,
    open_browser: bool | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    height: int = 640,
    rules: str | os.PathLike[str] | Sequence[Mapping[str, Any]] | None = None,
    data: Mapping[str, Mapping[int | str, float | str]] | None = None,
    **start: Any,
) -> View:
    """Show a graph, a compiled module, a recording or a file; without one, a page to drop files on.

    In a notebook the graph appears in the cell. Elsewhere a tab of the browser opens, from a server
    on this machine that lives as long as the process; `reuse_server` adds to the one that runs and
    leaves other tabs alone. `block=True` waits until the server is closed (Ctrl-C). Further
    keywords say how the page starts, as in `plot_graph`.
    """
    recording = None if x is None else styled(recording_of(x), rules, data)
    if recording is not None:
        start = checked_start(recording, start)
    server = _server(reuse_server, host, port)
    id, html = "", ""
    if recording is not None:
        id = server.add(recording, title, start).id
        if in_notebook():
            html = inline(recording, title, start, height)
    shown = View(server, server.url(id), html)
    if open_browser if open_browser is not None else not html:
        open_tab(shown.url)
    if block:
        try:
            server.wait()
        except KeyboardInterrupt:
            shown.close()
    return shown


def _server(reuse: bool, host: str, port: int) -> Server:
    with _Running.held.lock:
        if reuse and _Running.server is not None and _Running.server.is_running:
            return _Running.server
        made = Server(host, port)
        if reuse:
            _Running.server = made
            atexit.register(made.close)
        return made


def open_tab(url: str) -> None:
    """Open a link in the person's browser, where there is a display."""
    # Without a display a text browser would take over the terminal.
    shown = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.platform.startswith("linux") and not shown and "BROWSER" not in os.environ:
        return
    threading.Thread(target=webbrowser.open_new_tab, args=(url,), daemon=True).start()
