"""TorchScript archives and `torch.save` files: seen without running or unpickling anything."""

from __future__ import annotations

import contextlib
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from format_files import group_paths, same_graphs
from fuzz.seeds import (
    TORCHSCRIPT,
    pickled_object,
    pickled_tensor,
    torch_archive,
    torch_weights,
    torchscript,
)
from glasshouse import formats
from glasshouse.errors import FormatError, GlasshouseError, LimitExceeded
from glasshouse.record.schema import SourceRow


def test_a_model_is_read() -> None:
    recording = formats.read(torchscript(), "net.pt")
    graph = recording.graphs[0]
    nodes = list(graph.stage(0).nodes)
    assert [n.op for n in nodes] == [
        "Input", "Input", "sum", "gt", "bool", "If", "range", "For", "mul", "topk", "Constant",
        "mul",
    ]  # fmt: skip
    branch, loop, topk = nodes[5], nodes[7], nodes[9]
    assert branch.input_nodes == [4, 0]
    assert loop.input_nodes == [6, 5]
    assert len(topk.outputs) == 2
    # The branch on a constant in the function is taken, not shown.
    assert dict(zip(nodes[8].attr_keys, nodes[8].attr_values, strict=True)) == {"1": "2"}
    assert (nodes[8].file, nodes[8].line) == ("code/__torch__/torch/nn/functional.py", 6)
    stage = graph.info.stages[0]
    assert (stage.inputs, stage.output_nodes, stage.output_ports) == ([0, 1], [11, 9], [0, 1])
    then = recording.graphs[branch.bodies[0]]
    assert then.info.parent == 0
    inner = list(then.stage(0).nodes)
    assert [(n.op, n.outputs) for n in inner] == [
        ("Parameter", ["float32[4, 4]"]), ("Captured", [""]), ("linear", [""]),
    ]  # fmt: skip
    assert [group_paths(then)[g] for g in inner[2].groups] == [("module", "seq", "0")]
    kept = {row.path: row.text for row in recording.member("sources", SourceRow)}
    assert kept["code/__torch__.py"] == TORCHSCRIPT["__torch__.py"]
    assert recording.header.facts["class"] == "__torch__.Net"


def test_models_go_to_model_explorer_and_back() -> None:
    recording = formats.read(torchscript(), "net.pt")
    again = formats.read(formats.dump(recording, "model_explorer"), "net.json")
    same_graphs(again, recording)


def test_real_archives(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Dropout(0.1)
    ).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated; its files stay
        torch.jit.trace(net, torch.ones(1, 3, 8, 8)).save(str(tmp_path / "traced.pt"))
        torch.jit.script(net).save(str(tmp_path / "scripted.pt"))
    for name in ("traced", "scripted"):
        recording = formats.read(tmp_path / f"{name}.pt")
        graph = recording.graphs[0]
        nodes = list(graph.stage(0).nodes)
        paths = group_paths(graph)
        norm = next(n for n in nodes if n.op == "batch_norm")
        assert [paths[g] for g in norm.groups] == [("module", "1")]
        weights = {n.name: n.outputs[0] for n in nodes if n.op == "Parameter"}
        assert weights["0.weight"] == "float32[4, 3, 3, 3]"
        assert weights["1.running_var"] == "float32[4]"
    torch.save(net.state_dict(), tmp_path / "state.pt")
    torch.save(net, tmp_path / "whole.pt")
    torch.save(torch.optim.Adam(net.parameters()).state_dict(), tmp_path / "optimizer.pt")
    names = [
        formats.read(tmp_path / f"{kind}.pt").graphs[0].stage(0).nodes.pylist("name")
        for kind in ("state", "whole")
    ]
    assert sorted(names[0]) == sorted(names[1]) == sorted(net.state_dict())
    attrs = formats.read(tmp_path / "optimizer.pt").graphs[0].info.attrs
    assert attrs["param_groups.0.lr"] == "0.001"
    torch.save(net.state_dict(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(FormatError, match=r"before version 1\.6; write it anew"):
        formats.read(tmp_path / "old.pt")


def test_a_checkpoint_is_a_tree_of_tensors() -> None:
    recording = formats.read(torch_weights(), "w.pt")
    graph = recording.graphs[0]
    nodes = list(graph.stage(0).nodes)
    assert [(n.name, n.outputs[0], n.attr_values) for n in nodes] == [
        ("model.net.fc.weight", "float32[2, 8]", ["64", "data/0"]),
        ("model.net.fc.bias", "float32[2]", ["8", "data/1"]),
    ]
    assert [group_paths(graph)[g] for g in nodes[0].groups] == [("module", "model", "net", "fc")]
    assert graph.info.attrs == {"epoch": "3"}


class Evil:
    def __reduce__(self) -> Any:
        return (exec, ("import sys; sys.modules['glasshouse_was_fooled'] = sys",))


def test_nothing_of_a_pickle_is_run() -> None:
    system = b"cos\nsystem\n(X\x04\x00\x00\x00trueltR."
    for data in (pickle.dumps({"a": Evil()}, protocol=2), b"\x80\x02" + system):
        with contextlib.suppress(FormatError):
            formats.read(torch_archive({"data.pkl": data}), "w.pt")
    assert "glasshouse_was_fooled" not in sys.modules


def script(*code: str, more: str = "") -> bytes:
    """An archive whose class Net has the given lines as its forward, and more methods."""
    body = "\n".join(f"    {line}" for line in code)
    text = f"class Net(Module):\n  def forward(self: __torch__.Net, x: Tensor):\n{body}\n{more}"
    root = b"\x80\x02" + pickled_object("__torch__.Net") + b"."
    return torch_archive({"data.pkl": root, "code/__torch__.py": text.encode()})


@pytest.mark.parametrize(
    "data, says",
    [
        (script("return (self).forward(x, )"), "more than 50 deep"),
        (script("return ((("), "no TorchScript"),
        (script("x = " + "-" * 100_000 + "1"), "no TorchScript|too deep"),
        (script("return " + "x." * 50_000 + "y"), "no TorchScript|too deep"),
        (script("return " + "[" * 1000 + "]" * 1000), "no TorchScript|too deep"),
        (torch_archive({"data.pkl": b"\x80\x02}"}), "the pickle is cut off"),
        (torch_archive({"data.pkl": b"\x80\x02" + b"(" * 100 + b"."}), "the pickle"),
    ],
)
def test_hostile_archives_are_refused(data: bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says) as caught:
        formats.read(data, "net.pt")
    assert "\n" not in str(caught.value)


def test_tuples_of_tuples_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSHOUSE_LIMITS", "items=20000")
    data = script("a = (x, x)", *["a = (a, a)"] * 60, "return torch.cat(a)")  # 2 ** 61 values
    with pytest.raises(LimitExceeded, match="entries"):
        formats.read(data, "net.pt")


def test_methods_that_call_methods_twice_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSHOUSE_LIMITS", "items=20000")
    more = "  def f0(self, x):\n    return x\n" + "".join(
        f"  def f{i}(self, x):\n    return self.f{i - 1}(self.f{i - 1}(x))\n" for i in range(1, 40)
    )
    with pytest.raises(LimitExceeded, match="entries"):
        formats.read(script("return self.f39(x)", more=more), "net.pt")


def test_shared_lists_do_not_unfold() -> None:
    deep = b"]q\x00" + pickled_tensor("0", 1) + b"a"
    shared = (
        b"\x80\x02"
        + deep
        + b"".join(
            b"](h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1]) for i in range(60)
        )
    )
    data = b"\x80\x02(" + shared[2:] + b"t."
    nodes = formats.read(torch_archive({"data.pkl": data}), "w.pt").graphs[0].stage(0).nodes
    assert len(nodes) == 1


SAMPLES = {"net.pt": torchscript(), "w.pt": torch_weights()}


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(sorted(SAMPLES)),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6),
)
def test_damaged_archives_are_read_or_refused(name: str, changes: list[tuple[int, int]]) -> None:
    data = bytearray(SAMPLES[name])
    for place, value in changes:
        data[place % len(data)] = value
    with contextlib.suppress(GlasshouseError):
        formats.read(bytes(data), name).to_bytes()
