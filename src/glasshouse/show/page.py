"""How a page is put together: the built viewer, a recording inside it, how it starts."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from glasshouse.errors import GlasshouseError
from glasshouse.record.boundary import boundary
from glasshouse.record.reader import Recording
from glasshouse.record.strings import whole

TEMPLATE = Path(__file__).with_name("static") / "viewer.html"
DATA_MARK = "<!--glass:data-->"
TITLE_MARK = "<title>Glasshouse</title>"


@functools.cache
def _read(path: Path, modified: int) -> str:
    return path.read_text(encoding="utf-8")


def template() -> str:
    """The built viewer."""
    try:
        return _read(TEMPLATE, TEMPLATE.stat().st_mtime_ns)
    except FileNotFoundError:
        raise GlasshouseError(
            "the viewer has not been built",
            hint="in a clone, run: make viewer (or python tools/viewer_bundle.py)",
        ) from None


def page(recording: Recording, title: str = "", options: Mapping[str, Any] | None = None) -> str:
    """One HTML page with the recording inside; it asks nothing of the network.

    `options` is how the page starts: "theme", "grouping", "color" ... (docs/guides/viewer.md).
    """
    with boundary(recording.where):
        data = recording.to_bytes(9)
    return with_data(data, title or recording.header.title, options)


def data_elements(recording: Recording, options: Mapping[str, Any] | None = None) -> str:
    """What a page has beside the viewer itself: the recording, and how it starts."""
    with boundary(recording.where):
        data = recording.to_bytes(9)
    return _data_script(data) + (options_script(options) if options else "")


def with_data(data: bytes, title: str = "", options: Mapping[str, Any] | None = None) -> str:
    """The viewer with the bytes of a recording inside."""
    inside = [_data_script(data)]
    if options:
        inside.append(options_script(options))
    return _fill("".join(inside), title)


def _data_script(data: bytes) -> str:
    return f'<script type="text/plain" id="glass-data">{base64.b64encode(data).decode()}</script>'


def with_options(options: Mapping[str, Any], title: str = "") -> str:
    """The viewer without a recording: a start page, or one that asks its server."""
    return _fill(options_script(options), title)


def options_script(options: Mapping[str, Any]) -> str:
    """Data that the page reads; "<" is spelled out so that no name can end the element."""
    text = json.dumps(options, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="glass-options">{text}</script>'


def _fill(inside: str, title: str) -> str:
    before, found, after = template().partition(DATA_MARK)
    if not found:
        raise GlasshouseError("the built viewer has no place for data; build it again: make viewer")
    if title:
        named = f"<title>{escape(whole(title))} – Glasshouse</title>"
        before = before.replace(TITLE_MARK, named, 1)
    return before + inside + after
