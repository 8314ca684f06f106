"""Which graphs every viewer is shown, and in which files each of them reads them.

Three traced models and generated transformers with nested modules. One recording is the source of
all: `.html` for us, Model Explorer's JSON, ONNX for Netron. None of the files holds weights.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import glasshouse as gh
from glasshouse import formats
from glasshouse.nn.models import Bert, BertConfig, resnet18
from glasshouse.record import Recording, RecordingBuilder
from glasshouse.show.subject import recording_of


def mlp() -> Recording:
    """The tutorial's model: three linear layers."""
    nn = gh.nn
    layers = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)]
    return recording_of(gh.trace(nn.Sequential(*layers), np.zeros((32, 784), np.float32)))


def resnet() -> Recording:
    """ResNet-18 in evaluation."""
    model = resnet18()
    model.eval()
    return recording_of(gh.trace(model, np.zeros((1, 3, 224, 224), np.float32)))


def bert() -> Recording:
    """BERT-base, a quarter as wide: the width changes no node and would only cost memory."""
    model = Bert(BertConfig(vocab_size=1000, hidden_size=192, intermediate_size=768))
    model.eval()
    ids = np.zeros((1, 128), np.int64)
    return recording_of(gh.trace(model, ids, np.ones((1, 128), np.int64)))


def transformer(nodes: int, mask: bool) -> Recording:
    """Layers of 27 nodes in nested modules; with `mask`, one tensor feeds all of them."""
    made = RecordingBuilder("transformer")
    graph = made.graph("transformer")
    graph.stage("traced")
    hidden, scores = "float32[1, 128, 768]", "float32[12, 128, 128]"

    def add(path: list[str], op: str, kind: str, inputs: list[int], shape: str = hidden) -> int:
        group = graph.group_path("module", ["model", *path])
        name = f"{'.'.join(path)}.weight" if kind == "source" and path else ""
        return graph.node(
            op, name=name, kind=kind, inputs=inputs, outputs=[shape], groups=[group]
        )  # fmt: skip

    def linear(path: list[str], x: int) -> int:
        weight = add(path, "Parameter", "source", [], "float32[768, 768]")
        return add(path, "Linear", "matmul", [x, weight])

    ids = graph.node("Input", name="ids", kind="source", outputs=["int64[1, 128]"])
    given = graph.node("Input", name="mask", kind="source", outputs=["float32[1, 128]"])
    shared = add(["mask"], "Unsqueeze", "shape", [given], scores)
    x = add(["embedding"], "Embedding", "move", [ids])
    for i in range(max(1, round((nodes - 5) / 27))):
        at = ["layers", str(i)]
        attention = [*at, "attention"]
        normed = add([*at, "norm1"], "LayerNorm", "norm", [x])
        q, k, v = (linear([*attention, n], normed) for n in ("query", "key", "value"))
        split = [add(attention, "Reshape", "shape", [y]) for y in (q, k, v)]
        keys = add(attention, "Transpose", "shape", [split[1]])
        score = add(attention, "Matmul", "matmul", [split[0], keys], scores)
        scaled = add(attention, "Mul", "elementwise", [score], scores)
        if mask:
            scaled = add(attention, "Add", "elementwise", [scaled, shared], scores)
        else:
            scaled = add(attention, "Relu", "elementwise", [scaled], scores)
        weights = add(attention, "Softmax", "reduction", [scaled], scores)
        mixed = add(attention, "Matmul", "matmul", [weights, split[2]])
        merged = add(attention, "Reshape", "shape", [mixed])
        x = add(at, "Add", "elementwise", [x, linear([*attention, "output"], merged)])
        normed = add([*at, "norm2"], "LayerNorm", "norm", [x])
        up = linear([*at, "mlp", "up"], normed)
        act = add([*at, "mlp"], "Gelu", "elementwise", [up])
        x = add(at, "Add", "elementwise", [x, linear([*at, "mlp", "down"], act)])
    out = add(["head"], "Linear", "matmul", [x])
    graph.set_io([ids, given], [(out, 0)])
    return made.finish()


@dataclass(frozen=True)
class Graph:
    """What is shown, and what is asked of us for it: seconds to open, unfold all, flatten."""

    make: Callable[[], Recording]
    title: str
    asked: tuple[float, float, float]
    peers: tuple[str, ...] = ("netron", "explorer")
    """Viewers that are tried at all: the others are known not to come back."""


GRAPHS: dict[str, Graph] = {
    "mlp": Graph(mlp, "tutorial MLP", (0.6, 0.1, 0.1)),
    "resnet18": Graph(resnet, "ResNet-18", (0.7, 0.2, 0.2)),
    "bert": Graph(bert, "BERT-base", (0.8, 0.3, 0.5)),
    "10k-mask": Graph(partial(transformer, 10_000, True), "10,000 nodes, one mask", (1, 2, 3)),
    "10k": Graph(partial(transformer, 10_000, False), "10,000 nodes, no mask", (1, 2, 3)),
    "100k": Graph(partial(transformer, 100_000, True), "100,000 nodes", (3, 12, 15), ("explorer",)),
    "1m": Graph(partial(transformer, 1_000_000, True), "1,000,000 nodes", (20, 0, 0), ()),
}


@dataclass(frozen=True)
class Files:
    """One graph in the files of each viewer; `html_s` is what writing our page took."""

    nodes: int
    glass: Path
    html: Path
    explorer: Path
    onnx: Path
    html_s: float


def write(name: str, folder: Path, systems: list[str]) -> Files:
    """The files that the given viewers read."""
    graph = GRAPHS[name]
    recording = graph.make()
    at = {kind: folder / f"{name}.{kind}" for kind in ("glass", "html", "json", "onnx")}
    at["glass"].write_bytes(recording.to_bytes())
    # As a person does it: the command, its start included.
    begin = time.perf_counter()
    command = [sys.executable, "-m", "glasshouse", "html", str(at["glass"]), "-o", str(at["html"])]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    html_s = time.perf_counter() - begin
    for system, kind in (("explorer", "json"), ("netron", "onnx")):
        if system in systems and system in graph.peers:
            formats.write(recording, at[kind])
    nodes = len(recording.graphs[0].stage(0).nodes)
    return Files(nodes, at["glass"], at["html"], at["json"], at["onnx"], html_s)
