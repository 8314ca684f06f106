"""How the report tells which way each kernel is computed: the one taken, and the others."""

from __future__ import annotations

from collections import defaultdict

from glasshouse.record.graph_view import GraphView
from glasshouse.record.schema import CandidateRow, KernelRow
from glasshouse.show.figures import cut_left, seconds, table


def variants(graph: GraphView, top: int) -> str:
    """A line for each kernel that had a choice, kernels with the same figures together."""
    by_kernel: dict[int, list[CandidateRow]] = defaultdict(list)
    for row in graph.table(CandidateRow):
        by_kernel[row.kernel].append(row)
    if not by_kernel:
        return ""
    names = {k.id: k.title or k.name for k in graph.table(KernelRow)}
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for kernel, rows in by_kernel.items():
        taken = "; ".join(r.variant for r in rows if r.chosen) or "the usual one"
        alike[taken, _others(rows)].append(names.get(kernel, "?"))
    shown = [["variant", "kernels", "for instance", "chosen from"]]
    for (taken, others), kernels in list(alike.items())[:top]:
        shown.append([taken, str(len(kernels)), cut_left(kernels[0], 40), others])
    more = f"\n  and {len(alike) - top} more" if len(alike) > top else ""
    measured = any(row.seconds > 0 for rows in by_kernel.values() for row in rows)
    how = "chosen by measurement" if measured else "chosen by estimate: nothing was measured"
    return f"Variants, {how}\n{table(shown, [1])}{more}"


def _others(rows: list[CandidateRow]) -> str:
    ordered = sorted(rows, key=lambda r: r.seconds)
    return ", ".join(
        " ".join(
            [
                r.variant,
                *([seconds(r.seconds)] if r.seconds > 0 else []),
                *([f"({r.why})"] if r.why else []),
            ]
        )
        for r in ordered
    )
