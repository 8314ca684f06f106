"""How the time of passes is reported: a line when one starts, one with its time at the end."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

from glasshouse.ir.graph import Graph
from glasshouse.ir.rewriter import Reject, Rewrite
from glasshouse.passes.base import Pass
from glasshouse.passes.instrument import Instrument

if TYPE_CHECKING:
    from glasshouse.passes.context import PassContext


class ProfilePass(Instrument):
    """Prints each pass once, nested ones indented; `seconds` holds the times by title."""

    def __init__(
        self, print_stdout: bool = True, log_file: str | os.PathLike[str] | None = None
    ) -> None:
        self.print_stdout = print_stdout
        self.log_file = log_file
        self.seconds: dict[str, float] = {}
        self._steps: list[int] = []

    def begin(self, graph: Graph, ctx: PassContext) -> None:
        self.seconds = {}
        self._steps = []

    def begin_pass(self, pass_: Pass, graph: Graph, depth: int) -> None:
        self._steps.append(0)
        self._say(f"{'  ' * depth}{pass_.title} started, {len(graph)} nodes")

    def rewritten(self, graph: Graph, step: Rewrite) -> None:
        self._steps[-1] += 1

    def rejected(self, graph: Graph, step: Reject) -> None: ...

    def end_pass(self, pass_: Pass, graph: Graph, seconds: float, depth: int) -> None:
        steps = self._steps.pop()
        if self._steps:
            self._steps[-1] += steps
        self.seconds[pass_.title] = self.seconds.get(pass_.title, 0.0) + seconds
        text = f"{'  ' * depth}{pass_.title} {seconds:.3f} seconds"
        self._say(f"{text}, {steps} rewrites, {len(graph)} nodes")

    def _say(self, line: str) -> None:
        if self.print_stdout:
            out: TextIO = sys.stdout
            print(line, file=out, flush=True)
        if self.log_file is not None:
            with open(self.log_file, "a", encoding="utf-8") as log:
                log.write(line + "\n")
