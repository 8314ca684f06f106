"""The machine's limits: measured, kept, and the share of them that kernels reach."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn
from glasshouse.backend.base import Limits
from glasshouse.backend.cpu import limits
from glasshouse.lower.quant import computes_in
from glasshouse.record.schema import KernelRow, TimeRow
from glasshouse.show.report import report


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(limits, "made_cache_folder", lambda: tmp_path)
    for cached in (limits.known_limits, limits._measured_once):
        cached.cache_clear()
    yield tmp_path
    for cached in (limits.known_limits, limits._measured_once):
        cached.cache_clear()


def test_what_the_machine_can_do_is_measured() -> None:
    found = limits._measured(1)
    assert set(found.compute) == {"float32", "bfloat16", "int8"}
    assert all(1e8 < figure < 1e14 for figure in found.compute.values())
    assert 1e8 < found.read < 1e13
    assert 1e8 < found.copy < 1e13


def test_sure_figures_are_kept_on_disk(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def measured(threads: int) -> Limits:
        asked.append(threads)
        return Limits({"float32": 2e9}, 3e9, 4e9, sure=len(asked) > 1)

    monkeypatch.setattr(limits, "_measured", measured)
    assert not limits.measured_limits(1).sure
    assert not list(empty.iterdir())
    limits._measured_once.cache_clear()
    for _ in range(3):
        assert limits.measured_limits(1) == Limits({"float32": 2e9}, 3e9, 4e9)
        limits._measured_once.cache_clear()
    assert len(asked) == 2
    (file,) = empty.iterdir()
    file.write_text("damaged")
    limits.known_limits.cache_clear()
    assert limits.known_limits(1) is None


def test_the_longer_of_computing_and_moving_limits() -> None:
    machine = Limits({"float32": 100.0, "int8": 400.0}, read=10.0, copy=5.0)
    assert machine.seconds(200, 10, "float32") == 2.0
    assert machine.seconds(200, 10, "int8") == 1.0
    assert machine.seconds(200, 100, "float64") == 10.0


def test_every_kernel_has_its_limit_and_share(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Limits({"float32": 1e9}, read=1e9, copy=1e9)
    monkeypatch.setattr("glasshouse.backend.cpu.backend.measured_limits", lambda threads: machine)
    gh.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    x = np.ones((8, 16), np.float32)
    recording = gh.compile(model, x).recording(x, count=1)
    for row in recording.graphs[0].table(KernelRow):
        moved = row.bytes_read + row.bytes_written
        assert row.limit_seconds == max(row.flops, moved) / 1e9 > 0
    assert len(list(recording.graphs[0].table(TimeRow))) == len(
        list(recording.graphs[0].table(KernelRow))
    )
    assert recording.header.facts["limit float32"] == "1 GFLOP/s"
    lines = report(recording).splitlines()
    head = next(i for i, line in enumerate(lines) if "of limit" in line)
    assert "%" in lines[head + 1]


@pytest.mark.parametrize(
    ("variant", "dtype"),
    [
        ("int8", "int8"),
        ("int8_tma64x64x64_by2", "int8"),
        ("float8_tma128x256x64", "float8"),
        ("tma128x256x64", ""),
        ("", ""),
    ],
)
def test_which_limit_a_variant_is_held_against(variant: str, dtype: str) -> None:
    assert computes_in(variant) == dtype
