"""Branches that a person compares stand side by side; skips all run at one side of their block."""

from __future__ import annotations

from typing import Any

import pytest

from browser.recordings import Maker
from browser.test_drawing import LANES, boxes


def test_gate_and_up_stand_side_by_side(viewer) -> None:
    m = Maker("mlp")
    x = m.op("Input", "x", kind="source")
    gate, up = (m.op("Linear", name, x, kind="matmul", path=[name]) for name in ("gate", "up"))
    both = m.op("Mul", "mul", m.op("Silu", "silu", gate), up)
    m.op("Linear", "down", both, kind="matmul", path=["down"])
    v = viewer(m.finish())
    v.key("e")
    v.see("down")
    found = boxes(v)
    gate_box, up_box = found["gate"], found["up"]
    assert gate_box["y"] == up_box["y"], "at one height"
    assert gate_box["x"] + gate_box["w"] < up_box["x"], "in the order of the model"


def test_the_arms_of_a_residual_stand_side_by_side(viewer) -> None:
    """ResNet's first block of a stage: two convolutions, and one beside them."""
    m = Maker("block")
    x = m.op("Input", "x", kind="source")
    long = m.op("Conv", "conv1", x, kind="conv", path=["conv1"])
    long = m.op("Conv", "conv2", m.op("Relu", "relu", long), kind="conv", path=["conv2"])
    short = m.op("Conv", "downsample", x, kind="conv", path=["downsample"])
    m.op("Add", "add", long, short)
    v = viewer(m.finish())
    v.key("e")
    v.see("downsample")
    found = boxes(v)
    first, second, beside = (found[name] for name in ("conv1", "conv2", "downsample"))
    assert first["y"] <= beside["y"] <= second["y"], "beside its arm, not above or below it"
    assert beside["x"] >= max(b["x"] + b["w"] for b in (first, second)), "and at the right"


@pytest.mark.parametrize("blocks", [2, 5])
def test_every_skip_runs_at_the_right_of_its_block(viewer, blocks: int) -> None:
    m = Maker("skips")
    x = m.op("Input", "x", kind="source")
    for i in range(blocks):
        inner = m.op("Linear", f"fc{i}", x, kind="matmul", path=[f"fc{i}"])
        x = m.op("Add", f"add{i}", m.op("Gelu", f"act{i}", inner), x)
    v = viewer(m.finish(), size=(1280, 1400))
    v.key("e")
    v.see("fc1")
    found = boxes(v)
    left = min(found[f"fc{i}"]["x"] for i in range(blocks))
    right = max(found[f"fc{i}"]["x"] + found[f"fc{i}"]["w"] for i in range(blocks))
    lanes: list[list[Any]] = v.page.evaluate(LANES)
    assert sum(high > right for _, _, _, high in lanes) == blocks, "one lane for each skip"
    assert all(low >= left for _, _, low, _ in lanes), "none at the left"
