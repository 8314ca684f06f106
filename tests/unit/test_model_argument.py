"""Every command that takes a model takes `path.py:function`, and ends bad ones with one line."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from glasshouse import cli
from glasshouse.model_argument import read_model
from glasshouse.numpy_ref import run
from glasshouse.record.schema import ErrorRow, KernelRow, TimeRow
from glasshouse.show.server import Server

TORCH = """
import torch

class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x, scale=None, twice=False):
        y = self.linear(x) * (2 if twice else 1)
        return y if scale is None else {"scaled": y * scale["by"]}

class Wrong(torch.nn.Module):
    def forward(self, x):
        y = x * 2
        return y @ torch.ones(3, 3)

def positional():
    return Scaled(), torch.ones(2, 8)

def keywords():
    inputs = {"x": torch.ones(2, 8), "scale": {"by": torch.full((4,), 3.0)}, "twice": True}
    return Scaled(), inputs

def wrong():
    return Wrong(), torch.ones(2, 8)

def step():
    model = torch.nn.Linear(8, 4)
    sgd = torch.optim.SGD(model.parameters(), 0.1)
    return model, (torch.ones(2, 8), torch.ones(2, 4)), torch.nn.functional.mse_loss, sgd
"""
# How each command is called with a model in the place of {}.
CALLS = {
    "html": ["html", "{}", "-o", "out.html"],
    "explain": ["explain", "{}"],
    "convert": ["convert", "{}", "out.glass"],
    "check": ["check", "{}", "--target", "interp"],
    "bisect": ["bisect", "{}", "--target", "interp"],
    "ablate": ["ablate", "{}", "--target", "interp", "--runs", "1", "--no-rules"],
    "diff": ["diff", "{}", "{}", "--max-nodes", "0"],
    "compile": ["compile", "{}", "-o", "out", "--check"],
    "bench": ["bench", "{}", "--seconds", "0.01", "--rounds", "1"],
    "view": ["view", "{}", "--no-browser"],
}


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "user_models.py"
    path.write_text(TORCH)
    return path


def call(command: str, model: str) -> int:
    return cli.main([part.format(model) for part in CALLS[command]])


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """`view` returns at once; what it would show is kept."""
    titles: list[str] = []

    def wait(server: Server) -> None:
        raise KeyboardInterrupt

    add = Server.add

    def kept(self, recording, *rest, **named):
        titles.append(recording.header.title)
        return add(self, recording, *rest, **named)

    monkeypatch.setattr(Server, "wait", wait)
    monkeypatch.setattr(Server, "add", kept)
    return titles


def test_a_training_step(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", f"{models}:step") == 0
    assert "loss and 2 parameters and states are PyTorch's after each of 3 steps" in (
        capsys.readouterr().out
    )
    assert call("bench", f"{models}:step") == 2
    assert "step() gives a training step, and bench compares models" in capsys.readouterr().err


@pytest.mark.parametrize("command", CALLS)
def test_a_function_of_a_file(command: str, models: Path, no_server: list[str], capsys) -> None:
    assert call(command, f"{models}:keywords") == 0
    printed = capsys.readouterr().out
    if command == "explain":
        assert "Kernels" in printed
        assert "Kernels against a float64 replay" in printed
    if command == "check":
        assert "right: no pass and no kernel is further from the model" in printed
    if command == "html":
        assert b"Scaled" in Path("out.html").read_bytes()
    if command == "bench":
        assert "pytorch eager" in printed
    if command == "view":
        assert no_server == ["Scaled"]


def test_without_a_compiler_the_graph_is_explained(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setenv("CXX", "/nonexistent")
    assert call("explain", f"{models}:positional") == 0
    printed = capsys.readouterr()
    assert "Matmul" in printed.out or "Linear" in printed.out
    assert "Kernels" not in printed.out
    assert "without kernels: no C++ compiler found" in printed.err


def test_a_page_of_a_function_has_kernels_times_and_errors(
    models: Path, no_server: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []
    add = Server.add

    def kept(self, recording, *rest, **named):
        shown.append(recording)
        return add(self, recording, *rest, **named)

    monkeypatch.setattr(Server, "add", kept)
    assert call("view", f"{models}:positional") == 0
    assert cli.main(["view", f"{models}:positional", "--no-browser", "--no-compile"]) == 0
    rows = [[r.graphs[0].table(t).rows for t in (KernelRow, TimeRow, ErrorRow)] for r in shown]
    assert min(rows[0]) >= 1
    assert rows[1] == [0, 0, 0]


def test_every_command_with_a_model_is_here() -> None:
    # `tune` reads models in processes of its own: tests/unit/distributed
    assert set(CALLS) == set(cli.COMMANDS) - {"demo", "cache", "tune"}


def test_keywords_are_the_models_own(models: Path) -> None:
    given = read_model(f"{models}:keywords")
    arrays = [x.numpy() for x in given.inputs]
    assert len(arrays) == len(given.graph.inputs) == 2  # not the switch
    wanted = given.model(*given.args, **given.keywords)["scaled"].detach().numpy()
    assert run(given.graph, arrays)[0] == pytest.approx(wanted, rel=1e-5)


def test_html_is_named_after_the_function(models: Path) -> None:
    assert cli.main(["html", f"{models}:positional"]) == 0
    assert Path("positional.html").exists()


@pytest.mark.parametrize("command", CALLS)
@pytest.mark.parametrize("bad", ["broken.onnx", "broken.pt2", "empty.pt2", "absent.onnx"])
def test_a_broken_file_ends_in_one_line_and_2(
    command: str, bad: str, models: Path, no_server: list[str], capsys
) -> None:
    Path("broken.onnx").write_bytes(b"\x08\x07garbage" * 9)
    Path("broken.pt2").write_bytes(b"PK\x03\x04 no archive")
    with zipfile.ZipFile("empty.pt2", "w") as archive:
        archive.writestr("empty/version", "0")
    assert call(command, bad) == 2
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    said = [line for line in printed.err.splitlines() if line.startswith("glasshouse ")]
    assert len(said) == 1
    assert bad in said[0]


def test_what_cannot_be_captured_names_the_users_line(models: Path, capsys) -> None:
    assert call("explain", f"{models}:wrong") == 2
    printed = capsys.readouterr().err
    line = 1 + TORCH.splitlines().index("        return y @ torch.ones(3, 3)")
    assert f"user_models.py:{line}" in printed
    assert "call it once in PyTorch with the same inputs" in printed
    assert "Traceback" not in printed
