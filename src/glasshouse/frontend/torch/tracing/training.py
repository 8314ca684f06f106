"""How a whole training step is captured: forward, backward and optimiser in one graph.

The forward part is captured as `gh.trace` does it, gradients are our own (`ops.reverse`), so
each backward node names the forward node that it belongs to, and the optimiser's step is traced
from PyTorch's. What that way refuses is traced with PyTorch's gradients. Parameters and the
optimiser's state are variables that a run updates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from glasshouse.collection import no_full_collection
from glasshouse.errors import CaptureError, GlasshouseError, GradientError
from glasshouse.frontend.torch.complex import Complex
from glasshouse.frontend.torch.devices import device_of
from glasshouse.frontend.torch.given_gradient import (
    before_writing,
    gradients_given,
    without_marks,
)
from glasshouse.frontend.torch.program import Assembler, Captured, load_program
from glasshouse.frontend.torch.signature import signature_of
from glasshouse.frontend.torch.slot import Slot
from glasshouse.frontend.torch.source import Sources
from glasshouse.frontend.torch.sparse_parts import taken_apart
from glasshouse.frontend.torch.stacks import calling_line
from glasshouse.frontend.torch.tracing.capture import as_examples, export, kept_apart
from glasshouse.frontend.torch.tracing.joint_training import capture_joint
from glasshouse.frontend.torch.tracing.optimizer import capture_step
from glasshouse.frontend.torch.tracing.refusal import refusal
from glasshouse.ir.origin import Frame, Origin, Scope, Source
from glasshouse.ops.reverse import backward_origin, reverse

_MODEL = "model"
_LOSS = pytree.tree_structure(0)  # what a step returns: one tensor


class _WithLoss(torch.nn.Module):
    """The model together with its loss; without a loss, the model returns one."""

    def __init__(self, model: torch.nn.Module, loss: Callable[..., Any] | None) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.loss is not None:
            return self.loss(self.model(*args[:-1], **kwargs), args[-1])
        out = self.model(*args, **kwargs)
        found = getattr(out, "loss", None)
        return out if found is None else found


def trace_training(
    model: torch.nn.Module,
    loss_fn: Callable[..., Any] | None,
    optimizer: torch.optim.Optimizer,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """The graph of one training step; its output is the loss.

    The last argument is the target: the loss is `loss_fn(model(*args[:-1], **kwargs), args[-1])`.
    With `loss_fn=None` all arguments are the model's, and it returns the loss, or something that
    has a `loss`. Nothing is run and the model does not change. Nodes are in the phases "forward",
    "backward" and "optimizer". Of tensors of a GPU, `compile` makes a module for it. A compiled
    step takes arguments like these: dicts and numbers too, where the model does.
    """
    with no_full_collection():
        captured = capture_training(model, loss_fn, optimizer, *args, **kwargs)
        graph = captured.graph
        forward = model.forward if loss_fn is None else None
        graph.signature = signature_of(captured, forward, taken_apart((args, kwargs)))
        graph.device = device_of(args, kwargs)
        return graph


def capture_training(
    model: torch.nn.Module,
    loss_fn: Callable[..., Any] | None,
    optimizer: torch.optim.Optimizer,
    *args: Any,
    **kwargs: Any,
) -> Captured:
    """As `trace_training`, with how arguments go in."""
    whole = _WithLoss(model, loss_fn).train(model.training)
    examples, keywords, dims = as_examples(whole, args, dict(kwargs))
    examples, keywords, _ = kept_apart(whole, examples, keywords)
    called = calling_line()
    name = getattr(loss_fn, "__name__", type(loss_fn).__name__)
    outside = None if loss_fn is None else Scope("loss", name)
    sources = Sources(whole, _MODEL, (("phase", "forward"),), called, outside)
    given = _Given(model, whole, examples, keywords, dims, optimizer, sources, called)
    try:
        return _differentiated(given)
    except CaptureError as error:
        if isinstance(error, _NotOneNumber) or "itself fails" in error.message or dims:
            raise
        reason: GlasshouseError = error
    except GradientError as error:
        if dims:
            raise
        reason = error
    try:
        return _taken_by_pytorch(given)
    except _NotOneNumber:
        raise
    except Exception:  # whatever the second way stumbles over, the first one says it better
        raise reason from None


@dataclass(frozen=True)
class _Given:
    """What a training step is captured from."""

    model: torch.nn.Module
    whole: torch.nn.Module
    args: list[Any]
    kwargs: dict[str, Any]
    dims: Any
    optimizer: torch.optim.Optimizer
    sources: Sources
    called: tuple[Frame, ...]

    @property
    def names(self) -> dict[int, str]:
        """Of the parameters that are trained, by identity."""
        trained = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
        named = self.model.named_parameters()
        return {id(p): n for n, p in named if id(p) in trained and p.requires_grad}


class _NotOneNumber(CaptureError):
    """What is returned as a loss is none."""

    def __init__(self) -> None:
        super().__init__("a loss is one number", hint="let the loss function give its mean or sum")


def _differentiated(given: _Given) -> Captured:
    """The first way: the exported forward part, with gradients of ours."""
    try:
        with gradients_given():
            program = export(given.whole, tuple(given.args), given.kwargs, given.dims)
    except CaptureError:
        raise
    except Exception as error:
        raise refusal(error, given.model) from error
    names = given.names
    assembler, results = load_program(
        program,
        given.sources,
        type(given.model).__name__,
        strip=_MODEL,
        variables=set(names.values()),
        stops=True,
    )
    loss = results[0]
    if len(results) != 1 or not isinstance(loss, Slot) or loss.read().type.numel != 1:
        raise _NotOneNumber
    used = [
        p for p in given.model.parameters()
        if id(p) in names and names[id(p)] in assembler.slots
    ]  # fmt: skip
    found = _gradients(assembler, loss.read(), [assembler.slots[names[id(p)]] for p in used])
    captured = _with_step(given, assembler, loss, used, found)
    without_marks(captured.graph, assembler.importer.rules)
    captured.in_spec, captured.out_spec = program.call_spec.in_spec, _LOSS
    return captured


def _taken_by_pytorch(given: _Given) -> Captured:
    """The second way: forward and backward as autograd runs them."""
    names = given.names
    used = [p for p in given.model.parameters() if id(p) in names]
    joint = capture_joint(
        given.whole, given.args, given.kwargs, given.sources, _MODEL, used,
        type(given.model).__name__,
    )  # fmt: skip
    if joint.loss is None:
        raise _NotOneNumber
    found = [None if g is None else g.read() for g in joint.gradients]
    captured = _with_step(given, joint.assembler, joint.loss, used, found)
    captured.in_spec, captured.out_spec = joint.in_spec, _LOSS
    return captured


def _gradients(assembler: Assembler, loss: Any, slots: Sequence[Slot]) -> list[Any]:
    """The loss's gradients by what slots hold; None where nothing flows."""
    builder = assembler.builder
    values = [_real(slot.read()) for slot in slots]
    stopped = assembler.importer.stopped
    order = [n for n in builder.graph.nodes if n not in stopped]
    with builder.at(backward_origin(loss.value.node)):
        seed = builder.apply("full", shape=loss.shape, value=1, dtype=loss.dtype)
    rules = assembler.importer.rules
    wanted = [before_writing(v.value, rules) for v in values]
    found = reverse(builder, builder.at, order, {loss.value: seed}, wanted, rules=rules)
    return [
        Complex(g) if g is not None and isinstance(slot.read(), Complex) else g
        for g, slot in zip(found, slots, strict=True)
    ]


def _real(handle: Any) -> Any:
    """A complex tensor as pairs: PyTorch's gradient by one is by its parts, as a complex number."""
    return handle.pairs if isinstance(handle, Complex) else handle


def _with_step(
    given: _Given, assembler: Assembler, loss: Slot, used: Sequence[Any], found: Sequence[Any]
) -> Captured:
    """The whole step: the optimiser's behind the gradients of the parameters `used`."""
    names = given.names
    reached = [i for i, gradient in enumerate(found) if gradient is not None]
    slots = [assembler.slots[names[id(p)]] for p in used]
    step = capture_step(given.optimizer, [used[i] for i in reached])
    label = type(given.optimizer).__name__
    origin = Origin(
        Source((Scope("optimizer", label),), given.called), labels=(("phase", "optimizer"),)
    )
    with assembler.builder.at(origin):
        state = [
            assembler.weight(value, f"optimizer.{names[id(used[reached[i]])]}.{name}", True)
            for i, name, value in step.state
        ]
        inputs = [*(slots[i] for i in reached), *(Slot(found[i]) for i in reached), *state]
        with assembler.importer.inside(origin):
            assembler.importer.run(step.module, inputs)
    return assembler.finish([loss], ["loss"])
