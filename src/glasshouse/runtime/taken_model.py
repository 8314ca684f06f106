"""A PyTorch model whose weights a module took over: what it lacks is on the meta device, and using
it says so."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterator
from typing import Any

import numpy as np

from glasshouse.errors import TypeMismatch, WeightsTaken
from glasshouse.runtime.arrays import Array

_MARK = "_glasshouse_taken"  # on each module that lacks weights: what refuses its use

_HINT = (
    "call the compiled module; module.give_weights_back(model) copies them back, "
    "module.save(folder) writes them"
)


class ModelWeights:
    """The weights of a model, to be released one by one."""

    def __init__(self, model: Any) -> None:
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(model, torch.nn.Module):
            raise TypeMismatch(
                f"take_weights takes those of a torch.nn.Module, got a {type(model).__name__}"
            )
        self._model = model

    def release(self, name: str) -> None:
        """Put a tensor without memory in the place of a weight, wherever the model has it."""
        import torch

        tensor = dict(_tensors(self._model)).get(name)
        if tensor is None or tensor.is_meta:
            return
        empty = torch.empty_like(tensor, device="meta").detach()
        if isinstance(tensor, torch.nn.Parameter):
            empty = torch.nn.Parameter(empty, requires_grad=tensor.requires_grad)
        names = [n for n, t in _tensors(self._model) if t is tensor]  # tied ones stay so
        for one in names:
            owner, _, last = one.rpartition(".")
            _put(self._model.get_submodule(owner), last, empty)
            for part in (self._model.get_submodule(owner), self._model):
                if not hasattr(part, _MARK):
                    object.__setattr__(part, _MARK, _Refusal(part))


def check_whole(model: Any) -> None:
    """A model that lacks weights cannot be compiled again."""
    for part in getattr(model, "modules", lambda: ())():
        if (refusal := getattr(part, _MARK, None)) is not None:
            refusal.check("compiled")


def give_back(model: Any, names: Container[str], read: Callable[[str], Array]) -> None:
    """Give a model tensors of its own again for those of these weights that it lacks."""
    import torch

    made: dict[int, Any] = {}  # by the tensor that stood in its place: tied ones stay so
    for name, tensor in list(_tensors(model)):
        if not tensor.is_meta or name not in names:
            continue
        if id(tensor) not in made:
            array = np.array(read(name))
            if tensor.dtype is torch.bfloat16:
                new = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
            else:
                new = torch.from_numpy(array)
            if isinstance(tensor, torch.nn.Parameter):
                new = torch.nn.Parameter(new, requires_grad=tensor.requires_grad)
            made[id(tensor)] = new
        for one in [n for n, t in _tensors(model) if t is tensor]:
            owner, _, last = one.rpartition(".")
            _put(model.get_submodule(owner), last, made[id(tensor)])
    for part in model.modules():
        refusal = getattr(part, _MARK, None)
        if refusal is not None and not refusal.lacking():
            refusal.remove()


class _Refusal:
    """Hooks on one module of a model: they raise as long as what was taken is not there."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._hooks = [
            model.register_forward_pre_hook(self._forward),
            model.register_state_dict_pre_hook(self._state),
        ]

    def lacking(self) -> list[str]:
        """Those of the taken weights that were not given back or replaced."""
        return [name for name, tensor in _tensors(self._model) if tensor.is_meta]

    def check(self, used: str) -> None:
        lacking = sorted(self.lacking())
        if lacking:
            more = f" and {len(lacking) - 2} more" if len(lacking) > 2 else ""
            raise WeightsTaken(
                f"this {type(self._model).__name__} cannot be {used}: a compiled module took "
                f"{', '.join(lacking[:2])}{more} over (take_weights)",
                hint=_HINT,
            )

    def _forward(self, module: Any, args: Any) -> None:
        self.check("called")

    def _state(self, module: Any, prefix: str, keep_vars: bool) -> None:
        self.check("read as a state_dict")

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()
        delattr(self._model, _MARK)


def _tensors(model: Any) -> Iterator[tuple[str, Any]]:
    """Parameters and buffers by every name that they have."""
    yield from model.named_parameters(remove_duplicate=False)
    yield from model.named_buffers(remove_duplicate=False)


def _put(owner: Any, name: str, tensor: Any) -> None:
    for held in (owner._parameters, owner._buffers):
        if name in held:
            held[name] = tensor
