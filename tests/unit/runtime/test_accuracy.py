"""Errors in a recording: of passes against the traced graph, of kernels against their ops; values
that are not finite count, and are located."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glasshouse.ir import Graph, GraphBuilder, Rewriter, op_named
from glasshouse.ir.graph import Node
from glasshouse.ir.rewriter import place_of
from glasshouse.passes.subgraph_rewrite import RULES
from glasshouse.passes.subgraph_rewrite.rule import Match, Rule
from glasshouse.record.schema import ErrorRow
from glasshouse.runtime.accuracy import measure_accuracy
from glasshouse.runtime.compiler import compile_graph, compile_optimized
from glasshouse.show.report import report


def test_a_kernel_that_returns_infinity_is_recorded_as_such() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", [2, 3])
    module = compile_graph(builder.finish(x.apply("exp").apply("softmax", axis=0)))
    given = np.zeros((2, 3), np.float32)
    fine = module.recording(given, count=1)
    assert all(0 <= e.own < 1e-5 and not e.wrong for e in fine.graphs[0].table(ErrorRow))
    assert "first wrong" not in fine.header.facts
    given[1, 2] = 100.0  # exp is finite in float64, not in float32
    recording = module.recording(given, count=1)
    errors = list(recording.graphs[0].table(ErrorRow))
    first = errors[0]
    assert first.own == first.max_abs == np.inf
    assert (first.wrong, list(first.at)) == (1, [1, 2])
    found = recording.header.facts["first wrong"]
    assert found == "first infinite: exp, 1 element; its inputs are finite"
    assert "NaN or infinite where they should not be; first" in report(recording)


def model() -> Graph:
    b = GraphBuilder()
    rng = np.random.default_rng(0)
    weight = b.weight(rng.standard_normal((8, 8)).astype(np.float32), name="weight")
    x = b.input("float32", [4, 8])
    y = (x @ weight).apply("tanh") - x
    return b.finish((y.apply("sigmoid") * 2.0).apply("sum", axes=[1]))


X = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)


def test_a_clean_model_is_within_bounds_at_every_stage() -> None:
    traced = model()
    module = compile_optimized(traced, "interp")
    assert module.lineage is not None
    between = module.program.steps[0].node.outputs[0]
    stands = module.lineage.stands_for[place_of(between)]
    assert traced.find(stands[0]) is not None  # values inside of the model are compared as well
    found = measure_accuracy(module, [X])
    assert found.against == "the traced graph"
    assert [s.pass_.name for s in found.stages][:2] == ["fold_constant", "subgraph_rewrite"]
    assert all(s.error < 1e-6 for s in found.stages)
    assert found.kernels
    assert not any(k.past for k in found.kernels)
    assert found.first is None


def test_a_wrong_rewrite_shows_at_its_pass_and_not_at_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def swapped(node: Node, rw: Rewriter) -> Match | None:
        if node.op is not op_named("subtract") or node.origin.rule:
            return None
        x, y = node.inputs
        return Match(lambda: rw.expr(y) - rw.expr(x))

    monkeypatch.setitem(RULES, "swapped", Rule("swapped", ("subtract",), "symmetric", swapped))
    found = measure_accuracy(compile_optimized(model(), "interp"), [X])
    wrong = [s for s in found.stages if s.wrong]
    assert wrong[0].pass_.name == "subgraph_rewrite"
    assert wrong[0].first is not None
    assert not found.stages[0].wrong
    assert not any(k.past for k in found.kernels)  # they compute what they were told to
    assert max(k.inherited for k in found.kernels) > 0.1  # and it is not what the model says


def test_a_wrong_kernel_shows_at_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    from glasshouse.backend.interp import backend

    right = backend.run_kernel

    def bent(kernel: Any, buffers: Any, sizes: Any) -> int:
        failed = right(kernel, buffers, sizes)
        if "tanh" in kernel.name:
            buffers["y0"][...] *= 1.001
        return failed

    monkeypatch.setattr(backend, "run_kernel", bent)
    found = measure_accuracy(compile_optimized(model(), "interp"), [X])
    assert not any(s.wrong for s in found.stages)
    assert [k.node.id for k in found.kernels if k.past] == [found.kernels[0].node.id]


def test_a_sum_that_cancels_may_be_off_by_as_much_as_its_terms() -> None:
    b = GraphBuilder()
    x = b.input("float32", [4096])
    module = compile_optimized(b.finish(x.apply("sum", axes=[0])), "interp")
    given = np.random.default_rng(0).standard_normal(4096).astype(np.float32) * 1000
    given -= given.mean()
    (error,) = measure_accuracy(module, [given]).kernels
    assert error.own < error.tolerance
    assert error.tolerance < 1e3  # and yet it is a bound


def test_nan_is_located_at_the_op_that_makes_it() -> None:
    b = GraphBuilder()
    x = b.input("float32", [4])
    y = (x * 2.0).apply("exp")
    module = compile_optimized(b.finish(y / (y + 1.0)), "interp")
    found = measure_accuracy(module, [np.array([0, 1, 60, 2], np.float32)])
    assert found.first is not None  # infinite over infinite, where float64 gives 1
    assert (found.first.what, found.first.op, found.first.count) == ("NaN", "divide", 1)
    assert found.own_nan is None
    log = b = GraphBuilder()
    module = compile_optimized(log.finish(b.input("float32", [2]).apply("log")), "interp")
    found = measure_accuracy(module, [np.array([-1, 1], np.float32)])
    assert found.first is None
    assert found.own_nan is not None  # the model's own
    assert found.own_nan.op == "log"


def test_looking_changes_nothing() -> None:
    b = GraphBuilder()
    weight = b.variable(np.ones(3, np.float32), name="weight")
    x = b.input("float32", [3])
    new = weight * 0.5 + x
    b.update(weight, new)
    module = compile_optimized(b.finish((weight * x).apply("sum", axes=[0])), "interp")
    given = np.array([1, 2, 3], np.float32)
    module(given)  # one step, so that it is not the state it began with
    held = module.held()["weight"].copy()
    module.recording(given, count=2)
    module.profile(given, count=2)
    module.benchmark_with_tensors([given], count=2)
    np.testing.assert_array_equal(module.held()["weight"], held)
    # Errors are of the state that it is in, not of the one that the graph began with.
    assert max(k.inherited for k in measure_accuracy(module, [given]).kernels) < 1e-6
    module(given)
    np.testing.assert_allclose(module.held()["weight"], held * 0.5 + given)


def test_the_account_names_what_the_steps_do_not_explain() -> None:
    module = compile_optimized(model(), "interp")
    recording = module.recording(X, count=3)
    facts = recording.header.facts
    total = float(facts["kernel seconds"]) + float(facts["call seconds"])
    total += float(facts["copy seconds"])
    assert total == pytest.approx(float(facts["wall seconds"]), rel=1e-3)
    assert 0 < float(facts["call seconds"]) < float(facts["wall seconds"])
    text = report(recording)
    assert "besides: " in text
    assert "calling and returning" in text
    assert "3 runs, middle half within" in text
