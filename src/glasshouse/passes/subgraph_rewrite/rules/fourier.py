"""Which Fourier transforms are products: those of which few frequencies are kept, or given.

Layers of Fourier operators keep 12 to 32 of the frequencies of a line. A transform computes all of
them, in 2.5 n log n operations of which few run side by side; a product with m frequencies takes
4 n m at the machine's full speed (512 elements and 16 frequencies: 2 times faster than our own
transform, which is as fast as MKL's within a half).
"""

from __future__ import annotations

import math

import numpy as np

from glasshouse.ir.dtype import bool_
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Node
from glasshouse.ir.rewriter import Rewriter
from glasshouse.ops.shapes import axis_of
from glasshouse.passes.patterns import Array, made_by, single_use
from glasshouse.passes.subgraph_rewrite.rule import Match, rule
from glasshouse.passes.subgraph_rewrite.rules.split_concat import steps_of

_LARGEST = 1 << 20
"""Elements of a table of cosines and sines, which is read in every run."""


@rule("slice", why="few frequencies of a line are a product with cosines and sines")
def few_frequencies_kept(node: Node, rw: Rewriter) -> Match | None:
    transform = made_by(node.inputs[0], "fft")
    if not transform or transform.attrs["form"] != "real" or not _along_last(transform):
        return None
    x, found = transform.inputs[0], transform.output.type.shape
    cut, made = (*node.attrs["starts"],), node.output.type.shape
    at = len(found) - 2
    others = all(made[a] == found[a] for a in range(len(found)) if a != at)
    if not others or steps_of(node)[at] != 1 or not single_use(rw.graph, transform.output):
        return None
    n, begin, count = x.type.shape[-1], cut[at], made[at]
    if not isinstance(n, int) or not isinstance(begin, int) or not _is_few(n, count):
        return None
    assert isinstance(count, int), "few are a number"
    angle = _angles(n, begin, count)
    table = np.stack([np.cos(angle), -np.sin(angle)], 1).reshape(2 * count, n).T

    def build() -> Expr:
        weights = rw.expr(rw.constant(np.ascontiguousarray(table), x.type.dtype))
        out: Expr = rw.expr(x).apply("matmul", weights).apply("reshape", shape=made)
        return out

    return Match(build, matched=[transform])


@rule("fft", why="the line of few frequencies is a product with cosines and sines")
def few_frequencies_given(node: Node, rw: Rewriter) -> Match | None:
    pad = made_by(node.inputs[0], "pad")
    if not pad or node.attrs["form"] != "half" or not _along_last(node):
        return None
    x, n = pad.inputs[0], node.attrs["size"]
    rank, count = x.type.rank, x.type.shape[-2]
    begins, ends = pad.attrs["padding"][:rank], pad.attrs["padding"][rank:]
    at = rank - 2
    others = all(begins[a] == ends[a] == 0 for a in range(rank) if a != at)
    zeros = pad.attrs["mode"] == "constant" and pad.attrs["value"] == 0
    begin = begins[at]
    if not others or not zeros or not isinstance(begin, int) or begin < 0 or not _is_few(n, count):
        return None
    assert isinstance(count, int), "few are a number"
    if begin + count > n // 2 + 1:
        return None
    angle = _angles(n, begin, count)
    # All but the first, and the middle where there is one, stand for two; of those what is
    # imaginary is ignored, NaN and all.
    alone = np.array([k in (0, n / 2) for k in range(begin, begin + count)])
    weight = np.where(alone, 1.0, 2.0)[:, None]
    table = np.stack([np.cos(angle) * weight, -np.sin(angle) * weight], 1).reshape(2 * count, n)
    ignored = np.stack([np.zeros_like(alone), alone], 1).reshape(-1)

    def build() -> Expr:
        lines = rw.expr(x).apply("reshape", shape=(*x.type.shape[:-2], 2 * count))
        if ignored.any():
            zero = rw.expr(rw.constant(0.0, x.type.dtype))
            lines = rw.expr(rw.constant(ignored, bool_)).apply("where", zero, lines)
        out: Expr = lines.apply("matmul", rw.expr(rw.constant(table, x.type.dtype)))
        return out

    return Match(build, matched=[pad])


def _along_last(transform: Node) -> bool:
    rank = transform.inputs[0].type.rank - (transform.attrs["form"] != "real")
    return rank >= 2 and bool(axis_of(transform.attrs["axis"], rank) == rank - 1)


def _is_few(n: int, count: object) -> bool:
    few = isinstance(count, int) and 0 < count <= 2 * math.log2(max(n, 2))
    return few and isinstance(count, int) and 2 * count * n <= _LARGEST


def _angles(n: int, begin: int, count: int) -> Array:
    """[frequency, element], reduced to a turn as whole numbers: exact however long the line."""
    turns = np.outer(np.arange(begin, begin + count), np.arange(n)) % n
    angle: Array = 2 * np.pi * turns / n
    return angle
