"""Every node knows the user's module path with classes, file and line, and PyTorch's op."""

import linecache

import pytest
import torch

import glasshouse as gh
import user_code
from glasshouse.frontend.torch.tracing.capture import LooseCapture


def line_of(mark):
    lines = linecache.getlines(user_code.__file__)
    return 1 + next(i for i, text in enumerate(lines) if text.rstrip().endswith(f"# mark: {mark}"))


@pytest.fixture(scope="module")
def graph():
    torch.manual_seed(0)
    return gh.trace(user_code.Model(), torch.randn(2, 4))


def nodes_of(graph, op):
    return [n for n in graph.nodes if n.origin.label("torch op") == op]


def stack(node):
    """The user's frames, outermost first, as (line, function)."""
    source = node.origin.source
    return [(f.line, f.function) for f in source.frames if f.file == user_code.__file__]


def test_a_line_in_a_plain_function_has_the_calls_that_lead_to_it(graph):
    first, second = nodes_of(graph, "aten.exp.default")
    assert stack(first)[-4:] == [
        (line_of("first use"), "forward"),
        (line_of("query"), "forward"),
        (line_of("rotated"), "rotated"),
        (line_of("helper"), "helper"),
    ]
    assert first.origin.source.path == "encoder.layer.0.attention"
    assert second.origin.source.path == "encoder.layer.1.attention"


def test_the_path_has_the_class_of_every_step_also_of_containers(graph):
    matmul = next(n for n in graph.nodes if n.op.name == "matmul")
    assert [(s.name, s.cls) for s in matmul.origin.source.scopes] == [
        ("", "Model"), ("encoder", "ModuleDict"), ("layer", "ModuleList"), ("0", "Layer"),
        ("attention", "Attention"), ("query", "Linear"),
    ]  # fmt: skip


def test_frames_of_a_library_are_kept_below_the_users_line(graph):
    node = nodes_of(graph, "aten.linear.default")[-1]
    assert node.origin.source.frames[-1].line == line_of("query")
    below = node.origin.source.below
    assert below
    assert all("torch" in f.file for f in below)


def test_a_module_that_is_called_twice_has_both_lines(graph):
    relus = [n for n in nodes_of(graph, "aten.relu.default") if "layer.0" in n.origin.source.path]
    assert [n.origin.source.path for n in relus] == ["encoder.layer.0.shared"] * 2
    lines = [n.origin.source.frames[-1].line for n in relus]
    assert lines == [line_of("first use"), line_of("second use")]


@pytest.mark.parametrize(
    "op, mark",
    [
        ("aten.gelu.default", "gelu"),
        ("aten.flip.default", "rotated"),
        ("aten.sub.Tensor", "second use"),
        ("aten.tanh.default", "comprehension"),
        ("aten.cat.default", "cat"),
    ],
)
def test_ops_name_their_line(graph, op, mark):
    found = nodes_of(graph, op)
    assert found
    assert {n.origin.source.frames[-1].line for n in found} == {line_of(mark)}
    assert {n.origin.source.frames[-1].file for n in found} == {user_code.__file__}


def test_no_node_is_without_an_origin(graph):
    for node in graph.nodes:
        if node.op.name != "input":
            assert node.origin.source.frames, node
            assert node.origin.source.scopes, node


def test_backward_and_optimiser_keep_the_forward_line():
    model = user_code.Model()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.randn(2, 4)
    graph = gh.trace_training(model, torch.nn.functional.mse_loss, optimizer, x, x)
    backward = [n for n in graph.nodes if n.origin.label("phase") == "backward"]
    assert {n.origin.label("phase") for n in graph.nodes} >= {"forward", "backward", "optimizer"}
    lines = {n.origin.source.frames[-1].line for n in backward if n.origin.source.frames}
    assert {line_of("helper"), line_of("gelu"), line_of("query")} <= lines


def test_a_model_that_is_captured_by_running_it_has_them_too():
    class Branch(user_code.Model):
        def forward(self, x):
            return super().forward(x) if x.sum() > 0 else x

    with pytest.warns(LooseCapture):
        graph = gh.trace(Branch(), torch.rand(2, 4))
    exp = nodes_of(graph, "aten.exp.default")[1]
    assert stack(exp)[-2:] == [(line_of("rotated"), "rotated"), (line_of("helper"), "helper")]
    assert [(s.name, s.cls) for s in exp.origin.source.scopes] == [
        ("", "Branch"), ("encoder", "ModuleDict"), ("layer", "ModuleList"), ("1", "Layer"),
        ("attention", "Attention"),
    ]  # fmt: skip
