"""Modules for GPUs saved and loaded, and run by C++ programs, on a driver without a GPU."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import glasshouse as gh
from fake_cuda import FakeCuda, fake_cuda, fake_library
from glasshouse.errors import FormatError

PROGRAM = r"""
#include <stdio.h>
#include <vector>
#include "model.h"
int main(int count, char** given) {
  const int64_t rows = 3, sizes[1] = {rows};
  model* m = model_create(given[1], count > 2 ? 1 : 0);
  if (!m) return puts(model_error()), 1;
  for (int turn = 0; turn < 2; ++turn) {
    std::vector<float> x(model_input_bytes(0, sizes) / 4), y(model_output_bytes(0, sizes) / 4);
    for (size_t i = 0; i < x.size(); ++i) x[i] = 0.25f * (float)i - (float)turn;
    const void* in[] = {x.data()};
    void* out[] = {y.data()};
    if (model_run(m, in, out, sizes)) return puts(model_error()), 1;
    for (float v : y) printf("%.6g ", v);
    puts("");
  }
  const int64_t many[1] = {100};
  if (!model_run(m, nullptr, nullptr, many)) return 2;
  puts(model_error());
  model_destroy(m);
}
"""


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.look = torch.nn.Conv2d(1, 2, 3, padding=1)  # its weight is prepared
        self.up, self.down = torch.nn.Linear(16, 16), torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = self.look(x.reshape(x.shape[0], 1, 2, 4)).flatten(1)
        return (self.down(torch.relu(self.up(seen))) + x[:, 4:]).softmax(-1)  # 16 bytes behind x


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    with fake_cuda(monkeypatch) as fake:
        yield fake


def inputs(turn: int) -> torch.Tensor:
    return (torch.arange(24.0) * 0.25 - turn).reshape(3, 8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    n = gh.symbol("n", 1, 16)
    graph = gh.trace(Model().eval(), gh.spec((n, 8), "float32"))
    with pytest.MonkeyPatch.context() as patch, fake_cuda(patch):
        module = gh.compile(graph, target="cuda", progress=False)
        assert module.plan.packed
        assert any(begin for step in module.program.steps for _, begin in step.starts())
        return module.save(tmp_path_factory.mktemp("gpu") / "saved")


def ran(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A C++ program that is linked with the model and nothing else, beside a fake driver."""
    (folder / "main.cpp").write_text(PROGRAM)
    app, place = folder / "app", folder / "driver"
    place.mkdir(exist_ok=True)
    if not (place / "libcuda.so.1").exists():
        (place / "libcuda.so.1").symlink_to(fake_library())
    if not app.exists():
        line = ["g++", "-std=c++17", "-O0", str(folder / "main.cpp"), "-o", str(app), f"-I{folder}"]
        line += [f"-L{folder}", "-lmodel", f"-Wl,-rpath,{folder}"]
        subprocess.run(line, check=True, capture_output=True)
    near = {**os.environ, "LD_LIBRARY_PATH": str(place), **environment}
    run = [str(app), str(folder), *words]
    return subprocess.run(run, check=False, capture_output=True, text=True, env=near)


def test_a_program_in_c_runs_it_with_the_driver_alone(folder: Path) -> None:
    linked = subprocess.run(
        ["ldd", str(folder / "libmodel.so")], check=True, capture_output=True, text=True
    ).stdout
    assert "cuda" not in linked
    assert "python" not in linked
    done = ran(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    *rows, refused = done.stdout.splitlines()
    for turn, row in enumerate(rows):
        wanted = Model().eval()(inputs(turn)).detach().numpy().reshape(-1)
        np.testing.assert_allclose(np.array(row.split(), float), wanted, 1e-4)
    assert "a size lies outside of the range that was compiled for: n" in refused


@pytest.mark.parametrize(
    ("environment", "words", "said"),
    [
        ({"LD_LIBRARY_PATH": ""}, (), "there is no GPU to run on: libcuda.so.1"),
        ({"FAKE_CUDA_FAIL": "cuInit 100"}, (), "there is no GPU to run on: fake status 100"),
        ({"FAKE_CUDA_DEVICES": "0"}, (), "there is no GPU to run on: the driver sees none"),
        ({"FAKE_CUDA_MAJOR": "8"}, (), "compiled for sm_90, and Fake GPU is sm_80"),
        ({"FAKE_CUDA_FAIL": "cuMemAlloc_v2 2"}, (), "the GPU has no room for the model"),
        ({"FAKE_CUDA_FAIL": "cuGraphLaunch 700"}, (), "refused: cuGraphLaunch: fake status 700"),
        ({}, ("1",), "there is no GPU of that number"),
    ],
)
def test_what_goes_wrong_there_is_one_line(
    folder: Path, environment: dict[str, str], words: tuple[str, ...], said: str
) -> None:
    done = ran(folder, *words, **environment)
    assert done.returncode == 1
    assert said in done.stdout
    assert len(done.stdout.splitlines()) == 1


def test_it_is_loaded_as_it_was_saved(folder: Path, cuda: FakeCuda, tmp_path: Path) -> None:
    module = gh.load(folder)
    wanted = Model().eval()(inputs(0)).detach()
    torch.testing.assert_close(module(inputs(0)), wanted)
    again = gh.load(module.save(tmp_path / "again"))
    torch.testing.assert_close(again(inputs(0)), wanted)
    assert again.source.kernels == module.source.kernels
    assert any("__global__" in text for text in again.source.kernels.values())
    library = tmp_path / "again" / "libmodel.so"
    data = bytearray(library.read_bytes())
    data[len(data) // 4] ^= 1
    library.unlink()  # it is loaded: its memory is the file's
    library.write_bytes(data)
    with pytest.raises(FormatError, match="not the library that was saved"):
        gh.load(tmp_path / "again")
