"""Modules pickle, deep-copy, go to other processes; saved ones keep how they are called."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glasshouse as gh
from glasshouse.errors import FormatError, TypeMismatch
from glasshouse.runtime.signature_json import signature_from_json, signature_to_json


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(3.0))

    def forward(self, x: Any, options: dict[str, Any], scale: float = 2.0) -> dict[str, Any]:
        return {"y": x * self.weight, "z": [options["bias"] + scale]}


@pytest.fixture(scope="module")
def module() -> Any:
    return gh.compile(Model(), torch.zeros(3), {"bias": torch.zeros(2)})


def result(module: Any) -> list[float]:
    out = module(torch.ones(3), options={"bias": torch.zeros(2)})
    assert out["z"][0].tolist() == [2.0, 2.0]
    found: list[float] = out["y"].tolist()
    return found


def test_a_pickled_module_and_a_copy_give_the_same(module: Any) -> None:
    assert result(pickle.loads(pickle.dumps(module))) == [0.0, 1.0, 2.0]
    twin = copy.deepcopy(module)
    twin.set_constant("weight", np.zeros(3, np.float32))
    assert result(twin) == [0.0, 0.0, 0.0]
    assert result(module) == [0.0, 1.0, 2.0]


@dataclass
class Scored:
    loss: torch.Tensor | None
    scores: torch.Tensor


class Scores(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Scored:
        return Scored(None, x * 2)


def test_a_copy_makes_results_of_their_class() -> None:
    x = torch.arange(3.0)
    module = gh.compile(Scores(), x)
    out = copy.deepcopy(module)(x)
    assert type(out) is Scored
    assert out.loss is None
    assert out.scores.tolist() == [0.0, 2.0, 4.0]
    # An unpickled one may be where the class is not.
    assert pickle.loads(pickle.dumps(module))(x).scores.tolist() == [0.0, 2.0, 4.0]


def _in_another_process(module: Any, numbers: list[float]) -> list[float]:
    return [
        float(v) for v in module(np.array(numbers, np.float32), {"bias": np.zeros(2, "f4")})["y"]
    ]


@pytest.mark.slow  # a fresh interpreter imports torch
def test_a_module_goes_to_another_process(module: Any) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_in_another_process, (module, [1.0, 1.0, 1.0])) == [0.0, 1.0, 2.0]


def test_a_saved_module_is_called_like_its_model(module: Any, tmp_path: Path) -> None:
    loaded = gh.load(module.save(tmp_path / "saved"))
    assert result(loaded) == [0.0, 1.0, 2.0]
    assert loaded.input_names == module.input_names == ["x", "options_bias"]
    assert loaded.output_names == ["y", "z.0"]
    assert repr(loaded).startswith("<Module Model (x: float32[3], options_bias: float32[2]) -> (y")
    with pytest.raises(TypeMismatch, match="'scale' was not given"):
        loaded(torch.ones(3), {"bias": torch.zeros(2)}, 3.0)


@pytest.mark.parametrize(
    "broken",
    [
        {"results": {"slot": 7, "kind": "tensor"}},
        {"results": {"group": "dict", "names": ["a"], "parts": []}},
        {"written": [[0, 9]]},
    ],
)
def test_a_damaged_signature_is_refused(module: Any, broken: dict[str, Any]) -> None:
    text = {**signature_to_json(module.signature), **broken}
    with pytest.raises(FormatError, match="signature"):
        signature_from_json(text, 2, 2)
