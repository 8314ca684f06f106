"""Where results differ from PyTorch's on purpose: each with its reason, and none without a case.

A row names ops or patterns, and the fills on which they differ. `docs/reference/numerics.md` tells
users of them. A row that no case needs any more fails the test that would need it.
"""

from __future__ import annotations

from dataclasses import dataclass

_ENDS = ("greatest", "least")
_EDGE = (*_ENDS, "one greatest")
_ALL_LARGE, _ONE_LARGE = ("1e30", "-1e30", *_ENDS), ("one 1e30", "one -1e30", "one greatest")
_LARGE = (*_ALL_LARGE, *_ONE_LARGE)
_MIXED = ("mixed", "mixed in all", "mixed finite")
_NAN = ("nan", "one nan", "one nan in all")
_INF = ("inf", "inf in all", "-inf", "one inf", "one -inf")


FLOATS = ("float32", "float64", "bfloat16", "float16")
_BROAD, _HALF = FLOATS[:3], FLOATS[2:]  # with exponents of at least 8 bits; of 16 bits
_COMPILED = ("unfused", "fused")
_REFERENCE = ("reference",)
_WAYS = (*_REFERENCE, *_COMPILED)


@dataclass(frozen=True)
class Known:
    """A difference that is meant."""

    names: tuple[str, ...]
    fills: tuple[str, ...]
    why: str
    gradients: bool = False
    dtypes: tuple[str, ...] = FLOATS
    ways: tuple[str, ...] = _WAYS

    def covers(self, name: str, fill: str, dtype: str, way: str, gradients: bool = False) -> bool:
        return (
            name in self.names and fill in self.fills and dtype in self.dtypes
            and way in self.ways and gradients == self.gradients
        )  # fmt: skip


def stale(
    rows: tuple[Known, ...], needed: set[Known], tried: set[str], dtype: str, gradients: bool
) -> list[tuple[str, ...]]:
    """The rows that no case needed, although all that they name was tried in this type."""
    return [
        row.names for row in rows
        if row not in needed and row.gradients == gradients and dtype in row.dtypes
        and set(row.names) <= tried
    ]  # fmt: skip


_ORDER = "sums that overflow on the way, or add inf and -inf, depend on their order"
_PADDING = "zeros that pad, or lie between strides, take part on one side only: 0 * inf, 0 * NaN"
_SQUARES = "squares are of differences from the mean; PyTorch's overflow elsewhere, or cancel"
_SUMS_FIRST = "PyTorch's gradient adds its sums to each other before the element: inf - inf"
_MEAN = "the mean is rounded to the type; PyTorch keeps a running mean in float64"
_PRODUCTS = "products overflow, or meet 0 and inf, in another order"
_FLOAT64 = "the reference adds in float64: no overflow"
_QUOTIENT = "PyTorch's vectors divide first, and give NaN where the quotient overflows"
_HELD = "what floats add up to is held in float64: no overflow"
_BUTTERFLIES = "a transform adds in another order, and meets 0 * NaN and inf - inf elsewhere"
_DIVIDES = "PyTorch divides by the factors again: it underflows, or meets inf / inf"
_TIES = "which of several equal elements comes first is not defined"
_SEES = (
    "a bool mask hides NaN and inf here; PyTorch adds -inf to them, and its kernel loses some NaN"
)
OPS = (
    Known(("mean",), _ENDS, _FLOAT64, dtypes=("float32", "bfloat16"), ways=_REFERENCE),
    Known(("rms_norm",), ("mixed in all",), _FLOAT64, dtypes=("float32", "bfloat16"),
          ways=_REFERENCE),
    Known(("adaptive_avg_pool",), ("mixed", "mixed in all"), "the reference adds axis by axis",
          dtypes=_BROAD, ways=_REFERENCE),
    Known(("variance",), _ALL_LARGE, _MEAN, dtypes=_BROAD),
    Known(("layer_norm", "group_norm", "batch_norm_training"), (*_LARGE, *_MIXED), _SQUARES),
    Known(("layer_norm_grad", "layer_norm_weight_grad"), (*_LARGE, *_MIXED, "one inf", "one -inf"),
          _SUMS_FIRST),
    Known(("attention",), (*_EDGE, *_MIXED, *_NAN, "inf", "-inf", "one inf"), _SEES),
    Known(("attention_grad",), (*_ENDS, "mixed in all", "mixed finite", "one nan in all"),
          "scores overflow at other sizes; PyTorch's kernel loses some NaN"),
    Known(("topk",), ("zeros", "minus zeros", "denormals", "1e-30", *_ALL_LARGE, *_MIXED, "nan",
          "inf", "inf in all", "-inf"), _TIES),
    Known(("conv", "conv_transpose", "conv_weight_grad"), ("inf in all", "one nan in all",
          "mixed in all"), _PADDING, ways=_COMPILED),
    Known(("conv", "conv_transpose", "conv_weight_grad"), (*_ENDS, *_MIXED), _ORDER, dtypes=_BROAD),
    Known(("matmul",), _ENDS, _ORDER, dtypes=_BROAD),
    Known(("embedding_bag", "recurrent"), (*_EDGE, *_MIXED), _FLOAT64, dtypes=_BROAD,
          ways=_REFERENCE),
    Known(("linear_recurrence",), ("one greatest", *_MIXED), _HELD, dtypes=("float32", "bfloat16")),
    Known(("fft",), (*_EDGE, *_MIXED, *_NAN, *_INF), _BUTTERFLIES),
    Known(("prod",), ("one greatest", *_MIXED), _PRODUCTS, dtypes=_BROAD),
    Known(("quantize",), ("mixed", "mixed in all", *_NAN, "inf in all"), "NaN has no integer: the "
          "zero point stands for it"),
    Known(("remainder",), _EDGE, _QUOTIENT, dtypes=("float64",)),
    Known(("relu",), ("minus zeros",), "which of 0 and -0 is the greater is not defined"),
    Known(("gelu",), ("minus zeros", "-1e30", "least", "one -1e30", *_MIXED), "PyTorch's float32 "
          "gives 0 for -0; its float64 gives -0", dtypes=("float32", *_HALF)),
    # Gradients, in float32 and float64.
    Known(("elu", "hardswish"), (*_NAN, "mixed", "mixed in all"), "the slope at NaN is NaN; "
          "PyTorch's vectors and what is left over of them disagree", True),
    Known(("hardsigmoid",), ("zeros", "minus zeros", "denormals", "1e-30", "one nan",
          "one nan in all", "one inf", "one -inf"), "PyTorch's sixth is of float32", True,
          ("float64",)),
    Known(("atan2",), (*_ENDS, "mixed in all"), "PyTorch multiplies before it divides by the "
          "squares, and meets inf * 0", True),
    Known(("topk",), ("zeros", "minus zeros", "denormals", "1e-30", "nan", "inf", "inf in all",
          "-inf"), _TIES, True),
    Known(("attention",), (*_EDGE, *_MIXED), "scores overflow at other sizes", True),
    Known(("rms_norm", "layer_norm", "group_norm", "batch_norm_training"), (*_LARGE, *_MIXED),
          _SQUARES, True),
    Known(("prod",), (*_ALL_LARGE, "one greatest", *_MIXED, "one inf", "one -inf"), _PRODUCTS,
          True),
    Known(("cumprod",), ("1e-30", "-1e30", "least", "one greatest", *_INF, *_MIXED, "one nan",
          "one nan in all"), _DIVIDES, True),
    Known(("logcumsumexp",), (*_INF, "mixed", "mixed in all"), "equal sums have equal shares, "
          "infinite ones too", True),
    Known(("linear_recurrence",), _MIXED, _HELD, True, ("float32",)),
    Known(("variance",), _ENDS, _FLOAT64, True, ("float32",), _REFERENCE),
    Known(("conv", "conv_transpose"), (*_INF, "one nan", "one nan in all"), _PADDING, True),
    Known(("conv", "conv_transpose", "conv_weight_grad"), _MIXED, _ORDER, True),
)  # fmt: skip
_TWO = ("mixed", "mixed finite")
PATTERNS = (
    Known(("copysign",), ("nan", "one nan"), "the sign of NaN says nothing", dtypes=("bfloat16",)),
    Known(("group_norm", "instance_norm", "layer_norm", "batch_norm, training"), (*_LARGE, *_TWO),
          _SQUARES, dtypes=_BROAD),
    Known(("var", "std"), (*_LARGE, *_TWO), _MEAN, dtypes=_BROAD),
    Known(("bicubic", "bilinear"), (*_ENDS, *_TWO), _ORDER, dtypes=_BROAD),
    Known(("linear",), _ENDS, _ORDER, dtypes=("float32", "float64")),
    Known(("mean", "layer_norm by hand"), _ENDS, _FLOAT64, dtypes=("float32", "bfloat16"),
          ways=_REFERENCE),
    Known(("attention", "attention, causal"), ("one nan", "mixed"), "PyTorch's kernel loses some "
          "NaN"),
    Known(("attention",), _TWO, "scores that are large, and equal but for rounding, choose keys",
          dtypes=("float16",), ways=_COMPILED),
    Known(("prod",), ("one greatest", *_TWO), _PRODUCTS, dtypes=_BROAD, ways=_COMPILED),
    Known(("fmod", "remainder"), (*_EDGE, *_TWO), _QUOTIENT, dtypes=("float64",)),
)  # fmt: skip
