"""Whether compiled code is right: compared with the reference executor, for commands."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def relative_difference(got: Any, wanted: Any) -> float:
    """The largest difference, relative to the largest element; infinite where one is NaN or
    infinite and the other is not, or where shapes differ."""
    from glasshouse.numerics import compare

    got, wanted = (np.asarray(a, np.float64) for a in (got, wanted))
    return compare(got, wanted).of_largest


def outputs_of(result: Any) -> list[Any]:
    """The tensors of what a model returned, in order, as arrays."""
    parts = result if isinstance(result, (tuple, list)) else [result]
    if "torch" in sys.modules:  # dicts, dataclasses, caches: as PyTorch takes them apart
        from torch.utils import _pytree as pytree

        leaves = pytree.tree_leaves(result)
        parts = [p for p in leaves if hasattr(p, "shape")]
    return [p.detach().float().numpy() if hasattr(p, "detach") else np.asarray(p) for p in parts]


def largest_difference(graph: Any, module: Any, inputs: Any) -> float:
    """Compiled outputs against those of the reference executor, the worst of all."""
    from glasshouse.numpy_ref.executor import run
    from glasshouse.runtime.arrays import array_of

    arrays = [array_of(x) for x in inputs]
    pairs = zip(outputs_of(module(*arrays)), run(graph, arrays), strict=True)
    differences = [relative_difference(a, b) for a, b in pairs]
    return float(np.max(differences)) if differences else 0.0
