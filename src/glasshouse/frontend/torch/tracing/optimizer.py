"""How the step of a `torch.optim` optimiser is captured: traced on tensors without data.

Its state (moments, step counts) becomes variables. They begin with what the optimiser holds, or
with what it would hold before its first step.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv


@dataclass(frozen=True)
class Step:
    """One step as an fx graph: its inputs are parameters, then gradients, then the state."""

    module: Any
    state: list[tuple[int, str, torch.Tensor]]  # (number of the parameter, name, first value)


def capture_step(optimizer: torch.optim.Optimizer, parameters: Sequence[torch.Tensor]) -> Step:
    """The step that updates these parameters, all of which the optimiser holds."""
    state = [
        (number, name, value)
        for number, parameter in enumerate(parameters)
        for name, value in _state_of(optimizer, parameter).items()
    ]
    with FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv()) as mode:
        fakes = [mode.from_tensor(p.detach(), static_shapes=True) for p in parameters]
        held = [mode.from_tensor(value, static_shapes=True) for _, _, value in state]

        def step(*given: torch.Tensor) -> list[torch.Tensor]:
            count = len(parameters)
            now = [g.detach() for g in given[:count]]
            twin = _twin(optimizer, parameters, now)
            for tensor, gradient in zip(now, given[count : 2 * count], strict=True):
                tensor.grad = gradient
            for (number, name, _), value in zip(state, given[2 * count :], strict=True):
                twin.state[now[number]][name] = value
            with _as_if_compiling():
                twin.step()
            return []

        gradients = [torch.empty_like(f) for f in fakes]
        with torch.no_grad():
            module = make_fx(step)(*fakes, *gradients, *held)
    return Step(module, state)


def _twin(
    optimizer: torch.optim.Optimizer, old: Sequence[torch.Tensor], new: Sequence[torch.Tensor]
) -> Any:
    """The same optimiser for other tensors, in the plainest of its implementations."""
    place = {id(tensor): i for i, tensor in enumerate(old)}
    twin = copy.copy(optimizer)
    twin.state = copy.copy(optimizer.state)
    twin.state.clear()
    twin.param_groups = []
    for group in optimizer.param_groups:
        options = {k: v for k, v in group.items() if k != "params"}
        options.update({k: False for k in ("foreach", "fused") if k in options})
        options.update({"capturable": True} if "capturable" in options else {})
        kept = [new[place[id(p)]] for p in group["params"] if id(p) in place]
        twin.param_groups.append({"params": kept, **options})
    return twin


@contextmanager
def _as_if_compiling() -> Iterator[None]:
    """Step counts stay tensors then, in the place of numbers that are read out."""
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


def _state_of(optimizer: torch.optim.Optimizer, parameter: torch.Tensor) -> dict[str, torch.Tensor]:
    held = optimizer.state.get(parameter)
    if not held:
        held = _first_state(optimizer, parameter)
    return {k: v.detach() for k, v in held.items() if isinstance(v, torch.Tensor)}


def _first_state(optimizer: torch.optim.Optimizer, parameter: torch.Tensor) -> dict[str, Any]:
    """The state before the first step.

    Most optimisers make their state before they compute, so a step that computes nothing leaves it.
    What a step makes while it computes (SGD's momentum) is taken from a step on zeros.
    """
    zeros = torch.zeros_like(parameter, requires_grad=True)
    zeros.grad = torch.zeros_like(parameter)
    found: dict[str, Any] = {}
    for computes in (True, False):
        twin = _twin(optimizer, [parameter], [zeros])
        for group in twin.param_groups:
            group.update({"capturable": False} if "capturable" in group else {})
        with torch.no_grad(), _computing(type(optimizer), computes):
            twin.step()
        made = {k: v for k, v in twin.state.get(zeros, {}).items() if isinstance(v, torch.Tensor)}
        found.update({k: v.clone() for k, v in made.items()})
    return found


@contextmanager
def _computing(kind: type, computes: bool) -> Iterator[None]:
    """Without `computes`, the function that an optimiser's step calls after its set-up is left out.

    It is a function of the class's module with the class's name: `torch.optim.adam.adam`.
    """
    places = [(vars(sys.modules[c.__module__]), c.__name__.lower()) for c in kind.__mro__[:-1]]
    known = [(names, name) for names, name in places if callable(names.get(name))]
    before = [names[name] for names, name in known]
    if not computes:
        for names, name in known:
            names[name] = lambda *_, **__: None
    try:
        yield
    finally:
        for (names, name), function in zip(known, before, strict=True):
            names[name] = function
