"""Equal kernels are one row, edges have a price, and what to do is ranked by what it brings."""

from __future__ import annotations

import json
import math
from pathlib import Path

import jsonschema
import pytest

from glasshouse import cli
from glasshouse.record.columns import Table
from glasshouse.record.graph_view import GraphView
from glasshouse.record.reader import Recording
from glasshouse.record.schema import KernelRow, RejectRow, Text, TimeRow
from glasshouse.record.writer import RecordingBuilder
from glasshouse.show.alarms import alarms
from glasshouse.show.compare import Side
from glasshouse.show.decisions import arena_bytes
from glasshouse.show.kernel_changes import kernel_changes, regressions
from glasshouse.show.priced import advice, kernel_groups, unfused
from glasshouse.show.report import report
from glasshouse.show.report_json import report_json

ROOT = Path(__file__).parents[3]
LAYERS = 6


def recorded(
    slow: int = -1, fused: bool = True, scale: float = 1.0, bytes: float = 1e6, again: bool = False
) -> Recording:
    """Six equal layers of a product and a norm; one may be slow, or come apart."""
    made = RecordingBuilder("layers")
    made.facts.update({"limit float32": "100 GFLOP/s", "limit read": "10 GB/s",
                       "limit copy": "10 GB/s", "wall seconds": "0.001"})  # fmt: skip
    graph = made.graph("layers")
    graph.stage("traced")
    for i in range(LAYERS):
        group = graph.group_path("module", ["layer", str(i), "dense"], ["", "", "Linear"])
        product = graph.node("Matmul", kind="matmul", groups=[group], file="model.py", line=23)
        norm = graph.node("LayerNorm", kind="norm", inputs=[product], groups=[group])
        graph.add(
            KernelRow(i, "k0_matmul", product, [product], "cpu", "blocked", Text(""), flops=4e6,
                      bytes_read=1e5, bytes_written=1e5, limit_seconds=4e-5,
                      title=f"layer.{i} dense")
        )  # fmt: skip
        time = 1e-4 * scale * (5 if i == slow else 1)
        graph.add(TimeRow("profile", product, time, kernel=i, spread=1e-6))
        if again:
            later = TimeRow("again", product, time * (9 if i == 2 else 1), kernel=i, spread=1e-4)
            graph.add(later)
        if not fused or i == 0:
            graph.add(RejectRow(0, "FuseOperator", "fuse", "two anchors", [product, norm],
                                json.dumps({"bytes": bytes})))  # fmt: skip
    return made.finish()


def test_equal_layers_are_one_row() -> None:
    recording = recorded()
    (group,) = kernel_groups(recording, recording.graphs[0])
    assert (group.title, group.count, group.limit) == ("layer.* dense", 6, "compute")
    assert group.seconds == pytest.approx(6e-4)
    assert group.of_limit == pytest.approx(0.4)
    text = report(recording)
    assert "layer.* dense x 6" in text
    assert "40 % compute" in text
    assert "model.py:23" in text


def test_edges_have_a_price_and_advice_is_ranked() -> None:
    recording = recorded(fused=False)
    (edge,) = unfused(recording, recording.graphs[0])
    assert (edge.count, edge.bytes) == (6, 1e6)
    assert edge.seconds == pytest.approx(6 * 2e6 / 10e9)
    first, second = advice(recording, recording.graphs[0])
    assert first.what.startswith("LayerNorm in layer.* dense behind Matmul in layer.* dense")
    assert "1.00 MB: 200 us x 6" in first.what
    assert "at 40 % of what compute allows" in second.what
    assert first.seconds > second.seconds
    assert "What to do next" in report(recording)


def test_a_value_costs_no_more_than_kernels_take_to_move_as_much() -> None:
    fast = recorded(fused=False, scale=0.1)  # 0.2 MB in 10 us: 20 GB/s, from a cache
    (edge,) = unfused(fast, fast.graphs[0])
    assert edge.seconds == pytest.approx(6 * 2e6 / 10e9)  # so much has not been seen to move
    small_values = recorded(fused=False, scale=0.1, bytes=1e5)
    (small,) = unfused(small_values, small_values.graphs[0])
    assert small.seconds == pytest.approx(6 * 2e5 / 20e9)


def test_a_slow_layer_among_equals_raises_an_alarm() -> None:
    recording = recorded(slow=3)
    (alarm,) = alarms(recording, recording.graphs[0])
    assert alarm.kind == "slow"
    assert alarm.what == "layer.3 dense takes 500 us, its 5 equals 100 us each"
    assert not alarms(*_of(recorded()))


def test_changes_by_kernel_and_line() -> None:
    (change,) = kernel_changes(_of(recorded()), _of(recorded(scale=3.0)))
    assert (change.title, change.where) == ("layer.* dense", "model.py:23")
    assert change.more == pytest.approx(1.2e-3)


def test_what_came_apart_is_a_regression() -> None:
    good, bad = _of(recorded()), _of(recorded(fused=False))
    kinds = frozenset({"unfused", "fallback", "nan"})
    (said,) = regressions(good, bad, kinds)
    assert said.startswith("unfused: LayerNorm in layer.* dense behind Matmul in layer.* dense")
    assert not regressions(bad, good, kinds)
    assert not regressions(good, bad, frozenset({"nan"}))


def test_json_is_as_its_schema_says() -> None:
    schema = json.loads((ROOT / "docs/explain.schema.json").read_text())
    made = report_json(recorded(slow=2, fused=False))
    jsonschema.validate(json.loads(json.dumps(made)), schema)
    assert made["graphs"][0]["alarms"][0]["kind"] == "slow"


def test_limits_are_shares_or_ratios() -> None:
    from glasshouse.cli.diff import slower

    assert slower("5%") == slower("1.05") == 1.05
    with pytest.raises(SystemExit):
        cli.main(["diff", "a", "b", "--max-slower", "fast"])


def _of(recording: Recording) -> tuple[Recording, GraphView]:
    return recording, recording.graphs[0]


def test_another_run_is_not_mixed_in() -> None:
    """Alarms, groups and comparisons speak of the same run, the first."""
    one, two = recorded(), recorded(again=True)
    assert alarms(*_of(two)) == []
    assert kernel_groups(*_of(two)) == kernel_groups(*_of(one))
    assert [Side(r, r.graphs[0].stage(-1), "").doubt for r in (one, two)] == [
        pytest.approx(Side(one, one.graphs[0].stage(-1), "").doubt)
    ] * 2


@pytest.mark.parametrize("numbers", [
    "[1]", "3", "null", "[" * 100_000, '{"bytes": 1' + "0" * 400 + "}", '{"bytes": "x"}', "{",
])  # fmt: skip
def test_figures_of_a_decision_that_are_none(numbers: str) -> None:
    made = RecordingBuilder("hostile")
    graph = made.graph("hostile")
    graph.stage("traced")
    graph.node("Relu", inputs=[graph.node("Exp")])
    graph.add(RejectRow(0, "FuseOperator", "fuse", "why", [0, 1], numbers))
    made.facts["arena bytes"] = "\N{SUPERSCRIPT TWO}"
    recording = made.finish()
    assert unfused(*_of(recording)) == []
    assert "Decided against, 1 times" in report(recording)
    assert math.isnan(arena_bytes(recording))


def test_groups_are_read_once_however_many_edges_name_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []
    plain = Table.pylist
    monkeypatch.setattr(Table, "pylist", lambda self, name: read.append(name) or plain(self, name))
    assert sum(e.count for e in unfused(*_of(recorded(fused=False)))) == LAYERS
    assert read.count("name") == 3  # of kernels, nodes and groups
