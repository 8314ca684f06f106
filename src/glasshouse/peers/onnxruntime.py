"""ONNX Runtime in the same glass: the graph that it made of a model, and the times of its nodes."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from glasshouse import formats
from glasshouse.errors import Unsupported
from glasshouse.record.graph_view import GraphView
from glasshouse.record.reader import Recording
from glasshouse.record.schema import KernelRow, Text, TimeRow
from glasshouse.record.writer import RecordingBuilder

_TIME = "_kernel_time"


def recording_of(path: str, inputs: Sequence[Any], count: int = 10) -> Recording:
    """What ONNX Runtime runs for this file: its optimised graph, each node a kernel."""
    if find_spec("onnxruntime") is None:
        raise Unsupported("onnxruntime is not installed", hint="pip install onnxruntime")
    import onnxruntime  # type: ignore[import-untyped]  # it brings no types

    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.optimized_model_filepath = str(Path(folder, "optimised.onnx"))
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder, "profile"))
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        given = dict(zip([i.name for i in session.get_inputs()], inputs, strict=True))
        for _ in range(count + 1):  # the first one warms up
            session.run(None, given)
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
        graph = formats.read(options.optimized_model_filepath)
        return _timed(graph, events, f"onnxruntime {onnxruntime.__version__}", Path(path).stem)


def _timed(recording: Recording, events: list[dict[str, Any]], maker: str, title: str) -> Recording:
    builder = RecordingBuilder.of(recording)
    owner, view = builder.graphs[0], recording.graphs[0]
    times: dict[str, list[float]] = defaultdict(list)
    wall: list[float] = []
    for event in events:
        if event.get("cat") == "Node" and str(event.get("name", "")).endswith(_TIME):
            times[event["name"].removesuffix(_TIME)].append(float(event["dur"]) * 1e-6)
        elif event.get("name") == "model_run":
            wall.append(float(event["dur"]) * 1e-6)
    number = 0
    for id, name, op in _nodes(view):
        seconds = times.pop(name, [])[1:]
        if not seconds:
            continue
        low, middle, high = np.percentile(seconds, [25, 50, 75]).tolist()
        owner.add(KernelRow(number, op, id, [id], "cpu", op, Text(""), "", title=name or op))
        owner.add(TimeRow("profile", id, middle, kernel=number, spread=(high - low) / 2))
        number += 1
    builder.facts["compiler"] = maker
    if len(wall) > 1:
        builder.facts["wall seconds"] = f"{statistics.median(wall[1:]):.6g}"
        builder.facts["runs"] = str(len(wall) - 1)
    lost = sum(statistics.median(t[1:]) for t in times.values() if len(t) > 1)
    if lost:
        builder.facts["seconds of nodes that the graph does not name"] = f"{lost:.6g}"
    builder.title = f"{title} ({maker})"
    return builder.finish()


def _nodes(view: GraphView) -> list[tuple[int, str, str]]:
    nodes = view.stage(-1).nodes
    names, ops = nodes.pylist("name"), nodes.pylist("op")
    return list(zip(nodes.array("id").tolist(), names, ops, strict=True))
