"""Sets of models on local processes: planned, measured, built; a dead process costs nothing."""

import json

import pytest

import glasshouse as gh
from glasshouse.cli import main
from glasshouse.distributed import drive
from glasshouse.distributed.local import LocalWorkers
from glasshouse.distributed.schedule import WorkerNode
from glasshouse.errors import TypeMismatch

MODELS = """
import os, signal
from pathlib import Path
import numpy as np
from glasshouse import nn

def small():
    print("a model may print")
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU()), (np.ones((2, 4), np.float32),)

def dies():
    '''Kills the process that traces it, the first time.'''
    here = Path(__file__).with_name("died")
    if not here.exists():
        here.write_text("once")
        os.kill(os.getpid(), signal.SIGKILL)
    return small()

def always_dies():
    os.kill(os.getpid(), signal.SIGKILL)

def fails():
    raise ValueError("no such weights")
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "models.py"
    path.write_text(MODELS)
    return path


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def in_cache(cache, monkeypatch):
    monkeypatch.setenv("GLASSHOUSE_CACHE", str(cache))


def test_each_model_is_reported_and_nothing_is_done_twice(models, monkeypatch):
    seen = []
    names = [f"{models}:{name}" for name in ("small", "dies", "always_dies", "fails")]
    reports = gh.distributed.compile(
        names, jobs=2, tries=3, progress=lambda *now: seen.append(now)
    )  # fmt: skip
    small, dies, always, fails = reports
    assert (small.nodes, small.kernels, small.error) == (dies.nodes, dies.kernels, "")
    assert small.kernels >= 1
    assert dies.error == ""
    assert "died" in always.error
    assert "no such weights" in fails.error
    assert "models.py" in fails.error
    assert seen[-1][0] == seen[-1][1] == 6  # four plans, two builds

    def submit(self, task, node):
        raise AssertionError(f"{task.name} is known")

    monkeypatch.setattr(LocalWorkers, "submit", submit)
    again = gh.distributed.compile(names[:2])
    assert [r.known for r in again] == [True, True]
    assert again[0].kernels == small.kernels


def test_the_command_says_what_came_of_it(models, capsys):
    assert main(["tune", f"{models}:small"]) == 0
    assert "kernels" in capsys.readouterr().out
    assert main(["tune", f"{models}:small", f"{models}:nothing"]) == 2
    out = capsys.readouterr()
    assert "small: " in out.out
    assert "1/" in out.err
    said = [line for line in out.err.splitlines() if line.startswith("glasshouse tune: ")]
    assert len(said) == 1
    assert "has no function 'nothing'" in said[0]
    assert main(["tune", "missing.onnx"]) == 2


def test_what_is_no_list_of_models_is_said(models):
    with pytest.raises(TypeMismatch, match="a list of model files, not a text"):
        gh.distributed.compile(f"{models}:small")
    with pytest.raises(TypeMismatch, match="not int"):
        gh.distributed.compile([3])


class Pretending:
    """Workers that do nothing: plans name problems, and answers come in the order of asking."""

    def __init__(self, problems):
        self.problems = problems
        self.asked, self.done = [], []

    def nodes(self):
        return [WorkerNode("a", "zen", 8)]

    def submit(self, task, node):
        self.asked.append(task)

    def wait(self):
        task = self.asked.pop(0)
        self.done.append(task)
        result = {
            "plan": {"problems": self.problems.get(task.model, ())},
            "measure": {"taken": "direct"},
            "build": {"nodes": 1, "kernels": 1},
        }[task.kind]
        return [(task, {"result": result})]

    def changes(self):
        return [], []

    def close(self):
        pass


def test_a_problem_is_measured_once_for_all_models_and_before_they_are_built(tmp_path, monkeypatch):
    one, two, three = (json.dumps({"key": f"conv {i}"}) for i in range(3))
    models = [str(tmp_path / f"{name}.onnx") for name in "abc"]
    for model in models:
        (tmp_path / model).write_text("not read here")
    workers = Pretending(dict(zip(models, ([one, two], [two, three], [one]), strict=True)))
    monkeypatch.setattr(drive, "_workers", lambda *_: workers)
    reports = gh.distributed.compile(models)
    assert [r.measured for r in reports] == [2, 2, 1]
    assert [r.kernels for r in reports] == [1, 1, 1]
    order = [(t.kind, t.problem or t.model) for t in workers.done]
    assert sum(kind == "measure" for kind, _ in order) == 3
    for model, problems in workers.problems.items():
        built = order.index(("build", model))
        assert all(order.index(("measure", p)) < built for p in problems)
