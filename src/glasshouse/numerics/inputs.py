"""What a graph is tried on when nobody gave inputs: random, small, and always the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from glasshouse.ir.dim import SymDim, evaluate, symbols_of
from glasshouse.ir.dtype import Category, finish
from glasshouse.ir.graph import Graph

_SIZE = 4
"""What a symbol stands for when its range allows it: small, and not 1, which broadcasts."""


def random_inputs(
    graph: Graph, seed: int = 0, sizes: Mapping[str, int] | None = None
) -> list[np.ndarray[Any, Any]]:
    """Floats are normal, integers 0 or 1 (valid as almost any index), bools either."""
    rng = np.random.default_rng(seed)
    known = dict(sizes or {})
    out: list[np.ndarray[Any, Any]] = []
    for value in graph.inputs:
        shape = []
        for dim in value.type.shape:
            for name, symbol in symbols_of(dim).items() if isinstance(dim, SymDim) else ():
                high = _SIZE if symbol.high is None else min(_SIZE, symbol.high)
                known.setdefault(name, max(high, symbol.low))
            shape.append(evaluate(dim, known))
        dtype = value.type.dtype
        if dtype.is_float:
            out.append(finish(rng.standard_normal(shape), dtype))
        elif dtype.category is Category.INT:
            out.append(rng.integers(0, 2, shape).astype(dtype.carrier))
        else:
            out.append(rng.integers(0, 2, shape).astype(np.bool_))
    return out
