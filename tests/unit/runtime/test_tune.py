"""Variants by measurement: the fastest that is exact enough, measured once, shown to the user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn
from glasshouse.backend.cpu import backend, measure
from glasshouse.backend.cpu.measure import settled
from glasshouse.ir import GraphBuilder
from glasshouse.lower.choice import Candidate, Problem
from glasshouse.lower.program import Call
from glasshouse.numpy_ref.executor import run as reference
from glasshouse.ops.composite import conv
from glasshouse.passes import tune
from glasshouse.passes.tune import pick
from glasshouse.show.report import report

MEASURED = [
    Candidate("winograd2", 10.0, 1e-6),
    Candidate("winograd4", 6.0, 1e-5),
    Candidate("im2col", 20.0, 0.0),
]


@pytest.mark.parametrize(
    "tolerance, usual, taken",
    [
        (2e-5, "winograd2", "winograd4"),
        (5e-6, "im2col", "winograd2"),  # the fastest is not exact enough
        (0.0, "winograd2", "im2col"),
        (-1.0, "winograd2", "winograd2"),  # nothing is: the usual way
    ],
)
def test_the_fastest_exact_enough_is_taken(tolerance: float, usual: str, taken: str) -> None:
    choice = pick(MEASURED, usual, tolerance)
    assert choice.name == taken
    wrong = [c.name for c in choice.candidates if "too large" in c.why]
    assert wrong == [c.name for c in MEASURED if c.error > tolerance]


def test_the_usual_way_stays_when_the_best_is_no_faster_than_noise() -> None:
    near = [Candidate("a", 1.0), Candidate("b", 1.02), Candidate("c", 1.2)]
    assert [pick(near, usual, 1.0).name for usual in "abc"] == ["a", "b", "a"]


def test_runs_that_scatter_are_not_believed() -> None:
    assert settled({"a": [1.0, 1.05, 3.0], "b": [5.0, 9.0]})
    assert not settled({"a": [1.0, 1.05], "b": [1.2, 2.0]})


class TwoEqualLayers(nn.Module):
    """Two convolutions with the same sizes; 3x3 and 32 channels: four ways."""

    def __init__(self) -> None:
        self.one = nn.Conv2d(32, 32, 3, padding=1)
        self.two = nn.Conv2d(32, 32, 3, padding=1)

    def forward(self, x: Any) -> Any:
        return self.two(gh.relu(self.one(x)))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Problems that were measured; figures are made up, and kept in an empty folder."""
    out: list[str] = []

    def measure(problem: Problem, names: Sequence[str], progress: object) -> list[Candidate]:
        out.append(problem.key)
        known = {c.name: c for c in MEASURED}
        return [known.get(n, Candidate(n, 30.0)) for n in names]

    monkeypatch.setattr(backend, "measure_variants", measure)
    monkeypatch.setattr(tune, "made_cache_folder", lambda: tmp_path)
    return out


@pytest.fixture(scope="module")
def graph() -> gh.Graph:
    gh.manual_seed(0)
    return gh.trace(TwoEqualLayers(), gh.spec((1, 32, 12, 12)))


def calls(module: gh.Module) -> list[Call]:
    return [s for s in module.program.steps if isinstance(s, Call)]


def ways(module: gh.Module) -> list[str]:
    return [choice.name for call in calls(module) for choice in call.choices]


def test_equal_layers_are_measured_once_and_kept(
    asked: list[str], graph: gh.Graph, tmp_path: Path
) -> None:
    module = gh.compile(graph, tune=True)
    assert ways(module) == ["winograd4", "winograd4"]
    assert len(asked) == 1
    gh.compile(graph, tune=True)
    assert len(asked) == 1
    (kept,) = tmp_path.glob("tuned-*.json")
    for bad in ("", "{", '{"measured": [["im2col"]]}', '{"measured": [["im2col", 1, 0]]}'):
        kept.write_text(bad)
        assert ways(gh.compile(graph, tune=True)) == ["winograd4", "winograd4"]
    assert len(asked) == 5


def test_small_layers_are_measured_only_when_asked(asked: list[str], graph: gh.Graph) -> None:
    assert ways(gh.compile(graph)) == ways(gh.compile(graph, tune=False)) == ["winograd2"] * 2
    assert asked == []


def test_the_tolerance_decides(asked: list[str], graph: gh.Graph) -> None:
    assert ways(gh.compile(graph, tune=True, tolerance=5e-6)) == ["winograd2"] * 2


@pytest.mark.parametrize(("size", "way"), [(7, "by_shape"), (28, "winograd2")])
def test_weights_that_are_packed_in_every_run_are_not_measured(
    asked: list[str], size: int, way: str
) -> None:
    builder = GraphBuilder()
    x = builder.input("float32", (1, 32, size, size))
    w = builder.input("float32", (32, 32, 3, 3))
    graph = builder.finish(conv(x, w))
    assert [s.kernel.variant for s in calls(gh.compile(graph, tune=True))] == [way]
    assert asked == []


def test_a_real_measurement(graph: gh.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "settled", lambda times: True)  # however busy this machine is
    module = gh.compile(graph, tune=True)
    (choice, _) = (c for s in module.program.steps for c in getattr(s, "choices", ()))
    assert {c.name for c in choice.candidates} == {"winograd2", "winograd4", "direct", "im2col"}
    for candidate in choice.candidates:
        assert candidate.seconds > 0
        assert candidate.error < 1e-4
    x = np.random.default_rng(0).standard_normal((1, 32, 12, 12), np.float32)
    expected = reference(graph, [x])[0]
    assert np.max(np.abs(module(x) - expected)) < 1e-4 * np.max(np.abs(expected))
    text = report(module.recording())
    assert "Variants, chosen by measurement" in text
    assert choice.name in text
