"""The second half of the flow-graph tutorial: passes, saved graphs and files."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

import glasshouse.compat.hidet as hidet
from glasshouse.compat.hidet.graph import nn
from glasshouse.errors import Unsupported
from glasshouse.numpy_ref import run


class SelfAttention(nn.Module):
    def __init__(self, size: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.head_size = heads, size // heads
        self.q_layer, self.k_layer, self.v_layer = (nn.Linear(size, size) for _ in range(3))

    def split(self, x):
        x = x.reshape([x.shape[0], x.shape[1], self.heads, self.head_size])
        return x.rearrange([[0, 2], [1], [3]])

    def forward(self, x, mask):
        q, k, v = (self.split(layer(x)) for layer in (self.q_layer, self.k_layer, self.v_layer))
        scores = hidet.graph.ops.matmul(q, hidet.graph.ops.transpose(k, [-1, -2])) / 8.0 + mask
        out = hidet.graph.ops.matmul(hidet.graph.ops.softmax(scores, axis=-1), v)
        out = out.reshape([x.shape[0], self.heads, x.shape[1], self.head_size])
        return out.rearrange([[0], [2], [1, 3]])


@pytest.fixture(scope="module")
def graph():
    model = SelfAttention()
    return model.flow_graph_for([hidet.randn([1, 16, 32]), hidet.ones([1, 16], dtype="int32")])


def test_the_tutorial_optimises_times_and_saves(graph, tmp_path, capsys) -> None:
    with hidet.graph.PassContext() as ctx:
        ctx.profile_pass_instrument(print_stdout=True)
        ctx.save_graph_instrument(out_dir=str(tmp_path / "graphs"))
        graph_opt = hidet.graph.optimize(graph)
    printed = capsys.readouterr().out
    assert "FoldConstantPass" in printed
    assert (tmp_path / "graphs" / "1_FoldConstantPass.json").exists()
    text = str(graph_opt)
    assert text.count("FusedMatmul*") == 1
    assert len([n for n in graph_opt.nodes if n.op.name == "fused"]) <= 7
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((1, 16, 32)).astype(np.float32), np.ones((1, 16), np.int32)]
    (wanted,), (got,) = run(graph, inputs), run(graph_opt, inputs)
    np.testing.assert_allclose(got, wanted, atol=1e-5)


def test_netron_dump_writes_to_files_and_paths(graph, tmp_path) -> None:
    file = io.StringIO()
    hidet.utils.netron.dump(graph, file)
    hidet.utils.netron.dump(graph, tmp_path / "attention.json")
    assert (tmp_path / "attention.json").read_text(encoding="utf-8") == file.getvalue()
    data = json.loads(file.getvalue())
    assert data["format"] == "netron"
    names = [node["type"]["name"] for node in data["graphs"][0]["nodes"]]
    assert names.count("Matmul") == 5
    assert "Rearrange" in names


def test_settings_do_what_they_say(graph) -> None:
    with hidet.graph.PassContext() as ctx:
        ctx.set_use_attention(False)
        assert "Softmax" in str(hidet.graph.optimize(graph))
        ctx.set_use_attention(True)
        assert "Attention" in str(hidet.graph.optimize(graph))
        ctx.set_precision("bfloat16")
        assert "bfloat16" in str(hidet.graph.optimize(graph))
        ctx.set_precision(None)
        assert "bfloat16" not in str(hidet.graph.optimize(graph))


def test_what_is_not_there_says_what_is() -> None:
    with pytest.raises(
        Unsupported, match=r"hidet\.utils has no cuda_sanitizer here; it has netron"
    ):
        assert hidet.utils.cuda_sanitizer
