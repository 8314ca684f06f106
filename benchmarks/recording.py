"""How large and how fast a recording is: a million nodes in ten stages.

Run: python benchmarks/recording.py [NODES] [STAGES]
     python benchmarks/recording.py convert [NODES]     Model Explorer JSON in and out

The graph is a deep transformer-like model: module paths, source lines, shapes and attributes as a
real one has them. Each pass after the first replaces a tenth of what is alive, two nodes by one.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from glasshouse import formats
from glasshouse.record import Recording, RecordingBuilder
from glasshouse.record.schema import NEVER, RewriteRow, TimeRow

OPS = ("Matmul", "Add", "LayerNorm", "Gelu", "Reshape", "Transpose", "Softmax", "Mul")
SHAPES = ("float32[1, 128, 768]", "float32[1, 128, 3072]", "float32[12, 128, 128]", "float32[1]")


def build(nodes: int, stages: int) -> RecordingBuilder:
    """`nodes` rows in all: the traced graph, and what each pass adds."""
    chance = np.random.default_rng(0)
    made = RecordingBuilder("benchmark")
    graph = made.graph("main")
    ops, shapes = made.indices(OPS), made.indices(SHAPES)
    keys, values = made.indices(["axis", "keepdims"]), made.indices(["-1", "True"])
    files = made.indices(["model.py", "layers.py"])
    layers = []
    root = graph.group("module", "model", cls="Model")
    for i in range(max(1, nodes // 1000)):
        layer = graph.group("module", str(i), root, cls="Layer")
        layers += [graph.group("module", n, layer, cls="Part") for n in ("attention", "mlp")]
    # Every pass adds a tenth as many rows as are alive and ends twice as many.
    share = 1.0
    alive_share = 1.0
    for _ in range(stages - 1):
        share += alive_share / 10
        alive_share -= alive_share / 10
    first = int(nodes / share)
    alive = np.arange(first)
    next_id = 0
    for stage in range(stages):
        graph.stage("traced" if not stage else f"pass {stage}", pass_name=f"Pass{stage}")
        if stage:
            pairs = chance.permutation(len(alive) // 2)[: len(alive) // 10]
            one, two = alive[2 * pairs], alive[2 * pairs + 1]
            for node in one.tolist() + two.tolist():
                graph.end(node)
            count = len(pairs)
            old = np.column_stack([one, two]).ravel()
        else:
            count, old = first, np.zeros(0, np.int64)
        ids = np.arange(next_id, next_id + count)
        next_id += count
        place = np.sort(chance.integers(0, len(layers), count))
        back = chance.integers(1, 12, 2 * count)
        inputs = np.maximum(np.repeat(ids, 2) - back, 0)
        two_each, one_each = np.full(count, 2), np.ones(count, np.int64)
        graph.nodes(
            {
                "id": ids,
                "op": ops[chance.integers(0, len(ops), count)],
                "input_nodes": (two_each, inputs),
                "input_ports": (two_each, np.zeros(2 * count, np.int64)),
                "outputs": (one_each, shapes[chance.integers(0, len(shapes), count)]),
                "attr_keys": (one_each, keys[chance.integers(0, 2, count)]),
                "attr_values": (one_each, values[chance.integers(0, 2, count)]),
                "groups": (one_each, np.asarray(layers)[place]),
                "file": files[chance.integers(0, 2, count)],
                "line": 10 + chance.integers(0, 300, count),
                "grad_of": np.full(count, NEVER),
                "replaces": (two_each if stage else 0 * one_each, old),
            }
        )
        if stage:
            graph.extend(
                RewriteRow,
                count,
                {
                    "stage": np.full(count, stage),
                    "pass_name": made.indices([f"Pass{stage}"] * count),
                    "rule": made.indices(["pair"] * count),
                    "why": made.indices(["one reads what the other writes"] * count),
                    "before": (two_each, old),
                    "after": (one_each, ids),
                },
            )
            gone = np.zeros(len(alive), bool)
            gone[2 * pairs] = gone[2 * pairs + 1] = True
            alive = np.concatenate([alive[~gone], ids])
        else:
            alive = ids
    graph.extend(
        TimeRow,
        len(alive),
        {"run": ["r"] * len(alive), "node": alive, "seconds": chance.random(len(alive)) * 1e-3},
    )
    return made


def model_explorer_json(path: Path, nodes: int) -> None:
    """A Model Explorer file as exporters write them: about a kilobyte for each node."""
    with path.open("w") as file:
        file.write('{"label":"big","graphs":[{"id":"main","nodes":[')
        for i in range(nodes):
            edges = [
                {"sourceNodeId": f"op_{j}", "sourceNodeOutputId": "0", "targetNodeInputId": str(k)}
                for k, j in enumerate((i - 1, i - 7))
                if j >= 0
            ]
            attrs = [
                {"key": "target", "value": "torch.ops.aten"},
                {"key": "stack", "value": f"model.py:{i} " * 40},
                {"key": "value", "value": f"unique {i}"},
            ]
            shape = [{"key": "tensor_shape", "value": f"float32[1, {i % 512}, 768]"}]
            node = {
                "id": f"op_{i}",
                "label": OPS[i % len(OPS)],
                "namespace": f"model/layers/{i // 100}/part{i % 3}",
                "attrs": attrs,
                "incomingEdges": edges,
                "outputsMetadata": [{"id": "0", "attrs": shape}],
            }
            file.write(("," if i else "") + json.dumps(node))
        file.write("]}]}")


def convert(nodes: int) -> None:
    """Model Explorer JSON to a recording and back."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.json"
        model_explorer_json(path, nodes)
        size = path.stat().st_size
        print(f"Model Explorer JSON, {nodes:,} nodes, {size / 1e6:.0f} MB")
        start = time.perf_counter()
        recording = formats.read(path)
        print(f"  {'read':42} {time.perf_counter() - start:7.3f} s")
        start = time.perf_counter()
        formats.write(recording, Path(folder) / "back.json")
        print(f"  {'write':42} {time.perf_counter() - start:7.3f} s")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"  {'peak memory':42} {peak:7.0f} MB")


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["convert"]:
        convert(int(arguments[1]) if len(arguments) > 1 else 100_000)
        return
    nodes = int(arguments[0]) if arguments else 1_000_000
    stages = int(arguments[1]) if len(arguments) > 1 else 10
    steps: list[tuple[str, float]] = []
    clock = time.perf_counter

    def timed(what: str, start: float) -> None:
        steps.append((what, clock() - start))

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.glass"
        start = clock()
        made = build(nodes, stages)
        timed("build in memory", start)
        start = clock()
        made.save(path)
        timed("write", start)
        size = os.path.getsize(path)
        start = clock()
        recording = Recording.open(path)
        timed("open (header alone)", start)
        start = clock()
        nodes = recording.stage(0, 0).nodes
        opened = nodes.rows
        for column in ("id", "op", "input_nodes", "input_ports", "outputs", "groups"):
            nodes[column]
        timed(f"first stage ({opened:,} nodes)", start)
        recording.close()
        start = clock()
        recording = Recording.open(path)
        nodes = recording.stage(0, -1).nodes
        opened = nodes.rows
        for column in ("id", "op", "input_nodes", "input_ports", "outputs", "groups"):
            nodes[column]
        timed(f"last stage alone ({opened:,} nodes)", start)
        start = clock()
        rows = sum(recording.graphs[0].born_in(s).rows for s in range(stages))
        changed = recording.graphs[0].table(RewriteRow).rows
        timed(f"all the rest ({changed:,} rewrites)", start)
        recording.close()
    print(
        f"{rows:,} node rows in {stages} stages: {size / 1e6:.1f} MB, {size / rows:.1f} bytes a row"
    )
    for what, seconds in steps:
        print(f"  {what:42} {seconds:7.3f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"  {'peak memory':42} {peak:7.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
