"""What a module learns: a tensor that needs a gradient and belongs to the module."""

from __future__ import annotations

from typing import Any

from glasshouse.tensor.create import as_tensor
from glasshouse.tensor.tensor import Tensor


class Parameter(Tensor):
    """A tensor that `Module.parameters()` finds and optimisers change."""

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True, name: str = "") -> None:
        source = as_tensor(data)
        super().__init__(source.detach().value, name)
        if requires_grad and self.dtype.is_float:
            self.requires_grad_()

    def __reduce__(self) -> Any:
        return _restored, (super().__reduce__(),)


def _restored(reduced: tuple[Any, tuple[Any, ...]]) -> Parameter:
    rebuild, arguments = reduced
    tensor = rebuild(*arguments)
    return Parameter(tensor.detach(), tensor.requires_grad, tensor.name)
