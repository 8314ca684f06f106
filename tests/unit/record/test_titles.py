"""Kernels are called by the module of their anchor, in lists from the first numbered block on."""

from __future__ import annotations

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn
from glasshouse.ir.home import made_from
from glasshouse.ops.pieces import concat
from glasshouse.record.schema import KernelRow
from glasshouse.record.titles import full_titles, join_title, local_title, short_path


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8, bias=False) for _ in range(3))
        self.dense = nn.Linear(8, 8)

    def forward(self, x):
        mixed = self.query(x) * self.key(x) + self.value(x)
        return nn.functional.gelu(self.dense(mixed)).reshape(2, 2, 8)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        for block in self.layer:
            x = block(x.reshape(4, 8))
        return x


@pytest.fixture(scope="module")
def optimized():
    return gh.optimize(gh.trace(Model(), np.ones((2, 2, 8), np.float32)))


def kernels(graph):
    return [n for n in graph.nodes if n.op.kind.value not in ("source", "injective")]


def test_a_trailing_reshape_decides_nothing(optimized):
    nodes = [n for n in kernels(optimized) if "gelu" in local_title(n)]
    assert [n.origin.source.path for n in nodes] == ["layer.0.dense", "layer.1.dense"]
    assert [local_title(n) for n in nodes] == ["dense + gelu"] * 2
    assert full_titles(nodes) == ["layer.0 dense + gelu", "layer.1 dense + gelu"]


def test_what_spans_modules_stands_above_them_under_all_their_names():
    graph = gh.trace(Model(), np.ones((2, 2, 8), np.float32))
    products = [n for n in graph.nodes if n.op.name == "matmul"][:3]
    merged = made_from(products, "Merge", "merge")
    assert merged.source.path == "layer.0"
    assert merged.spans == ("query", "key", "value")
    again = made_from([n for n in graph.nodes if n.op.name == "matmul"], "Merge", "merge")
    assert again.source.path == "layer"
    assert "1.dense" in again.spans


def test_the_kernels_row_has_the_title():
    graph = gh.trace(Model(), np.ones((2, 2, 8), np.float32))
    rows = list(gh.compile(graph).recording().graphs[0].table(KernelRow))
    assert "layer.1 dense + gelu" in [r.title for r in rows]


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("encoder.layer.8.intermediate.dense", "layer.8 intermediate.dense"),
        ("stages.0.layers.1.conv", "stages.0 layers.1 conv"),
        ("pooler.dense", "pooler.dense"),
        ("3.weight", "3 weight"),
        ("net.0", "net.0"),
        ("", ""),
    ],
)
def test_paths_begin_at_the_first_numbered_block(path, short):
    assert short_path(path.split(".") if path else []) == short


def test_kernels_of_one_name_go_by_their_weights_too():
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in ("into", "back"):
                setattr(self, name, nn.Parameter(np.ones((8, 8), np.float32)))

        def forward(self, x):
            return (x @ self.into).relu() @ self.back

    graph = gh.optimize(gh.trace(Both(), np.ones((2, 8), np.float32)))
    assert full_titles(kernels(graph)) == ["matmul + relu", "matmul"]
    graph = gh.trace(Both(), np.ones((2, 8), np.float32))
    products = [n for n in graph.nodes if n.op.name == "matmul"]
    assert full_titles(products) == ["matmul (into)", "matmul (back)"]


def test_looking_whether_indices_are_in_order_is_no_part_of_a_name():
    x = gh.randn(4, 8)
    taken = gh.trace(lambda x, i: gh.nn.functional.relu(x.apply("take", i.apply("from_front"))),
                     x, gh.from_numpy(np.arange(3)))  # fmt: skip
    [kernel] = kernels(gh.optimize(taken))
    assert local_title(kernel) == "take + relu"


def test_a_title_does_not_say_its_module_twice():
    assert join_title(["h", "0", "c_fc"], "c_fc + gelu") == "h.0 c_fc + gelu"
    assert join_title(["h", "0", "attn"], "attention") == "h.0 attn: attention"
    assert join_title([], "add") == "add"


def test_what_a_loop_wrote_element_after_element_is_looked_through_once():
    """Each step cuts and joins what was there: 2 to the power of 64 ways to the first one."""

    def written(x, at):
        for i in range(64):
            x = concat(x[:i], x[:1] * 2, x[i + 1 :], axis=0)
        return x[at]

    graph = gh.trace(written, np.ones((70, 3), np.float32), np.zeros(5, np.int64))
    taken = graph.outputs[0].node
    assert local_title(taken)
