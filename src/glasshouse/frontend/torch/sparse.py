"""How products with a sparse matrix of the model are spelled: rows of the other operand, each with
its factor, added up for each row of the matrix.

A graph holds such a matrix as a dense constant; its elements are folded out of it. Those that are
stored and zero do not count.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import Spelling
from glasshouse.frontend.torch.call import AtenCall
from glasshouse.ir.dtype import float32, float64, int64
from glasshouse.ir.sources import CONSTANT
from glasshouse.ops.shape import reshaped

_PRODUCTS = {"aten::_sparse_mm", "aten::mm", "aten::matmul"}


def sparse_spelling(call: AtenCall) -> Spelling | None:
    """The spelling of a call whose first operand is sparse; None of all others."""
    if call.target._schema.name not in _PRODUCTS:
        return None
    val = getattr(call.node.args[0], "meta", {}).get("val")
    is_sparse = isinstance(val, torch.Tensor) and val.layout is not torch.strided
    return sparse_product if is_sparse else None


def sparse_product(matrix: Any, x: Any) -> Any:
    node = matrix.value.node
    data = node.attrs["data"] if node.op is CONSTANT else None
    if data is None or x.ndim != 2 or x.dtype not in (float32, float64):
        raise Unsupported("a sparse matrix that is not a constant, or one by something else")
    rows, columns = np.nonzero(np.asarray(data))
    if not rows.size:
        raise Unsupported("a sparse matrix without elements")
    begins = np.searchsorted(rows, np.arange(data.shape[0] + 1))
    builder = x.builder
    places, offsets, elements = (
        builder.wrap(builder.constant(np.ascontiguousarray(a), int64))
        for a in (columns, begins, rows * data.shape[1] + columns)
    )
    # Taken out of the constant by the graph, which folds them: so a module knows what became of the
    # matrix, and says that it must be compiled again where somebody gives it another one.
    factors = _taken(matrix) or reshaped(matrix, (data.size,)).apply("take", elements)
    factors = factors.cast(x.dtype)
    return x.apply("embedding_bag", places, offsets, factors, mean=False, skipped=-1, closed=True)


def _taken(matrix: Any) -> Any:
    """The elements that another product took already: a constant that two chains read would stay
    beside what is folded out of it."""
    for flat in matrix.value.users:
        for taker in flat.output.users if flat.op.name == "reshape" else ():
            if taker.op.name == "take":
                return matrix.builder.wrap(taker.output)
    return None
