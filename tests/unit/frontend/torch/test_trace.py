"""What `gh.trace` makes of small PyTorch modules."""

import inspect

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh
from frontend_torch import outputs_of, same_as_torch


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 8), nn.Linear(8, 3)])

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        y = self.pool(torch.relu(self.bn(self.conv(x))))
        y += 0.5
        return self.head(torch.flatten(nn.functional.adaptive_avg_pool2d(y, 1), 1))


def test_mlp_and_residual_network_equal_torch():
    same_as_torch(Mlp(), torch.randn(2, 4))
    same_as_torch(Residual(), torch.randn(2, 3, 16, 16))


def test_transformer_layers_equal_torch():
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    captured = same_as_torch(model, torch.randn(2, 5, 16))
    assert any(n.op.name == "attention" for n in captured.graph.nodes)


def test_origins_name_the_module_path_with_classes_and_the_users_line():
    graph = gh.trace(Mlp().eval(), torch.randn(2, 4))
    matmul = next(n for n in graph.nodes if n.op.name == "matmul")
    scopes = matmul.origin.source.scopes
    assert [(s.name, s.cls) for s in scopes] == [
        ("", "Mlp"), ("layers", "ModuleList"), ("0", "Linear"),
    ]  # fmt: skip
    assert matmul.origin.source.path == "layers.0"
    lines, first = inspect.getsourcelines(Mlp.forward)
    line = first + next(i for i, text in enumerate(lines) if "layer(x)" in text)
    frame = matmul.origin.source.frames[-1]
    assert (frame.file, frame.line, frame.function) == (__file__, line, "forward")
    assert [f.function for f in matmul.origin.source.below] == ["forward"]  # nn.Linear's own
    assert matmul.origin.label("torch op") == "aten.linear.default"


def test_weights_share_memory_and_carry_their_names():
    model = Mlp()
    graph = gh.trace(model, torch.randn(2, 4))
    held = {n.attrs["name"]: n.attrs["data"] for n in graph.nodes if n.op.name == "constant"}
    assert set(held) == set(dict(model.named_parameters()))
    weight = held["layers.0.weight"]
    assert np.shares_memory(weight, model.layers[0].weight.detach().numpy())


def test_tied_weights_are_one_constant():
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(7, 4)
            self.head = nn.Linear(4, 7, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids):
            return self.head(self.embed(ids))

    captured = same_as_torch(Tied(), torch.tensor([[1, 2, 3]]))
    constants = [n for n in captured.graph.nodes if n.op.name == "constant" and n.attrs["name"]]
    assert len(constants) == 1
    assert constants[0].output.use_count == 2


def test_a_value_used_twice_has_two_edges():
    class Square(nn.Module):
        def forward(self, x):
            return x * x

    graph = gh.trace(Square(), torch.randn(3))
    assert graph.inputs[0].use_count == 2


def test_bfloat16_weights_keep_their_bits():
    model = nn.Linear(4, 3).to(torch.bfloat16)
    captured = same_as_torch(model, torch.randn(2, 4, dtype=torch.bfloat16), tolerance=0.02)
    weight = next(n for n in captured.graph.nodes if n.attrs.get("name") == "weight")
    assert weight.output.type.dtype is gh.bfloat16
    assert weight.attrs["data"].dtype == np.uint16
    assert np.shares_memory(weight.attrs["data"], model.weight.detach().view(torch.int16).numpy())


def test_a_model_without_data_can_be_traced_and_not_run():
    with torch.device("meta"):
        model = nn.Linear(4, 3)
        graph = gh.trace(model, torch.empty(2, 4))
    assert graph.outputs[0].type.shape == (2, 3)
    with pytest.raises(gh.errors.ExecutionError, match="weight"):
        outputs_of(graph, [np.zeros((2, 4), np.float32)])


def test_exported_program_and_file_give_the_same_graph(tmp_path):
    x = torch.randn(2, 4)
    program = torch.export.export(Mlp().eval(), (x,))
    torch.export.save(program, tmp_path / "model.pt2")
    direct = gh.trace(program)
    loaded = gh.trace(tmp_path / "model.pt2")
    assert str(loaded) == str(direct)
    a, b = (outputs_of(g, [x.numpy()])[0] for g in (direct, loaded))
    np.testing.assert_array_equal(a, b)
