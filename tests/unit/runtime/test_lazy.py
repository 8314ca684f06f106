"""Lazy tensors and the compiler: equal results, compiled once, and only when it pays."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn, optim
from glasshouse.errors import TypeMismatch
from glasshouse.runtime import lazy
from glasshouse.runtime.lazy import LazyExecutor


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> Iterator[LazyExecutor]:
    """One that finds three runs of anything worth compiling."""
    made = LazyExecutor()
    monkeypatch.setattr(lazy, "_COMPILE", 3 * 1.0)
    monkeypatch.setattr(lazy, "_COMPILE_NODE", 0.0)
    monkeypatch.setattr(lazy, "_RUN_NODE", 1.0 / 4)  # of a graph with four nodes
    before = gh.set_executor(made)
    yield made
    gh.set_executor(before)


def test_what_runs_often_is_compiled_once_and_gives_the_same(executor: LazyExecutor) -> None:
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    for count in range(1, 6):
        once = ((gh.array(x) * 2 + float(count)).tanh() - 1).numpy()  # another number each time
        np.testing.assert_allclose(once, np.tanh(x * 2 + count) - 1, rtol=1e-5, atol=1e-6)
        often = ((gh.array(x) * 3 + 1.0).tanh() - 1).numpy()
        np.testing.assert_allclose(often, np.tanh(x * 3 + 1) - 1, rtol=1e-5, atol=1e-6)
        assert executor.compiled() == (count >= 3)


def test_training_goes_on_through_the_change(executor: LazyExecutor) -> None:
    def losses(steps: int) -> list[float]:
        gh.manual_seed(0)
        model = nn.Linear(6, 3)
        optimizer = optim.Adam(model.parameters(), 0.05)
        x = gh.array(np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6))
        found = []
        for _ in range(steps):
            loss = (model(x) - 1.0).square().mean()
            optimizer.step(loss)
            found.append(loss.item())
        return found

    ours = losses(4)
    assert executor.compiled() >= 1
    gh.set_executor("reference")
    np.testing.assert_allclose(ours, losses(4), rtol=1e-4)


def test_trace_data_tells_of_the_kernels_that_ran(executor: LazyExecutor) -> None:
    gh.clear_trace_data()
    with gh.flag_scope(trace_py_var=2):
        for _ in range(2):  # other nodes, the same kernel
            (((gh.array(np.ones(2, "f")) + 1) * 2).exp() - 3).sync()
    data = gh.dump_trace_data()
    runs = list(data["execute_op_info"].values())
    assert executor.compiled() == 1
    names = [[data["node_data"][i]["attrs"]["name"] for i in r["fused_ops"]] for r in runs]
    assert names == [["add", "multiply", "exp", "subtract"]] * 2
    assert runs[0]["fused_ops"] != runs[1]["fused_ops"]
    assert runs[0]["jit_key"].startswith("k0_")
    assert "exp" in Path(runs[0]["file_path"]).read_text()
    gh.clear_trace_data()


def test_structures_that_never_return_are_forgotten(
    executor: LazyExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lazy, "KEPT", 5)
    for number in range(20):
        (gh.array(np.ones(2, "f")) * float(number)).sync()
    assert len(executor._seen) == 5


CODE = """
import numpy as np, glasshouse as gh
for _ in range(3):
    print((gh.array(np.ones(2, "f")) * 2).numpy().tolist())
"""


@pytest.mark.parametrize("name", ["auto", "compiled"])
def test_without_a_compiler(name: str) -> None:
    env = {**os.environ, "CXX": "/nonexistent", "GLASSHOUSE_EXECUTOR": name}
    made = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE], env=env, text=True, capture_output=True,
        check=False,
    )  # fmt: skip
    if name == "auto":
        assert made.stdout == "[2.0, 2.0]\n" * 3
    else:
        assert "CompilerMissing: no C++ compiler found" in made.stderr


def test_an_unknown_executor_is_named() -> None:
    with pytest.raises(TypeMismatch, match="no executor 'gpu'; there are reference, auto"):
        gh.set_executor("gpu")
