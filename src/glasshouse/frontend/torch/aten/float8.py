"""Products of 8-bit floats with scales: `torch._scaled_mm`, `torch.nn.functional.scaled_mm`."""

from __future__ import annotations

from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import aten
from glasshouse.ir.dtype import FLOAT8, DType, float32


@aten("_scaled_mm")
def scaled_mm(
    x: Any, y: Any, scale_x: Any, scale_y: Any, bias: Any = None, scale_result: Any = None,
    out_dtype: DType | None = None, use_fast_accum: bool = False,
) -> Any:  # fmt: skip
    """One scale for each operand, or one for each row and column; sums are float32 in any case.

    Columns of the second operand lie together, or PyTorch refuses it: turned, it is what lies in
    memory.
    """
    if x.dtype not in FLOAT8 or y.dtype not in FLOAT8 or scale_result is not None:
        raise Unsupported("_scaled_mm of other types than float8, or with a scale of its result")
    rows, columns = x.shape[0], y.shape[1]
    if not all(s.ndim == 0 or s.shape in ((1,), (1, 1)) for s in (scale_x, scale_y)) and (
        (scale_x.shape, scale_y.shape) != ((rows, 1), (1, columns))
    ):
        raise Unsupported("_scaled_mm with scales of blocks")
    turned = y.apply("permute", axes=[1, 0]).cast(float32)
    out = x.cast(float32).apply("matmul", turned, transpose_y=True) * scale_x * scale_y
    if bias is not None:
        out = out + bias.cast(float32)
    return out.cast(out_dtype or x.dtype)


@aten("_scaled_mm_v2")
def scaled_mm_v2(
    x: Any, y: Any, scale_x: Any, recipe_x: Any, swizzle_x: Any, scale_y: Any, recipe_y: Any,
    swizzle_y: Any, bias: Any = None, out_dtype: DType | None = None, contraction_dim: Any = (),
    use_fast_accum: bool = False,
) -> Any:  # fmt: skip
    """The same, with scales in lists and a number for what each is of: 0 tensors, 1 rows."""
    recipes = list(recipe_x), list(recipe_y)
    if recipes not in (([0], [0]), ([1], [1])) or any((*swizzle_x, *swizzle_y, *contraction_dim)):
        raise Unsupported("scaled_mm with scales of blocks")
    return scaled_mm(x, y, scale_x[0], scale_y[0], bias, None, out_dtype)
