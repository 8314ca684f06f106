"""Decides where intermediate graphs are kept: numbered files, text and JSON, one pair a pass."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from glasshouse.ir.graph import Graph
from glasshouse.ir.printer import print_graph
from glasshouse.passes.base import Pass
from glasshouse.passes.instrument import Instrument
from glasshouse.passes.instruments.flow_graph_json import flow_graph_json

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
        if not pass_.inner():  # what a sequence leaves was saved after its last part
            self._save(pass_.title, graph)

    def _save(self, title: str, graph: Graph) -> None:
        path = self.out_dir / f"{len(self.paths)}_{title}.json"
        path.write_text(json.dumps(flow_graph_json(graph, title), indent=1), encoding="utf-8")
        path.with_suffix(".txt").write_text(
            print_graph(graph, bodies=True) + "\n", encoding="utf-8"
        )
        self.paths.append(path)
