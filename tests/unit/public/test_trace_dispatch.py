"""What `gh.trace` hands to the frontends, and what it does itself."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
import torch

import glasshouse as gh
from glasshouse import nn


@pytest.fixture
def asked(monkeypatch) -> list[Any]:
    """The models that a frontend was given."""
    import glasshouse.frontend as frontend

    seen: list[Any] = []

    def trace(model, inputs=(), keywords=None):
        seen.append(model)
        return gh.Graph("from the frontend")

    monkeypatch.setattr(frontend, "trace", trace)
    return seen


def test_models_of_others_go_to_the_frontend(asked, tmp_path) -> None:
    class OnnxModel:
        __module__ = "onnx.onnx_ml_pb2"

    models = [torch.nn.Linear(1, 1), "model.onnx", tmp_path / "model.pt2", OnnxModel()]
    for model in models:
        assert gh.trace(model, torch.ones(1, 1)).name == "from the frontend"
    assert asked == models


def test_our_own_stay(asked) -> None:
    assert len(gh.trace(nn.Linear(1, 1), gh.spec((1, 1))).inputs) == 1
    assert len(gh.trace(lambda x: x, gh.spec((1,))).inputs) == 1
    assert asked == []


def test_torch_is_not_imported_for_our_own() -> None:
    import subprocess

    code = (
        "import sys, glasshouse as gh; from glasshouse import nn;"
        "gh.trace(nn.Linear(1, 1), gh.spec((1, 1))); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert isinstance(sys.modules["torch"], ModuleType)  # here it is, and was looked at
