"""Leaving out a pass shows what it brings; JSON of the commands is as their schemas say."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from faults import planted
from glasshouse import cli
from glasshouse.checking.ablate import Left
from glasshouse.cli.ablate import describe
from glasshouse.record import Recording
from glasshouse.runtime.turns import order_of
from glasshouse.show.confidence import each_end, ratio

ROOT = Path(__file__).parents[3]
MODELS = Path(planted.__file__).with_name("models.py")


def printed(capsys: pytest.CaptureFixture[str], name: str, *call: str) -> dict[str, object]:
    assert cli.main([*call, "--target", "interp", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    jsonschema.validate(made, json.loads((ROOT / f"docs/{name}.schema.json").read_text()))
    return made


def test_every_pass_and_rule_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept.glass"
    made = printed(
        capsys, "ablate", "ablate", f"{MODELS}:layer_norm", "--runs", "12", "-o", str(kept)
    )
    rows = {v["without"]: v for v in made["variants"]}
    assert rows["pass fuse_operator"]["kernels"] > rows[""]["kernels"]
    assert rows["rule recognise-layer-norm"]["nodes"] > rows[""]["nodes"]
    assert all(v["error"] < 1e-5 for v in rows.values())
    assert rows[""]["slower"] is None
    # Nothing here has shapes that repeat a computation: without the pass the code is the same, and
    # two clocks of one code would only tell their noise.
    assert rows["pass recompute"]["same"]
    assert rows["pass recompute"]["slower"] is None
    assert rows["pass recompute"]["seconds"] == rows[""]["seconds"]
    assert not rows["pass fuse_operator"]["same"]
    assert rows["pass fuse_operator"]["slower"]["pairs"] == 12
    facts = Recording.open(kept).header.facts
    assert "kernels, error" in facts["without pass fuse_operator"]


def test_timing_does_not_train(capsys: pytest.CaptureFixture[str]) -> None:
    made = printed(capsys, "ablate", "ablate", f"{MODELS}:torch_step", "--runs", "2", "--no-rules")
    assert all(v["error"] < 1e-4 for v in made["variants"])


def test_every_op_of_a_kernel_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    made = printed(
        capsys, "ablate", "ablate", f"{MODELS}:linear", "--inside", "tanh", "--runs", "12"
    )["inside"]
    assert made["kernel"] == "k0_matmul_add_tanh"
    assert {o["op"] for o in made["ops"]} == {"Matmul", "Add", "Tanh"}
    assert all(o["low"] <= o["share"] <= o["high"] for o in made["ops"])
    assert all("in 0" in o["where"] or "in 1" in o["where"] for o in made["ops"])


def test_a_kernel_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    call = ["ablate", f"{MODELS}:linear", "--inside", "k0_matmul_tanh", "--target", "interp"]
    assert cli.main(call) == 2
    said = capsys.readouterr().err
    assert "there is no kernel 'k0_matmul_tanh'" in said
    assert "k0_matmul_add_tanh" in said


def test_a_verdict_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    made = printed(capsys, "check", "check", f"{MODELS}:spread")
    assert made["good"]
    assert len(made["cases"]) == 8


def test_a_report_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    made = printed(capsys, "explain", "explain", f"{MODELS}:spread", "--runs", "2")
    assert made["graphs"][0]["kernels"][0]["count"] == 1


def test_too_few_turns_say_so_instead_of_an_endless_interval() -> None:
    def row(name: str, turns: int) -> Left:
        slower = ratio(np.ones(turns), np.ones(turns), 0.975) if name else None
        return Left(name, 1e-3, slower, False, 0.0, 1, 2, 3, 4, 0.1)

    few = describe("m", [row("", 5), row("pass fold_constant", 5)], [])
    assert "inf" not in few
    assert "5 turns are too few" in few
    many = describe("m", [row("", 12), row("pass fold_constant", 12)], [])
    assert "1.00 .. 1.00" in many
    assert "too few" not in many


def test_no_program_always_runs_behind_the_same_one() -> None:
    orders = [order_of(turn, 6) for turn in range(24)]
    assert all(sorted(order) == list(range(6)) for order in orders)
    assert all(a[::-1] == b for a, b in zip(orders[::2], orders[1::2], strict=True))
    before = Counter(order[order.index(3) - 1] for order in orders if order[0] != 3)
    assert len(before) == 5
    assert sorted(order_of(0, 2) + order_of(1, 2)) == [0, 0, 1, 1]


def test_intervals_of_many_variants_are_wider() -> None:
    a, b = np.ones(40), np.exp(np.random.default_rng(1).normal(0.0, 0.1, 40))
    one, many = (ratio(a, b, each_end(count)) for count in (1, 40))
    assert many.low < one.low < one.middle < one.high < many.high
