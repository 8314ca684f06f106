"""The wheel alone, in an environment of its own: no PyTorch, no onnx, and every format opens.

README's first `pip install` is what puts it there, with the wheel in the place of the name.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from fuzz.seeds import seeds

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow

OPEN_ALL = """
import importlib.util, json
from pathlib import Path
assert not [name for name in ("torch", "onnx", "google") if importlib.util.find_spec(name)]
from glasshouse import cli, formats
told = {}
for file in sorted(Path("files").iterdir()):
    graphs = formats.read(file).graphs
    assert cli.main(["html", str(file), "-o", "page.html"]) == 0, file
    told[file.name] = len(graphs)
print(json.dumps(told))
"""
COMPILE = """
import numpy as np
import glasshouse as gh
from glasshouse import nn
layer, x = nn.Linear(8, 4), np.ones((2, 8), np.float32)
module = gh.compile(layer, x)
np.testing.assert_allclose(module(x), layer(x).numpy(), 1e-5, 1e-5)
gh.load(module.save("saved"))
"""


def run(command: list[str | Path], folder: Path) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment that holds the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], ROOT)
    (wheel,) = folder.glob("glasshouse-*-py3-none-any.whl")
    assert wheel.stat().st_size < 2_100_000  # text, and the viewer of 0.13 MB; it has 2.06
    with zipfile.ZipFile(wheel) as archive:
        about = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        links = re.findall(r"\]\(([^)]*)\)", archive.read(about).decode())
    assert len(links) >= 8
    assert all(link.startswith("https://") for link in links), links
    venv.create(folder / "fresh", with_pip=True)
    first = re.search(r"^ *pip install (\S+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert first is not None
    assert first[1] == "glasshouse"
    python = folder / "fresh/bin/python"
    pins = ["-c", ROOT / "constraints.txt"]
    run([python, "-m", "pip", "install", "-q", *pins, wheel], folder)
    return python


def test_it_opens_a_file_of_every_format(python: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    files = tmp_path / "files"
    files.mkdir()
    for name, data in seeds().items():
        if not name.endswith((".nodedata.json", ".rules.json", ".sync.json")):  # about other files
            (files / name).write_bytes(data)
    model, x = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval(), torch.ones(2, 4)
    torch.export.save(torch.export.export(model, (x,)), files / "real.pt2")
    torch.save(model.state_dict(), files / "real.pt")
    told = json.loads(run([python, "-W", "error", "-c", OPEN_ALL], tmp_path).splitlines()[-1])
    wanted = {".onnx", ".pt2", ".pte", ".gguf", ".tflite", ".safetensors", ".keras", ".h5", ".xml",
              ".mlmodel", ".pt", ".mlir", ".glass"}  # fmt: skip
    assert {Path(name).suffix for name in told} >= wanted
    assert all(told.values())


def test_it_compiles(python: Path, tmp_path: Path) -> None:
    run([python, "-W", "error", "-c", COMPILE], tmp_path)


def test_every_command_has_help(python: Path, tmp_path: Path) -> None:
    command = python.parent / "glasshouse"
    listed = re.findall(r"^    ([a-z]+) ", run([command, "--help"], tmp_path), re.MULTILINE)
    assert len(listed) >= 12
    for name in listed:
        assert "usage: glasshouse" in run([command, name, "--help"], tmp_path)
