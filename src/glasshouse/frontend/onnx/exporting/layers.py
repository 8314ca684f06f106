"""How products, convolutions, pooling, normalisation and attention are written in ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import Unsupported
from glasshouse.frontend.onnx.exporting.emitter import Emitter, export
from glasshouse.frontend.onnx.exporting.reduce import reduced
from glasshouse.ir.dim import SymDim
from glasshouse.ir.dtype import bool_, int64
from glasshouse.ir.graph import Node, Value
from glasshouse.ops.attention import group_size, scale_of
from glasshouse.ops.resize_taps import SLOPES
from glasshouse.ops.shapes import axis_of
from glasshouse.ops.window import paddings, spread


def _swapped(e: Emitter, name: str, rank: int) -> Any:
    return e.make("Transpose", name, perm=[*range(rank - 2), rank - 1, rank - 2])


@export("matmul")
def matmul(e: Emitter, n: Node) -> Any:
    names = []
    for value, key in zip(n.inputs, ("transpose_x", "transpose_y"), strict=True):
        names.append(_swapped(e, e[value], value.type.rank) if n.attrs[key] else e[value])
    return e.make("MatMul", *names)


def _window(n: Node, rank: int, kernel: Any = None) -> dict[str, Any]:
    begins, ends = paddings(n.attrs["padding"], rank)
    stride = n.attrs["stride"] or kernel or ()
    return {
        "strides": list(spread(stride, rank, 1)), "pads": [*begins, *ends],
        "dilations": list(spread(n.attrs["dilation"], rank, 1)),
    }  # fmt: skip


@export("conv")
def conv(e: Emitter, n: Node) -> Any:
    rank = n.output.type.rank - 2
    kernel = list(n.inputs[1].type.shape[2:])
    return e.make(
        "Conv", *e.inputs(n), group=n.attrs["groups"], kernel_shape=kernel, **_window(n, rank)
    )


@export("conv_transpose")
def conv_transpose(e: Emitter, n: Node) -> Any:
    rank = n.output.type.rank - 2
    more = spread(n.attrs["output_padding"], rank, 0)
    if any(isinstance(m, SymDim) for m in more):
        raise Unsupported("an output_padding that depends on sizes", str(n.origin.source))
    window = _window(n, rank)
    # ONNX wants output_padding below the stride; what is more enlarges the other way.
    window["pads"] = [
        *window["pads"][:rank],
        *[p - m for p, m in zip(window["pads"][rank:], more, strict=True)],
    ]
    if any(p < 0 for p in window["pads"]):
        window["pads"][rank:] = [p + m for p, m in zip(window["pads"][rank:], more, strict=True)]
        return e.make(
            "ConvTranspose", *e.inputs(n), group=n.attrs["groups"], output_padding=list(more),
            **window,
        )  # fmt: skip
    return e.make("ConvTranspose", *e.inputs(n), group=n.attrs["groups"], **window)


@export("max_pool", "avg_pool")
def pool(e: Emitter, n: Node) -> Any:
    kernel = list(n.attrs["kernel"])
    window = _window(n, len(kernel), kernel)
    if n.attrs["ceil_mode"]:
        _without_ceil(n, kernel, window)
    attrs: dict[str, Any] = {"kernel_shape": kernel, **window}
    if n.op.name == "max_pool":
        return e.make("MaxPool", *e.inputs(n), **attrs)
    return e.make(
        "AveragePool", *e.inputs(n), count_include_pad=int(n.attrs["count_include_pad"]), **attrs
    )


def _without_ceil(n: Node, kernel: list[int], window: dict[str, Any]) -> None:
    """The padding at the ends with which all windows are whole ones: versions of ONNX count the
    windows of ceil_mode differently, and agree on these."""
    rank = len(kernel)
    for i, k in enumerate(kernel):
        have, count = n.inputs[0].type.shape[2 + i], n.output.type.shape[2 + i]
        if isinstance(have, SymDim) or isinstance(count, SymDim):
            raise Unsupported("ceil_mode with sizes that are not known", str(n.origin.source))
        reach = (count - 1) * window["strides"][i] + (k - 1) * window["dilations"][i] + 1
        end = max(0, reach - have - window["pads"][i])
        if end > window["pads"][rank + i] and n.attrs.get("count_include_pad"):
            raise Unsupported("means of windows that end outside", str(n.origin.source))
        window["pads"][rank + i] = end


@export("adaptive_avg_pool", "adaptive_max_pool")
def adaptive_pool(e: Emitter, n: Node) -> Any:
    size, have = n.attrs["size"], n.inputs[0].type.shape[2:]
    mean = n.op.name == "adaptive_avg_pool"
    if all(s == 1 for s in size):
        return e.make("GlobalAveragePool" if mean else "GlobalMaxPool", *e.inputs(n))
    pairs = list(zip(have, size, strict=True))
    if any(isinstance(d, SymDim) for pair in pairs for d in pair):
        raise Unsupported("adaptive pooling of sizes that are not known", str(n.origin.source))
    if mean and any(h % s for h, s in pairs):
        return _uneven_means(e, n, pairs)
    if any(h % s for h, s in pairs):
        raise Unsupported(
            f"{list(have)} pooled into {list(size)} uneven parts", str(n.origin.source)
        )
    kernel = [h // s for h, s in pairs]
    op = "AveragePool" if mean else "MaxPool"
    return e.make(op, *e.inputs(n), kernel_shape=kernel, strides=kernel)


def _uneven_means(e: Emitter, n: Node, pairs: list[tuple[Any, Any]]) -> Any:
    """Axis by axis, a product with the matrix of the parts that elements have in means."""
    x, rank, dtype = e[n.inputs[0]], n.output.type.rank, n.output.type.dtype
    for axis, (have, count) in enumerate(pairs, 2):
        matrix = np.zeros((have, count))
        for i in range(count):
            begin, end = i * have // count, -(-(i + 1) * have // count)
            matrix[begin:end, i] = 1 / (end - begin)
        order = [a for a in range(rank) if a != axis] + [axis]
        moved = e.make("Transpose", x, perm=order)
        made = e.make("MatMul", moved, e.stored(matrix, dtype, "shares"))
        x = e.make("Transpose", made, perm=[order.index(a) for a in range(rank)])
    return x


# ------------------------------------------------------------------------------------ normalisation
def _ones(e: Emitter, n: Node, shape: Any, value: float) -> str:
    if any(isinstance(d, SymDim) for d in shape):
        raise Unsupported("a normalisation over sizes that are not known", str(n.origin.source))
    return e.stored(np.full(shape, value, np.float32), n.output.type.dtype, "ones")


@export("layer_norm")
def layer_norm(e: Emitter, n: Node) -> Any:
    x = n.inputs[0]
    axis = axis_of(n.attrs["axis"], x.type.rank)
    names = e.inputs(n)
    if len(names) == 1:
        names.append(_ones(e, n, x.type.shape[axis:], 1.0))
    return e.make("LayerNormalization", *names, axis=axis, epsilon=n.attrs["eps"])


@export("rms_norm")
def rms_norm(e: Emitter, n: Node) -> Any:
    x, dtype = n.inputs[0], n.output.type.dtype
    axes = list(range(axis_of(n.attrs["axis"], x.type.rank), x.type.rank))
    square = e.make("Mul", e[x], e[x])
    mean = reduced(e, "ReduceMean", square, axes, x.type.rank, True)
    size = e.make("Sqrt", e.make("Add", mean, e.constant(n.attrs["eps"], dtype)))
    y = e.make("Div", e[x], size)
    return e.make("Mul", y, e[n.inputs[1]]) if len(n.inputs) > 1 else y


@export("group_norm")
def group_norm(e: Emitter, n: Node) -> Any:
    names = e.inputs(n)
    channels = n.inputs[0].type.shape[1:2]
    for value in (1.0, 0.0)[len(names) - 1 :]:
        names.append(_ones(e, n, channels, value))
    return e.make(
        "GroupNormalization", *names, num_groups=n.attrs["groups"], epsilon=n.attrs["eps"]
    )


@export("batch_norm")
def batch_norm(e: Emitter, n: Node) -> Any:
    x, mean, var, weight, bias = e.inputs(n)
    return e.make("BatchNormalization", x, weight, bias, mean, var, epsilon=n.attrs["eps"])


# ---------------------------------------------------------------------------------------- attention
def _repeated(e: Emitter, value: Value, times: Any) -> Any:
    """Each head of k or v once for every head of q that shares it."""
    if times == 1:
        return e[value]
    *lead, heads, length, size = value.type.shape
    apart = e.make("Reshape", e[value], e.ints([*lead, heads, 1, length, size]), allowzero=1)
    wide = e.make("Expand", apart, e.ints([*lead, heads, times, length, size]))
    return e.make("Reshape", wide, e.ints([*lead, heads * times, length, size]), allowzero=1)


@export("attention")
def attention(e: Emitter, n: Node) -> Any:
    q, k, v = n.inputs[:3]
    dtype = q.type.dtype
    times = group_size(q.type.shape, k.type.shape)
    keys, values = _repeated(e, k, times), _repeated(e, v, times)
    scaled = e.make("Mul", e[q], e.constant(scale_of(q.type.shape, n.attrs["scale"]), dtype))
    scores = e.make("MatMul", scaled, _swapped(e, keys, k.type.rank))
    kept, fill = "", n.attrs["fill"]
    if len(n.inputs) > 3:
        mask = n.inputs[3]
        if mask.type.dtype is bool_ and fill is not None:
            scores = e.make("Where", e[mask], scores, e.constant(fill, dtype))
        elif mask.type.dtype is bool_:
            kept = e[mask]
        else:
            given = e[mask] if mask.type.dtype is dtype else e.cast(e[mask], dtype)
            scores = e.make("Add", scores, given)
            if fill is None:
                kept = e.make("Greater", scores, e.constant(float("-inf"), dtype))
    if n.attrs["causal"]:
        rows, columns = (
            e.make("Range", e.constant(0), _scalar(e, s), e.constant(1))
            for s in (q.type.shape[-2], k.type.shape[-2])
        )
        before = e.make("GreaterOrEqual", e.make("Unsqueeze", rows, e.constant([1])), columns)
        kept = e.make("And", kept, before) if kept else before
    if kept:
        # Finite: a row that sees no key has a softmax, and is set to zero afterwards.
        scores = e.make(
            "Where", kept, scores, e.constant(-6e4 if dtype.bits < 32 else -1e30, dtype)
        )
    weights = e.make("Softmax", scores, axis=-1)
    if kept:
        weights = e.make("Where", kept, weights, e.constant(0, dtype))
    return e.make("MatMul", weights, values)


def _scalar(e: Emitter, size: Any) -> Any:
    if isinstance(size, SymDim):
        return e.make("Reshape", e.size(size), e.constant([]))
    return e.constant(size, int64)


# ------------------------------------------------------------------------------------------- resize
@export("resize")
def resize(e: Emitter, n: Node) -> Any:
    mode, kind, scales = n.attrs["mode"], n.attrs["coordinates"], n.attrs["scales"]
    smooth = n.attrs["antialias"]
    nearest = {"half_pixel": "round_prefer_ceil", "asymmetric": "floor"}.get(
        kind, "round_prefer_ceil"
    )
    if smooth and kind != "half_pixel":
        raise Unsupported(f"ONNX antialiases otherwise with {kind}", str(n.origin.source))
    x = e[n.inputs[0]]
    attrs = {
        "mode": mode, "coordinate_transformation_mode": kind,
        "nearest_mode": nearest if mode == "nearest" else None,
        "antialias": 1 if smooth else None, "exclude_outside": 1 if smooth else None,
        "cubic_coeff_a": SLOPES[True] if smooth and mode == "cubic" else None,
    }  # fmt: skip
    if scales:
        from glasshouse.ir.dtype import float32

        return e.make("Resize", x, "", e.constant([1.0, 1.0, *scales], float32), **attrs)
    return e.make("Resize", x, "", "", e.ints(n.output.type.shape), **attrs)
