"""How a graph stands in a notebook cell: a frame with the viewer, whose bundle is stored once.

All outputs of a notebook share one document in JupyterLab, in VS Code and in an exported page. The
first output carries the bundle, packed (about 140 KB); every output carries its recording and a few
lines of script that fill its frame from the bundle, wherever in the document that stands. A cell
that is run again keeps what it held, so a saved notebook is whole.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import itertools
from collections.abc import Mapping
from html import escape
from typing import Any

from glasshouse.record.reader import Recording
from glasshouse.show.page import DATA_MARK, data_elements, template
from glasshouse.show.subject import recording_of
from glasshouse.watched import shell

_LOADER = """(() => {
  const frame = document.getElementById("ID"), told = document.getElementById("ID-told");
  const kept = window.__glasshouse ??= {};
  const find = () => {
    const e = document.querySelector('[data-glasshouse-bundle="HASH"]');
    if (!kept.HASH && e) {
      const bytes = Uint8Array.from(atob(e.textContent.trim()), c => c.charCodeAt(0));
      const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      kept.HASH = new Response(plain).text();
    }
    return kept.HASH;
  };
  const fill = async () => {
    const page = await find(), data = document.getElementById("ID-data").textContent;
    frame.srcdoc = page.replace("MARK", () => atob(data));
    told.hidden = true;
    frame.hidden = false;
  };
  if (find()) return void fill();
  const watch = new MutationObserver(() => {
    if (find()) {
      watch.disconnect();
      fill();
    }
  });
  watch.observe(document.body, {childList: true, subtree: true});
})();"""
_WAITING = (
    "Glasshouse: this view needs the notebook to be trusted, and the notebook's first Glasshouse "
    "output, which holds the viewer; if that is gone, restart the kernel and run this cell again."
)
_numbers = itertools.count(1)


class _Stored:
    """Which cell of the notebook holds which bundle."""

    holder: dict[str, str] = {}  # noqa: RUF012  # one table for the process, on purpose


def cell(x: Any) -> str:
    """What can be shown, as a notebook shows it when a cell ends with it."""
    return inline(recording_of(x))


def inline(
    recording: Recording,
    title: str = "",
    options: Mapping[str, Any] | None = None,
    height: int = 640,
) -> str:
    """The viewer as a frame: it needs no server, so a saved notebook keeps it.

    The sandbox gives it scripts and downloads and nothing of the notebook around it.
    """
    packed, hash = _bundle(template())
    id = f"glasshouse-{hash[:8]}-{next(_numbers)}-{_cell_id()[:8] or 'cell'}"
    data = base64.b64encode(data_elements(recording, options).encode()).decode()
    name = escape(title or recording.header.title or "Glasshouse", quote=True)
    style = f"width:100%;height:{int(height)}px;border:1px solid #8884;border-radius:6px"
    script = _LOADER.replace("ID", id).replace("HASH", hash).replace("MARK", DATA_MARK)
    return (
        f'<div style="min-height:{int(height)}px">'  # the room is there before the frame is
        + (f'<div hidden data-glasshouse-bundle="{hash}">{packed}</div>' if _holds(hash) else "")
        + f'<div hidden id="{id}-data">{data}</div><p id="{id}-told">{escape(_WAITING)}</p>'
        f'<iframe id="{id}" hidden sandbox="allow-scripts allow-downloads" title="{name}" '
        f'style="{style}"></iframe><script>{script}</script></div>'
    )


@functools.cache
def _bundle(page: str) -> tuple[str, str]:
    """The viewer packed for a page's text, and a name for it that can stand in a script."""
    packed = gzip.compress(page.encode(), 9, mtime=0)
    return base64.b64encode(packed).decode(), "v" + hashlib.sha256(packed).hexdigest()[:12]


def _holds(hash: str) -> bool:
    """Whether this output carries the bundle: the first one, and its cell whenever it runs again.

    Where a notebook does not say which cell runs, every output does.
    """
    here = _cell_id()
    return not here or _Stored.holder.setdefault(hash, here) == here


def _cell_id() -> str:
    """The running cell as the notebook names it; "" where it does not."""
    parent = getattr(shell(), "parent_header", None) or {}
    given = parent.get("metadata", {}).get("cellId", "") if isinstance(parent, dict) else ""
    return "".join(c for c in str(given) if c.isalnum() or c == "-")
