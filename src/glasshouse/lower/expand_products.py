"""Products and attention as products and folds, for what a template cannot do."""

from __future__ import annotations

from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, SymDim, floor_div
from glasshouse.ir.dtype import Category, float32, int64
from glasshouse.ir.graph import Node
from glasshouse.ir.op import REGISTRY
from glasshouse.ir.rewriter import Rewriter
from glasshouse.lower.expand_norms import Expansion, widened
from glasshouse.ops.attention import attention_gradients, beside_each_other
from glasshouse.ops.products import GATES
from glasshouse.ops.row_parts import PART


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
    wide = x.dtype if not x.dtype.is_float else widened(x).dtype
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
    scores = (widened(q) * scale).apply("matmul", widened(k), transpose_y=True)
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
    out = weights.apply("matmul", widened(v))
    return out.cast(node.output.type.dtype)


def _attention_grad(rw: Rewriter, node: Node) -> Any:
    operands = [rw.expr(v) for v in node.inputs]
    wide = [widened(x) for x in operands[:5]]
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
    columns = columns.cast(widened(x).dtype)
    mean, factor = _of_parts(parts.cast(widened(x).dtype), x.shape[:-1], node.attrs["eps"])
    found = widened(x).apply("matmul", widened(weight), transpose_y=True)
    count = columns.shape[1]
    sums, shifts = (
        columns.apply("slice", starts=(i, 0), ends=(i + 1, count), steps=(1, 1)) for i in (0, 1)
    )
    sums, shifts = (v.apply("reshape", shape=(count,)) for v in (sums, shifts))
    return ((found - mean * sums) * factor + shifts).cast(node.output.type.dtype)


def _product_and_parts(rw: Rewriter, node: Node) -> Any:
    x, weight, bias, residual, *norm = (rw.expr(v) for v in node.inputs)
    rows = widened(residual)
    if norm:
        mean, factor = _of_parts(norm[0].cast(rows.dtype), rows.shape[:-1], node.attrs["eps"])
        rows = (rows - mean) * factor * widened(norm[1]) + widened(norm[2])
    found = widened(x).apply("matmul", widened(weight), transpose_y=True)
    made = (rows + (found + widened(bias))).cast(node.outputs[0].type.dtype)
    count, many, _ = node.outputs[1].type.shape
    whole = widened(made).apply("reshape", shape=(count, many, PART))
    sums = whole.apply("sum", axes=[-1], keepdims=True)
    apart = whole - sums / float(PART)
    rests = (apart * apart).apply("sum", axes=[-1], keepdims=True)
    return [made, sums.apply("concat", rests, axis=-1).cast(float32)]


PRODUCTS: dict[str, Expansion] = {
    "attention": _attention,
    "attention_grad": _attention_grad,
    "matmul": _matmul,
    "normed_product": _normed_product,
    "product_and_parts": _product_and_parts,
    "products": _products,
}
