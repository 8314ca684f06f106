"""Measured runs as a trace in the Trace Event format, for Perfetto and Chrome's tracing page.

Each run is a thread; each kernel (or node) is one slice, in the order of the steps. Where a
recording has no beginnings, slices stand behind each other.
"""

from __future__ import annotations

import json
from typing import Any

from glasshouse.record import GraphView, Recording
from glasshouse.record.schema import KernelRow, TimeRow

MICRO = 1e6


def write(recording: Recording) -> bytes:
    events: list[dict[str, Any]] = []
    for view in recording.graphs:
        events += _events(view)
    facts = dict(recording.header.facts)
    trace = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": facts}
    return json.dumps(trace, separators=(",", ":")).encode()


def lost(recording: Recording) -> list[str]:
    if not any(len(view.table(TimeRow)) for view in recording.graphs):
        return ["anything: nothing was timed in it (module.recording(*inputs) times a run)"]
    return ["graphs and passes: only times are written"]


def _events(view: GraphView) -> list[dict[str, Any]]:
    rows = list(view.table(TimeRow))
    if not rows:
        return []
    kernels = {k.id: k for k in view.table(KernelRow)}
    nodes = view.nodes_until(len(view.info.stages) - 1)
    ids, names, ops = nodes.array("id").tolist(), nodes.pylist("name"), nodes.pylist("op")
    labels = {id: (name, op) for id, name, op in zip(ids, names, ops, strict=True)}
    pid = view.index + 1
    out: list[dict[str, Any]] = [_named("process_name", pid, 0, view.info.name or "model")]
    threads: dict[str, int] = {}
    clock: dict[str, float] = {}
    for row in rows:
        if row.run not in threads:
            threads[row.run] = len(threads) + 1
            out.append(_named("thread_name", pid, threads[row.run], row.run or "run"))
        begin = row.start or clock.get(row.run, 0.0)
        clock[row.run] = begin + row.seconds
        kernel = kernels.get(row.kernel)
        name, op = labels.get(row.node, ("", ""))
        out.append({
            "name": kernel.name if kernel else name or op or str(row.node), "cat": "kernel",
            "ph": "X", "pid": pid, "tid": threads[row.run],
            "ts": begin * MICRO, "dur": row.seconds * MICRO,
            "args": {"node": row.node, "op": op, "tensor": name,
                     "variant": kernel.variant if kernel else ""},
        })  # fmt: skip
    return out


def _named(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
