"""`torch.set_default_device` while Dynamo captures a function.

Dynamo asks the default device, a torch function mode, only for functions that it knows as ones that
may be overridden. Up to PyTorch 2.11 those that make tensors were a list written by hand, with
`torch.zeros` and without `torch.arange` or `torch.linspace`: these were captured as tensors of the
host, and the first op that met one of the default device ended the capture, with any backend.
"""

from __future__ import annotations

from torch._dynamo.variables import torch as calls
from torch.utils._device import _device_constructors


def asked_by_all_constructors() -> None:
    """Let Dynamo ask it for every function that makes tensors, from now on, as eager PyTorch does.

    Later versions of PyTorch do so themselves: then nothing changes.
    """
    overridable = getattr(calls, "get_overridable_functions", None)
    if overridable is not None:
        overridable().update(_device_constructors())  # one set, which is made once
