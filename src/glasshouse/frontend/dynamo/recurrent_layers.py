"""Lets Dynamo capture nn.LSTM, nn.GRU and nn.RNN while it works for us.

Left to itself it breaks the graph at each of them, mostly beyond repair: the rest of the function
runs in plain PyTorch. Training keeps the break inside of autocast (`whole_recurrent.py` computes in
one element type).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from glasshouse.frontend.dynamo.settings import set_while_captured


def capture_recurrent_layers(backend: Callable[..., Any]) -> None:
    """Capture them whenever Dynamo works for this backend, from now on."""
    set_while_captured(backend, "allow_rnn", _can_be_captured)


def _can_be_captured(*_: object) -> bool:
    in_autocast = any(map(torch.is_autocast_enabled, ("cpu", "cuda")))
    return not (torch.is_grad_enabled() and in_autocast)
