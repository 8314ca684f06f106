"""Lets Dynamo capture nn.LSTM, nn.GRU and nn.RNN while it works for us.

Left to itself it breaks the graph at each of them, mostly beyond repair: the rest of the function
runs in plain PyTorch. Training keeps the break inside of autocast (`whole_recurrent.py` computes in
one element type).
Dynamo's other backends keep what its user has set.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch._dynamo import config

from glasshouse.frontend.torch.dynamo_hooks import around_captures

_SET: list[bool] = []
"""What the user had set, while Dynamo works for us."""


def capture_recurrent_layers(backend: Callable[..., Any]) -> None:
    """Capture them whenever Dynamo works for this backend, from now on."""

    def begin(_: Any) -> None:
        if torch.is_grad_enabled() and any(map(torch.is_autocast_enabled, ("cpu", "cuda"))):
            return
        if captured_for(sys._getframe(1))[0] is backend:
            _SET.append(config.allow_rnn)
            config.allow_rnn = True

    def end(_: Any) -> None:
        if _SET:
            config.allow_rnn = _SET.pop()

    around_captures(begin, end)


def captured_for(frame: FrameType | None) -> tuple[Any, Any]:
    """The backend whose graph is being captured, and the code that it is captured from."""
    while frame is not None:
        if frame.f_code.co_name == "_compile" and "compiler_fn" in frame.f_locals:
            found = frame.f_locals["compiler_fn"]
            while hasattr(found, "compiler_fn"):  # wrapped by `torch.compile`, and for its repros
                found = found.compiler_fn
            return found, frame.f_locals.get("code")
        frame = frame.f_back
    return None, None
