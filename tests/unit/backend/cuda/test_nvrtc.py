"""Kernels compile for real architectures: NVRTC needs no GPU."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import torch
from torch import nn

import glasshouse as gh
from cuda_samples import EVERY, FEW, family_program
from glasshouse.backend.cuda import build, nvrtc_processes
from glasshouse.backend.cuda import nvrtc as nvrtc_file
from glasshouse.backend.cuda.build import INCLUDE
from glasshouse.backend.cuda.nvrtc import compile_cubin, nvrtc
from glasshouse.backend.cuda.render import render
from glasshouse.errors import CompilerMissing, ExecutionError
from glasshouse.ir import GraphBuilder

try:
    nvrtc()
except CompilerMissing as error:
    pytest.skip(str(error), allow_module_level=True)


def file_of(cases: list, arch: str) -> str:
    """The kernels of some samples as one file: headers are read once, those of loops where there is
    nothing else."""
    program, _, _ = family_program(cases, arch)
    parts = []
    headers = "kernels" if any(k.tiles for k in program.kernels) else "loops"
    for kernel in map(render, program.kernels):
        text = "\n".join(x for x in kernel.text.splitlines() if not x.startswith("#"))
        for launch in kernel.launches:
            text = re.sub(rf"\b{launch.function}\(", f"{kernel.name}_{launch.function}(", text)
        parts.append(text)
    return f'#include "glasshouse/{headers}.cuh"\n' + "\n".join(parts)


# Headers alone take 1 s, so in the usual run one architecture compiles each family.
@pytest.mark.parametrize(
    ("family", "arch"),
    [(f, "sm_80" if i % 2 else "sm_90") for i, f in enumerate(sorted(FEW))],
)
def test_ops_compile(family: str, arch: str) -> None:
    assert compile_cubin(file_of(FEW[family], arch), family, arch, INCLUDE)[:4] == b"\x7fELF"


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("family", sorted(EVERY))
def test_all_samples_compile(family: str, arch: str) -> None:
    assert compile_cubin(file_of(EVERY[family], arch), family, arch, INCLUDE)[:4] == b"\x7fELF"


def test_kernels_of_the_cache_need_no_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A warm start loads none: it is 126 MB, which may have to come from a disk."""
    monkeypatch.setenv("GLASSHOUSE_CACHE", str(tmp_path))
    b = GraphBuilder()
    graph = b.finish(b.input("float32", (4,)).apply("exp"))

    def refused() -> Any:
        raise AssertionError("NVRTC is loaded")

    for known in (False, True):
        if known:
            nvrtc_file.identity.cache_clear()
            nvrtc_file.version.cache_clear()
            monkeypatch.setattr(nvrtc_file, "nvrtc", refused)
        gh.compile(graph, target="cuda", arch="sm_90", progress=False)
    with pytest.raises(AssertionError, match="is loaded"):
        compile_cubin("", "other", "sm_90", INCLUDE)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm = nn.Linear(64, 128), nn.LayerNorm(128)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(nn.functional.gelu(self.up(x)))


def test_a_model_is_compiled_for_a_gpu_that_is_not_here() -> None:
    x = torch.randn(16, 64).half()
    module = gh.compile(Mlp().half().eval(), x, target="cuda", arch="sm_90", progress=False)
    texts = list(module.source.kernels.values())
    assert any("gh::gelu(" in text and "gh::gemm_" in text for text in texts), "gelu is fused"
    for name, text in module.source.kernels.items():
        lines, ops = text.splitlines(), module.source.lines[name]
        assert len(lines) == len(ops)
        known = {op for line in ops for op in line}
        kernel = next(k for k in module.program.kernels if k.name == name)
        assert known == set(range(len(kernel.ops))), "every op has a line, every line its ops"
    if not torch.cuda.is_available():
        with pytest.raises(ExecutionError, match="there is no GPU to run on"):
            module(x)


def test_a_mistake_in_a_kernel_names_it() -> None:
    with pytest.raises(ExecutionError, match="NVRTC cannot compile broken for sm_90"):
        compile_cubin("this is no C++", "broken", "sm_90", INCLUDE)


_PLAIN = 'extern "C" __global__ void f{0}(float* x) {{ x[threadIdx.x] *= {0}.5f; }}'


def test_kernels_side_by_side_are_built_by_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same code as one after the other gives, errors too; none of the processes stays; one
    that is killed is replaced by this process."""
    started: list[Any] = []
    begin = nvrtc_processes._started

    def watched(library: Any) -> Any:
        started.append(begin(library))
        if len(started) == 2:
            started[-1].kill()
        return started[-1]

    monkeypatch.setattr(nvrtc_processes, "_started", watched)
    texts = [_PLAIN.format(i) for i in range(6)]
    alone = [compile_cubin(t, "f", "sm_90", INCLUDE) for t in texts]
    assert not started
    together = Barrier(6)

    def beside(text: str) -> bytes | str:
        together.wait()
        try:
            return compile_cubin(text, "f", "sm_90", INCLUDE)
        except ExecutionError as error:
            return str(error)

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(beside, [*texts[:5], "this is no C++"]))
    assert found[:5] == alone[:5]
    assert "cannot compile f" in str(found[5])
    assert len(started) > 1
    assert all(process.poll() is not None for process in started)
    assert not nvrtc_processes._compilers.idle


def test_processes_that_cannot_be_started_are_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with ThreadPoolExecutor(3) as pool:
        made = list(
            pool.map(lambda i: compile_cubin(_PLAIN.format(i), "f", "sm_90", INCLUDE), range(3))
        )
    assert all(code[:4] == b"\x7fELF" for code in made)


def test_code_is_kept_by_the_flags_that_it_is_compiled_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = build._file("text", "sm_90")
    assert build._file("text", "sm_80") != before
    monkeypatch.setattr(build, "flags", lambda arch: [*nvrtc_file.flags(arch), "-G"])
    assert build._file("text", "sm_90") != before
