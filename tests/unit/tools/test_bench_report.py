"""The table of `benchmarks/cpu`: a peer counts only when its result is right."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).parents[3] / "benchmarks" / "cpu" / "report.py"
MACHINE = {"peak_gflops": 200.0, "peak_bf16_gflops": 400.0}


@pytest.fixture(scope="module")
def report() -> Any:
    spec = importlib.util.spec_from_file_location("bench_report", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(ms: float, wrong: bool = False) -> dict[str, Any]:
    times = {"median_ms": ms, "p10_ms": ms, "p90_ms": ms, "noise": 0.0}
    return {**times, "error": 0.3 if wrong else 1e-6, "wrong": wrong, "compile_s": 1, "peak_mb": 9}


def test_a_wrong_peer_is_marked_and_never_the_best(report: Any) -> None:
    rows = {"glasshouse": row(2.0), "eager": row(8.0), "openvino": row(3.0, wrong=True)}
    line = report.table({"mlp": rows}, {"mlp": 1e9}, MACHINE).splitlines()[-1]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:5] == ["mlp", "2 (2..2)", "8 (8..8)", "3 (3..3) wrong", "4.00"]
    assert report.ratios(rows) == {"eager": 4.0}
    assert "openvino" not in report.plot({"mlp": rows})
    rows["openvino"]["wrong"] = False
    assert report.ratios(rows) == {"eager": 4.0, "openvino": 1.5}
