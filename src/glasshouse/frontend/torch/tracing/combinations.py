"""`torch.combinations` as a model is captured: PyTorch's own selects from all pairs by a mask, as
if their number depended on data, where the size answers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch


def is_plain(args: Sequence[Any], given: Mapping[str, Any]) -> bool:
    """Whether it is called of one row whose size is known, with names that there are."""
    known = given.keys() <= {"r", "with_replacement"} and 1 <= len(args) <= 3
    if not known or not isinstance(args[0], torch.Tensor) or args[0].dim() != 1:
        return False
    r = given.get("r", args[1] if len(args) > 1 else 2)
    return isinstance(r, int) and r > 0 and isinstance(args[0].shape[0], int)


def combinations(x: torch.Tensor, r: int = 2, with_replacement: bool = False) -> torch.Tensor:
    """Rows of r elements each, in the order of their places."""
    count = x.shape[0]
    if r == 2:
        return x[torch.triu_indices(count, count, int(not with_replacement), device=x.device).t()]
    chosen = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = torch.tensor(list(chosen(range(count), r)), dtype=torch.int64, device=x.device)
    return x[places.reshape(-1, r)]
