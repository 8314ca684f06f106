"""Functions on handles that decompose in sight: what is common and not a core op."""

# ruff: noqa: I001  # one name a line would make this list five times as long

from glasshouse.ops.composite.activation import (
    celu, exp2, glu, hardshrink, hardtanh, lerp, log2, log10, log_sigmoid, logaddexp, mish, prelu,
    reciprocal, relu6, selu, softmin, softshrink, softsign, square, tanhshrink, threshold,
)  # fmt: skip
from glasshouse.ops.composite.einsum import einsum
from glasshouse.ops.composite.fill import (
    full_like, masked_fill, ones_like, pad_last, tril, triu, zeros_like,
)  # fmt: skip
from glasshouse.ops.composite.getitem import getitem, setitem
from glasshouse.ops.composite.linear import (
    addmm, conv, conv1d, conv2d, conv3d, conv_transpose, conv_transpose1d, conv_transpose2d,
    conv_transpose3d, dot, linear, outer,
)  # fmt: skip
from glasshouse.ops.composite.lookup import (
    diagonal, embedding, index_put, index_select, unfold,
)  # fmt: skip
from glasshouse.ops.composite.loss import (
    bce_loss, bce_with_logits_loss, cross_entropy, huber_loss, kl_div, l1_loss, mse_loss, nll_loss,
    smooth_l1_loss,
)  # fmt: skip
from glasshouse.ops.composite.measure import (
    cosine_similarity, instance_norm, logsumexp, norm, normalize, root, std,
)  # fmt: skip
from glasshouse.ops.composite.shape import (
    broadcast_to, chunk, flatten, moveaxis, narrow, pixel_shuffle, pixel_unshuffle,
    repeat_interleave, reshape, split_every, squeeze, stack, swapaxes, tile, transpose, unflatten,
    unsqueeze, unstack,
)  # fmt: skip
from glasshouse.ops.composite.spatial import (
    adaptive_avg_pool, adaptive_max_pool, avg_pool, interpolate, max_pool,
)  # fmt: skip

__all__ = [
    "adaptive_avg_pool", "adaptive_max_pool", "addmm", "avg_pool", "bce_loss",
    "bce_with_logits_loss", "broadcast_to", "celu", "chunk", "conv", "conv1d", "conv2d", "conv3d",
    "conv_transpose", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "cosine_similarity", "cross_entropy", "diagonal", "dot", "einsum", "embedding", "exp2",
    "flatten", "full_like", "getitem", "glu", "hardshrink", "hardtanh", "huber_loss", "index_put",
    "index_select", "instance_norm", "interpolate", "kl_div", "l1_loss", "lerp", "linear", "log10",
    "log2", "log_sigmoid", "logaddexp", "logsumexp", "masked_fill", "max_pool", "mish", "moveaxis",
    "mse_loss", "narrow", "nll_loss", "norm", "normalize", "ones_like", "outer", "pad_last",
    "pixel_shuffle", "pixel_unshuffle", "prelu", "reciprocal", "relu6", "repeat_interleave",
    "reshape", "root", "selu", "setitem", "smooth_l1_loss", "softmin", "softshrink", "softsign",
    "split_every", "square", "squeeze", "stack", "std", "swapaxes", "tanhshrink", "threshold",
    "tile", "transpose", "tril", "triu", "unflatten", "unfold", "unsqueeze", "unstack",
    "zeros_like",
]  # fmt: skip
