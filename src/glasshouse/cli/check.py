"""Decides how commands tell whether compiled code is right: against the reference executor."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def relative_difference(got: Any, wanted: Any) -> float:
    """The largest difference, relative to the largest element; NaN where only one has NaN."""
    got, wanted = (np.asarray(a, np.float64) for a in (got, wanted))
    if got.shape != wanted.shape:
        return float("nan")
    same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
    if np.all(same):
        return 0.0
    size = float(np.max(np.abs(wanted), where=np.isfinite(wanted), initial=0.0))
    return float(np.max(np.abs(got - wanted)[~same])) / (size or 1.0)


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
