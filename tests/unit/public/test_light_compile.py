"""What compiling a PyTorch model for the CPU does not load, walk or keep: users wait for it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

_COMPILE = """
import gc, json, linecache, os, sys
import torch
full = []
gc.callbacks.append(lambda when, info: full.append(info) if info["generation"] == 2 else None)
import glasshouse as gh
before, export = [], torch.export.export
def told(*args, **options):
    before.extend(m for m in sys.modules if m.startswith("glasshouse."))
    return export(*args, **options)
torch.export.export = told
gh.trace(torch.nn.Linear(4, 4), torch.ones(2, 4))
torch.export.export = export
gh.compile(torch.nn.Linear(4, 4), torch.ones(2, 4))
folder = os.path.dirname(torch.__file__) + os.sep
print(json.dumps({
    "collections": len(full),
    "before the export": before,
    "modules": [m for m in sys.modules if m.startswith("glasshouse.")],
    "graphs": [m for m in sys.modules if m.partition(".")[0] == "networkx"],
    "texts": [f for f in linecache.cache if f.startswith(folder)],
}))
"""


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    command = [sys.executable, "-c", _COMPILE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    "part",
    [
        "backend.cuda", "backend.interp", "checking", "cli", "compat", "distributed", "formats",
        "frontend.onnx", "frontend.torch.tracing.training", "nn", "numerics", "peers",
        "runtime.recording",
        "runtime.save", "serve", "show.html", "tensor",
    ],
)  # fmt: skip
def test_parts_that_it_does_not_use_are_not_loaded(compiled, part: str) -> None:
    name = f"glasshouse.{part}"
    assert [m for m in compiled["modules"] if m == name or m.startswith(f"{name}.")] == []


def test_all_objects_of_the_process_are_never_walked(compiled) -> None:
    assert compiled["collections"] == 0


def test_pytorchs_own_source_is_not_kept(compiled) -> None:
    assert compiled["texts"] == []


def test_pytorchs_planner_of_training_steps_is_not_loaded(compiled) -> None:
    assert compiled["graphs"] == []


def test_what_reads_the_exported_program_is_loaded_behind_the_export(
    compiled: dict[str, Any],
) -> None:
    early = compiled["before the export"]
    assert "glasshouse.frontend.torch.tracing.capture" in early
    late = ("glasshouse.frontend.torch.aten", "glasshouse.frontend.torch.opaque")
    late += ("glasshouse.passes", "glasshouse.lower")
    assert [m for m in early if m.startswith(late)] == []
