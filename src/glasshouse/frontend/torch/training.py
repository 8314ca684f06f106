"""How a whole training step is captured: forward, backward and optimiser in one graph.

The forward part is captured as `gh.trace` does it, gradients are our own (`ops.reverse`), so
each backward node names the forward node that it belongs to, and the optimiser's step is traced
from PyTorch's. Parameters and the optimiser's state are variables that a run updates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from glasshouse.collection import no_full_collection
from glasshouse.errors import CaptureError
from glasshouse.frontend.torch.capture import as_examples, export, kept_apart
from glasshouse.frontend.torch.given_gradient import gradients_given, without_marks
from glasshouse.frontend.torch.optimizer import capture_step
from glasshouse.frontend.torch.program import Assembler, Captured, load_program
from glasshouse.frontend.torch.refusal import refusal
from glasshouse.frontend.torch.slot import Slot
from glasshouse.frontend.torch.source import Sources
from glasshouse.frontend.torch.stacks import calling_line
from glasshouse.ir.origin import Frame, Origin, Scope, Source
from glasshouse.ops.reverse import backward_origin, reverse

_MODEL = "model"


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
    "backward" and "optimizer".
    """
    with no_full_collection():
        return capture_training(model, loss_fn, optimizer, *args, **kwargs).graph


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
    try:
        with gradients_given():
            program = export(whole, tuple(examples), keywords, dims)
    except CaptureError:
        raise
    except Exception as error:
        raise refusal(error, model) from error
    called = calling_line()
    name = getattr(loss_fn, "__name__", type(loss_fn).__name__)
    outside = None if loss_fn is None else Scope("loss", name)
    sources = Sources(whole, _MODEL, (("phase", "forward"),), called, outside)
    trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
    names = {id(p): n for n, p in model.named_parameters() if id(p) in trained}
    assembler, results = load_program(
        program,
        sources,
        type(model).__name__,
        strip=_MODEL,
        variables=set(names.values()),
        stops=True,
    )
    loss = results[0]
    if len(results) != 1 or not isinstance(loss, Slot) or loss.read().type.numel != 1:
        raise CaptureError(
            "a loss is one number", hint="let the loss function give its mean or sum"
        )
    _backward_and_step(assembler, loss.read(), model, names, optimizer, called)
    captured = assembler.finish([loss], ["loss"])
    without_marks(captured.graph, assembler.importer.rules)
    captured.in_spec, captured.out_spec = program.call_spec.in_spec, None
    return captured


def _backward_and_step(
    assembler: Assembler,
    loss: Any,
    model: Any,
    names: dict[int, str],
    optimizer: Any,
    called: tuple[Frame, ...],
) -> None:
    builder = assembler.builder
    used = [p for p in model.parameters() if id(p) in names and names[id(p)] in assembler.slots]
    slots = [assembler.slots[names[id(p)]] for p in used]
    values = [slot.read() for slot in slots]
    stopped = assembler.importer.stopped
    order = [n for n in builder.graph.nodes if n not in stopped]
    with builder.at(backward_origin(loss.value.node)):
        seed = builder.apply("full", shape=loss.shape, value=1, dtype=loss.dtype)
    wanted, rules = [v.value for v in values], assembler.importer.rules
    found = reverse(builder, builder.at, order, {loss.value: seed}, wanted, rules=rules)
    reached = [i for i, gradient in enumerate(found) if gradient is not None]
    step = capture_step(optimizer, [used[i] for i in reached])
    label = type(optimizer).__name__
    origin = Origin(Source((Scope("optimizer", label),), called), labels=(("phase", "optimizer"),))
    with builder.at(origin):
        state = [
            assembler.weight(value, f"optimizer.{names[id(used[reached[i]])]}.{name}", True)
            for i, name, value in step.state
        ]
        inputs = [*(slots[i] for i in reached), *(Slot(found[i]) for i in reached), *state]
        with assembler.importer.inside(origin):
            assembler.importer.run(step.module, inputs)
