"""Arguments that enter a graph as other tensors than themselves: a view as the memory around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from glasshouse.errors import TypeMismatch

Take = Callable[[Any], Sequence[Any] | None]
"""The tensors that a value enters as; None of what is no such value."""


@dataclass(frozen=True)
class TakenApart:
    """How a value of the model is the tensors of a graph that have `names`."""

    kind: str  # what an error calls it
    names: tuple[str, ...]
    take: Take
    make: Callable[[Sequence[Any]], Any] | None = None


def in_memory(val: torch.Tensor) -> TakenApart:
    """A view that enters as all the memory it lies in, where the model reads past it; calls must
    bring one that lies alike."""
    strides, offset = tuple(int(s) for s in val.stride()), int(val.storage_offset())
    count = elements_of_storage(val)

    def take(given: Any) -> Sequence[Any] | None:
        if not isinstance(given, torch.Tensor) or given.layout is not torch.strided:
            return None
        lies = (tuple(given.stride()), given.storage_offset())
        if lies != (strides, offset) or elements_of_storage(given) < count:
            raise TypeMismatch(
                f"the model reads memory around an argument: that had strides {strides} and began "
                f"at {offset} of {count} elements when it was compiled, got strides {lies[0]} at "
                f"{lies[1]} of {elements_of_storage(given)}",
                hint="compile it again with an argument that lies like this one",
            )
        return [given.detach().as_strided((count,), (1,), 0)]

    return TakenApart("view of larger memory", ("memory",), take)


def elements_of_storage(tensor: torch.Tensor) -> int:
    # A number, where a tensor that is being traced says a symbol.
    return int(tensor.untyped_storage().nbytes() // tensor.itemsize)
