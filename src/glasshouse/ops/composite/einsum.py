"""How an Einstein sum is spelled: pair by pair, each as one matmul between permutes."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

from glasshouse.errors import ShapeError
from glasshouse.ir.dim import Dim, bounds, product
from glasshouse.ops.create import arange_near
from glasshouse.ops.shape import permuted, reshaped

# Labels for the axes of "..."; letters cannot clash with them.
_DOTS = "0123456789"


def einsum(equation: str, *xs: Any) -> Any:
    """`einsum("bhid,bhjd->bhij", q, k)`; "..." and a missing right side are as in NumPy."""
    inputs, output = _parsed(equation, xs)
    sizes: dict[str, Dim] = {}
    for x, labels in zip(xs, inputs, strict=True):
        for label, size in zip(labels, x.shape, strict=True):
            if sizes.get(label, 1) == 1:
                sizes[label] = size
            elif isinstance(size, int) and size not in (1, sizes[label]):
                what = f"einsum {equation!r}: {label} is {sizes[label]} and {size}"
                raise ShapeError(what, x.builder.where())
    for label in output:
        if label not in sizes:
            what = f"einsum {equation!r}: {label} is in the output and in no operand"
            raise ShapeError(what, xs[0].builder.where())
    terms = [_diagonal(x, labels) for x, labels in zip(xs, inputs, strict=True)]
    while len(terms) > 1:
        i, j = _next_pair([labels for _, labels in terms], output, sizes)
        others = [term for k, term in enumerate(terms) if k not in (i, j)]
        later = set(output).union(*(labels for _, labels in others))
        terms = [_pair(*terms[i], *terms[j], later), *others]
    left, labels = _summed(*terms[0], set(output))
    return permuted(left, [labels.index(label) for label in output])


def _next_pair(terms: list[str], output: str, sizes: dict[str, Dim]) -> tuple[int, int]:
    """The pair whose product has the fewest elements beside those of its factors:
    "npi,nqj,ijk->npqk" begins with the first and the last, not with an outer product."""

    def count(labels: set[str]) -> float:
        return math.prod(bounds(sizes[label])[0] for label in labels)

    def growth(pair: tuple[int, int]) -> float:
        one, other = (set(terms[k]) for k in pair)
        rest = set(output).union(*(t for k, t in enumerate(terms) if k not in pair))
        return count((one | other) & rest) - count(one) - count(other)

    return min(combinations(range(len(terms)), 2), key=growth)


def _parsed(equation: str, xs: tuple[Any, ...]) -> tuple[list[str], str]:
    sides = equation.replace(" ", "").split("->")
    terms = sides[0].split(",")
    if len(sides) > 2 or len(terms) != len(xs):
        what = f"einsum {equation!r} names {len(terms)} operands, {len(xs)} were given"
        raise ShapeError(what, xs[0].builder.where() if xs else "")
    inputs = []
    dots = ""
    for term, x in zip(terms, xs, strict=True):
        named = len(term.replace("...", ""))
        free = x.ndim - named if "..." in term else 0
        if named + free != x.ndim or not 0 <= free <= len(_DOTS):
            what = f"einsum {equation!r}: {term!r} does not fit {x.type}"
            raise ShapeError(what, x.builder.where())
        # The axes of "..." align from the right, as in broadcasting.
        marks = _DOTS[len(_DOTS) - free :]
        dots = max(dots, marks, key=len)
        inputs.append(term.replace("...", marks))
    if len(sides) == 2:
        output = sides[1].replace("...", dots)
    else:
        counts = "".join(inputs)
        output = dots + "".join(sorted(c for c in set(counts) - set(dots) if counts.count(c) == 1))
    if len(set(output)) < len(output):
        raise ShapeError(f"einsum {equation!r}: a label repeats in the output")
    return inputs, output


def _diagonal(x: Any, labels: str) -> tuple[Any, str]:
    """Repeated labels within one operand: the other elements are masked out and summed away."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first, second = labels.index(label), labels.rindex(label)
            size = x.shape[second]
            shapes = [[size if i == a else 1 for i in range(x.ndim)] for a in (first, second)]
            places = [reshaped(arange_near(x, size), s) for s in shapes]
            same = places[0].apply("equal", places[1]).cast(x.dtype)
            x = (x * same).apply("sum", axes=[second])
            labels = labels[:second] + labels[second + 1 :]
    return x, labels


def _summed(x: Any, labels: str, kept: set[str]) -> tuple[Any, str]:
    axes = [i for i, label in enumerate(labels) if label not in kept]
    if axes:
        x = x.apply("sum", axes=axes)
    return x, "".join(label for label in labels if label in kept)


def _pair(x: Any, xl: str, y: Any, yl: str, later: set[str]) -> tuple[Any, str]:
    x, xl = _summed(x, xl, later | set(yl))
    y, yl = _summed(y, yl, later | set(xl))
    batch = [c for c in xl if c in yl and c in later]
    inner = [c for c in xl if c in yl and c not in later]
    left = [c for c in xl if c not in yl]
    right = [c for c in yl if c not in xl]
    if not inner:
        labels = [*batch, *left, *right]
        return _aligned(x, xl, labels) * _aligned(y, yl, labels), "".join(labels)
    shape = [*(_size(c, x, xl, y, yl) for c in [*batch, *left, *right])]
    x, transpose_x = _matrix(x, xl, batch, left, inner)
    y, transpose_y = _matrix(y, yl, batch, inner, right)
    out = x.apply("matmul", y, transpose_x=transpose_x, transpose_y=transpose_y)
    return reshaped(out, shape), "".join([*batch, *left, *right])


def _size(label: str, x: Any, xl: str, y: Any, yl: str) -> Dim:
    found: list[Dim] = [x.shape[xl.index(label)]] if label in xl else []
    found += [y.shape[yl.index(label)]] if label in yl else []
    return next((size for size in found if size != 1), 1)


def _aligned(x: Any, have: str, wanted: list[str]) -> Any:
    """Axes in the order of `wanted`, with size 1 where there is none."""
    present = [c for c in wanted if c in have]
    x = permuted(x, [have.index(c) for c in present])
    sizes = dict(zip(present, x.shape, strict=True))
    return reshaped(x, [sizes.get(c, 1) for c in wanted])


def _matrix(
    x: Any, labels: str, batch: list[str], rows: list[str], columns: list[str]
) -> tuple[Any, bool]:
    """The operand as batch, rows, columns; or as batch, columns, rows (True) if it lies so."""
    transposed = bool(rows) and list(labels) == [*batch, *columns, *rows]
    first, second = (columns, rows) if transposed else (rows, columns)
    x = permuted(x, [labels.index(c) for c in [*batch, *first, *second]])
    b, f = len(batch), len(batch) + len(first)
    return reshaped(x, (*x.shape[:b], product(x.shape[b:f]), product(x.shape[f:]))), transposed
