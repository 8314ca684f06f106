"""Nothing loses its origin: every kernel reaches a line of the model, and every traced op reaches a
kernel, or the rewrite that removed it. Graphs are optimised and lowered, not built."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch.nn import functional as F

import glasshouse as gh
from glasshouse.frontend.dynamo import compiled_graphs, reset
from glasshouse.frontend.torch.tracing.training import trace_training
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.op import Kind
from glasshouse.lower.group import member_ids
from glasshouse.nn import models
from glasshouse.passes import PassContext
from glasshouse.passes.pipeline import optimize_program
from glasshouse.record.schema import RewriteRow
from models.test_what_is_shown_is_what_runs import graph_of

HERE = Path(__file__).name


class Chain:
    """The recording of a graph's passes as a map from ids to the ids that they stand for."""

    def __init__(self, graph: Graph) -> None:
        context = PassContext(options={"resolve_variant": {"measure": "none"}})
        record = context.record()
        self.program = optimize_program(graph, context)
        assert record.recording is not None
        self.view = record.recording.graphs[0]
        self.rows: dict[int, Any] = {}
        for body in record.recording.graphs[1:]:
            self.rows |= {row.id: row for row in body.stage(-1).nodes}
        self.rows |= {row.id: row for row in self.view.nodes_until(len(self.view.info.stages) - 1)}

    def stands_for(self, ids: Iterable[int]) -> set[int]:
        seen: set[int] = set()
        pending = list(ids)
        while pending:
            id = pending.pop()
            if id not in seen:
                seen.add(id)
                pending += self.rows[id].replaces if id in self.rows else ()
        return seen

    def kernels(self) -> list[tuple[Node, set[int]]]:
        return [
            (step.node, self.stands_for([step.node.id, *member_ids(step.node)]))
            for step in self.program.steps
        ]

    def removed(self) -> set[int]:
        return {id for row in self.view.table(RewriteRow) for id in row.before}


def ops_of(graph: Graph) -> list[Node]:
    return [n for n in graph.nodes if n.op.kind is not Kind.SOURCE]


def check(graph: Graph, told: Callable[[Any], object]) -> None:
    """`told` says whether a row of the recording has what leads to the user's model."""
    chain = Chain(graph)
    reached: set[int] = set()
    for node, ids in chain.kernels():
        reached |= ids
        assert any(told(chain.rows[i]) for i in ids if i in chain.rows), node
    reached |= chain.removed()
    assert [n for n in ops_of(graph) if n.id not in reached] == []
    made = [r for r in chain.rows.values() if r.op == "Constant" and r.pass_name]
    assert [r for r in made if not r.replaces] == []


def line(row: Any) -> object:
    return row.file and row.line


@pytest.mark.parametrize(
    "name", ["mlp", "attention", "resnet18", "resnet18-training", "bert", "gpt2"]
)
def test_own_models(name: str) -> None:
    check(graph_of(name), line)


def test_a_llama() -> None:
    gh.manual_seed(0)
    config = models.LlamaConfig(50, 32, 64, 2, 4, 2)
    check(gh.trace(models.Llama(config).eval(), np.ones((1, 9), np.int64)), line)


class Block(torch.nn.Module):
    """Something with weights, a residual in no module of its own, and a plain function."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.batch_norm = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)
        self.body = torch.nn.Sequential(torch.nn.Linear(36, 36), torch.nn.GELU())
        self.norm, self.head = torch.nn.LayerNorm(36), torch.nn.Linear(36, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.batch_norm(self.conv(x))).flatten(2)
        y = F.scaled_dot_product_attention(y, y, y)
        return self.head(self.norm(self.body(y) + y).mean(1))


def block() -> tuple[Block, torch.Tensor]:
    torch.manual_seed(0)
    return Block(), torch.randn(2, 3, 8, 8)


@pytest.mark.parametrize(
    "kind, loss",
    [
        (torch.optim.AdamW, F.cross_entropy),
        (torch.optim.SGD, lambda y, t: F.cross_entropy(y * 2, t)),
    ],
)
def test_a_training_step_of_pytorch(kind: Any, loss: Any) -> None:
    model, x = block()
    step = trace_training(model, loss, kind(model.parameters(), 0.1), x, torch.tensor([1, 2]))
    check(step, line)
    for node in ops_of(step):
        assert node.origin.source.path, node
        assert node.origin.source.frames[-1].file.endswith(HERE), node
        if node.origin.label("phase") == "backward":
            assert node.origin.grad_of is not None
    paths = {n.origin.source.path for n in ops_of(step)}
    assert {"loss", "optimizer", "body.0"} <= paths


@pytest.fixture
def captured() -> Any:
    torch._dynamo.reset()
    reset()
    yield lambda: {c.phase: c.graph for c in compiled_graphs()}
    torch._dynamo.reset()
    reset()


REFERENCE = {"executor": "reference"}


def test_inference_through_torch_compile(captured: Any) -> None:
    model, x = block()
    with torch.no_grad():
        torch.compile(model.eval(), backend="glasshouse", options=REFERENCE)(x)
    graph = captured()["inference"]
    check(graph, line)
    assert {n.origin.source.path for n in ops_of(graph)} >= {"conv", "body.0", "head"}


def test_training_through_torch_compile(captured: Any) -> None:
    model, x = block()
    torch.compile(model, backend="glasshouse", options=REFERENCE)(x).square().mean().backward()
    graphs = captured()
    forward = {n.origin.name for n in ops_of(graphs["forward"])}
    for phase in ("forward", "backward"):
        graph = graphs[phase]
        check(graph, line)
        nodes = ops_of(graph)
        assert {n.origin.label("phase") for n in nodes} == {phase}
        assert {n.origin.source.path for n in nodes} >= {"conv", "body.0", "head", "norm"}
        assert {n.origin.source.frames[-1].file.rpartition("/")[2] for n in nodes} == {HERE}
    of = [n.origin.label("gradient of") for n in ops_of(graphs["backward"])]
    assert forward & set(of)
    assert sum(name is not None for name in of) > 0.8 * len(of)


def test_a_container_of_pytorchs_own_has_the_line_of_its_call(captured: Any) -> None:
    model = torch.compile(
        torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()),
        backend="glasshouse", options=REFERENCE,
    )  # fmt: skip
    with torch.no_grad():
        model(torch.randn(2, 4))
    graph = captured()["inference"]
    check(graph, line)
    assert {n.origin.source.frames[-1].file.rpartition("/")[2] for n in ops_of(graph)} == {HERE}


def test_an_onnx_file(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    rng = np.random.default_rng(0)
    weights = {"w": (8, 16), "b": (16,), "v": (16, 4)}
    held = [
        onnx.numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n)
        for n, s in weights.items()
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["h"], name="up"),
        helper.make_node("Relu", ["h"], ["r"], name="act"),
        helper.make_node("MatMul", ["r", "v"], ["m"], name="down"),
        helper.make_node("Softmax", ["m"], ["y"], name="prob", axis=-1),
    ]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 8])]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])]
    graph = helper.make_graph(nodes, "small", given, made, held)
    path = tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    traced = gh.trace(str(path))
    check(traced, lambda row: row.name)
    assert {n.origin.name for n in ops_of(traced)} == {"up", "act", "down", "prob"}
    assert all(n.origin.label("onnx op") for n in ops_of(traced))
