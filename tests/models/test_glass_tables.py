"""The tables of a recording hold on whole models: every line, time, limit, candidate and price is
there, adds up, and fits into a page. All but the smallest model are slow: they are of full size."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn
from glasshouse.ir.graph import Graph
from glasshouse.lower.program import Call
from glasshouse.nn import models
from glasshouse.record.schema import CandidateRow, ErrorRow, KernelRow, TimeRow
from glasshouse.runtime.compiler import compile_optimized
from glasshouse.runtime.module import Module
from glasshouse.show.priced import kernel_groups, unfused
from glasshouse.show.report import report
from models.test_provenance import block, check, line

Built = tuple[Graph, list[Any]]
MAKERS: dict[str, Callable[[Path], Built]] = {}
WORDS = np.random.default_rng(0).integers(1, 2000, (1, 128))


def model(make: Callable[[Path], Built]) -> Callable[[Path], Built]:
    MAKERS[make.__name__] = make
    return make


def traced(module: Any, *inputs: Any) -> Built:
    return gh.trace(module, *inputs), list(inputs)


@model
def small_mlp(folder: Path) -> Built:
    gh.manual_seed(0)
    layers = nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 64)
    return traced(nn.Sequential(*layers), np.ones((40, 64), np.float32))


@model
def mlp(folder: Path) -> Built:
    gh.manual_seed(0)
    layers = [part for _ in range(3) for part in (nn.Linear(512, 512), nn.ReLU())]
    return traced(nn.Sequential(*layers), np.ones((1024, 512), np.float32))


@model
def attention(folder: Path) -> Built:
    import torch

    torch.manual_seed(0)
    inner = torch.nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True).eval()
    x = torch.randn(1, 128, 768)
    return gh.trace(inner, x), [x]


@model
def resnet18(folder: Path) -> Built:
    gh.manual_seed(0)
    return traced(models.resnet18().eval(), np.ones((1, 3, 224, 224), np.float32))


@model
def resnet18_training(folder: Path) -> Built:
    import torch

    from models.torch_models import ResNet

    torch.manual_seed(0)
    net = ResNet((2, 2, 2, 2), False, 1000)
    x, y = torch.rand(2, 3, 224, 224), torch.tensor([3, 7])
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3)
    step = gh.trace_training(net, torch.nn.functional.cross_entropy, sgd, x, y)
    return step, [x, y]


@model
def bert_base(folder: Path) -> Built:
    gh.manual_seed(0)
    return traced(models.Bert(models.BertConfig(vocab_size=2000)).eval(), WORDS)


@model
def gpt2(folder: Path) -> Built:
    gh.manual_seed(0)
    return traced(models.GPT2(models.GPT2Config(vocab_size=2000)).eval(), WORDS)


@model
def llama(folder: Path) -> Built:
    gh.manual_seed(0)
    config = models.LlamaConfig(2000, 512, 1024, 4, 8, 4)
    return traced(models.Llama(config).eval(), WORDS)


@model
def onnx_file(folder: Path) -> Built:
    gh.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    path = folder / "net.onnx"
    x = np.ones((40, 64), np.float32)
    gh.export_onnx(gh.trace(net, x), path)
    return gh.trace(str(path)), [x]


@model
def torch_compile(folder: Path) -> Built:
    import torch

    from glasshouse.frontend.dynamo import compiled_graphs, reset

    torch._dynamo.reset()
    reset()
    net, x = block()
    with torch.no_grad():
        torch.compile(net.eval(), backend="glasshouse", options={"executor": "reference"})(x)
    (graph,) = [c.graph for c in compiled_graphs() if c.phase == "inference"]
    reset()
    inputs = np.random.default_rng(0)
    return graph, [inputs.standard_normal(v.type.shape).astype(np.float32) for v in graph.inputs]


EACH = [pytest.param(n, marks=() if n == "small_mlp" else pytest.mark.slow) for n in MAKERS]


@pytest.mark.parametrize("name", EACH)
def test_the_tables_hold(name: str, tmp_path: Path) -> None:
    graph, inputs = MAKERS[name](tmp_path)
    check(graph, (lambda row: row.name) if name == "onnx_file" else line)
    module = compile_optimized(graph, "cpu", tune=False)
    recording = module.recording(*inputs, count=3)
    rows = recording.graphs[0]
    facts = {k: v for k, v in recording.header.facts.items() if k.endswith("seconds")}
    total = sum(float(facts[f"{part} seconds"]) for part in ("kernel", "copy", "call"))
    assert total == pytest.approx(float(facts["wall seconds"]), rel=1e-4)
    assert 0 < float(facts["call seconds"]) < float(facts["wall seconds"])
    kernels = {k.id: k for k in rows.table(KernelRow)}
    assert {t.kernel for t in rows.table(TimeRow)} >= set(kernels)
    assert len({e.node for e in rows.table(ErrorRow)}) >= 0.9 * len(kernels)
    for group in kernel_groups(recording, rows):
        assert group.limit in ("compute", "memory", "latency"), group
        assert group.where or name == "onnx_file", group
        assert 0 < group.of_limit < math.inf, group
    for edge in unfused(recording, rows):
        assert edge.why, edge
        assert edge.seconds > 0 or not edge.bytes, edge
    candidates_are_priced(module, rows.table(CandidateRow))
    text = report(recording)
    for title in ("sum of kernels", "besides: ", "Variants"):
        assert title in text, text
    page = gh.plot_graph(recording, tmp_path / "page.html")
    assert page.stat().st_size < 2_000_000


CHOSEN = ("matmul", "attention", "layer_norm", "rms_norm", "group_norm", "softmax")


def candidates_are_priced(module: Module, table: Any) -> None:
    """Every product, attention and norm has alternatives with a figure, and one that was taken."""
    by_kernel: dict[int, list[CandidateRow]] = defaultdict(list)
    for row in table:
        by_kernel[row.kernel].append(row)
    asked = 0
    for number, step in enumerate(module.program.steps):
        body = step.node.attrs.get("body")
        inside = list(body.nodes) if isinstance(body, Graph) else [step.node]
        if not isinstance(step, Call) or not any(n.op.name in CHOSEN for n in inside):
            continue
        asked += 1
        rows = by_kernel[number]
        assert len(rows) > 1, step.node
        assert any(r.chosen for r in rows), step.node
        assert any(r.seconds > 0 or "estimate" in r.why for r in rows), step.node
        assert all(r.why or r.seconds for r in rows if r.chosen), step.node
    assert asked
