"""The scripts in examples/ show what they promise."""

from __future__ import annotations

import importlib.util
import pickle
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_attention(capsys) -> None:
    load("attention").main()
    out = capsys.readouterr().out
    assert "  (query): Linear(in_features=768, out_features=768)" in out
    assert "x_4: float32[1, 128, 12, 64] = Reshape(x_3, shape=[1, 128, 12, 64])" in out
    assert "greatest difference to the lazy run: 0.0" in out


def test_train_mlp(capsys) -> None:
    assert load("train_mlp").main(steps=100) > 0.95
    assert "backward" in capsys.readouterr().out


@pytest.mark.slow  # compiles ResNet-18 twice
def test_trace_training(tmp_path) -> None:
    script = load("trace_training")
    script.main(tmp_path, 32)
    made = sorted(p.name for p in tmp_path.iterdir())
    assert made == [
        "resnet.pkl",
        "resnet_train.pkl",
        "simple_model.pkl",
        "simple_model_train.pkl",
    ]
    for name in made:
        data = pickle.loads((tmp_path / name).read_bytes())
        nodes, runs = data["node_data"], data["execute_op_info"]
        ids = {i for n in nodes.values() for i in (*n["inputs"], *n["outputs"])}
        ids |= {i for r in runs.values() for i in r["fused_ops"]}
        ids |= {int(n["attrs"].get("grad_op_id", n["id"])) for n in nodes.values()}
        assert ids <= set(nodes), name
        steps = [s for n in nodes.values() for s in n["stacks"] if s["type"] != "Grad"]
        assert all(Path(s["file_path"]).is_file() and s["lineno"] > 0 for s in steps)
        trained = any("grad_op_id" in n["attrs"] for n in nodes.values())
        assert trained == ("train" in name)
    data = pickle.loads((tmp_path / "resnet_train.pkl").read_bytes())
    paths = {tuple((s["name"], s["type"]) for s in n["stacks"]) for n in data["node_data"].values()}
    block = (
        ("resnet18", "ResNet"),
        ("layer3", "Sequential"),
        ("1", "BasicBlock"),
        ("conv2", "Conv2d"),
    )
    assert block in paths
    assert (("grad", "Grad"), *block) in paths
    assert (("opt", "SGD"),) in paths
    assert np.all([len(r["fused_ops"]) for r in data["execute_op_info"].values()])
