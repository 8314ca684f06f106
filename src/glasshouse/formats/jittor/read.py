"""How a Jittor trace becomes a recording: variables and ops as nodes, groups as kernels.

Four groupings: `module` (phases side by side, the module hierarchy inside each), `phase`, `layer`
(the module hierarchy, all phases together) and `kernel` (executed groups in order).
"""

from __future__ import annotations

import math
import os
from collections import Counter
from pathlib import Path, PurePosixPath

from glasshouse.formats.jittor.jit_key import decode
from glasshouse.formats.jittor.phases import ORDER, phases
from glasshouse.formats.jittor.trace import Execution, StackEntry, Trace, TraceNode, read_trace
from glasshouse.formats.kinds import kind_of
from glasshouse.formats.source import SourceFile
from glasshouse.record import GraphWriter, Recording, RecordingBuilder
from glasshouse.record.open_file import open_regular
from glasshouse.record.schema import NEVER, DataRow, KernelRow, SummaryRow, Text

VARIABLE = "Var"
GENERATOR = "jittor trace"
MAX_CODE = 1 << 20


def read(source: SourceFile) -> Recording:
    """The recording of a `.pkl` trace."""
    return to_recording(read_trace(source), source)


def to_recording(trace: Trace, source: SourceFile) -> Recording:
    made = RecordingBuilder(source.stem, GENERATOR, source.budget)
    graph = made.graph(source.stem)
    graph.stage("traced")
    groups = _Groups(graph, trace)
    by_id = {node.id: node for node in trace.nodes}
    kernel_group = _kernels(graph, trace, source)
    inputs, outputs = [], []
    for node in trace.nodes:
        _node(graph, node, by_id, [*groups.of(node), kernel_group.get(node.id, NEVER)])
        if node.is_var:
            if not node.inputs:
                inputs.append(node.id)
            if not node.outputs:
                outputs.append((node.id, 0))
            _summary(graph, node)
    graph.set_io(inputs, outputs)
    _executions(graph, trace)
    made.facts["variables"] = str(sum(node.is_var for node in trace.nodes))
    made.facts["operators"] = str(len(trace.nodes) - sum(node.is_var for node in trace.nodes))
    made.facts["executed groups"] = str(len(trace.executions))
    return made.finish()


class _Groups:
    """The groupings that come from phases and stacks."""

    def __init__(self, graph: GraphWriter, trace: Trace) -> None:
        self.graph = graph
        self.phase_of = phases(trace)
        # As a tree: (grouping, or the row of the group above; name) -> row.
        self.known: dict[tuple[str | int, str], int] = {}
        present = set(self.phase_of.values())
        for phase in (*ORDER, *sorted(present - set(ORDER))):
            if phase in present:
                self._at("phase", (phase,), [])
                self._at("module", (phase,), [])

    def of(self, node: TraceNode) -> list[int]:
        phase = self.phase_of[node.id]
        scopes = [f for f in node.stack if not f.is_grad and (f.type or not f.is_line)]
        names = tuple(f.type if f.is_line else f.name for f in scopes)
        return [
            self._at("module", (phase, *names), scopes),
            self._at("phase", (phase,), []),
            self._at("layer", names, scopes),
        ]

    def _at(self, grouping: str, path: tuple[str, ...], scopes: list[StackEntry]) -> int:
        row = NEVER
        above: str | int = grouping
        skipped = len(path) - len(scopes)
        budget = self.graph.owner.budget
        budget.within("depth", len(path))
        budget.spend("names", len(path))
        for depth, name in enumerate(path):
            known = self.known.get((above, name))
            if known is None:
                scope = scopes[depth - skipped] if depth >= skipped else None
                known = self.known[above, name] = self.graph.group(
                    grouping,
                    name,
                    row,
                    cls=scope.type if scope and not scope.is_line else "",
                    file=scope.file if scope else "",
                    line=scope.line if scope else 0,
                )
            above = row = known
        return row


def _node(
    graph: GraphWriter, node: TraceNode, by_id: dict[int, TraceNode], groups: list[int]
) -> None:
    place = next((f for f in reversed(node.stack) if f.file), None)
    inputs = []
    for producer in node.inputs:
        made_by = by_id.get(producer)
        port = 0
        if node.is_var and made_by is not None:
            port = made_by.ports.get(node.id, 0)
        inputs.append((producer, port))
    if node.is_var:
        name = node.attrs.get("name", "")
        op, kind, types = VARIABLE, "" if node.inputs else "source", [type_of(node)]
    else:
        name, op = "", node.attrs.get("name", "") or "op"
        kind = kind_of(op)
        types = [type_of(by_id[o]) if o in by_id else "" for o in node.outputs]
    graph.node(
        op,
        id=node.id,
        name=name,
        kind=kind,
        inputs=inputs,
        outputs=types,
        attrs=node.attrs,
        groups=groups,
        file=place.file if place else "",
        line=place.line if place else 0,
        grad_of=node.grad_of,
        frames=[str(f) for f in node.stack],
    )


def type_of(node: TraceNode) -> str:
    """ "float32[10, 10]" from dtype "float32" and shape "[10,10,]"."""
    shape = node.attrs.get("shape", "[]").strip("[]").split(",")
    return f"{node.attrs.get('dtype', '')}[{', '.join(d for d in shape if d)}]"


def _kernels(graph: GraphWriter, trace: Trace, source: SourceFile) -> dict[int, int]:
    """Add kernels and their groups; returns the group of each op (of its first execution)."""
    by_id = {node.id: node for node in trace.nodes}
    group_of: dict[int, int] = {}
    for order, run in enumerate(trace.executions):
        key = decode(run.jit_key)
        names = [by_id[o].attrs.get("name", "op") if o in by_id else "?" for o in run.ops]
        name = "+".join(names[:4]) + (f"+{len(names) - 4} more" if len(names) > 4 else "")
        if not names:
            name = "+".join(op.name for op in key.ops[:4]) or "empty"
        how = "library call" if key.relayed else "generated loops"
        attrs = {"execution": str(order), "key": str(run.key), "ran as": how}
        attrs |= {f"op {i}": str(op) for i, op in enumerate(key.ops)}
        attrs |= key.fields
        attrs |= {f"choice {k}": v for k, v in key.choices.items()}
        attrs |= run.attrs
        row = graph.group("kernel", f"{order} {name}", attrs=attrs, file=run.file)
        for op in run.ops:
            group_of.setdefault(op, row)
        graph.add(
            KernelRow(
                id=run.key,
                name=name,
                node=run.ops[-1] if run.ops else NEVER,
                ops=run.ops,
                target=key.target,
                variant=how,
                code=Text(_code(run, source)),
                file=run.file,
                key=run.jit_key,
            )
        )
    return group_of


def _code(run: Execution, source: SourceFile) -> str:
    """The generated source, if it is there.

    A trace names paths; believing it would let a stranger's file pull any file of this machine
    into a recording. So: only C++ or CUDA source in a Jittor cache, or beside the trace, and only
    when the trace itself was opened by path.
    """
    named = PurePosixPath(run.file)
    if source.path is None or named.suffix not in (".cc", ".cu", ".cpp") or "\0" in run.file:
        return ""
    candidates = [source.beside(named.name)]
    if ".jittor" in named.parts and ".." not in named.parts:
        candidates.append(Path(run.file))
    for path in candidates:
        try:
            if path and path.is_file() and not path.is_symlink() and os.access(path, os.R_OK):
                with open_regular(path) as file:
                    return file.read(MAX_CODE).decode("utf-8", "replace")
        except (OSError, ValueError):
            continue  # no name of a file, or one that went away
    return ""


def _executions(graph: GraphWriter, trace: Trace) -> None:
    known = {node.id for node in trace.nodes}
    counts = Counter(op for run in trace.executions for op in run.ops if op in known)
    for op in sorted(counts):
        graph.add(DataRow("executions", op, float(counts[op])))
    for op in sorted(counts):
        if counts[op] > 1:
            graph.add(DataRow("recomputed", op, float(counts[op] - 1)))


def _summary(graph: GraphWriter, node: TraceNode) -> None:
    data = node.attrs.get("data", "")
    if not data:
        return
    try:
        values = [float(text) for text in data.split(",")[:100_000]]
    except ValueError:
        return
    finite = [v for v in values if math.isfinite(v)]
    mean = math.fsum(finite) / len(finite) if finite else math.nan
    spread = math.fsum((v - mean) ** 2 for v in finite) / len(finite) if finite else math.nan
    graph.add(
        SummaryRow(
            node=node.id,
            port=0,
            minimum=min(finite, default=math.nan),
            maximum=max(finite, default=math.nan),
            mean=mean,
            std=math.sqrt(spread),
            nans=float(sum(math.isnan(v) for v in values)),
            infs=float(sum(math.isinf(v) for v in values)),
            zeros=float(values.count(0.0)),
            sample=Text(", ".join(data.split(",")[:32])),
        )
    )
