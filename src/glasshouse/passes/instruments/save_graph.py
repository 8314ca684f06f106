"""Where intermediate graphs are kept: numbered files, text and JSON, one pair a pass."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from glasshouse.formats.hidet.write import write
from glasshouse.ir.graph import Graph
from glasshouse.ir.printer import print_graph
from glasshouse.passes.base import Pass, ProgramPass
from glasshouse.passes.instrument import Instrument
from glasshouse.record.recorder import Recorder

if TYPE_CHECKING:
    from glasshouse.passes.context import PassContext


class SaveGraph(Instrument):
    """Writes `0_Input.json`, `1_FoldConstantPass.json`, ... and the same as `.txt`."""

    def __init__(self, out_dir: str | os.PathLike[str]) -> None:
        self.out_dir = Path(out_dir)
        self.paths: list[Path] = []

    def begin(self, graph: Graph, ctx: PassContext) -> None:
        self.out_dir.mkdir(parents=True, exist_ok=True)
        self.paths = []
        self._save("Input", graph)

    def end_pass(self, pass_: Pass, graph: Graph, seconds: float, depth: int) -> None:
        # What a sequence leaves was saved after its last part; programs leave the graph as it is.
        if not pass_.inner() and not isinstance(pass_, ProgramPass):
            self._save(pass_.title, graph)

    def _save(self, title: str, graph: Graph) -> None:
        path = self.out_dir / f"{len(self.paths)}_{title}.json"
        path.write_bytes(flow_graph_json(graph))
        text = print_graph(graph, bodies=True) + "\n"
        path.with_suffix(".txt").write_text(text, encoding="utf-8")
        self.paths.append(path)


def flow_graph_json(graph: Graph) -> bytes:
    """A graph in the JSON of the flow-graph tutorial."""
    recorder = Recorder(graph.name, sources=False)
    recorder.begin(graph)
    return write(recorder.finish())
