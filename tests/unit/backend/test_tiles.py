"""AMX tiles: when they are used, which blockings there are then, and whole models on them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from glasshouse.backend.cpu import blocking, processor
from glasshouse.backend.cpu.blocking import product_problem
from glasshouse.backend.cpu.target import CPU
from glasshouse.backend.cpu.toolchain import Toolchain
from glasshouse.ir.dtype import bfloat16, float32

WIDE = ["avx2", "fma", "avx512f", "avx512bw", "avx512vl"]
DRIVERS = Path(__file__).parent / "cpu_kernels" / "drivers"


def with_tiles(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    features = (*WIDE, *processor.AMX) if there else tuple(WIDE)
    monkeypatch.setattr(processor, "processor_features", lambda: features)


def test_tiles_need_the_processor_wide_vectors_and_leave() -> None:
    asked: list[int] = []

    def leave(given: bool) -> bool:
        asked.append(1)
        return given

    flags = [*WIDE, *processor.AMX]
    assert processor.usable(flags, lambda: leave(True)) == (*WIDE, *processor.AMX)
    assert processor.usable(flags, lambda: leave(False)) == tuple(WIDE)
    assert len(asked) == 2
    for missing in ("amx_bf16", "amx_int8", "avx512bw"):
        rest = [f for f in flags if f != missing]
        assert "amx_tile" not in processor.usable(rest, lambda: leave(True))
    assert len(asked) == 2  # nobody asks for what the processor lacks


def test_the_compiler_is_told_of_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    with_tiles(monkeypatch, True)
    assert "-DGH_AMX" in Toolchain("g++", "13", "native").flags
    assert "-DGH_AMX" not in Toolchain("g++", "13", "haswell").flags
    assert "-DGH_AMX" not in Toolchain("g++", "13", "plain").flags
    with_tiles(monkeypatch, False)
    assert "-DGH_AMX" not in Toolchain("g++", "13", "native").flags


def test_blockings_on_tiles_come_first_and_are_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    with_tiles(monkeypatch, True)
    names = blocking.blockings(100, 64, 768, bfloat16)
    assert names == ("tiles_by_cache", "tiles_of_32", "tiles_of_64", "blocks_by_cache")
    problem = product_problem(1024, 1024, 1024, bfloat16)
    tiles, registers = (
        blocking.estimate(problem, name, CPU) for name in ("tiles_by_cache", "blocks_by_cache")
    )
    assert tiles is not None
    assert registers is not None
    assert tiles[0] < registers[0] / 2
    assert tiles[1].startswith("on tiles")
    assert registers[1].startswith("in registers")
    assert blocking.blockings(8, 64, 768, bfloat16) == ("tiles_by_cache", "blocks_by_cache")
    assert blocking.blockings(1, 64, 768, bfloat16) == ()  # one row stays in registers
    assert blocking.blockings(100, 64, 768, float32)[0] == "blocks_by_cache"
    with_tiles(monkeypatch, False)
    assert "tiles_by_cache" not in blocking.blockings(100, 64, 768, bfloat16)
    assert blocking.estimate(problem, "tiles_by_cache", CPU) is None


@pytest.mark.slow
def test_models_run_on_tiles() -> None:
    """Whole models with the instructions emulated, against PyTorch, in a process of its own."""
    pytest.importorskip("torch")
    if not {"avx512f", "avx512bw", "avx512vl"} <= set(processor.processor_features()):
        pytest.skip("tiles are used beside AVX-512 alone")
    flags = f"-DGH_AMX -DGH_AMX_EMULATED -I{DRIVERS}"
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "models_on_tiles.py")],
        capture_output=True, text=True, check=False,
        env={**os.environ, "GLASSHOUSE_CXXFLAGS": flags},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.split()[-1] == "close"
