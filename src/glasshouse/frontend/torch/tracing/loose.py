"""How a model is captured that `torch.export` refuses: by running it once on its inputs.

Every op that runs is recorded. Branches and numbers that depend on data are fixed as they are for
these inputs; so the graph is right for inputs that take the same way, and a warning says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from glasshouse.frontend.torch.graph_module import import_graph_module
from glasshouse.frontend.torch.program import Captured, Fixed, output_names
from glasshouse.frontend.torch.stacks import module_paths, users_lines
from glasshouse.frontend.torch.tracing.containers import register_unknown
from glasshouse.frontend.torch.tracing.validation import unchecked

_TENSOR = object()


def capture_loosely(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], name: str
) -> Captured:
    """The graph of one run."""
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    names = list(state)
    leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    form: list[Any] = []

    def run(*given: torch.Tensor) -> list[Any]:
        held = dict(zip(names, given, strict=False))
        filled = list(leaves)
        for place, tensor in zip(places, given[len(names) :], strict=True):
            filled[place] = tensor
        positional, named = pytree.tree_unflatten(filled, spec)
        out = torch.func.functional_call(model, held, positional, named)
        register_unknown(out)
        flat, out_spec = pytree.tree_flatten(out)
        form[:] = [out_spec, [_TENSOR if isinstance(f, torch.Tensor) else f for f in flat]]
        return [f for f in flat if isinstance(f, torch.Tensor)]

    # Copies: running the model must not change its state, or the inputs.
    tensors = [t.detach().clone() for t in [*state.values(), *(leaves[p] for p in places)]]
    callers = torch.is_grad_enabled()
    # Without oneDNN: its ops (a whole LSTM layer) are not ours to take apart.
    with (
        torch.no_grad(), torch.backends.mkldnn.flags(enabled=False), users_lines(), unchecked(),
    ):  # fmt: skip
        try:
            module, frozen = _traced(_functional(run), model, tensors)
        except RuntimeError as error:
            if "requires_grad_()" not in str(error):
                raise
            with torch.set_grad_enabled(callers):
                module, frozen = _with_own_gradients(run, model, tensors)
                _check(module, run, tensors)
        else:
            _check(module, run, tensors)
    weights = {i: (state[n].detach(), n) for i, n in enumerate(names)}
    captured = import_graph_module(module, tensors, name, weights, model, views_by_schema=True)
    captured.frozen = frozen
    captured.inputs = [places[i - len(names)] for i in captured.inputs]
    captured.written = [(places[i - len(names)], o) for i, o in captured.written]
    captured.in_spec = spec
    return _with_structure(captured, *form)


def _functional(function: Any) -> Any:
    return torch.func.functionalize(function, remove="mutations_and_views")


def _with_own_gradients(run: Any, model: Any, tensors: Sequence[torch.Tensor]) -> tuple[Any, bool]:
    """The ops of a model that takes gradients itself (forces, scores), which PyTorch lets nobody do
    while writes are taken out: they are taken out of what was recorded."""
    module, frozen = _traced(run, model, tensors)
    nodes = [n for n in module.graph.nodes if isinstance(n.target, torch._ops.OpOverload)]
    if any(n.target._schema.is_mutable for n in nodes):
        module, _ = _traced(_functional(module), model, tensors)
    return module, frozen


def _traced(function: Any, model: Any, tensors: Sequence[torch.Tensor]) -> tuple[Any, bool]:
    """The ops of a run, and whether data decided which: by a number that Python read, or a size."""
    try:
        trace = make_fx(function, record_stack_traces=True)
        with module_paths(model):
            module = trace(*[t.clone() for t in tensors])
        return module, any(_sized_by_data(n) for n in module.graph.nodes)
    except RuntimeError as error:
        if "get value out of a tracing tensor" not in str(error):
            raise
    trace = make_fx(function, _error_on_data_dependent_ops=False, record_stack_traces=True)
    with module_paths(model):
        return trace(*[t.clone() for t in tensors]), True


def _sized_by_data(node: fx.Node) -> bool:
    """Whether data decide how many elements an op gives; PyTorch's tag says that they may."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    if target is torch.ops.aten.index.Tensor:  # numbers select as many as they are, masks do not
        places = [p.meta["val"].dtype for p in node.args[1] if isinstance(p, fx.Node)]
        return torch.bool in places or torch.uint8 in places
    if target is torch.ops.aten.repeat_interleave.Tensor:
        return node.kwargs.get("output_size") is None
    return torch.Tag.dynamic_output_shape in target.tags


def _check(module: Any, run: Any, tensors: Sequence[torch.Tensor]) -> None:
    """The recorded ops must give what the model gives: what left PyTorch is not among them."""
    recorded, wanted = (f(*[t.clone() for t in tensors]) for f in (module, run))
    for left, right in zip(recorded, wanted, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-3, atol=1e-3, equal_nan=True)


def _with_structure(captured: Captured, spec: Any, results: Sequence[Any]) -> Captured:
    tensors = iter(captured.outputs)
    captured.outputs = [next(tensors) if r is _TENSOR else Fixed(r) for r in results]
    captured.out_spec = spec
    names = output_names(spec, len(results))
    kept = [n for n, r in zip(names, results, strict=True) if r is _TENSOR]
    captured.graph.output_names[: len(kept)] = kept
    return captured
