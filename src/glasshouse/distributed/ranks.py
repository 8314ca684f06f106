"""One recording for all ranks of a training: their graphs side by side, collectives lined up.

    gh.distributed.record_ranks("training.glass")     # on every rank, after some steps

Every rank profiles the graphs that torch.compile made, all at the same time; rank 0 writes one
file, in which each graph stands once for every rank, with its times on one clock.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glasshouse.distributed.timeline import RankStep, RankTimeline, lined_up
from glasshouse.errors import ExecutionError
from glasshouse.record.reader import Recording
from glasshouse.record.schema import DataRow, KernelRow, NodeRow, TimeRow
from glasshouse.record.writer import RecordingBuilder
from glasshouse.show.join import join

_WAIT = "_c10d_functional.wait_tensor.default"
_SHOWN = 3  # kernels that a difference names


@dataclass(frozen=True)
class RankGraph:
    """A graph as one rank compiled and measured it."""

    name: str
    recording: bytes
    seconds: list[float]  # by step


def record_ranks(path: str | os.PathLike[str], count: int = 10) -> list[str]:
    """Profile all compiled graphs on all ranks and write one recording; what stands out, as text.

    Call it on every rank of the default process group: the graphs are run again, with collectives.
    """
    import torch.distributed as dist

    from glasshouse.frontend.dynamo import compiled_graphs

    if not dist.is_initialized():
        raise ExecutionError(
            "there is no process group to record", hint="torch.distributed.init_process_group"
        )
    graphs = [g for g in compiled_graphs() if g.runner.module is not None]
    _agree(dist, [g.phase for g in graphs if _meets(g.graph)])
    mine = []
    for number, graph in enumerate(graphs):
        dist.barrier()
        mine.append(_measured(f"{graph.phase} {number}", graph.runner.module, count))
    everybody: list[Any] | None = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object(mine, everybody)
    told: list[Any] = [[]]
    if everybody is not None:
        recording, told[0] = merged(everybody)
        recording.save(path)
    dist.broadcast_object_list(told)
    return list(told[0])


def merged(ranks: Sequence[Sequence[RankGraph]]) -> tuple[Recording, list[str]]:
    """One recording of what all ranks compiled, and what stands out in it."""
    parts: list[Recording] = []
    told: list[str] = []
    for number in range(max(map(len, ranks), default=0)):
        there = {r: graphs[number] for r, graphs in enumerate(ranks) if number < len(graphs)}
        recordings = {r: Recording.open(g.recording) for r, g in there.items()}
        told += _differences(next(iter(there.values())).name, recordings, len(ranks))
        steps = {r: _steps(recordings[r], g.seconds) for r, g in there.items()}
        line = lined_up(list(steps.values()))
        told += _stragglers(next(iter(there.values())).name, list(there), line)
        for place, (rank, graph) in enumerate(there.items()):
            title = f"{graph.name}, rank {rank}"
            parts.append(_timed(recordings[rank], title, steps[rank], line, place))
    builder = RecordingBuilder.of(join(parts))
    builder.title = f"{len(ranks)} ranks"
    builder.facts["ranks"] = str(len(ranks))
    for number, text in enumerate(told):
        builder.facts[f"ranks: note {number + 1}"] = text
    return builder.finish(), told


# ------------------------------------------------------------------------------- what one rank does
def _measured(name: str, module: Any, count: int) -> RankGraph:
    from glasshouse.numerics.inputs import random_inputs
    from glasshouse.runtime.account import measure_account
    from glasshouse.runtime.recording import compilation_of

    account = measure_account(module, random_inputs(module.graph), count)
    recording = compilation_of(module, module.base_recording).finish()
    return RankGraph(name, recording.to_bytes(), [t.seconds for t in account.kernel_times()])


def _meets(graph: Any) -> bool:
    return any(n.op.name == "opaque" and n.attrs["target"] == _WAIT for n in graph.nodes)


def _agree(dist: Any, mine: list[str]) -> None:
    """Ranks that would run different graphs with collectives would wait for each other for ever."""
    everybody: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, mine)
    if any(e != everybody[0] for e in everybody):
        said = "; ".join(f"rank {r}: {', '.join(e) or 'none'}" for r, e in enumerate(everybody))
        raise ExecutionError(f"ranks compiled different graphs with collectives: {said}")


# --------------------------------------------------------------------------- what is read from all
def _steps(recording: Recording, seconds: Sequence[float]) -> list[RankStep]:
    view = recording.graphs[0]
    collectives = {
        n.id: dict(zip(n.attr_keys, n.attr_values, strict=True)).get("group", "")
        for n in view.table(NodeRow)
        if _WAIT in n.attr_values
    }
    return [
        RankStep(k.title or k.name, t, f"collective of {collectives[k.node]}".strip())
        if k.node in collectives
        else RankStep(k.title or k.name, t)
        for k, t in zip(view.table(KernelRow), seconds, strict=True)
    ]


def _timed(
    recording: Recording, title: str, steps: Sequence[RankStep], line: RankTimeline, place: int
) -> Recording:
    """A rank's recording with its times on the common clock, and who waited how long."""
    builder = RecordingBuilder.of(recording)
    builder.title = builder.graphs[0].name = title
    graph, kernels = builder.graphs[0], list(recording.graphs[0].table(KernelRow))
    starts = line.starts[place]
    for number, (kernel, step) in enumerate(zip(kernels, steps, strict=True)):
        graph.add(
            TimeRow("profile", kernel.node, step.seconds, kernel=number, start=starts[number])
        )
    for meeting in line.meetings:
        waited = meeting.ended - meeting.came[place]
        node = kernels[meeting.places[place]].node
        graph.add(DataRow("waited (s)", node, waited, f"{waited * 1e6:.0f} µs"))
    return builder.finish()


def _differences(name: str, recordings: dict[int, Recording], ranks: int) -> list[str]:
    """Kernels that only some ranks have: uneven shards, offsets of a rank."""
    out = [f"{name}: rank {r} has no such graph" for r in range(ranks) if r not in recordings]
    tables = {r: recording.graphs[0].table(KernelRow) for r, recording in recordings.items()}
    codes = {r: {k.code: k.name for k in table} for r, table in tables.items()}
    shared = set.intersection(*(set(c) for c in codes.values()))
    for rank, found in codes.items():
        own = [called for code, called in found.items() if code not in shared]
        if own:
            more = f" and {len(own) - _SHOWN} more" if len(own) > _SHOWN else ""
            listed = ", ".join(own[:_SHOWN]) + more
            out.append(f"{name}: rank {rank} has {len(own)} kernels of its own: {listed}")
    return out


def _stragglers(name: str, ranks: Sequence[int], line: RankTimeline) -> list[str]:
    found = line.straggler()
    if found is None:
        return []
    place, seconds = found
    worst = max((m for m in line.meetings if m.last == place), key=lambda m: m.late)
    waits = f"the others wait {seconds * 1e6:.0f} of {line.seconds * 1e6:.0f} µs"
    where = f"most at the {worst.name}, kept by {worst.kept_by or 'its steps'}"
    return [f"{name}: {waits} for rank {ranks[place]}; {where}"]
