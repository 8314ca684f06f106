"""How a training step is captured whose gradients PyTorch takes: forward and backward in one trace.

This is the second way of `training`: for a model that `torch.export` refuses because it takes
gradients itself (`torch.autograd.grad`, `torch.func`), and for one whose ops have no gradient of
ours. Every op that autograd runs is recorded, on tensors without data: where data decides what
runs, a step is refused, since it decides anew in each.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.logging_utils import setup_stacktrace_preservation_hooks
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.utils import _pytree as pytree

from glasshouse.frontend.torch.dims import Symbols
from glasshouse.frontend.torch.joint_solves import spell_solves
from glasshouse.frontend.torch.memory import storage_of
from glasshouse.frontend.torch.program import Assembler, written_storages
from glasshouse.frontend.torch.slot import Slot
from glasshouse.frontend.torch.source import GRADIENT_OF, PHASE, Sources
from glasshouse.frontend.torch.stacks import module_paths, users_lines
from glasshouse.frontend.torch.tracing.misread import ReadRight
from glasshouse.frontend.torch.tracing.refusal import quiet
from glasshouse.frontend.torch.tracing.running_averages import counted_in_tensors
from glasshouse.frontend.torch.tracing.validation import unchecked

_MACHINERY = ("nn_module_stack", "stack_trace")


@dataclass(frozen=True)
class Joint:
    """A step in a graph that can be added to."""

    assembler: Assembler
    loss: Slot | None  # None where it is not one number
    gradients: list[Any]  # a slot for each parameter that was asked for; None where it has none
    in_spec: Any


def capture_joint(
    whole: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], sources: Sources,
    strip: str, wanted: Sequence[torch.Tensor], name: str,
) -> Joint:  # fmt: skip
    """Loss and gradients of `wanted`, which are parameters of the module."""
    state = {**dict(whole.named_parameters()), **dict(whole.named_buffers())}
    leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    given = [*state.values(), *(leaves[p] for p in places)]
    asked = [next(i for i, t in enumerate(given) if t is w) for w in wanted]

    def step(*tensors: torch.Tensor) -> list[Any]:
        own = list(tensors)
        for number in asked:  # a leaf of this step; others are what they were given as
            own[number] = tensors[number].detach().requires_grad_()
        filled = list(leaves)
        for place, tensor in zip(places, own[len(state) :], strict=True):
            filled[place] = tensor
        positional, named = pytree.tree_unflatten(filled, spec)
        held = dict(zip(state, own, strict=False))
        loss = torch.func.functional_call(whole, held, positional, named)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            return [None, *[None] * len(asked)]
        if loss.grad_fn is None:
            return [loss, *[None] * len(asked)]
        last.clear()
        setup_stacktrace_preservation_hooks([loss.grad_fn])
        last.append(_last_node())
        found = torch.autograd.grad(
            loss, [own[i] for i in asked], torch.ones_like(loss), allow_unused=True
        )
        return [loss, *found]

    last: list[fx.Node] = []
    module, fake = _traced(step, whole, given)
    _tell_phases(module, last[-1] if last else None)
    spell_solves(module)
    module.graph.eliminate_dead_code()
    return _imported(module, sources, strip, state, asked, places, spec, fake, name)


@contextmanager
def _quietly() -> Iterator[None]:
    """PyTorch's own warnings (tracers look at `.grad` of what is no leaf) are not the user's."""
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _last_node() -> Any:
    mode = get_proxy_mode()
    assert mode is not None  # the step is being traced
    return next(iter(reversed(mode.tracer.graph.nodes)))


def _traced(
    step: Any, whole: torch.nn.Module, given: Sequence[torch.Tensor]
) -> tuple[fx.GraphModule, bool]:
    """The step's ops, in-place ones among them, and whether no data was needed.

    PyTorch's tensors without data fail in some gradients (forward mode inside of vmap). Those are
    recorded on copies of the example; what reads a number out of data still fails then.
    """
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        with fake:
            return _run(step, whole, [fake.from_tensor(t.detach()) for t in given]), True
    except Exception:
        with torch.random.fork_rng(devices=[]):
            found = _run(step, whole, [t.detach().clone() for t in given])
        nodes = [n for n in found.graph.nodes if isinstance(n.target, torch._ops.OpOverload)]
        if any(torch.Tag.dynamic_output_shape in n.target.tags for n in nodes):
            raise
        return found, False


def _run(step: Any, whole: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> fx.GraphModule:
    with (
        _quietly(), torch.enable_grad(), users_lines(), module_paths(whole),
        torch.backends.mkldnn.flags(enabled=False), unchecked(), counted_in_tensors(),
        ReadRight(),
    ):  # fmt: skip
        found: fx.GraphModule = make_fx(step, record_stack_traces=True)(*tensors)
        return found


def _tell_phases(module: fx.GraphModule, last: Any) -> None:
    """Nodes behind the forward's last one are the backward's, and belong to the op of the forward
    that autograd gave the same number."""
    names = [n.name for n in module.graph.nodes]
    border = names.index(last.name) if last is not None else len(names)
    numbered: dict[Any, fx.Node] = {}
    for place, node in enumerate(module.graph.nodes):
        if node.op != "call_function":
            continue
        number = node.meta.get("seq_nr")
        if place <= border:
            numbered.setdefault(number, node)
            continue
        node.meta[PHASE] = "backward"
        forward = numbered.get(number, last)  # sums of gradients count as the loss's
        if forward.op == "call_function":
            node.meta[GRADIENT_OF] = forward.name
            for key in _MACHINERY:
                if key in forward.meta:
                    node.meta[key] = forward.meta[key]


def _imported(
    module: fx.GraphModule, sources: Sources, strip: str, state: Mapping[str, torch.Tensor],
    asked: Sequence[int], places: Sequence[int], spec: Any, fake: bool, name: str,
) -> Joint:  # fmt: skip
    assembler = Assembler(Symbols({}), sources, name)
    assembler.importer.computed = {}
    assembler.importer.views_by_schema = not fake
    changing = written_storages(module)
    names = list(state)
    inputs: list[Any] = []
    for number, node in enumerate(n for n in module.graph.nodes if n.op == "placeholder"):
        if number < len(names):
            # Of real tensors it is not known here who shares whose memory.
            written = not fake or storage_of(node.meta.get("val")) in changing
            label = names[number].removeprefix(f"{strip}.")
            tensor = state[names[number]]
            inputs.append(assembler.weight(tensor, label, written or number in asked))
            continue
        with assembler.builder.at(sources.origin(node)):
            place = places[number - len(names)]
            inputs.append(assembler.input(node.meta["val"], node.name, place))
    loss, *gradients = assembler.importer.run(module, inputs)
    return Joint(assembler, loss, gradients, spec)
