"""Decides what the demo shows of compiled code: is it right, where does the time go, is it fast."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glasshouse.ir.graph import Graph
    from glasshouse.record.reader import Recording
    from glasshouse.runtime.module import Module

TOLERANCE = 1e-4
SECONDS = 0.6
"""For which each system is measured: enough for a first impression, not for a claim."""


def compiled(graph: Graph, inputs: Sequence[Any]) -> Module | None:
    """The compiled graph, or None with the reason printed where there is no compiler."""
    import time

    from glasshouse.cli.progress import Progress
    from glasshouse.errors import CompilerMissing
    from glasshouse.runtime.compiler import compile_optimized

    progress = Progress()
    begin = time.perf_counter()
    try:
        module = compile_optimized(graph, "cpu", progress)
    except CompilerMissing as error:
        print(f"\nNot compiled: {error.message}\n  {error.hint}")
        return None
    finally:
        progress.end()
    seconds = time.perf_counter() - begin
    count = len(module.program.steps)
    print(f"\nCompiled: {count} kernel{'s' if count != 1 else ''} in {seconds:.1f} s")
    return module


def show_kernels(recording: Recording) -> None:
    """Kernels by time, with what each computes and its own error."""
    from glasshouse.record.schema import ErrorRow, KernelRow, TimeRow

    view = recording.graphs[0]
    seconds = {t.kernel: t.seconds for t in view.table(TimeRow)}
    own = {e.node: e.own for e in view.table(ErrorRow)}
    rows = sorted(view.table(KernelRow), key=lambda k: -seconds.get(k.id, 0.0))
    total = sum(seconds.values()) or 1.0
    print(f"  {'kernel':<44} {'ms':>8} {'share':>6} {'own error':>10}")
    for row in rows[:8]:
        took = seconds.get(row.id, 0.0)
        error = f"{own[row.node]:.1e}" if row.node in own else "-"
        print(f"  {row.name[:44]:<44} {took * 1e3:8.3f} {took / total:6.0%} {error:>10}")
    if len(rows) > 8:
        print(f"  and {len(rows) - 8} more")
    wall = float(recording.header.facts.get("wall seconds", "0")) * 1e3
    print(f"  one call takes {wall:.3f} ms, of which kernels {total * 1e3:.3f} ms")


def write_page(recording: Recording, path: str) -> None:
    """The whole story as one offline page."""
    from glasshouse.errors import GlasshouseError
    from glasshouse.show.html import plot_graph

    try:
        out = plot_graph(recording, path)
    except GlasshouseError as error:  # a clone whose viewer was not built yet
        print(f"\nNo page: {error.message}\n  {error.hint}")
        return
    size = out.stat().st_size / 1e6
    print(f"\nSee inside: open {Path(out).resolve()} in a browser ({size:.1f} MB, works offline)")


def tutorial_mlp(batch: int, hidden: int = 512) -> bool:
    """A PyTorch MLP, compiled and timed against PyTorch in turns; False when the result is off."""
    import torch
    from torch import nn

    from glasshouse import trace
    from glasshouse.cli.bench import interleaved, table
    from glasshouse.cli.check import relative_difference

    class Mlp(nn.Module):  # type: ignore[misc]  # to the type checker, torch is not there
        def __init__(self) -> None:
            super().__init__()
            self.dense1 = nn.Linear(hidden, 4 * hidden)
            self.dense2 = nn.Linear(4 * hidden, hidden)
            self.norm = nn.LayerNorm(hidden)

        def forward(self, x: Any) -> Any:
            return self.norm(self.dense2(nn.functional.gelu(self.dense1(x))) + x)

    torch.manual_seed(0)
    model, x = Mlp().eval(), torch.randn(batch, hidden)
    print(f"\nA PyTorch MLP, batch {batch}, hidden {hidden}:")
    module = compiled(trace(model, x), [x])
    if module is None:
        return True

    def eager() -> Any:
        with torch.inference_mode():
            return model(x)

    apart = relative_difference(module(x).numpy(), eager().numpy())
    systems = {"glasshouse": lambda: module(x), "pytorch eager": eager}
    times = interleaved(systems, 4, SECONDS)
    print(table(times, {"glasshouse": 0.0, "pytorch eager": apart}))
    return apart < TOLERANCE
