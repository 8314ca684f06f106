"""Random graphs over the whole registry, valid by construction, with inputs to run them on.

    @given(cases())
    def test(case): outputs = run(case.graph, case.inputs)

Every op of the registry can appear. Ops that build deep, connected graphs have a recipe below; the
others are applied as one of their samples (tests/ops/samples), with operands from the graph where
shapes fit. Two things make results comparable after rewriting: sizes of values are bounded (nothing
overflows), and what jumps (comparisons, rounding, sorting) reads only values that are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.ir import Dim, Expr, Graph, GraphBuilder, symbol, verify
from glasshouse.ir.dim import SymDim
from glasshouse.ir.dtype import as_dtype, finish
from glasshouse.ir.op import REGISTRY, Kind

Array = np.ndarray[Any, Any]

EXCLUDED = {
    "input": "graphs have inputs anyway",
    "constant": "graphs have constants anyway",
    "variable": "graphs have variables anyway",
    "fused": "passes make it",
    "cond": "its branches are graphs",
    "while_loop": "its body is a graph",
    "scan": "its body is a graph",
    "opaque": "it runs foreign code",
    **dict.fromkeys(
        ("lu", "row_order", "triangle_solve", "cholesky", "householder", "reflections"),
        "errors grow with a matrix's condition",
    ),
    "normed_product": "it reads statistics of its own rows, which a pass joins to it",
}
WIDE_ONLY = {"fft", "recurrent", "recurrent_grad"}  # refused in float16 and bfloat16

_LARGE = 50.0
"""Values stay below this; what would leave it is not built."""


class Case:
    """A graph and inputs for it; `sizes` are the values of its symbols."""

    def __init__(self, graph: Graph, inputs: list[Array], sizes: dict[str, int]) -> None:
        self.graph = graph
        self.inputs = inputs
        self.sizes = sizes

    def __repr__(self) -> str:  # what hypothesis prints when a case fails
        return f"Case(\n{self.graph}\n)"


@dataclass
class Entry:
    """A value with what is known of its elements."""

    expr: Expr
    size: float  # no element is larger
    exact: bool = False  # the same bits however it is computed

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.expr.shape


@dataclass
class Maker:
    """Grows one graph by drawing."""

    random: Random
    dtype: str
    builder: GraphBuilder = field(default_factory=GraphBuilder)
    pool: list[Entry] = field(default_factory=list)
    inputs: list[Array] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)

    # ------------------------------------------------------------------------------------ drawing
    def pick(self, options: Sequence[Any]) -> Any:
        return self.random.choice(list(options))

    def between(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def chance(self, one_in: int) -> bool:
        return self.random.randrange(one_in) == 0

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.random.randrange(1 << 32))

    def entry(self, accepts: Callable[[Entry], bool] = lambda e: True) -> Entry | None:
        fitting = [e for e in self.pool if accepts(e)]
        return self.pick(fitting[-12:]) if fitting else None

    def real(self, accepts: Callable[[Entry], bool] = lambda e: True) -> Entry | None:
        wanted = as_dtype(self.dtype)
        return self.entry(lambda e: e.expr.dtype is wanted and accepts(e))

    # ------------------------------------------------------------------------------------ sources
    def source(self, data: Array, dtype: str | None = None) -> Expr:
        """An input (mostly), a constant or a variable with this data."""
        name = dtype or (self.dtype if data.dtype.kind == "f" else str(data.dtype))
        array = finish(np.asarray(data), as_dtype(name))
        how = self.random.randrange(6)
        if how == 0:
            return self.builder.weight(array, name)
        if how == 1:
            return self.builder.variable(array, name, name=f"v{len(self.builder.graph)}")
        self.inputs.append(array)
        return self.builder.input(name, array.shape)

    def values(self, shape: Sequence[int]) -> Array:
        return self.rng().uniform(-2, 2, shape)

    def constant(self, shape: Sequence[int]) -> Entry:
        """A constant: plain numbers that rules look for, or an array."""
        number = self.pick([None, None, 0.0, 1.0, -1.0, 2.0, 0.5, -0.75])
        data = self.values(shape) if number is None else np.full(shape, number)
        return Entry(self.builder.weight(data, self.dtype), 2.0, True)

    def add(self, expr: Any, size: float, exact: bool = False) -> None:
        """Keep what was built; unused results of several become outputs."""
        if size <= _LARGE:
            self.pool.append(Entry(expr, size, exact))

    def tamed(self, entry: Entry, limit: float) -> Entry:
        """The value, or its tanh where it may be too large."""
        if entry.size <= limit:
            return entry
        return Entry(entry.expr.apply("tanh") * limit, limit)

    def positive(self, entry: Entry) -> Entry:
        """At least 0.5, and no larger than before by more than that."""
        return Entry(abs(entry.expr) + 0.5, entry.size + 0.5, False)


# ----------------------------------------------------------------------------------------- recipes
def _static(shape: Sequence[Dim]) -> list[int]:
    return [d for d in shape if isinstance(d, int)]


def is_static(entry: Entry) -> bool:
    return all(isinstance(d, int) for d in entry.shape)


_UNARY: dict[str, Callable[[float], float]] = {
    "negative": lambda s: s, "absolute": lambda s: s, "relu": lambda s: s, "sin": lambda s: 1,
    "cos": lambda s: 1, "tanh": lambda s: 1, "sigmoid": lambda s: 1, "erf": lambda s: 1,
    "atan": lambda s: 2, "gelu": lambda s: s, "silu": lambda s: s, "softplus": lambda s: s + 1,
    "leaky_relu": lambda s: s, "elu": lambda s: s, "hardswish": lambda s: s + 1,
    "hardsigmoid": lambda s: 1, "asinh": lambda s: s, "exp": math.exp, "expm1": math.exp,
    "sinh": math.exp, "cosh": math.exp,
}  # fmt: skip
_GROWING = {"exp", "expm1", "sinh", "cosh"}
_EXACT = {"negative", "absolute", "relu"}


def unary(m: Maker) -> None:
    x = m.real()
    name = m.pick(list(_UNARY))
    if x is None:
        return
    x = m.tamed(x, 3.0) if name in _GROWING else x
    m.add(x.expr.apply(name), _UNARY[name](x.size), x.exact and name in _EXACT)


def of_positive(m: Maker) -> None:
    x = m.real()
    if x is not None:
        x = m.positive(x)
        m.add(x.expr.apply(m.pick(["log", "sqrt", "rsqrt", "log1p"])), x.size + 2)


def binary(m: Maker) -> None:
    x, y = m.real(), None
    if x is None:
        return
    if m.chance(2):
        y = m.real(lambda e: _broadcasts(x.shape, e.shape))
    if y is None:
        shape = [d if isinstance(d, int) and not m.chance(3) else 1 for d in x.shape]
        y = m.constant(shape[m.between(0, len(shape)) :])
    if m.chance(3):
        x, y = y, x
    name = m.pick(
        ["add", "add", "multiply", "multiply", "subtract", "divide", "maximum", "minimum"]
    )
    sizes = {"add": x.size + y.size, "subtract": x.size + y.size, "multiply": x.size * y.size}
    if name == "divide":
        y = m.positive(y)
        m.add(x.expr / y.expr, x.size * 2)
        return
    exact = x.exact and y.exact and name in ("maximum", "minimum")
    m.add(x.expr.apply(name, y.expr), sizes.get(name, max(x.size, y.size)), exact)


def _broadcasts(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))


def power(m: Maker) -> None:
    x = m.real(lambda e: e.size <= 3)
    if x is not None:
        exponent = m.pick([2.0, 3.0, 1.0])
        m.add(x.expr ** float(exponent), x.size**exponent)


def compare(m: Maker) -> None:
    x = m.real(lambda e: e.exact)
    y = m.real(lambda e: x is not None and e.exact and _broadcasts(x.shape, e.shape))
    if x is None or y is None:
        return
    flag = x.expr.apply(m.pick(["less", "greater", "less_equal", "equal"]), y.expr)
    if m.chance(2):
        flag = flag.apply("logical_not").apply("logical_not")
    m.add(flag.apply("where", x.expr, y.expr), max(x.size, y.size), True)


def reshape(m: Maker) -> None:
    x = m.real(lambda e: len(e.shape) > 0)
    if x is None:
        return
    first, rest = x.shape[0], _static(x.shape[1:])
    if len(rest) != len(x.shape) - 1:
        return
    count = int(np.prod(rest))
    parts = m.pick([[count], [1, count], [count, 1], rest[::-1], [*rest, 1]])
    if count % 2 == 0:
        parts = m.pick([parts, [2, count // 2], [count // 2, 2]])
    m.add(x.expr.apply("reshape", shape=[first, *parts]), x.size, x.exact)


def permute(m: Maker) -> None:
    x = m.real(lambda e: len(e.shape) > 1)
    if x is None:
        return
    axes = m.random.sample(range(len(x.shape)), len(x.shape))
    if m.chance(3):
        cut = m.between(1, len(axes))
        y = x.expr.apply("rearrange", plan=[axes[:cut], axes[cut:]])
    else:
        y = x.expr.apply("permute", axes=axes)
    m.add(y, x.size, x.exact)


def expand(m: Maker) -> None:
    x = m.real(lambda e: len(e.shape) < 4)
    if x is not None:
        shape = [m.pick([2, 3]) if d == 1 else d for d in x.shape]
        lead = m.pick([[], [2], [1]])
        m.add(x.expr.apply("expand", shape=[*lead, *shape]), x.size, x.exact)


def pieces(m: Maker) -> None:
    x = m.real(lambda e: any(isinstance(d, int) and d > 1 for d in e.shape))
    if x is None:
        return
    axis = m.pick([i for i, d in enumerate(x.shape) if isinstance(d, int) and d > 1])
    size = int(str(x.shape[axis]))
    cut = m.between(1, size - 1)
    kind = m.pick(["split", "slice", "rejoin", "strided"])
    if kind in ("split", "rejoin"):
        parts = x.expr.apply("split", axis=axis, sizes=[cut, size - cut])
        if kind == "rejoin":
            parts = parts if m.chance(2) else parts[::-1]
            m.add(parts[0].apply("concat", parts[1], axis=axis), x.size, x.exact)
            return
        for part in parts:
            m.add(part, x.size, x.exact)
        return
    starts, ends, steps = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    starts[axis] = m.between(0, cut)
    steps[axis] = 1 if kind == "slice" else 2
    m.add(x.expr.apply("slice", starts=starts, ends=ends, steps=steps), x.size, x.exact)


def concat(m: Maker) -> None:
    x = m.real(lambda e: len(e.shape) > 0 and e.shape[-1] != 0)
    if x is None:
        return
    y = m.real(lambda e: len(e.shape) == len(x.shape) and e.shape[:-1] == x.shape[:-1]) or x
    m.add(x.expr.apply("concat", y.expr, axis=-1), max(x.size, y.size), x.exact and y.exact)


def fold(m: Maker) -> None:
    x = m.real(lambda e: len(e.shape) > 0 and is_static(e) and 0 not in e.shape)
    if x is None:
        return
    name = m.pick(["sum", "mean", "max", "min", "variance"])
    axes = m.random.sample(range(len(x.shape)), m.between(1, len(x.shape)))
    count = float(np.prod([x.shape[a] for a in axes]))
    if name == "variance" and count < 2:
        return
    keep = bool(m.chance(2))
    y = x.expr.apply(name, axes=axes, keepdims=keep)
    size = {"sum": x.size * count, "variance": 8 * x.size**2}.get(name, x.size)
    m.add(y, size, x.exact and name in ("max", "min"))


def softmax(m: Maker) -> None:
    x = m.real(lambda e: len(e.shape) > 0 and 0 not in e.shape)
    if x is not None:
        axis = m.between(0, len(x.shape) - 1)
        name = m.pick(["softmax", "log_softmax"])
        m.add(x.expr.apply(name, axis=axis), 1.0 if name == "softmax" else 2 * x.size + 4)


def norm(m: Maker) -> None:
    x = m.real(lambda e: len(e.shape) > 0 and isinstance(e.shape[-1], int) and e.shape[-1] > 1)
    if x is None:
        return
    last = _static(x.shape[-1:])
    name = m.pick(["layer_norm", "rms_norm"])
    most = 2 if name == "layer_norm" else 1
    params = [m.constant(last).expr for _ in range(m.between(0, most))]
    m.add(x.expr.apply(name, *params, eps=0.1), 3 * last[0] + 3)


def linear(m: Maker) -> None:
    """One to three products of one value, with biases, activations and scales."""
    x = m.real(lambda e: len(e.shape) > 1 and isinstance(e.shape[-1], int) and e.shape[-1] > 0)
    if x is None:
        return
    x = m.tamed(x, 4.0)
    depth = _static(x.shape[-1:])[0]
    for _ in range(m.between(1, 3)):
        columns = m.pick([1, 2, 4])
        transposed = bool(m.chance(3))
        shape = (columns, depth) if transposed else (depth, columns)
        w = m.builder.weight(m.values(shape) / max(depth, 1), m.dtype)
        y, size = x.expr.apply("matmul", w, transpose_y=transposed), 2 * x.size
        if m.chance(2):
            y, size = y + m.constant((columns,)).expr, size + 2
        if m.chance(3):
            y, size = y * m.constant(m.pick([(), (columns,)])).expr, size * 2
        if m.chance(3):
            y = y.apply("relu")
        m.add(y, size)


def product(m: Maker) -> None:
    x = m.real(lambda e: len(e.shape) > 1 and is_static(e) and 0 not in e.shape)
    if x is None:
        return
    x = m.tamed(x, 3.0)
    depth = _static(x.shape)[-1]
    if m.chance(2):
        y = x.expr.apply("matmul", x.expr, transpose_y=True)
    else:
        axes = [*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2]
        y = x.expr.apply("matmul", x.expr.apply("permute", axes=axes))
    m.add(y, x.size**2 * depth)


def image(m: Maker) -> Entry:
    found = m.real(lambda e: len(e.shape) == 4 and is_static(e) and min(_static(e.shape)) > 0)
    if found is not None and not m.chance(3):
        return m.tamed(found, 4.0)
    shape = [m.pick([1, 2]), m.pick([2, 4]), m.pick([4, 5]), 4]
    return Entry(m.source(m.values(shape)), 2.0, True)


def convolution(m: Maker) -> None:
    """Convolutions of one image, with bias, batch norm and an activation."""
    x = image(m)
    channels, height, width = _static(x.shape)[1:]
    groups = channels if m.chance(4) else 1
    kernel = m.pick([1, 3]) if min(height, width) >= 3 else 1
    padding = m.pick([0, kernel // 2])
    stride = m.pick([1, 2])
    for _ in range(m.between(1, 2)):
        out = groups if groups > 1 else m.pick([2, 3])
        shape = (out, channels // groups, kernel, kernel)
        w = m.builder.weight(m.values(shape) / float(np.prod(shape[1:])), m.dtype)
        attrs = {"stride": [stride], "padding": [padding], "groups": groups}
        y, size = x.expr.apply("conv", w, **attrs), 2 * x.size
        if m.chance(2):
            y, size = y + m.constant((out, 1, 1)).expr, size + 2
        if m.chance(2):
            mean, scale, shift = (m.builder.weight(m.values((out,)), m.dtype) for _ in range(3))
            spread = m.builder.weight(np.abs(m.values((out,))) + 0.5, m.dtype)
            y, size = y.apply("batch_norm", mean, spread, scale, shift, eps=0.01), 4 * size + 8
        if m.chance(2):
            y = y.apply("relu")
        m.add(y, size)


def pool(m: Maker) -> None:
    x = image(m)
    if min(_static(x.shape)[2:]) >= 2:
        name = m.pick(["max_pool", "avg_pool"])
        m.add(x.expr.apply(name, kernel=[2, 2], stride=[m.pick([1, 2])]), x.size)


def cast(m: Maker) -> None:
    x = m.real(lambda e: e.exact)
    if x is not None:
        wide = x.expr.cast("float64").cast(m.pick(["float64", m.dtype])).cast(m.dtype)
        m.add(wide, x.size, True)


def random_numbers(m: Maker) -> None:
    seed = m.builder.weight(np.int64(m.between(0, 9)))
    x = m.real()
    if x is not None and m.chance(2):
        m.add(x.expr.apply("dropout", seed, p=m.pick([0.0, 0.5])), 2 * x.size)
        return
    name = m.pick(["uniform", "normal"])
    m.add(m.builder.apply(name, seed, shape=[2, 3], dtype=m.dtype), 8.0, True)


def created(m: Maker) -> None:
    size = m.pick([2, 3, 4])
    if m.chance(2):
        m.add(m.builder.apply("arange", stop=size, dtype=m.dtype), size, True)
    else:
        m.add(m.builder.apply("full", shape=[1, size], value=0.5, dtype=m.dtype), 0.5, True)


def barrier(m: Maker) -> None:
    x = m.real()
    if x is not None:
        m.add(x.expr.apply("barrier"), x.size, x.exact)


# ------------------------------------------------------------- phrases: patterns rules look for
def phrase(m: Maker) -> None:
    x = m.real(lambda e: len(e.shape) > 1 and is_static(e) and e.shape[-1] != 0)
    if x is None:
        return
    x = m.tamed(x, 4.0)
    e = x.expr
    which = m.pick(["softmax", "layer_norm", "rms_norm", "gelu", "gelu_tanh", "silu", "attention"])
    if which == "softmax":
        up = (e - e.apply("max", axes=[-1], keepdims=True)).apply("exp")
        m.add(up / up.apply("sum", axes=[-1], keepdims=True), 1.0)
    elif which == "layer_norm":
        apart = e - e.apply("mean", axes=[-1], keepdims=True)
        spread = (apart * apart).apply("mean", axes=[-1], keepdims=True)
        y = apart / (spread + 0.1).apply("sqrt")
        w = m.constant(_static(e.shape[-1:])).expr
        m.add(y * w + 1.0 if m.chance(2) else y, 30.0)
    elif which == "rms_norm":
        square = (e**2.0).apply("mean", axes=[-1], keepdims=True)
        m.add(e * (square + 0.1).apply("rsqrt"), 15.0)
    elif which == "gelu":
        m.add(e * 0.5 * ((e / math.sqrt(2)).apply("erf") + 1.0), x.size)
    elif which == "gelu_tanh":
        inner = (e + e * e * e * 0.044715) * math.sqrt(2 / math.pi)
        m.add(e * 0.5 * (inner.apply("tanh") + 1.0), x.size)
    elif which == "silu":
        m.add(e / ((-e).apply("exp") + 1.0) if m.chance(2) else e * e.apply("sigmoid"), x.size)
    else:
        heads = e if len(x.shape) > 2 else e.apply("reshape", shape=[1, *e.shape])
        scores = heads.apply("matmul", heads, transpose_y=True) * 0.25
        if m.chance(2):
            scores = scores + m.constant(_static(scores.shape[-1:])).expr
        m.add(scores.apply("softmax", axis=-1) @ heads, x.size)


# --------------------------------------------------------------------- every op, by its samples
def by_sample(m: Maker) -> None:
    """One of the registry's ops as one of its samples."""
    from ops.samples import SAMPLES  # imports torch

    name = m.pick(sorted(set(SAMPLES) & set(REGISTRY) - set(EXCLUDED)))
    sample = m.pick(SAMPLES[name])
    op = REGISTRY[name]
    if name in WIDE_ONLY and m.dtype not in ("float32", "float64"):
        return
    if any(0 in np.shape(a) or not _is_tame(np.asarray(a)) for a in sample.inputs):
        return
    tame = op.kind in (Kind.INJECTIVE, Kind.CONTRACTION) or op.family in ("pool", "norm", "resize")
    operands, exact = [], op.kind is Kind.INJECTIVE
    for i, given in enumerate(sample.inputs):
        array = np.asarray(given)
        found = None
        if i == 0 and tame and array.dtype.kind == "f":
            shape = array.shape
            found = m.real(lambda e, shape=shape: e.shape == shape and e.size < 4)
        exact = exact and (found is None or found.exact)
        operands.append(found.expr if found is not None else m.source(array))
    attrs = {k: m.dtype if v in ("float64", "float32") else v for k, v in sample.attrs.items()}
    out = m.builder.apply(op, *operands, **attrs)
    for value in out if isinstance(out, tuple) else (out,):
        m.add(value, 40.0 if value.dtype.is_float else _LARGE, exact)


def _is_tame(array: Array) -> bool:
    return array.dtype.kind != "f" or bool(np.all(np.isfinite(array)) and np.all(abs(array) < 5))


RECIPES: list[Callable[[Maker], None]] = [
    unary, unary, of_positive, binary, binary, binary, power, compare, reshape, permute, expand,
    pieces, concat, fold, softmax, norm, linear, linear, product, convolution, pool, cast,
    random_numbers, created, barrier, phrase, phrase, by_sample, by_sample, by_sample,
]  # fmt: skip


@st.composite
def cases(
    draw: Callable[[Any], Any], dtype: str = "float64", max_ops: int = 12, symbolic: bool = False
) -> Case:
    """A random graph with inputs. In float64 rounding is no excuse: 1e-9 is a generous tolerance.

    Two draws, a seed and a length: the same seed with a smaller length gives the beginning of the
    same graph, so a failure shrinks to the op that causes it.
    """
    seed = draw(st.integers(0, (1 << 32) - 1))
    return case_of(seed, draw(st.integers(1, max_ops)), dtype, symbolic)


def case_of(seed: int, count: int, dtype: str = "float64", symbolic: bool = False) -> Case:
    """The case of this seed with `count` recipes applied."""
    m = Maker(Random(seed), dtype)
    size = symbol("n", 1, 8) if symbolic else None
    if size is not None:
        m.sizes["n"] = m.between(1, 5)
    for _ in range(m.between(1, 3)):
        shape: list[Dim] = [m.pick([1, 2, 3, 4]) for _ in range(m.between(0, 3))]
        if size is not None:
            shape = [size, *shape]
        actual = [m.sizes["n"] if isinstance(d, SymDim) else d for d in shape]
        m.inputs.append(finish(m.values(actual), as_dtype(dtype)))
        m.pool.append(Entry(m.builder.input(dtype, shape), 2.0, True))
    for _ in range(count):
        m.pick(RECIPES)(m)
    graph = m.builder.graph
    leaves = [v for n in graph.nodes for v in n.outputs if not v.use_count]
    made = [v for v in leaves if v.node.op.kind is not Kind.SOURCE]
    extra = [m.pick(m.pool).expr.value] if m.chance(3) else []
    m.builder.finish(*(made[-4:] + extra or [m.pool[-1].expr.value]))
    verify(graph)
    return Case(graph, m.inputs, m.sizes)
