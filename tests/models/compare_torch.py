"""Compares a model of `nn.models` with a PyTorch module that has the same weights."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from glasshouse import nn
from glasshouse.tensor.create import from_numpy

LIMIT = 1e-5


def size(tensor: Any) -> float:
    return float(np.linalg.norm(tensor.detach().numpy()))


def error(found: Any, wanted: Any, least: float) -> float:
    """The size of the difference relative to that of what is wanted, which counts as `least`."""
    a, b = found.detach().numpy(), wanted.detach().numpy()
    assert a.shape == b.shape
    return float(np.linalg.norm(a - b)) / max(size(wanted), least)


def loss_of(outputs: Any) -> Any:
    many = outputs if isinstance(outputs, tuple) else (outputs,)
    total = (many[0] * many[0]).mean()
    for other in many[1:]:
        total = total + (other * other).mean()
    return total


def compare(
    model: nn.Module,
    reference: torch.nn.Module,
    inputs: Sequence[np.ndarray],
    loss: Callable[[Any], Any] = loss_of,
    rounding: float = 0.0,
) -> None:
    """Outputs and the gradients of all parameters, in float32, against PyTorch in float64.

    The limit is 1e-5, or `rounding` times the error that PyTorch makes in float32, if greater:
    gradients through the statistics of a small batch cancel, and lose digits in any program.
    """
    model.load_state_dict(reference.state_dict())
    narrow, wide = reference, copy.deepcopy(reference).double()
    ours = model(*[from_numpy(i) for i in inputs])
    loss(ours).backward()
    theirs = narrow(*[torch.tensor(i) for i in inputs])
    loss(theirs).backward()
    truth = wide(*[torch.tensor(i.astype("f8") if i.dtype.kind == "f" else i) for i in inputs])
    loss(truth).backward()

    # Some gradients are 0 but for rounding (a key's bias): they count by the others' size.
    least = 1e-3 * max(size(p.grad) for p in wide.parameters())

    def check(what: str, found: Any, torchs: Any, wanted: Any) -> None:
        limit = max(LIMIT, rounding * error(torchs, wanted, least))
        ours = error(found, wanted, least)
        assert ours <= limit, f"{what}: {ours:.2e} is above {limit:.2e}"

    for number, triple in enumerate(zip(_many(ours), _many(theirs), _many(truth), strict=True)):
        check(f"output {number}", *triple)
    torchs, wanted = dict(narrow.named_parameters()), dict(wide.named_parameters())
    found = dict(model.named_parameters())
    assert found.keys() == wanted.keys()
    for name, parameter in found.items():
        check(f"gradient of {name}", parameter.grad, torchs[name].grad, wanted[name].grad)
    for name, buffer in model.named_buffers():
        check(name, buffer, dict(narrow.named_buffers())[name], dict(wide.named_buffers())[name])


def _many(outputs: Any) -> tuple[Any, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)
