"""OpenVINO in the same glass: the graph that it executes, and the counters of its nodes."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from glasshouse import formats
from glasshouse.errors import Unsupported
from glasshouse.record.reader import Recording
from glasshouse.record.schema import KernelRow, Text, TimeRow
from glasshouse.record.writer import RecordingBuilder

_LAYERS, _KIND = "originalLayersNames", "primitiveType"


def recording_of(path: str, inputs: Sequence[Any], count: int = 10) -> Recording:
    """What OpenVINO's CPU plugin runs for this file: its execution graph, each node a kernel."""
    if find_spec("openvino") is None:
        raise Unsupported("openvino is not installed", hint="pip install openvino")
    import openvino  # type: ignore[import-not-found,import-untyped,unused-ignore]  # an extra

    core = openvino.Core()
    compiled = core.compile_model(core.read_model(path), "CPU", {"PERF_COUNT": True})
    request = compiled.create_infer_request()
    given = dict(enumerate(inputs))
    counters: dict[str, list[float]] = defaultdict(list)
    wall: list[float] = []
    for turn in range(count + 1):
        begin = time.perf_counter()
        request.infer(given)
        seconds = time.perf_counter() - begin
        if turn:  # the first one warms up
            wall.append(seconds)
            for node in request.get_profiling_info():
                if node.status == node.Status.EXECUTED:
                    counters[node.node_name].append(node.real_time.total_seconds())
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder, "executed.xml")
        openvino.serialize(compiled.get_runtime_model(), str(graph), str(graph.with_suffix(".bin")))
        read = formats.read(str(graph))
    return _timed(read, counters, wall, f"openvino {openvino.__version__}", Path(path).stem)


def _timed(
    recording: Recording,
    counters: Mapping[str, Sequence[float]],
    wall: Sequence[float],
    maker: str,
    title: str,
) -> Recording:
    builder = RecordingBuilder.of(recording)
    owner = builder.graphs[0]
    kernels = 0
    for node in recording.graphs[0].stage(-1).nodes:
        seconds = counters.get(node.name)
        if not seconds:
            continue
        low, middle, high = np.percentile(seconds, [25, 50, 75]).tolist()
        attrs = dict(zip(node.attr_keys, node.attr_values, strict=True))
        kind = str(attrs.get(_KIND, node.op))
        layers = [name for name in str(attrs.get(_LAYERS, node.name)).split(",") if name]
        text = Text(f"// {node.op}, {kind}\n// computes {', '.join(layers)}")
        name = " + ".join(layers)
        owner.add(
            KernelRow(kernels, node.op, node.id, [node.id], "cpu", kind, text, "", title=name)
        )
        owner.add(TimeRow("profile", node.id, middle, kernel=kernels, spread=(high - low) / 2))
        kernels += 1
    builder.facts["compiler"] = maker
    builder.facts["kernels"] = str(kernels)
    builder.facts["wall seconds"] = f"{statistics.median(wall):.6g}"
    builder.facts["runs"] = str(len(wall))
    builder.facts["resolution"] = "counters are whole microseconds"
    builder.title = f"{title} ({maker})"
    return builder.finish()
