"""How an embedding with a `max_norm` is spelled: rows that are looked up are shortened in place."""

from __future__ import annotations

from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.index import from_front, index_copy
from glasshouse.frontend.torch.aten.reduce import renorm
from glasshouse.frontend.torch.aten.registry import Context, aten
from glasshouse.ir.dim import product
from glasshouse.ops.shape import reshaped


@aten("embedding_renorm_", context=True)
def embedding_renorm(
    ctx: Context, weight: Any, indices: Any, max_norm: float, norm_type: float
) -> Any:
    """Where a gradient is taken it is by the shortened rows: PyTorch's own, then."""
    if ctx.stopped is not None:
        raise Unsupported("a gradient goes past how rows are shortened")
    places = reshaped(from_front(indices), (product(indices.shape),))
    rows = renorm(weight.apply("take", places), norm_type, 0, max_norm)
    return index_copy(weight, 0, places, rows)
