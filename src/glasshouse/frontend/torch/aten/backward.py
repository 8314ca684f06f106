"""How ATen's gradient ops are spelled: with the gradients of the core's own ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.arithmetic import as_index
from glasshouse.frontend.torch.aten.index import times_used
from glasshouse.frontend.torch.aten.registry import apply, aten, listed
from glasshouse.ir.dim import product
from glasshouse.ir.op import REGISTRY, NoGradient
from glasshouse.ops import composite
from glasshouse.ops.create import full_near
from glasshouse.ops.shape import reshaped


def _vjp(op: str, g: Any, *operands: Any, **attrs: Any) -> Sequence[Any]:
    """The gradients that a core op declares; defaults of attributes are filled in."""
    declared = REGISTRY[op]
    rule = declared.vjp
    assert not isinstance(rule, NoGradient)  # asked for ops that have one
    known = {name: attr.default for name, attr in declared.attrs.items()}
    return rule(g, *operands, **{**known, **attrs})


# ------------------------------------------------------------------------------------ convolutions
@aten("convolution_backward")
def convolution_backward(
    g: Any, x: Any, w: Any, bias_sizes: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int, wanted: Any,
) -> Any:  # fmt: skip
    rank = w.ndim - 2
    attrs: dict[str, Any] = {
        "stride": tuple(listed(stride, rank)), "padding": tuple(listed(padding, rank)),
        "dilation": tuple(listed(dilation, rank)), "groups": groups,
    }  # fmt: skip
    if transposed:
        attrs["output_padding"] = tuple(listed(output_padding, rank))
    by_input, by_weight = _vjp("conv_transpose" if transposed else "conv", g, x, w, None, **attrs)
    by_bias = g.apply("sum", axes=[0, *range(2, g.ndim)]) if wanted[2] else None
    return by_input if wanted[0] else None, by_weight if wanted[1] else None, by_bias


# ----------------------------------------------------------------------------------------- pooling
def _scattered(g: Any, x: Any, indices: Any, rank: int) -> Any:
    """g added at flat places of the last axes of something like x."""
    lead = x.shape[: x.ndim - rank]
    zeros = full_near(x, (*lead, product(x.shape[x.ndim - rank :])), 0, x.dtype)
    flat = (*lead, product(g.shape[x.ndim - rank :]))
    out = zeros.apply(
        "scatter", reshaped(as_index(indices), flat), reshaped(g, flat), axis=len(lead), mode="add"
    )
    return reshaped(out, x.shape)


@aten("max_pool2d_with_indices_backward")
def max_pool2d_backward(
    g: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, indices: Any
) -> Any:
    return _scattered(g, x, indices, 2)


@aten("max_pool3d_with_indices_backward")
def max_pool3d_backward(
    g: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, indices: Any
) -> Any:
    return _scattered(g, x, indices, 3)


aten("adaptive_max_pool2d_backward")(lambda g, x, indices: _scattered(g, x, indices, 2))
aten("adaptive_max_pool3d_backward")(lambda g, x, indices: _scattered(g, x, indices, 3))


def _avg_pool(rank: int) -> Any:
    def spelling(
        g: Any, x: Any, kernel: Any, stride: Any, padding: Any, ceil_mode: bool,
        count_include_pad: bool, divisor: int | None,
    ) -> Any:  # fmt: skip
        if divisor is not None or x.ndim != rank + 2:
            raise Unsupported("the gradient of a mean with a divisor, or without a batch")
        return g.apply(
            "avg_pool_grad", size=x.shape[2:], kernel=listed(kernel, rank),
            stride=listed(stride, rank) if stride else [], padding=listed(padding, rank),
            ceil_mode=ceil_mode, count_include_pad=count_include_pad,
        )  # fmt: skip

    return spelling


aten("avg_pool2d_backward")(_avg_pool(2))
aten("avg_pool3d_backward")(_avg_pool(3))


@aten("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def adaptive_avg_pool_backward(g: Any, x: Any) -> Any:
    rank = 2 if x.ndim <= 4 else 3
    if x.ndim != rank + 2:
        raise Unsupported("the gradient of a mean without a batch")
    return _vjp("adaptive_avg_pool", g, x, None, size=g.shape[2:])[0]


# --------------------------------------------------------------------------------- borders, resize
def _padded(mode: str) -> Any:
    def spelling(g: Any, x: Any, padding: Any) -> Any:
        begins, ends = [0] * x.ndim, [0] * x.ndim
        for i in range(len(padding) // 2):
            begins[-1 - i], ends[-1 - i] = padding[2 * i], padding[2 * i + 1]
        if min(*begins, *ends, 0) < 0:
            raise Unsupported("the gradient of a border that cuts elements off")
        attrs = {"padding": (*begins, *ends), "mode": mode, "value": 0.0}
        return _vjp("pad", g, x, None, **attrs)[0]

    return spelling


for _rank in (1, 2, 3):
    aten(f"reflection_pad{_rank}d_backward")(_padded("reflect"))
    aten(f"replication_pad{_rank}d_backward")(_padded("edge"))


def _resized(
    rank: int, mode: str, coordinates: str, has_corners: bool, antialias: bool = False
) -> Any:
    def spelling(g: Any, output_size: Any, input_size: Any, *rest: Any) -> Any:
        corners = has_corners and bool(rest[0])
        scales = [s for s in (rest[1:] if has_corners else rest) if s is not None]
        return g.apply(
            "resize_grad", size=list(input_size)[2:], mode=mode,
            coordinates="align_corners" if corners else coordinates,
            scales=[] if corners else [float(s) for s in scales], antialias=antialias,
        )  # fmt: skip

    return spelling


for _rank, _linear in ((1, "linear"), (2, "bilinear"), (3, "trilinear")):
    aten(f"upsample_nearest{_rank}d_backward")(_resized(_rank, "nearest", "asymmetric", False))
    aten(f"_upsample_nearest_exact{_rank}d_backward")(
        _resized(_rank, "nearest", "half_pixel", False)
    )
    aten(f"upsample_{_linear}{_rank}d_backward")(_resized(_rank, "linear", "half_pixel", True))
aten("upsample_bicubic2d_backward")(_resized(2, "cubic", "half_pixel", True))
aten("_upsample_bilinear2d_aa_backward")(_resized(2, "linear", "half_pixel", True, antialias=True))
aten("_upsample_bicubic2d_aa_backward")(_resized(2, "cubic", "half_pixel", True, antialias=True))


# ------------------------------------------------------------------------------ tables, attention
@aten("embedding_dense_backward")
def embedding_backward(
    g: Any, indices: Any, rows: Any, padding_idx: int, scale_by_freq: bool
) -> Any:
    if scale_by_freq:
        g = g / times_used(g, as_index(indices), rows)
    if padding_idx >= 0:
        used = composite.unsqueeze(indices.apply("not_equal", padding_idx), indices.ndim)
        g = apply("where", used, g, 0.0)
    return g.apply("take_grad", as_index(indices), axis=0, size=rows)


@aten("_scaled_dot_product_flash_attention_for_cpu_backward")
def attention_backward(
    g: Any, q: Any, k: Any, v: Any, out: Any, logsumexp: Any, dropout: float, causal: bool, *,
    attn_mask: Any = None, scale: float | None = None,
) -> Any:  # fmt: skip
    if dropout:
        raise Unsupported("the gradient of attention with dropout inside")
    operands = [q, k, v] if attn_mask is None else [q, k, v, attn_mask]
    found = _vjp("attention", g, *operands, out, causal=causal, scale=scale, fill=None)
    return tuple(found[:3])
