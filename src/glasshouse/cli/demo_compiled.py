"""What the demo shows of compiled code: is it right, where does the time go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glasshouse.ir.graph import Graph
    from glasshouse.record.reader import Recording
    from glasshouse.runtime.module import Module

TOLERANCE = 1e-4


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
    from glasshouse.show.figures import cut_left

    view = recording.graphs[0]
    seconds = {t.kernel: t.seconds for t in view.table(TimeRow)}
    own = {e.node: e.own for e in view.table(ErrorRow)}
    rows = sorted(view.table(KernelRow), key=lambda k: -seconds.get(k.id, 0.0))
    total = sum(seconds.values()) or 1.0
    print(f"  {'kernel':<44} {'ms':>8} {'share':>6} {'own error':>10}")
    for row in rows[:8]:
        took = seconds.get(row.id, 0.0)
        error = f"{own[row.node]:.1e}" if row.node in own else "-"
        name = cut_left(row.title or row.name, 44)
        print(f"  {name:<44} {took * 1e3:8.3f} {took / total:6.0%} {error:>10}")
    if len(rows) > 8:
        print(f"  and {len(rows) - 8} more")
    wall = float(recording.header.facts.get("wall seconds", "0")) * 1e3
    print(f"  one call takes {wall:.3f} ms, of which kernels {total * 1e3:.3f} ms")


def write_page(recording: Recording, path: str) -> None:
    """The whole story as one offline page."""
    from glasshouse.cli.demo_bert import START
    from glasshouse.errors import GlasshouseError
    from glasshouse.show.html import plot_graph

    try:
        out = plot_graph(recording, path, **START)
    except GlasshouseError as error:  # a clone whose viewer was not built yet
        print(f"\nNo page: {error.message}\n  {error.hint}")
        return
    size = out.stat().st_size / 1e6
    print(f"\nSee inside: open {Path(out).resolve()} in a browser ({size:.1f} MB, works offline)")
