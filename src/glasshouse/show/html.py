"""What `plot_graph` does: anything that can be shown becomes one offline HTML file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from glasshouse.record.container import write_atomic
from glasshouse.show.page import page
from glasshouse.show.start import checked_start
from glasshouse.show.styling import styled
from glasshouse.show.subject import recording_of


def plot_graph(
    x: Any,
    path: str | os.PathLike[str] = "model.html",
    *,
    title: str = "",
    rules: str | os.PathLike[str] | Sequence[Mapping[str, Any]] | None = None,
    data: Mapping[str, Mapping[int | str, float | str]] | None = None,
    **start: Any,
) -> Path:
    """Write one HTML file that shows a graph, a module, a recording or a model file, offline.

    `rules` are style rules or a file of them; `data` maps a name to values by node id or name, to
    colour by. Further keywords say how the page starts: `theme="dark"`, `grouping="kernel"`,
    `color="time"`, `stage=0` (docs/guides/viewer.md).
    """
    recording = styled(recording_of(x), rules, data)
    start = checked_start(recording, start)
    out = Path(path)
    write_atomic(out, page(recording, title, start).encode())
    return out
