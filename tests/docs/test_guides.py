"""Every block of every guide runs as it stands: Python in one namespace a page, shell, C++, CMake.

README.md is a page like the others. A page runs in a folder of its own, from top to bottom, with
the files that pages take for granted (`give`). A block of C++ or CMake whose first line names a
file is written there; blocks of C, JSON and without a language are shown, not run. What `glasshouse
view` opens is fetched and then ended, as a person would with Ctrl-C. An indented block is for what
these tests cannot run: installing (test_wheel.py does) and `make`. Pages that compile much are
marked slow; `make test-docs` runs all of them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.seeds import onnx_model, recording
from glasshouse import formats

ROOT = Path(__file__).parents[2]
QUICK = {"docs/formats.md", "docs/guides/write-a-pass.md"}
GPU = {"docs/guides/gpu.md"}  # run where there is one
PAGES = [
    str(path.relative_to(ROOT))
    for path in [
        ROOT / "README.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs/guides").glob("*.md")),
    ]
    if re.search(r"^```(python|sh)$", path.read_text(encoding="utf-8"), re.MULTILINE)
]
RULES = [{"queries": [{"type": "regex", "queryRegex": "a", "matchTypes": ["title"]}],
          "nodeType": "op_nodes", "version": "v2",
          "styles": {"node_bg_color": {"id": "node_bg_color", "value": "#fff1d5"}}}]  # fmt: skip
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"(?://|#) (\S+\.(?:cpp|txt))\n")

MODELS = """
import torch

def bert(layers=2):
    layer = torch.nn.TransformerEncoderLayer(32, 2, 64, 0.0, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    return model.eval(), (torch.randn(1, 8, 32),)

def small_bert():
    return bert(1)
"""

# Stands in for the person's browser: looks at the page, then ends the server that opened it.
BROWSER = """
import os, signal, sys, urllib.request
with urllib.request.urlopen(sys.argv[1]) as page:
    assert b"<title>" in page.read()
with open("opened", "a") as told:
    told.write(sys.argv[1] + chr(10))
os.kill(os.getppid(), signal.SIGINT)
"""

DRIVER = """
import json, os, pathlib, signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)  # which a shell ignores in what it starts with &
page, steps = json.loads(pathlib.Path("steps.json").read_text())
names = {"__name__": "__main__"}
for kind, line, code in steps:
    if kind == "python":
        exec(compile("\\n" * line + code, page, "exec"), names)
    elif kind == "sh":
        print(f"{page}:{line}", flush=True)
        seen = {**os.environ, "BROWSER": f"{sys.executable} browser.py %s"}
        subprocess.run(["bash", "-ec", code], check=True, env=seen)
    else:
        pathlib.Path(kind).write_text(code)
"""


def steps(text: str) -> list[tuple[str, int, str]]:
    """What a page does: language or file name, the line before the block, its text."""
    out = []
    for found in BLOCK.finditer(text):
        kind, code = found[1], found[2]
        named = NAMED.match(code)
        if kind in ("cpp", "cmake") and named:
            kind = named[1]
        elif kind not in ("python", "sh"):
            continue
        out.append((kind, text.count("\n", 0, found.start(2)), code))
    return out


def give(folder: Path) -> None:
    """The files that pages take for granted."""
    (folder / "model.onnx").write_bytes(onnx_model())
    (folder / "huge.glass").write_bytes(formats.dump(recording(), "glass"))
    (folder / "models.py").write_text(MODELS)
    (folder / "browser.py").write_text(BROWSER)
    (folder / "my_rules.json").write_text(json.dumps(RULES))
    data = {"g": {"name": "us", "results": {"/net/fc/MatMul": {"value": 3.5}}}}
    (folder / "us.json").write_text(json.dumps(data))


def test_pages_are_found() -> None:
    assert set(PAGES) >= QUICK | GPU
    assert len(PAGES) >= 8


@pytest.mark.parametrize(
    "page", [p if p in QUICK else pytest.param(p, marks=pytest.mark.slow) for p in PAGES]
)
def test_runs(page: str, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    if page in GPU and not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("this page compiles for a GPU, and PyTorch sees none here")
    text = (ROOT / page).read_text(encoding="utf-8")
    todo = steps(text)
    if any("cmake" in code for _, _, code in todo) and not shutil.which("cmake"):
        pytest.skip("no cmake: apt-get install cmake")
    give(tmp_path)
    (tmp_path / "steps.json").write_text(json.dumps([page, todo]))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "BROWSER": "true", "PYTHONWARNINGS": "error"}
    if "glasshouse cache" in text:  # which would prune the cache of whoever runs this
        env["GLASSHOUSE_CACHE"] = str(tmp_path / "cache")
    done = subprocess.run(
        [sys.executable, "-c", DRIVER], cwd=tmp_path, env=env, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    opened = (tmp_path / "opened").read_text() if (tmp_path / "opened").exists() else ""
    shell = "".join(code for kind, _, code in todo if kind == "sh")
    assert opened.count("http") == shell.count("glasshouse view ")
