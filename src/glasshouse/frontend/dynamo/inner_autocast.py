"""`torch.autocast` inside of what Dynamo captured: on while the graph is traced to ATen ops.

Above autograd PyTorch's tracer writes such a region down as two calls and does not enter it, for
`torch.export` to take up later. Ops in it would be recorded as they are outside of it, in their
operands' types.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx

from glasshouse.frontend.dynamo.replaced_calls import replace_calls

_ENTER = torch.amp.autocast_mode._enter_autocast
_EXIT = torch.amp.autocast_mode._exit_autocast


@contextmanager
def entered_autocasts(module: fx.GraphModule) -> Iterator[None]:
    """While a graph runs, its own regions are entered and left; one in which it fails is closed."""
    open_: list[Any] = []

    def enter(*settings: Any) -> Any:
        region = torch.amp.autocast(*settings)
        region.__enter__()
        open_.append(region)
        return region

    def leave(region: Any) -> None:
        open_.remove(region)
        region.__exit__(None, None, None)

    made = {_ENTER: enter, _EXIT: leave}

    def put(node: fx.Node) -> bool:
        node.target = made[node.target]
        return True

    def put_back(node: fx.Node) -> bool:
        node.target = next(t for t, f in made.items() if f is node.target)
        return True

    replace_calls(module, made, put)
    try:
        yield
    finally:
        while open_:
            open_.pop().__exit__(None, None, None)
        replace_calls(module, list(made.values()), put_back)
