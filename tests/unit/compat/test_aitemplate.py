"""A script written for AITemplate, with its import lines changed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from glasshouse.compat.aitemplate.compiler import transform
from glasshouse.compat.aitemplate.frontend import IntVar, Tensor, nn
from glasshouse.compat.aitemplate.testing import detect_target
from glasshouse.compat.aitemplate.utils.graph_utils import sorted_graph_pseudo_code
from glasshouse.errors import Unsupported
from glasshouse.numpy_ref import run


class Mlp(nn.Module):
    def __init__(self, hidden: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.dense1 = nn.Linear(hidden, 4 * hidden, specialization="fast_gelu")
        self.dense2 = nn.Linear(4 * hidden, hidden)
        self.layernorm = nn.LayerNorm(hidden, eps=eps)

    def forward(self, x):
        return self.layernorm(self.dense2(self.dense1(x)))


@pytest.fixture
def built():
    model = Mlp(8)
    model.name_parameter_tensor()
    x = Tensor(shape=[4, 8], name="X", dtype="float32", is_input=True)
    y = model(x)
    y._attrs["is_output"] = True
    y._attrs["name"] = "Y"
    return model, transform.toposort(y)


def test_parameters_have_the_names_under_which_they_are_set(built) -> None:
    model, graph = built
    names = [name.replace(".", "_") for name, _ in model.named_parameters()]
    assert set(names) <= {t._attrs["name"] for t in graph}
    assert [t._attrs["name"] for t in graph if t._attrs["is_input"]] == ["X"]
    assert [t._attrs["name"] for t in graph if t._attrs["is_output"]] == ["Y"]


def test_the_transforms_in_order(built, tmp_path) -> None:
    _, graph = built
    transform.name_graph(graph)
    assert all(t._attrs["name"] for t in graph)
    transform.mark_param_tensor(graph)
    params = [t for t in graph if t._attrs["is_param"]]
    assert {"dense1_weight", "dense2_bias"} <= {t._attrs["name"] for t in params}
    with detect_target() as target:
        assert target.name() == "cpu"
        after = transform.optimize_graph(graph, tmp_path / "work")
    transform.mark_special_views(after)
    files = sorted(p.name for p in (tmp_path / "work").glob("*.json"))
    assert files[1] == "1_FoldConstantPass.json"
    assert json.loads((tmp_path / "work" / files[0]).read_text(encoding="utf-8"))["graphs"]
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    (before,), (optimised,) = run(graph.graph, [x]), run(after.graph, [x])
    np.testing.assert_allclose(optimised, before, atol=1e-5)
    assert len(after.ops()) < len(graph.ops())


def test_the_graph_as_pseudo_code(built) -> None:
    _, graph = built
    transform.name_graph(graph)
    text = sorted_graph_pseudo_code(graph)
    norm = graph.ops()[-1]
    assert f"# layer_norm_{norm.id}\n(Tensor(name=Y, shape=[4, 8]))\n= layer_norm()(\n" in text
    assert "Tensor(name=X, shape=[4, 8]),\n" in text
    assert "shape" not in sorted_graph_pseudo_code(graph, with_shape=False).split("\n")[1]


def test_views_and_sizes_that_vary() -> None:
    batch = IntVar([1, 16], name="batch")

    class Flat(nn.Module):
        def forward(self, x):
            return x.reshape(batch * 4).relu()

    y = Flat()(Tensor(shape=[batch, 4], name="X", dtype="float32", is_input=True))
    graph = transform.toposort([y])
    transform.mark_special_views(graph)
    viewed = [t for t in graph if t._attrs["is_view_of"]]
    assert [t._attrs["is_view_of"]._attrs["name"] for t in viewed] == ["X"]
    assert "batch" in str(graph.graph)
    assert IntVar([3]) == 3


def test_what_is_not_there_says_what_is() -> None:
    with pytest.raises(Unsupported, match="it has mark_param_tensor"):
        assert transform.fuse_everything
