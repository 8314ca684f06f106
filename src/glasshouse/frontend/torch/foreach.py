"""Ops on lists of tensors (`_foreach_mul_`) as one op for each tensor.

PyTorch has them to launch few kernels. Optimisers and `clip_grad_norm_` call them; apart, they fuse
with what is around them like any other op.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_PREFIX = "aten::_foreach_"
_OTHERWISE = {"norm": "linalg_vector_norm"}
_OF_NUMBERS = {"maximum": "clamp_min", "minimum": "clamp_max"}  # for one tensor, of tensors alone
_VALUED = {"addcdiv", "addcmul"}
"""Ops whose factor has a name where it is for one tensor, and a place where it is for a list."""


def is_foreach(target: Any) -> bool:
    return bool(target._schema.name.startswith(_PREFIX))


def one_by_one(target: Any) -> Callable[..., list[Any]]:
    """The same as a function that calls an op for each tensor."""
    arguments = target._schema.arguments
    name = target._schema.name.removeprefix(_PREFIX)
    plain = name.removesuffix("_")
    listed = [str(a.type) in ("List[Tensor]", "List[number]") for a in arguments]
    single = _OTHERWISE.get(plain, plain)
    if target._overloadname.startswith("Scalar"):
        single = _OF_NUMBERS.get(plain, single)

    def call(*args: Any, **kwargs: Any) -> list[Any]:
        op = getattr(torch.ops.aten, single)
        named = {k: (v, False) for k, v in kwargs.items()}  # and whether each tensor has its own
        places = list(zip(args, listed, strict=False))
        if plain in _VALUED and len(places) > 3:
            named["value"] = places.pop()
        made = []
        for i in range(len(args[0])):
            own = [a[i] if is_list else a for a, is_list in places]
            made.append(
                op(*own, **{k: v[i] if is_list else v for k, (v, is_list) in named.items()})
            )
            if name != plain:  # before the next one: that may be the same tensor
                own[0].copy_(made[-1])
        return made

    return call
