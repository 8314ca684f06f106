"""How ops that have no code of their own become simpler ones inside a kernel.

Softmax, the norms, mean and variance are folds and elementwise arithmetic: written so, one nest
computes them with whatever surrounds them. The new nodes keep the origin of what they stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import numpy as np

from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, SymDim, bounds, floor_div, product, remainder
from glasshouse.ir.dtype import Category, DType, float32, float64, int32, int64
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import REGISTRY, Kind
from glasshouse.ir.rewriter import Rewriter
from glasshouse.lower.access import VIEWS
from glasshouse.lower.quant import has_loops
from glasshouse.ops.attention import attention_gradients, beside_each_other
from glasshouse.ops.products import GATES
from glasshouse.ops.row_parts import PART
from glasshouse.ops.shapes import axes_of, axis_of

Expansion = Callable[..., Any]
"""Takes the rewriter, a node and, where its name is in `_CENTRED`, how means are summed up."""


def expanded(
    graph: Graph, plain: Collection[str] = (), shifted: bool = True
) -> tuple[Graph, dict[int, int]]:
    """A copy of a kernel's body in which every op has code; and, for each node, the position among
    the ops of the body of the one that it stands for.

    Ops in `plain` have templates, and are taken apart all the same. `shifted` as in `_centre`.
    """
    table = {**EXPANSIONS, **{name: _PLAIN[name] for name in plain}}
    members = (n for n in graph.nodes if n.op.kind is not Kind.SOURCE)
    stands_for = {n.id: i for i, n in enumerate(members)}
    pending = [n for n in graph.nodes if _needs_it(n, table)]
    if not pending:
        return graph, stands_for
    out = graph.copy()
    rw = Rewriter(out, "Lower")
    pending = [out.node(n.id) for n in pending]
    while pending:
        for node in pending:
            how = (shifted,) if node.op.name in _CENTRED else ()
            build = partial(table[node.op.name], rw, node, *how)
            first = out._next_id
            rw.replace(node, build, rule=node.op.name, why="it has no code of its own")
            stands_for.update(dict.fromkeys(range(first, out._next_id), stands_for[node.id]))
        pending = [n for n in rw.touched() if _needs_it(n, table)]
    return out, stands_for


def _needs_it(node: Node, table: Mapping[str, Expansion]) -> bool:
    if node.op.name in ("quantize", "dequantize") and has_loops(node):
        return False
    if node.op.name == "adaptive_avg_pool":
        return _has_even_parts(node)
    return node.op.name in table


def _wide(x: Any) -> Any:
    """Folds of half floats are computed in float32."""
    return x if x.dtype in (float32, float64) else x.cast(float32)


def _count(rw: Rewriter, shape: tuple[Dim, ...], axes: tuple[int, ...], dtype: DType) -> Any:
    """How many elements a fold takes in, as a number or, when it is symbolic, as a computed one."""
    number = product(tuple(shape[a] for a in axes))
    if not isinstance(number, SymDim):
        return float(number)
    node = REGISTRY["full"].emit(rw, [], {"shape": (), "value": 1.0, "dtype": dtype})
    ones = rw.wrap(node.outputs[0]).apply("expand", shape=tuple(shape[a] for a in axes))
    return ones.apply("sum")


def _mean(rw: Rewriter, node: Node) -> Any:
    x = rw.expr(node.inputs[0])
    axes = axes_of(node.attrs["axes"], x.ndim)
    wide = _wide(x)
    total = wide.apply("sum", axes=axes, keepdims=node.attrs["keepdims"])
    return (total / _count(rw, x.shape, axes, wide.dtype)).cast(node.output.type.dtype)


def _centre(rw: Rewriter, x: Any, axes: tuple[int, ...], shifted: bool) -> Any:
    """The mean over `axes`, which are kept.

    `shifted`: of differences from the first element, so that rows of equal elements have exactly
    that element as their mean. Else a rounding error of the mean is all there is to such a row, and
    a norm divides it by the square root of epsilon: 768 elements of 1003 became 0.2 instead of 0.
    """
    count = _count(rw, x.shape, axes, x.dtype)
    if not shifted or not _is_cheap(x.value) or any(bounds(x.shape[a])[0] < 1 for a in axes):
        return x.apply("sum", axes=axes, keepdims=True) / count
    ends = tuple(1 if a in axes else d for a, d in enumerate(x.shape))
    first = x.apply("slice", starts=(0,) * x.ndim, ends=ends)
    return first + (x - first).apply("sum", axes=axes, keepdims=True) / count


def _is_cheap(value: Value) -> bool:
    """Whether one element costs next to nothing to compute again beside each vector of a loop."""
    pending = [value]
    for _ in range(_MOST_OPS):
        if not pending:
            return True
        node = pending.pop().node
        if node.op.kind is not Kind.SOURCE:
            if node.op.name not in _CHEAP:
                return False
            pending += node.inputs
    return not pending


_MOST_OPS = 6
_CHEAP = {"add", "subtract", "multiply", "negative", "cast", *VIEWS}


def _moments(rw: Rewriter, x: Any, axes: tuple[int, ...], shifted: bool) -> tuple[Any, Any]:
    """x minus its mean, and the sum of its squares; both over `axes`, which are kept."""
    centred = x - _centre(rw, x, axes, shifted)
    return centred, (centred * centred).apply("sum", axes=axes, keepdims=True)


def _variance(rw: Rewriter, node: Node, shifted: bool) -> Any:
    x = _wide(rw.expr(node.inputs[0]))
    axes = axes_of(node.attrs["axes"], x.ndim)
    _, squares = _moments(rw, x, axes, shifted)
    free = _count(rw, x.shape, axes, x.dtype) - float(node.attrs["correction"])
    free = max(free, 0.0) if isinstance(free, float) else free.apply("maximum", 0.0)
    out = squares / free
    if out.shape != node.output.type.shape:
        out = out.apply("reshape", shape=node.output.type.shape)
    return out.cast(node.output.type.dtype)


def _softmax(rw: Rewriter, node: Node) -> Any:
    x = _wide(rw.expr(node.inputs[0]))
    axis = [axis_of(node.attrs["axis"], x.ndim)] if x.ndim else []
    shifted = x - x.apply("max", axes=axis, keepdims=True)
    powers = shifted.apply("exp")
    total = powers.apply("sum", axes=axis, keepdims=True)
    out = shifted - total.apply("log") if node.op.name == "log_softmax" else powers / total
    return out.cast(node.output.type.dtype)


def _layer_norm(rw: Rewriter, node: Node, shifted: bool) -> Any:
    x = _wide(rw.expr(node.inputs[0]))
    axes = tuple(range(axis_of(node.attrs["axis"], x.ndim), x.ndim))
    centred, squares = _moments(rw, x, axes, shifted)
    variance = squares / _count(rw, x.shape, axes, x.dtype)
    out = centred * (variance + node.attrs["eps"]).apply("rsqrt")
    return _affine(rw, out, node)


def _layer_norm_grad(rw: Rewriter, node: Node, shifted: bool) -> Any:
    g, x, *weight = (_wide(rw.expr(v)) for v in node.inputs)
    axes = tuple(range(axis_of(node.attrs["axis"], x.ndim), x.ndim))
    count = _count(rw, x.shape, axes, x.dtype)
    centred, squares = _moments(rw, x, axes, shifted)
    r = (squares / count + node.attrs["eps"]).apply("rsqrt")
    hat = centred * r
    h = g * weight[0] if weight else g
    mean, along = (v.apply("sum", axes=axes, keepdims=True) / count for v in (h, h * hat))
    return (r * (h - mean - hat * along)).cast(node.output.type.dtype)


def _layer_norm_weight_grad(rw: Rewriter, node: Node, shifted: bool) -> Any:
    g, x = (_wide(rw.expr(v)) for v in node.inputs)
    first = axis_of(node.attrs["axis"], x.ndim)
    axes, before = tuple(range(first, x.ndim)), tuple(range(first))
    centred, squares = _moments(rw, x, axes, shifted)
    variance = squares / _count(rw, x.shape, axes, x.dtype)
    hat = centred * (variance + node.attrs["eps"]).apply("rsqrt")
    # Behind an axis of 1, so that there is always a sum: an output must not be an operand.
    rows = [v.apply("reshape", shape=(1, *v.shape)) for v in (g * hat, g)]
    made = [v.apply("sum", axes=(0, *(a + 1 for a in before))) for v in rows]
    return [v.cast(o.type.dtype) for v, o in zip(made, node.outputs, strict=True)]


def _rms_norm(rw: Rewriter, node: Node) -> Any:
    x = _wide(rw.expr(node.inputs[0]))
    axes = tuple(range(axis_of(node.attrs["axis"], x.ndim), x.ndim))
    squares = (x * x).apply("sum", axes=axes, keepdims=True)
    out = x * (squares / _count(rw, x.shape, axes, x.dtype) + node.attrs["eps"]).apply("rsqrt")
    return _affine(rw, out, node)


def _affine(rw: Rewriter, out: Any, node: Node) -> Any:
    if len(node.inputs) > 1:
        out = out * rw.expr(node.inputs[1]).cast(out.dtype)
    if len(node.inputs) > 2:
        out = out + rw.expr(node.inputs[2]).cast(out.dtype)
    return out.cast(node.output.type.dtype)


def _channels(x: Any, like: Any) -> Any:
    """A vector by channel, shaped so that it broadcasts against N C spatial..."""
    return x.apply("reshape", shape=(like.shape[1],) + (1,) * (like.ndim - 2)).cast(like.dtype)


def _group_norm(rw: Rewriter, node: Node, shifted: bool) -> Any:
    x = _wide(rw.expr(node.inputs[0]))
    groups = node.attrs["groups"]
    split = x.apply("reshape", shape=(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
    axes = tuple(range(2, split.ndim))
    centred, squares = _moments(rw, split, axes, shifted)
    variance = squares / _count(rw, split.shape, axes, x.dtype)
    out = (centred * (variance + node.attrs["eps"]).apply("rsqrt")).apply("reshape", shape=x.shape)
    if len(node.inputs) > 1:
        out = out * _channels(rw.expr(node.inputs[1]), x)
    if len(node.inputs) > 2:
        out = out + _channels(rw.expr(node.inputs[2]), x)
    return out.cast(node.output.type.dtype)


def _batch_norm(rw: Rewriter, node: Node) -> Any:
    x = _wide(rw.expr(node.inputs[0]))
    mean, var, weight, bias = (_channels(rw.expr(v), x) for v in node.inputs[1:])
    scale = weight * (var + node.attrs["eps"]).apply("rsqrt")
    return ((x - mean) * scale + bias).cast(node.output.type.dtype)


def _has_even_parts(node: Node) -> bool:
    """Whether the parts of an adaptive pool are windows of one size, or all there is."""
    pairs = list(zip(node.inputs[0].type.shape[2:], node.attrs["size"], strict=True))
    return all(want == 1 for _, want in pairs) or all(remainder(a, b) == 0 for a, b in pairs)


def _adaptive_avg_pool(rw: Rewriter, node: Node) -> Any:
    x = rw.expr(node.inputs[0])
    size = node.attrs["size"]
    if all(d == 1 for d in size):
        return x.apply("mean", axes=tuple(range(2, x.ndim)), keepdims=True)
    kernel = [floor_div(have, want) for have, want in zip(x.shape[2:], size, strict=True)]
    return x.apply("avg_pool", kernel=kernel)


def _batch_norm_training(rw: Rewriter, node: Node) -> Any:
    x = _wide(rw.expr(node.inputs[0]))
    weight, bias = (_channels(rw.expr(v), x) for v in node.inputs[1:])
    axes = (0, *range(2, x.ndim))
    count = _count(rw, x.shape, axes, x.dtype)
    mean = x.apply("sum", axes=axes, keepdims=True) / count
    centred = x - mean
    var = (centred * centred).apply("sum", axes=axes, keepdims=True) / count
    out = centred * (var + node.attrs["eps"]).apply("rsqrt") * weight + bias
    flat = [m.apply("reshape", shape=(x.shape[1],)) for m in (mean, var)]
    return [v.cast(o.type.dtype) for v, o in zip((out, *flat), node.outputs, strict=True)]


def _beside(like: Any, vector: Any, axis: int | None) -> Any:
    """A scale or zero point, shaped so that it broadcasts along its axis."""
    if axis is None:
        return vector
    at = axis_of(axis, like.ndim)
    return vector.apply("reshape", shape=(vector.shape[0],) + (1,) * (like.ndim - 1 - at))


def _quantize(rw: Rewriter, node: Node) -> Any:
    x, scale, zero = (rw.expr(v) for v in node.inputs)
    axis, dtype = node.attrs["axis"], node.attrs["dtype"]
    limits = np.iinfo(dtype.carrier)
    low = limits.min if node.attrs["low"] is None else node.attrs["low"]
    high = limits.max if node.attrs["high"] is None else node.attrs["high"]
    wide = _wide(scale).dtype
    steps = (_wide(x).cast(wide) / _beside(x, _wide(scale), axis)).apply("round")
    steps = steps.apply("isnan").apply("where", 0.0, steps)
    # As an integer only after clipping; 2**40 leaves room for every zero point.
    whole = steps.apply("clip", low=-(2.0**40), high=2.0**40).cast(int64)
    moved = whole + _beside(x, zero.cast(int64), axis)
    return moved.apply("clip", low=int(low), high=int(high)).cast(dtype)


def _dequantize(rw: Rewriter, node: Node) -> Any:
    x, scale, zero = (rw.expr(v) for v in node.inputs)
    axis = node.attrs["axis"]
    steps = x.cast(int32) - _beside(x, zero.cast(int32), axis)
    wide = _wide(scale)
    return (steps.cast(wide.dtype) * _beside(x, wide, axis)).cast(node.attrs["dtype"])


def _matmul(rw: Rewriter, node: Node) -> Any:
    """Products of all pairs, summed: [..., m, k, 1] * [..., 1, k, n] over k."""
    x, y = (rw.expr(v) for v in node.inputs)
    flat_x, flat_y = x.ndim == 1, y.ndim == 1
    x = x.apply("reshape", shape=(1, *x.shape)) if flat_x else x
    y = y.apply("reshape", shape=(*y.shape, 1)) if flat_y else y
    if node.attrs["transpose_x"] and not flat_x:
        x = x.apply("permute", axes=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
    if node.attrs["transpose_y"] and not flat_y:
        y = y.apply("permute", axes=(*range(y.ndim - 2), y.ndim - 1, y.ndim - 2))
    wide = x.dtype if not x.dtype.is_float else _wide(x).dtype
    left = x.cast(wide).apply("reshape", shape=(*x.shape, 1))
    right = y.cast(wide).apply("reshape", shape=(*y.shape[:-2], 1, *y.shape[-2:]))
    out = (left * right).apply("sum", axes=[-2]).cast(node.output.type.dtype)
    wanted = node.output.type.shape
    return out if out.shape == wanted else out.apply("reshape", shape=wanted)


def _attention(rw: Rewriter, node: Node) -> Any:
    """Scores, mask, softmax and the weighted sum, one after the other."""
    q, k, v, *rest = (rw.expr(x) for x in node.inputs)
    heads = None if q.ndim < 3 else (q.shape[-3], k.shape[-3])
    if heads is not None and heads[0] != heads[1]:
        k, v = (_repeated(x, floor_div(*heads)) for x in (k, v))
    scale = node.attrs["scale"]
    if scale is None:
        if isinstance(q.shape[-1], SymDim):
            raise Unsupported("no attention over a symbolic dim without a scale")
        scale = float(q.shape[-1]) ** -0.5
    scores = (_wide(q) * scale).apply("matmul", _wide(k), transpose_y=True)
    low, fill = float("-inf"), node.attrs["fill"]
    if node.attrs["causal"]:
        ones = REGISTRY["full"].emit(
            rw, [], {"shape": scores.shape[-2:], "value": 1, "dtype": int64}
        )
        kept = rw.wrap(ones.outputs[0]).apply("triangle") > 0
        scores = kept.apply("where", scores, low)
    for mask in rest:
        is_bool = mask.dtype.category is Category.BOOL
        masked = low if fill is None else fill
        scores = (
            mask.apply("where", scores, masked) if is_bool else scores + mask.cast(scores.dtype)
        )
    weights = scores.apply("softmax")
    if fill is None:  # a query that sees no key gives 0
        nothing = scores.apply("max", axes=[-1], keepdims=True).apply("equal", low)
        weights = nothing.apply("where", 0.0, weights)
    out = weights.apply("matmul", _wide(v))
    return out.cast(node.output.type.dtype)


def _attention_grad(rw: Rewriter, node: Node) -> Any:
    operands = [rw.expr(v) for v in node.inputs]
    wide = [_wide(x) for x in operands[:5]]
    made = beside_each_other(attention_gradients(*wide, *operands[5:], **node.attrs))
    return made.cast(node.output.type.dtype)


def _repeated(x: Any, times: Dim) -> Any:
    """Each head `times` times in a row."""
    *lead, heads, length, dim = x.shape
    wide = x.apply("reshape", shape=(*lead, heads, 1, length, dim))
    wide = wide.apply("expand", shape=(*lead, heads, times, length, dim))
    return wide.apply("reshape", shape=(*lead, heads * times, length, dim))


def _products(rw: Rewriter, node: Node) -> Any:
    """A norm, a product for each weight, and what becomes of them."""
    x, *weights = (rw.expr(v) for v in node.inputs)
    if node.attrs["eps"] is not None:
        x = x.apply("rms_norm", weights.pop(0), eps=node.attrs["eps"])
    x = x.apply("reshape", shape=(1, *x.shape)) if x.ndim == 1 else x
    found = [x.apply("matmul", w, transpose_y=True) for w in weights]
    if node.attrs["gate"]:
        name, attrs = GATES[node.attrs["gate"]]
        out = found[0].apply(name, **attrs) * found[1]
    else:
        out = found[0].apply("concat", *found[1:], axis=-1)
    wanted = node.output.type.shape
    return out if out.shape == wanted else out.apply("reshape", shape=wanted)


def _of_parts(parts: Any, lead: tuple[Dim, ...], eps: float) -> tuple[Any, Any]:
    """Mean and 1 / sqrt(variance + eps) of rows, [..., 1]."""
    rows, many, _ = parts.shape
    sums, rests = (
        parts.apply("slice", starts=(0, 0, i), ends=(rows, many, i + 1), steps=(1, 1, 1))
        for i in (0, 1)
    )
    width = parts.shape[1] * PART
    mean = sums.apply("sum", axes=[1], keepdims=True) / float(width)
    apart = sums - mean * float(PART)
    squares = (rests + apart * apart / float(PART)).apply("sum", axes=[1], keepdims=True)
    factor = (squares / float(width) + eps).apply("rsqrt")
    return tuple(x.apply("reshape", shape=(*lead, 1)) for x in (mean, factor))


def _normed_product(rw: Rewriter, node: Node) -> Any:
    x, parts, weight, columns = (rw.expr(v) for v in node.inputs)
    columns = columns.cast(_wide(x).dtype)
    mean, factor = _of_parts(parts.cast(_wide(x).dtype), x.shape[:-1], node.attrs["eps"])
    found = _wide(x).apply("matmul", _wide(weight), transpose_y=True)
    count = columns.shape[1]
    sums, shifts = (
        columns.apply("slice", starts=(i, 0), ends=(i + 1, count), steps=(1, 1)) for i in (0, 1)
    )
    sums, shifts = (v.apply("reshape", shape=(count,)) for v in (sums, shifts))
    return ((found - mean * sums) * factor + shifts).cast(node.output.type.dtype)


def _product_and_parts(rw: Rewriter, node: Node) -> Any:
    x, weight, bias, residual, *norm = (rw.expr(v) for v in node.inputs)
    rows = _wide(residual)
    if norm:
        mean, factor = _of_parts(norm[0].cast(rows.dtype), rows.shape[:-1], node.attrs["eps"])
        rows = (rows - mean) * factor * _wide(norm[1]) + _wide(norm[2])
    found = _wide(x).apply("matmul", _wide(weight), transpose_y=True)
    made = (rows + (found + _wide(bias))).cast(node.outputs[0].type.dtype)
    count, many, _ = node.outputs[1].type.shape
    whole = _wide(made).apply("reshape", shape=(count, many, PART))
    sums = whole.apply("sum", axes=[-1], keepdims=True)
    apart = whole - sums / float(PART)
    rests = (apart * apart).apply("sum", axes=[-1], keepdims=True)
    return [made, sums.apply("concat", rests, axis=-1).cast(float32)]


_CENTRED = {"variance", "layer_norm", "layer_norm_grad", "layer_norm_weight_grad", "group_norm"}
_PLAIN: dict[str, Expansion] = {
    "attention": _attention,
    "attention_grad": _attention_grad,
    "batch_norm_training": _batch_norm_training,
    "layer_norm_weight_grad": _layer_norm_weight_grad,
    "matmul": _matmul,
    "normed_product": _normed_product,
    "product_and_parts": _product_and_parts,
    "products": _products,
}
APART = (
    "attention", "attention_grad", "batch_norm_training", "layer_norm_weight_grad",
    "normed_product", "product_and_parts", "products",
)  # fmt: skip
"""What consists of products and folds: where its own template will not do, theirs may."""
FOLDS = (*APART, "matmul")
"""All that can be folds: slow, and good for every type."""
EXPANSIONS: dict[str, Expansion] = {
    "adaptive_avg_pool": _adaptive_avg_pool,
    "quantize": _quantize,
    "dequantize": _dequantize,
    "mean": _mean,
    "variance": _variance,
    "softmax": _softmax,
    "log_softmax": _softmax,
    "layer_norm": _layer_norm,
    "layer_norm_grad": _layer_norm_grad,
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    "batch_norm": _batch_norm,
}
