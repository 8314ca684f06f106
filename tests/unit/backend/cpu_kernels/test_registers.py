"""The innermost loop of products keeps its sums in registers.

One that goes through memory gives the same numbers, twelve times slower.
"""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from unit.backend.cpu_kernels.conftest import FLAGS, run_compiler

TILE = """
#include "glasshouse/gemm_micro.h"
using namespace gh;
template void gh::micro_tile<{dot}, kMaxRows, {dot}::kVectors>(
    const void *, long, const void *, long, KSegments, {dot}::Out *, long, bool);
"""
# Nothing is run, so the instructions need not be this machine's: the rows of a tile are counted for
# 32 registers.
CHIP = ["-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16"]
SPILL = re.compile(r"^\s*v?mov\w+\s+%[xyz]mm\d+, .*\(%r[sb]p", re.MULTILINE)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads listings of x86")
@pytest.mark.parametrize("dot", ["DotF32", "DotF64", "DotBF16", "DotI8"])
def test_a_full_tile_writes_no_vector_to_the_stack(dot: str, tmp_path: Path) -> None:
    source, listing = tmp_path / "tile.cpp", tmp_path / "tile.s"
    source.write_text(TILE.format(dot=dot))
    run_compiler([*FLAGS, "-O3", *CHIP, "-S", str(source), "-o", str(listing)])
    text = listing.read_text()
    assert "micro_tile" in text
    assert SPILL.findall(text) == []
