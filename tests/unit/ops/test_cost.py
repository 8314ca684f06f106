"""What a node reads: all of what it computes with, and of a table as many rows as it takes."""

from __future__ import annotations

import glasshouse as gh
from glasshouse.ir import GraphBuilder
from glasshouse.ops.cost import bytes_read

TABLE = (50_000, 64)
ROW = 64 * 4


def _one(graph):
    [node] = [n for n in graph.nodes if n.op.kind.value != "source"]
    return node


def test_rows_that_are_taken_are_what_is_read_of_a_table():
    b = GraphBuilder("rows")
    table, rows = b.input("float32", TABLE, "table"), b.input("int64", (10,), "rows")
    node = _one(b.finish(table.apply("take", rows)))
    assert bytes_read(node) == 10 * ROW + 10 * 8


def test_inside_of_a_kernel_the_same_counts():
    b = GraphBuilder("rows")
    table, rows = b.input("float32", TABLE, "table"), b.input("int64", (10,), "rows")
    taken = (table * 2.0).apply("take", rows)
    node = _one(gh.optimize(b.finish((taken + taken).apply("relu"))))
    assert node.op.name == "fused"
    assert bytes_read(node) <= 2 * (10 * ROW + 10 * 8) + 8


def test_what_is_summed_or_read_twice_counts_once():
    b = GraphBuilder("all")
    x = b.input("float32", (100, 64), "x")
    assert bytes_read(_one(b.finish(x.apply("softmax", axis=1)))) == 100 * ROW
    b = GraphBuilder("twice")
    x = b.input("float32", (100, 64), "x")
    assert bytes_read(_one(b.finish(x + x))) == 100 * ROW
