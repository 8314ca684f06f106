"""Where results differ from PyTorch's on purpose: each with its reason, and none without a case.

A row names ops or patterns, and the fills on which they differ. `docs/reference/numerics.md` tells
users of them. A row that no case needs any more fails the test that would need it.
"""

from __future__ import annotations

from dataclasses import dataclass

_EDGE = ("greatest", "least", "one greatest")
_LARGE = ("1e30", "-1e30", "one 1e30", "one -1e30", *_EDGE)
_MIXED = ("mixed", "mixed in all", "mixed finite")
_ANY_INF = ("inf", "inf in all", "-inf", "one inf", "one -inf", "one nan", "one nan in all", "nan")


@dataclass(frozen=True)
class Known:
    """A difference that is meant."""

    names: tuple[str, ...]
    fills: tuple[str, ...]
    why: str
    gradients: bool = False
    half_only: bool = False  # the rows that float32 needs are held to be needed

    def covers(self, name: str, fill: str, gradients: bool) -> bool:
        return name in self.names and fill in self.fills and gradients == self.gradients


_ORDER = "sums that overflow on the way, or add inf and -inf, depend on their order"
OPS = (
    Known(("mean", "adaptive_avg_pool"), _EDGE, "the reference adds in float64: no overflow"),
    Known(("variance",), (*_LARGE, *_MIXED), "the mean is rounded to the type; PyTorch keeps a "
          "running mean in float64"),
    Known(("prod",), (*_LARGE, *_MIXED, *_ANY_INF), "products overflow, or meet 0 and inf, in "
          "another order"),
    Known(("layer_norm", "group_norm", "batch_norm_training"), (*_LARGE, *_MIXED),
          "squares are of differences from the mean; PyTorch's overflow elsewhere, or cancel"),
    Known(("attention",), (*_LARGE, *_MIXED, "one nan", "one nan in all"),
          "scores overflow at other sizes, and PyTorch's kernel loses some NaN"),
    Known(("topk", "sort"), ("zeros", "minus zeros", "denormals", "1e-30", *_LARGE, *_MIXED,
          *_ANY_INF), "which of several equal elements comes first is not defined"),
    Known(("adaptive_max_pool_indices", "max_pool_indices"), ("nan", *_MIXED),
          "the reference names the first of several NaN"),
    Known(("conv", "conv_transpose", "conv_weight_grad", "matmul", "linear"),
          (*_LARGE, *_MIXED, *_ANY_INF), _ORDER),
    Known(("quantize",), (*_MIXED, *_ANY_INF), "NaN has no integer: the zero point stands for it"),
    Known(("relu", "elu"), ("nan", "one nan", "one nan in all", *_MIXED),
          "the slope at NaN: 0 for relu, NaN for elu; PyTorch lets the gradient through", True),
    Known(("cumsum",), _ANY_INF, "the sample has PyTorch subtract for an exclusive sum: inf - inf"),
    Known(("rms_norm",), ("mixed in all",), "the reference adds squares in float64: no overflow"),
    Known(("prod", "variance"), (*_LARGE, *_MIXED, *_ANY_INF), "they overflow, or meet 0 and inf, "
          "in another order", True),
    Known(("cumsum", "sum", "avg_pool", "resize", "cumprod"), (*_EDGE, *_MIXED), _ORDER),
)  # fmt: skip
PATTERNS = (
    Known(("power",), ("denormals", "1e-30", *_MIXED), "the exponent is rounded to the half type",
          half_only=True),
    Known(("copysign",), ("nan", "one nan", "mixed"), "the sign of NaN says nothing",
          half_only=True),
    Known(("group_norm", "instance_norm", "layer_norm", "layer_norm by hand",
           "batch_norm, training"), (*_LARGE, *_MIXED),
          "squares are of differences from the mean; PyTorch's overflow elsewhere, or cancel"),
    Known(("var", "std"), (*_LARGE, *_MIXED), "the mean is rounded to the type; PyTorch keeps a "
          "running mean in float64, and takes the root before it rounds"),
    Known(("bicubic", "linear", "convolution", "bilinear", "bilinear, corners"),
          (*_EDGE, *_MIXED), _ORDER),
    Known(("adaptive_avg_pool", "mean", "avg_pool"), _EDGE, "the reference adds in float64: no "
          "overflow"),
    Known(("attention", "attention, causal", "attention by hand"),
          (*_LARGE, *_MIXED, "one nan"), "scores overflow at other sizes, and PyTorch's kernel "
          "loses some NaN"),
    Known(("prod", "cumprod"), (*_LARGE, *_MIXED, *_ANY_INF), "products overflow, or meet 0 and "
          "inf, in another order"),
)  # fmt: skip
