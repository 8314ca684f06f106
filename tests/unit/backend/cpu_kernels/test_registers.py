"""The innermost loop of products keeps its sums in registers, and with few rows what they share.

One that goes through memory gives the same numbers, twelve times slower; one that reads the weights
again for each row, a third slower.
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
template void gh::micro_tile<{dot}, {rows}, {dot}::kVectors>(
    const void *, long, const void *, long, const KSegments &, {dot}::Out *, long, bool);
"""
# Nothing is run, so the instructions need not be this machine's: the rows of a tile are counted for
# 32 registers.
CHIP = ["-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16"]
# One element for all lanes ({1to16}) is a row's, which each tile reads once.
MULTIPLIED_FROM_MEMORY = re.compile(r"^\s*(?:vfmadd|vp?dp)\w+\s+[^%\s]*\([^)]*\), ", re.MULTILINE)
SPILL = re.compile(r"^\s*v?mov\w+\s+%[xyz]mm\d+, .*\(%r[sb]p", re.MULTILINE)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads listings of x86")
@pytest.mark.parametrize("dot", ["DotF32", "DotF64", "DotBF16", "DotI8", "DotI16"])
def test_a_full_tile_writes_no_vector_to_the_stack(dot: str, tmp_path: Path) -> None:
    assert SPILL.findall(listing_of(dot, "kMaxRows", tmp_path)) == []


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads listings of x86")
@pytest.mark.parametrize("dot", ["DotF32", "DotF64", "DotBF16", "DotI8", "DotI16"])
@pytest.mark.parametrize("rows", ["2", "4"])
def test_few_rows_load_each_vector_of_weights_once(dot: str, rows: str, tmp_path: Path) -> None:
    text = listing_of(dot, rows, tmp_path)
    assert re.search(r"^\s*(vfmadd|vp?dp)", text, re.MULTILINE)
    assert MULTIPLIED_FROM_MEMORY.findall(text) == []


def listing_of(dot: str, rows: str, folder: Path) -> str:
    source, listing = folder / "tile.cpp", folder / "tile.s"
    source.write_text(TILE.format(dot=dot, rows=rows))
    run_compiler([*FLAGS, "-O3", *CHIP, "-S", str(source), "-o", str(listing)])
    text = listing.read_text()
    assert "micro_tile" in text
    return text
