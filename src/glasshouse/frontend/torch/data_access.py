"""`x.data` inside a model that is captured, as `x.detach()`.

PyTorch's tracer does not see the attribute being read: it would take what it gets for a constant,
whose data are those of one call, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_READ = torch.Tensor.data.__get__


class DataIsDetached(TorchFunctionMode):
    """While it holds, reading `.data` is an op of the graph."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Any other call is made as it is."""
        if func == _READ:
            return args[0].detach()
        return func(*args, **(kwargs or {}))
