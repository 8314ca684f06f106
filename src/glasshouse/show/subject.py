"""What can be shown: a recording, whatever carries one, a graph, or any known file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from glasshouse import formats
from glasshouse.errors import Unsupported
from glasshouse.ir.graph import Graph
from glasshouse.record.reader import Recording
from glasshouse.record.recorder import Recorder
from glasshouse.show.join import join

ATTACHED = frozenset({"node_data", "styler", "sync"})
"""Formats that say something about the nodes of another file."""


def recording_of(x: Any) -> Recording:
    """The recording of a Graph, a compiled module, a Recording, a path or bytes of a known file.

    A list of these is one recording with the graphs of all; files of node data, style rules and
    sync mappings are laid over what stands before them in the list.
    """
    if isinstance(x, (list, tuple)):
        shown = recordings_of(x)
        if not shown:
            raise Unsupported("nothing was given to be shown")
        return shown[0] if len(shown) == 1 else join(shown)
    if isinstance(x, Recording):
        return x
    if isinstance(x, Graph):
        recorder = Recorder(x.name or "model")
        recorder.begin(x)
        return recorder.finish()
    if isinstance(x, (str, os.PathLike, bytes)):
        return formats.read(x)
    carried = getattr(x, "recording", None)
    if callable(carried):
        carried = carried()
    if isinstance(carried, Recording):
        return carried
    graph = getattr(x, "graph", None)
    if isinstance(graph, Graph):
        return recording_of(graph)
    raise Unsupported(
        f"{type(x).__name__} cannot be shown",
        hint="a graph, a compiled module, a recording or the path of a model file can; "
        "a model is traced first: glasshouse.trace(model, *inputs)",
    )


def recordings_of(parts: Sequence[Any]) -> list[Recording]:
    """One recording for each thing given, files that speak of another laid over the one before."""
    shown: list[Recording] = []
    for part in parts:
        is_file = isinstance(part, (str, os.PathLike, bytes))
        if shown and is_file and formats.detect(part) in ATTACHED:
            shown[-1] = formats.attach(shown[-1], part)
        else:
            shown.append(recording_of(part))
    return shown
