"""The sources of a saved model, built by other compilers and for another processor, give the same.

clang++ builds for this machine; aarch64-linux-gnu-g++ builds for ARM with NEON (vectors of four),
and qemu-user runs that. `make test-cross`; a compiler that is absent is a skip that names the
package. Results differ between processors in the last bits: sums are taken in another order.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

# Compiled in a process of its own: the environment says for which processor, once and for all.
SAVE = """
import numpy as np
import glasshouse as gh
from glasshouse import nn

gh.manual_seed(0)
layers = nn.Linear(16, 33), nn.ReLU(), nn.LayerNorm(33), nn.Linear(33, 8), nn.Softmax()
model = nn.Sequential(*layers)
x = np.linspace(-1, 1, 5 * 16, dtype=np.float32).reshape(5, 16)
module = gh.compile(model.eval(), x)
module.save("saved", name="mlp")
x.tofile("x.bin")
module(x).tofile("y.bin")
"""
PROGRAM = r"""
#include <cstdio>
#include "mlp.hpp"

int main(int, char** given) {
  try {
    glasshouse::mlp::Model model(given[1], 2);
    std::vector<float> x(glasshouse::mlp::Model::inputs()[0].count());
    std::FILE* file = std::fopen(given[2], "rb");
    if (!file || std::fread(x.data(), 4, x.size(), file) != x.size()) return 2;
    std::fclose(file);
    const auto y = model.run({x.data()});
    file = std::fopen(given[3], "wb");
    std::fwrite(y[0].data(), 1, y[0].bytes, file);
    std::fclose(file);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
"""


def tool(name: str, package: str) -> str:
    return shutil.which(name) or pytest.skip(f"no {name}: apt-get install {package}")


def ran(command: list[str], cwd: Path, **env: str) -> None:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]


def built(folder: Path, compiler: str, march: str, *more: str) -> None:
    """The library and a program, from what stands in the saved folder."""
    source = folder / "saved" / "source"
    flags = re.sub(r"-D?(GH_PLAIN|march=\S+)", "", (source / "flags").read_text())
    flags = flags.replace("-mprefer-vector-width=512", "")
    (source / "flags.other").write_text(f"{flags.strip()} {march}\n")
    kernels = sorted(p.name for p in source.glob("*.cpp"))
    ran([compiler, "@flags.other", *kernels, "-o", str(folder / "libmlp.so")], source)
    (folder / "app.cpp").write_text(PROGRAM)
    ran([compiler, "-std=c++17", "-Isaved", "app.cpp", "-o", "app", "-L.", "-lmlp", *more], folder)


def compare(folder: Path) -> None:
    mine, theirs = (np.fromfile(folder / name, np.float32) for name in ("y.bin", "other.bin"))
    assert mine.size == 5 * 8
    np.testing.assert_allclose(theirs, mine, rtol=1e-5, atol=1e-6)


def test_clang(tmp_path: Path) -> None:
    compiler = tool("clang++", "clang")
    ran([sys.executable, "-c", SAVE], tmp_path)
    built(tmp_path, compiler, "-march=native -Werror=return-type")
    ran(["./app", "saved", "x.bin", "other.bin"], tmp_path, LD_LIBRARY_PATH=".")
    compare(tmp_path)


def test_aarch64(tmp_path: Path) -> None:
    compiler = tool("aarch64-linux-gnu-g++", "g++-aarch64-linux-gnu")
    runner = tool("qemu-aarch64", "qemu-user")
    # Kernels as they are for a processor without special instructions: the others name x86's.
    ran([sys.executable, "-c", SAVE], tmp_path, GLASSHOUSE_MARCH="plain")
    built(tmp_path, compiler, "-march=armv8-a")
    emulated = [runner, "-L", "/usr/aarch64-linux-gnu", "-E", "LD_LIBRARY_PATH=."]
    ran([*emulated, "./app", "saved", "x.bin", "other.bin"], tmp_path)
    compare(tmp_path)
    listing = subprocess.run(
        ["aarch64-linux-gnu-objdump", "-d", "libmlp.so"], cwd=tmp_path, capture_output=True,
        text=True, check=True,
    ).stdout  # fmt: skip
    assert len(re.findall(r"\bfm(?:la|ul)\s+v\d+\.4s", listing)) > 50  # NEON, four lanes
