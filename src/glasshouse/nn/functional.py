"""The functions that layers are made of, under PyTorch's names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.ops import composite
from glasshouse.tensor.calls import recorded
from glasshouse.tensor.random import next_seed

Ints = int | Sequence[int]

bce_loss = recorded(composite.bce_loss)
bce_with_logits_loss = recorded(composite.bce_with_logits_loss)
conv1d = recorded(composite.conv1d)
conv2d = recorded(composite.conv2d)
conv3d = recorded(composite.conv3d)
conv_transpose1d = recorded(composite.conv_transpose1d)
conv_transpose2d = recorded(composite.conv_transpose2d)
conv_transpose3d = recorded(composite.conv_transpose3d)
cosine_similarity = recorded(composite.cosine_similarity)
cross_entropy = recorded(composite.cross_entropy)
glu = recorded(composite.glu)
hardtanh = recorded(composite.hardtanh)
huber_loss = recorded(composite.huber_loss)
kl_div = recorded(composite.kl_div)
l1_loss = recorded(composite.l1_loss)
linear = recorded(composite.linear)
log_sigmoid = recorded(composite.log_sigmoid)
mish = recorded(composite.mish)
mse_loss = recorded(composite.mse_loss)
nll_loss = recorded(composite.nll_loss)
normalize = recorded(composite.normalize)
pixel_shuffle = recorded(composite.pixel_shuffle)
prelu = recorded(composite.prelu)
relu6 = recorded(composite.relu6)
selu = recorded(composite.selu)
smooth_l1_loss = recorded(composite.smooth_l1_loss)
softsign = recorded(composite.softsign)


def relu(x: Any) -> Any:
    return x.apply("relu")


def leaky_relu(x: Any, negative_slope: float = 0.01) -> Any:
    return x.apply("leaky_relu", slope=negative_slope)


def elu(x: Any, alpha: float = 1.0) -> Any:
    return x.apply("elu", alpha=alpha)


def gelu(x: Any, approximate: str = "none") -> Any:
    return x.apply("gelu", approximate=approximate)


def silu(x: Any) -> Any:
    return x.apply("silu")


def sigmoid(x: Any) -> Any:
    return x.apply("sigmoid")


def tanh(x: Any) -> Any:
    return x.apply("tanh")


def hardswish(x: Any) -> Any:
    return x.apply("hardswish")


def hardsigmoid(x: Any) -> Any:
    return x.apply("hardsigmoid")


def softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return x.apply("softplus", beta=beta, threshold=threshold)


def softmax(x: Any, dim: int = -1) -> Any:
    return x.apply("softmax", axis=dim)


def log_softmax(x: Any, dim: int = -1) -> Any:
    return x.apply("log_softmax", axis=dim)


def embedding(indices: Any, weight: Any) -> Any:
    """The rows of `weight` that the indices name."""
    return weight.apply("take", indices, axis=0)


def layer_norm(
    x: Any, normalized_shape: Ints, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    axes = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    if weight is None and bias is not None:
        return x.apply("layer_norm", axis=-axes, eps=eps) + bias
    return x.apply("layer_norm", weight, bias, axis=-axes, eps=eps)


def rms_norm(x: Any, normalized_shape: Ints, weight: Any = None, eps: float = 1e-6) -> Any:
    axes = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    return x.apply("rms_norm", weight, axis=-axes, eps=eps)


def group_norm(
    x: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    return x.apply("group_norm", weight, bias, groups=num_groups, eps=eps)


def dropout(x: Any, p: float = 0.5, training: bool = True) -> Any:
    """Each element 0 with probability p, the others scaled up; x itself outside of training."""
    return x.apply("dropout", next_seed(), p=p) if training and p else x


def _spread(given: Ints | None, rank: int) -> tuple[int, ...] | None:
    if given is None:
        return None
    return (given,) * rank if isinstance(given, int) else tuple(given)


def _pool(op: str, x: Any, rank: int, kernel: Ints, stride: Ints | None, **attrs: Any) -> Any:
    sizes = _spread(kernel, rank)
    for name in ("padding", "dilation"):
        if name in attrs:
            attrs[name] = _spread(attrs[name], rank)
    return x.apply(op, kernel=sizes, stride=_spread(stride, rank) or sizes, **attrs)


def max_pool(
    x: Any, rank: int, kernel: Ints, stride: Ints | None = None, padding: Ints = 0,
    dilation: Ints = 1, ceil_mode: bool = False,
) -> Any:  # fmt: skip
    return _pool(
        "max_pool", x, rank, kernel, stride, padding=padding, dilation=dilation,
        ceil_mode=ceil_mode,
    )  # fmt: skip


def max_pool1d(x: Any, kernel_size: Ints, stride: Ints | None = None, **attrs: Any) -> Any:
    return max_pool(x, 1, kernel_size, stride, **attrs)


def max_pool2d(x: Any, kernel_size: Ints, stride: Ints | None = None, **attrs: Any) -> Any:
    return max_pool(x, 2, kernel_size, stride, **attrs)


def avg_pool(
    x: Any, rank: int, kernel: Ints, stride: Ints | None = None, padding: Ints = 0,
    ceil_mode: bool = False, count_include_pad: bool = True,
) -> Any:  # fmt: skip
    return _pool(
        "avg_pool", x, rank, kernel, stride, padding=padding, ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )  # fmt: skip


def avg_pool1d(x: Any, kernel_size: Ints, stride: Ints | None = None, **attrs: Any) -> Any:
    return avg_pool(x, 1, kernel_size, stride, **attrs)


def avg_pool2d(x: Any, kernel_size: Ints, stride: Ints | None = None, **attrs: Any) -> Any:
    return avg_pool(x, 2, kernel_size, stride, **attrs)


def adaptive_avg_pool2d(x: Any, output_size: Ints) -> Any:
    return x.apply("adaptive_avg_pool", size=_spread(output_size, 2))


def adaptive_max_pool2d(x: Any, output_size: Ints) -> Any:
    return x.apply("adaptive_max_pool", size=_spread(output_size, 2))


def interpolate(
    x: Any, size: Ints | None = None, scale_factor: float | None = None, mode: str = "nearest",
    align_corners: bool = False,
) -> Any:  # fmt: skip
    """Spatial axes resized to `size`, or by `scale_factor`."""
    modes = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "trilinear": "linear"}
    if mode not in modes:
        raise Unsupported(f"interpolate has the modes {', '.join(modes)}, not {mode!r}")
    rank = x.ndim - 2
    if size is None:
        factor = 1.0 if scale_factor is None else scale_factor
        sizes: Sequence[Any] = [math.floor(s * factor) for s in x.shape[2:]]
    else:
        sizes = _spread(size, rank) or ()
    # PyTorch's "nearest" takes floor(i * scale); its linear modes count from pixel centres.
    coordinates = "half_pixel"
    if modes[mode] == "nearest":
        coordinates = "asymmetric"
    elif align_corners:
        coordinates = "align_corners"
    return x.apply("resize", size=sizes, mode=modes[mode], coordinates=coordinates)


def pad(x: Any, padding: Sequence[int], mode: str = "constant", value: float = 0.0) -> Any:
    """Borders, last axis first, in (begin, end) pairs."""
    return composite.pad_last(x, padding, mode, value)


def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None,
) -> Any:  # fmt: skip
    """softmax(q kᵀ * scale + mask) v, over [..., heads, length, dim]."""
    if dropout_p:
        factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        scores = query.apply("matmul", key, transpose_y=True) * factor
        if is_causal:
            raise Unsupported("attention dropout with is_causal: give the causal mask as attn_mask")
        if attn_mask is not None and attn_mask.dtype.name == "bool":
            scores = attn_mask.apply("where", scores, -math.inf)
        elif attn_mask is not None:
            scores = scores + attn_mask
        return dropout(scores.apply("softmax", axis=-1), dropout_p) @ value
    return query.apply("attention", key, value, attn_mask, causal=is_causal, scale=scale)


__all__ = [
    "adaptive_avg_pool2d", "adaptive_max_pool2d", "avg_pool1d", "avg_pool2d", "bce_loss",
    "bce_with_logits_loss", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "cosine_similarity", "cross_entropy", "dropout", "elu", "embedding",
    "gelu", "glu", "group_norm", "hardsigmoid", "hardswish", "hardtanh", "huber_loss",
    "interpolate", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "linear", "log_sigmoid",
    "log_softmax", "max_pool1d", "max_pool2d", "mish", "mse_loss", "nll_loss", "normalize", "pad",
    "pixel_shuffle", "prelu", "relu", "relu6", "rms_norm", "scaled_dot_product_attention", "selu",
    "sigmoid", "silu", "smooth_l1_loss", "softmax", "softplus", "softsign", "tanh",
]  # fmt: skip
