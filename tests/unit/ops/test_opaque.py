"""Opaque nodes: they run by who brought them, print by name, and say when they cannot run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.errors import ExecutionError, GradientError, TypeMismatch
from glasshouse.ir import Frame, GraphBuilder, Origin, Source, parse_graph, print_graph, verify
from glasshouse.ir.dtype import float32, int64
from glasshouse.ir.types import tensor_type
from glasshouse.numpy_ref import run
from glasshouse.ops.opaque import opaque
from glasshouse.ops.pullback import pullback

_TYPES = [tensor_type(float32, (3,)), tensor_type(int64, ())]


def _graph(call: Any) -> Any:
    builder = GraphBuilder(origin=Origin(Source((), (Frame("model.py", 7),))))
    x = builder.input("float32", (3,))
    out = opaque(x, target="aten.mystery", arguments="dim=1", call=call, types=_TYPES)
    return builder.finish(*out)


def test_it_runs_what_it_was_given() -> None:
    graph = _graph(lambda x: [x * 2, np.int64(7)])
    verify(graph)
    doubled, seven = run(graph, [np.ones(3, np.float32)])
    np.testing.assert_array_equal(doubled, [2, 2, 2])
    assert seven == 7


def test_it_prints_without_its_function() -> None:
    text = print_graph(_graph(lambda x: x))
    assert 'target="aten.mystery", arguments="dim=1", types=[float32[3], int64[]]' in text
    again = parse_graph(text)
    assert print_graph(again) == text
    with pytest.raises(ExecutionError, match=r"nothing here can run aten\.mystery"):
        run(again, [np.ones(3, np.float32)])


def test_a_failing_call_names_the_line() -> None:
    def broken(_: Any) -> Any:
        raise KeyError("lost")

    with pytest.raises(ExecutionError, match=r"opaque failed.*lost\S*\n.*model.py:7"):
        run(_graph(broken), [np.ones(3, np.float32)])


def test_a_call_with_another_shape_is_found_out() -> None:
    with pytest.raises(ExecutionError, match="its type says"):
        run(_graph(lambda x: (x[:2], np.int64(0))), [np.ones(3, np.float32)])


def test_it_needs_types_and_has_no_gradient() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", (3,))
    with pytest.raises(TypeMismatch, match="a list of tensor types"):
        opaque(x, target="a", types=["float32"])
    with pytest.raises(TypeMismatch, match="at least one output"):
        opaque(x, target="a", types=[])
    out = opaque(x, target="a", types=tensor_type(float32, (3,)))
    with pytest.raises(GradientError, match="not known here"):
        pullback(builder.finish(out))
