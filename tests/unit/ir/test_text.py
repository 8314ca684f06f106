"""Printing and parsing: the form of the tutorial, round trips, and errors that name the line."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.errors import ParseError
from glasshouse.ir import Graph, GraphBuilder, parse_graph, print_graph, symbol, verify
from glasshouse.ir.printer import format_attr
from glasshouse.numpy_ref import run

TUTORIAL = """\
Graph(x: float32[1, 128, 768], x_1: int32[1, 128]){
  c = Constant(float32[768, 768])
  x_2: float32[1, 128, 768] = Matmul(x, c)
  c_1 = Constant(float32[768])
  x_3: float32[1, 128, 768] = Add(x_2, c_1)
  x_4: float32[1, 128, 12, 64] = Reshape(x_3, shape=[1, 128, 12, 64])
  x_5: float32[1, 128] = Cast(x_1, dtype=float32)
  return x_4, x_5
}"""


def _tutorial() -> Graph:
    b = GraphBuilder()
    x, mask = b.input("float32", [1, 128, 768]), b.input("int32", [1, 128])
    y = x @ b.weight(np.zeros((768, 768), np.float32)) + np.zeros(768, np.float32)
    return b.finish(y.apply("reshape", shape=[1, 128, 12, 64]), mask.cast("float32"))


def test_the_form_of_the_tutorial() -> None:
    assert print_graph(_tutorial()) == TUTORIAL
    assert str(_tutorial()) == TUTORIAL


def test_parse_then_print_gives_the_same_text() -> None:
    graph = parse_graph(TUTORIAL)
    verify(graph)
    assert print_graph(graph) == TUTORIAL
    assert graph.nodes[2].attrs["data"] is None


def test_symbols_variables_updates_and_many_outputs() -> None:
    b = GraphBuilder()
    n = symbol("n", 1, 64)
    x = b.input("float32", [n, 4])
    state = b.variable(np.zeros(4, np.float32), name="running")
    scale = b.variable(2.0, name="scale")
    top, where = x.apply("topk", k=2)
    total = x.apply("sum", axes=[0])
    b.update(state, state + total)
    y = x.apply("reshape", shape=[2 * n, 2])
    graph = b.finish(top * scale, where, y)
    text = print_graph(graph)
    assert "  n in 1..64\n" in text
    assert 'v = Variable(float32[4], name="running")' in text
    assert 'v_1 = Variable(float32[], value=2.0, name="scale")' in text
    assert "x_1: float32[n, 2], x_2: int64[n, 2] = Topk(x, k=2)" in text
    assert "Reshape(x, shape=[2*n, 2])" in text
    assert "update v = " in text
    again = parse_graph(text)
    verify(again)
    assert print_graph(again) == text
    assert len(again.updates) == 1


def test_single_elements_keep_their_data() -> None:
    b = GraphBuilder()
    x = b.input("bfloat16", [3])
    y = (x * 0.1 + 2) > float("-inf")
    graph = b.finish(y, x.apply("clip", low=-1e-30, high=float("inf")))
    again = parse_graph(print_graph(graph))
    given_ = np.array([1.0, -3.0, np.nan], np.float32)
    for a, c in zip(run(graph, [given_]), run(again, [given_]), strict=True):
        np.testing.assert_array_equal(a, c)
    assert print_graph(again) == print_graph(graph)


def test_names_of_constants_on_demand() -> None:
    b = GraphBuilder()
    graph = b.finish(b.input("float32", [2]) + b.weight(np.zeros(2, np.float32), name='a"b\\c\nd'))
    assert "name=" not in print_graph(graph)
    text = print_graph(graph, names=True)
    assert parse_graph(text).nodes[1].attrs["name"] == 'a"b\\c\nd'


def test_fused_nodes_and_their_bodies() -> None:
    inner = GraphBuilder()
    a = inner.input("float32", [2])
    body = inner.finish(a.apply("relu"))
    b = GraphBuilder()
    x = b.input("float32", [2])
    y = b.apply("fused", x, body=body, label="FusedRelu*", fusion="Relu")
    graph = b.finish(y)
    text = print_graph(graph)
    assert 'FusedRelu*(x, fusion="Relu")' in text
    assert print_graph(parse_graph(text)) == text
    shown = print_graph(graph, bodies=True)
    assert "    #   x_1: float32[2] = Relu(x)" in shown
    assert print_graph(parse_graph(shown)) == text


text_like = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\x85\u2028\u2029\v\f\x1c\x1d\x1e")
)


@given(text_like)
def test_any_string_survives(name: str) -> None:
    b = GraphBuilder()
    b.variable(1.5, name=name)
    graph = b.finish(b.input("float32", []))
    again = parse_graph(print_graph(graph))
    held = [n.attrs["name"] for n in again.nodes if n.op.name == "variable"]
    assert held == [name]


@given(st.floats(allow_nan=False) | st.integers(-(2**60), 2**60) | st.booleans() | st.none())
def test_any_number_survives(value: object) -> None:
    b = GraphBuilder()
    x = b.input("float64", [2])
    low = None if isinstance(value, bool) else value
    graph = b.finish(x.apply("clip", low=low, high=3))
    again = parse_graph(print_graph(graph))
    found = again.nodes[1].attrs["low"]
    assert found == low
    assert type(found) is type(low)


def test_attributes_as_text() -> None:
    n = symbol("n", 1)
    assert format_attr((1, (2.5, "a"), None, True, 2 * n)) == '[1, [2.5, "a"], None, True, 2*n]'


BROKEN = [
    ("", "begins with 'Graph\\('"),
    ("Graph(){\n  return\n", "ends with '}'"),
    ("Graph(){\n}", "no 'return' line"),
    ("Graph(x: float32[2]){\n  return y\n}", "no value 'y' before this line\n  at line 2"),
    ("Graph(x: float33[2]){\n  return x\n}", "no element type 'float33'"),
    ("Graph(x: float32[n]){\n  return x\n}", "there is no size 'n'"),
    ("Graph(x: float32[2], x: float32[2]){\n  return x\n}", "'x' is defined twice"),
    ("Graph(x: float32[2]){\n  y: float32[2] = Nothing(x)\n  return y\n}", "no op 'Nothing'"),
    ("Graph(x: float32[2]){\n  y: float32[3] = Relu(x)\n  return y\n}", "not what is written"),
    ("Graph(x: float32[2]){\n  y: float32[2] = Relu(x, a=1)\n  return y\n}", "no attribute 'a'"),
    ("Graph(x: float32[2]){\n  y: float32[2] = Relu(x\n  return y\n}", "too early|expected"),
    ("Graph(x: float32[2]){\n  y: float32[2] = Relu(x) x\n  return y\n}", "unexpected 'x'"),
    ("Graph(x: float32[2]){\n  ?\n  return x\n}", "cannot read '\\?'"),
    ("Graph(x: float32[" + "(" * 200 + "]){\n  return x\n}", "nested deeper than 100"),
    (
        "Graph(){\n  n in 1..4\n  c = Constant(float32[n], value=1.0)\n  return c\n}",
        "symbolic shape",
    ),
]


@pytest.mark.parametrize("text, says", BROKEN)
def test_broken_text(text: str, says: str) -> None:
    with pytest.raises(ParseError, match=says):
        parse_graph(text)


@given(st.text('Graph(x: float32[2]){\n  return =Relu,1*/-."}', max_size=60), st.integers(0, 400))
def test_damaged_text_gives_a_parse_error_and_nothing_else(noise: str, at: int) -> None:
    text = TUTORIAL[:at] + noise + TUTORIAL[at + len(noise) :]
    with contextlib.suppress(ParseError):
        verify(parse_graph(text))
