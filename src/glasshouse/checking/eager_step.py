"""Training steps that PyTorch takes by itself, in float64, on copies of model and optimiser."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from glasshouse.checking.eager import prepared
from glasshouse.runtime.seeds import undisturbed

Array = np.ndarray[Any, Any]


class EagerStep:
    """A copy that is trained; nothing of the model or the optimiser changes."""

    def __init__(
        self, model: torch.nn.Module, loss: Callable[..., Any] | None,
        optimizer: torch.optim.Optimizer,
    ) -> None:  # fmt: skip
        memo: dict[int, Any] = {}
        self._model = copy.deepcopy(model, memo)
        self._optimizer = copy.deepcopy(optimizer, memo)
        self._loss = copy.deepcopy(loss, memo) if isinstance(loss, torch.nn.Module) else loss
        self._model.double()
        for group in self._optimizer.param_groups:
            group.update({k: False for k in ("foreach", "fused") if k in group})
        for state in self._optimizer.state.values():
            for key, value in state.items():
                if torch.is_tensor(value) and value.is_floating_point():
                    state[key] = value.double()

    def run(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Array]:
        """Take a step; gives the loss, and by the names of the graph all that the step updates."""
        _, given, named = prepared(None, args, keywords, True)
        with undisturbed(), warnings.catch_warnings(), torch.enable_grad():
            warnings.simplefilter("ignore")
            self._optimizer.zero_grad()
            if self._loss is not None:
                loss = self._loss(self._model(*given[:-1], **named), given[-1])
            else:
                out = self._model(*given, **named)
                loss = out if getattr(out, "loss", None) is None else out.loss
            loss.backward()
            self._optimizer.step()
        found = {"loss": loss}
        for name, tensor in (*self._model.named_parameters(), *self._model.named_buffers()):
            found[name] = tensor
            for key, value in self._optimizer.state.get(tensor, {}).items():
                if torch.is_tensor(value):
                    found[f"optimizer.{name}.{key}"] = value
        return {name: np.array(t.detach().numpy()) for name, t in found.items()}
