"""How parameters follow their gradients: SGD, Adam and AdamW, computed as PyTorch does.

Everything that changes from step to step (learning rate, step count, moments) is a tensor, so that
each step records the same graph: it is compiled once, and captured it is right for every step. A
step runs what is pending at its end; otherwise a loop that prints nothing would record for ever.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from glasshouse.errors import GradientError, TypeMismatch
from glasshouse.ir.dtype import DType
from glasshouse.tensor.builder import LAZY
from glasshouse.tensor.create import array, zeros
from glasshouse.tensor.execute import run_first_values, sync_all
from glasshouse.tensor.grad import can_wait, forget, leaf_gradients
from glasshouse.tensor.late import claim, postpone, settle
from glasshouse.tensor.place import caller_name, scope
from glasshouse.tensor.repeated import RepeatedSteps
from glasshouse.tensor.state import STATE, no_grad, phase
from glasshouse.tensor.tensor import Tensor

Parameters = Iterable[Any]


class ParameterGroup:
    """Parameters with options in common."""

    def __init__(
        self, params: list[tuple[str, Tensor]], options: dict[str, Any], label: str
    ) -> None:
        self.names = [name for name, _ in params]
        self.params = [param for _, param in params]
        self.options = options
        self.rate = array(options["lr"], "float64", name=f"{label}lr")
        self.state: dict[str, list[Tensor]] = {}

    def new_state(self, kind: str) -> None:
        """A tensor of zeros for every parameter."""
        made = [zeros(p.shape, dtype=p.dtype) for p in self.params]
        for name, held in zip(self.names, made, strict=True):
            held.name = f"{name}.{kind}"
        self.state[kind] = made


class Scalars:
    """The numbers of one step, brought to each element type once."""

    def __init__(self, **numbers: Any) -> None:
        self._numbers = numbers
        self._cast: dict[tuple[str, DType], Any] = {}

    def get(self, name: str, dtype: DType) -> Any:
        if (name, dtype) not in self._cast:
            self._cast[name, dtype] = self._numbers[name].cast(dtype)
        return self._cast[name, dtype]


class Optimizer(ABC):
    """Changes parameters by their gradients: `step()` by `.grad`, `step(loss)` by a loss's.

    A class that says `repeats` of itself records the same update whenever the gradients come from
    the same work and the options are the same: then `step(loss)` records it once (`repeated.py`).
    """

    def __init__(self, params: Parameters, defaults: dict[str, Any]) -> None:
        label = type(self).__name__
        self._steps = RepeatedSteps()
        self._has_begun = False
        self._seen_options: tuple[list[tuple[int, dict[str, Any]]], tuple[Any, ...]] = [], ()
        with scope(f"{label}_init", label):
            self.groups = _groups(params, defaults)
            for group in self.groups:
                self.prepare(group)

    # ----------------------------------------------------------------------------------- for rules
    def prepare(self, group: ParameterGroup) -> None:  # noqa: B027  # a rule without state needs none
        """Make the state of a group, once."""

    @abstractmethod
    def update(
        self, group: ParameterGroup, number: int, param: Tensor, grad: Any, common: Scalars
    ) -> Any:
        """The new value of a parameter; `common` is what `before` gave."""

    def before(self, group: ParameterGroup) -> Scalars:
        """What all parameters of a group share in one step."""
        return Scalars(rate=group.rate)

    # ------------------------------------------------------------------------------------ for users
    def zero_grad(self) -> None:
        """Forget the gradients that were collected."""
        settle()
        capture = STATE.own.capture
        for group in self.groups:
            for param in group.params:
                if capture is not None:
                    capture.remember(param)
                param._grad = None

    def backward(self, loss: Tensor) -> None:
        """Collect the gradients of a loss, which may have many elements: of their sum."""
        if loss.requires_grad and can_wait(loss):
            postpone(loss)
        else:
            loss.backward(LAZY.make("full", shape=loss.shape, value=1, dtype=loss.dtype))

    def step(self, loss: Tensor | None = None) -> None:
        """Change every parameter that has a gradient, then run what is pending.

        With a loss, its gradients (of the sum, if it has many elements) are taken and used, and
        `.grad` is left alone. After `loss.backward()` the same work is done.
        """
        if not self._has_begun and STATE.own.capture is None:
            run_first_values(self._tensors())
            self._has_begun = True
        repeats, forward = "repeats" in vars(type(self)), None
        params: list[Tensor] = []
        late = None
        if loss is None and repeats:
            params = [p for group in self.groups for p in group.params]
            late = claim(params)
        if late is not None:  # of `loss.backward()`: taken as `step(loss)` is
            late.reopen()
            loss = late.loss
        if loss is not None and repeats:
            tensors, options = self._tensors(), self._options()
            if self._steps.run_bound(loss, tensors, options, in_place=late is None):
                if late is not None:
                    late.leave_to(params)
                return
            forward = self._steps.forward(loss, tensors, options)
            if late is not None and (forward is None or not forward.alone):
                late.record()
                late = loss = forward = None
            if forward is not None and self._steps.run(forward, in_place=late is None):
                if late is not None:
                    late.leave_to(params)
                return
        before = [(tensor, tensor.value) for tensor in self._tensors()]
        try:
            self._record(loss)  # in a frame of its own: gradients that it holds would be results
            if loss is not None:
                forget(loss)
            if late is not None:
                late.leave_to(params)
            if forward is not None:
                self._steps.take(forward)
            elif STATE.own.capture is None:
                sync_all()
        except BaseException:
            for tensor, value in before:  # new values that cannot be computed would be asked for
                tensor.value = value  # by every run that follows
            raise

    def _record(self, loss: Tensor | None) -> None:
        with self._scope():
            for group, grads in zip(self.groups, self._gradients(loss), strict=True):
                with no_grad(), phase("optimiser"):
                    common = self.before(group)
                    for number, (param, grad) in enumerate(zip(group.params, grads, strict=True)):
                        if grad is not None:
                            param.assign(self.update(group, number, param, grad, common))

    def _tensors(self) -> list[Tensor]:
        """All that a step may read or change."""
        found: list[Tensor] = []
        for group in self.groups:
            found += group.params
            found.append(group.rate)
            for held in group.state.values():
                found += held
        return found

    def _options(self) -> tuple[Any, ...]:
        """All else that what a step records depends on; the learning rate is a tensor. The same
        object as for the last step, where that is equal: comparing dicts takes 0.1 us."""
        now = [(len(g.params), g.options) for g in self.groups]
        if now == self._seen_options[0]:
            return self._seen_options[1]
        made = tuple(
            [
                (len(g.params), *[pair for pair in g.options.items() if pair[0] != "lr"])
                for g in self.groups
            ]
        )
        self._seen_options = [(count, dict(options)) for count, options in now], made
        return made

    @property
    def lr(self) -> float:
        """The learning rate of the first group; setting it changes all."""
        return float(self.groups[0].options["lr"])

    @lr.setter
    def lr(self, value: float) -> None:
        for group in self.groups:
            group.options["lr"] = float(value)
            group.rate.assign(array(value, "float64"))

    def _gradients(self, loss: Tensor | None) -> Iterator[list[Tensor | None]]:
        if loss is None:
            yield from ([p.grad for p in g.params] for g in self.groups)
            return
        if not loss.requires_grad:
            raise GradientError(
                "nothing that the loss is computed from needs a gradient, or it was taken already",
                LAZY.where(),
            )
        found = iter(leaf_gradients(loss, [p for g in self.groups for p in g.params]))
        yield from ([next(found) for _ in g.params] for g in self.groups)

    @contextmanager
    def _scope(self) -> Iterator[None]:
        label = type(self).__name__
        # Below this generator, contextlib and `step`: the user's line.
        name = caller_name(self, sys._getframe(3), label)
        with scope(name, label):
            yield


class SGD(Optimizer):
    """Gradient descent, with momentum (plain or Nesterov's) and weight decay."""

    repeats = True

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening):
            raise TypeMismatch("Nesterov's momentum needs a momentum and no dampening")
        options = {"momentum": momentum, "weight_decay": weight_decay, "dampening": dampening}
        super().__init__(params, {"lr": lr, **options, "nesterov": nesterov})

    def prepare(self, group: ParameterGroup) -> None:
        if group.options["momentum"]:
            group.new_state("momentum_buffer")
            if group.options["dampening"]:
                # The first gradient is taken whole, later ones damped: 0 in the first step, then 1.
                group.state["started"] = [array(0.0, name="started") for _ in group.params]

    def update(
        self, group: ParameterGroup, number: int, param: Tensor, grad: Any, common: Scalars
    ) -> Any:
        options = group.options
        if options["weight_decay"]:
            grad = grad + param * options["weight_decay"]
        if options["momentum"]:
            held = group.state["momentum_buffer"][number]
            fresh = grad
            if options["dampening"]:
                started = group.state["started"][number]
                fresh = grad * (1.0 - started.cast(grad.dtype) * options["dampening"])
                started.assign(array(1.0))
            held.assign(held * options["momentum"] + fresh)
            grad = grad + held * options["momentum"] if options["nesterov"] else held
        return param - grad * common.get("rate", param.dtype)


class Adam(Optimizer):
    """Steps scaled by running moments of the gradient; weight decay is part of the gradient."""

    repeats = True
    decoupled = False

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        options = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, options)

    def prepare(self, group: ParameterGroup) -> None:
        group.new_state("exp_avg")
        group.new_state("exp_avg_sq")
        group.state["step"] = [array(0.0, "float64", name="step")]

    def before(self, group: ParameterGroup) -> Scalars:
        """The step's size and the scale of the second moment, in float64: near the first step
        1 - beta ** step has few digits left."""
        count = group.state["step"][0]
        count.assign(count + 1.0)
        first, second = group.options["betas"]
        size = group.rate / (1.0 - first**count)
        scale = (1.0 - second**count).sqrt()
        kept = 1.0 - group.rate * group.options["weight_decay"]
        return Scalars(size=size, scale=scale, kept=kept)

    def update(
        self, group: ParameterGroup, number: int, param: Tensor, grad: Any, common: Scalars
    ) -> Any:
        size, scale = (common.get(name, param.dtype) for name in ("size", "scale"))
        first, second = group.options["betas"]
        decay = group.options["weight_decay"]
        value: Any = param
        if decay and self.decoupled:
            value = param * common.get("kept", param.dtype)
        elif decay:
            grad = grad + param * decay
        mean, square = group.state["exp_avg"][number], group.state["exp_avg_sq"][number]
        mean.assign(mean + (grad - mean) * (1.0 - first))
        square.assign(square * second + grad * grad * (1.0 - second))
        return value - (mean / (square.sqrt() / scale + group.options["eps"])) * size


class AdamW(Adam):
    """Adam with the weights decayed by themselves, apart from the gradient."""

    repeats = True
    decoupled = True

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)


def _groups(params: Parameters, defaults: dict[str, Any]) -> list[ParameterGroup]:
    """From tensors, (name, tensor) pairs, or dicts with "params" and options of their own."""
    given = list(params)
    if not given:
        raise TypeMismatch("an optimiser needs parameters; the list is empty", LAZY.where())
    if not isinstance(given[0], Mapping):
        given = [{"params": given}]
    out: list[ParameterGroup] = []
    count = 0
    for entry in given:
        unknown = set(entry) - {"params", *defaults}
        if unknown:
            raise TypeMismatch(f"unknown options {sorted(unknown)}; there are {list(defaults)}")
        named = []
        for item in entry["params"]:
            name, param = item if isinstance(item, tuple) else (item.name, item)
            if not isinstance(param, Tensor) or not param.requires_grad:
                what = f"parameter {name or count} needs no gradient"
                raise TypeMismatch(what, LAZY.where(), "requires_grad_() makes it a parameter")
            named.append((name or f"param.{count}", param))
            count += 1
        options = defaults | {k: v for k, v in entry.items() if k != "params"}
        out.append(ParameterGroup(named, options, f"group.{len(out)}." if len(given) > 1 else ""))
    return out
