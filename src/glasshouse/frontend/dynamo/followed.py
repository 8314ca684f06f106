"""What autograd is told around AOTAutograd's call of a function that is trained: where eager
PyTorch gives no gradient (`unreached`), and how gradients have gradients (`second_gradients`).

AOTAutograd's autograd function gives zeros for the first and an error for the second. A hook on its
node mends what that gave.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import fx
from torch._dynamo import compiled_autograd
from torch._functorch.aot_autograd import OutputType
from torch._guards import TracingContext

from glasshouse.frontend.dynamo.hooks import left_alone
from glasshouse.frontend.dynamo.second_gradients import Kept, SecondGradients
from glasshouse.frontend.dynamo.unreached import Unreached, unreached

_NODE = "CompiledFunctionBackward"
_FAR = 3  # nodes from a result to AOTAutograd's: views of it, a view that was detached


@dataclass(frozen=True)
class NodeResults:
    """The results of AOTAutograd's node."""

    count: int
    first: int  # where the function's own begin, behind arguments that are written to
    tangents: tuple[int, ...]  # whose gradients the backward graph is given
    are_own: bool  # no result of the function is a part of another one
    written: tuple[int, ...]  # arguments that are written to


def node_results(arguments: int) -> NodeResults | None:
    """Those of the function that AOTAutograd is having compiled; None where its arguments are not
    the function's so many."""
    context = TracingContext.try_get()
    known: Any = None if context is None else context.fw_metadata
    new = {getattr(OutputType, n, None) for n in _NEW}
    try:
        inputs, outputs = known.input_info, known.output_info
        moved = known.mutated_inp_runtime_indices
        bases = known.num_intermediate_bases
        takes = [getattr(o, "requires_grad_for_backward", o.requires_grad) for o in outputs]
    except AttributeError:  # another PyTorch
        return None
    if len(inputs) != arguments:
        return None
    first = len(moved)
    kept = [n for n, i in enumerate(moved) if inputs[i].mutates_data and inputs[i].requires_grad]
    kept += [
        first + n for n, (o, asks) in enumerate(zip(outputs, takes, strict=True))
        if o.output_type in new and issubclass(o.raw_type, torch.Tensor) and asks
    ]  # fmt: skip
    end = first + len(outputs)
    written = tuple(i for i, a in enumerate(inputs) if a.mutates_data or a.mutates_metadata)
    return NodeResults(end + bases, first, (*kept, *range(end, end + bases)), not bases, written)


_NEW = ("non_alias", "unsafe_view_alias", "custom_function_view")


@dataclass
class Followed:
    """What is known of one function, as its graphs are compiled."""

    second: SecondGradients
    results: NodeResults | None = None
    unreached: Unreached | None = None

    def look_at_forward(self, graph: fx.Graph, arguments: int) -> None:
        """While AOTAutograd is having it compiled."""
        self.results = node_results(arguments)
        if self.results is not None:
            self.second.look_at(graph, self.results.written)

    def look_at_backward(self, graph: fx.Graph, arguments: int) -> None:
        if self.results is not None:
            self.unreached = unreached(graph, len(self.results.tangents), arguments)

    def call(self, general: Callable[..., Any]) -> Callable[..., Any]:
        """AOTAutograd's call, with its node mended."""
        in_transform = torch._C._are_functorch_transforms_active

        def call(*flat: Any) -> Any:
            if (
                self.results is None or not torch.is_grad_enabled() or in_transform()
                or compiled_autograd.compiled_autograd_enabled
            ):  # fmt: skip
                return general(*flat)
            made = general(*flat)
            node = _node_of(made)
            if node is not None:
                node.register_hook(partial(_mended, self, [self.second.kept(flat)]))
            return made

        return call


@left_alone
def _mended(of: Followed, kept: list[Kept], found: Sequence[Any], arrived: Sequence[Any]) -> Any:
    """What the node gives instead of what it found; None for the same. `kept` is let go with what
    was saved for the node."""
    results, with_graph, call = of.results, torch.is_grad_enabled(), kept[0]
    if not with_graph and not keeps_graph():
        kept.clear()
    assert results is not None
    if len(arrived) != results.count or not (with_graph or of.unreached):
        return None
    are_given = [arrived[i] is not None for i in results.tangents]
    if not with_graph and all(are_given):
        return None
    each, are_tensors = iter(found), [isinstance(x, torch.Tensor) for x in call[0]]
    if len(found) != sum(are_tensors):
        return None
    gradients = [next(each) if is_tensor else None for is_tensor in are_tensors]
    if of.unreached is not None and not all(are_given):
        gradients = of.unreached.without(gradients, are_given)
    if with_graph and results.are_own:
        gradients = of.second.attached(gradients, call, arrived[results.first :])
    return tuple(g for g, is_tensor in zip(gradients, are_tensors, strict=True) if is_tensor)


def keeps_graph() -> bool:
    """Whether the backward pass that is running leaves what was saved for it."""
    kept: bool = torch._C._autograd._get_current_graph_task_keep_graph()
    return kept


def _node_of(made: Any) -> Any:
    """AOTAutograd's node behind the results of a call; None where no gradient is taken of them."""
    for result in made if isinstance(made, (list, tuple)) else [made]:
        node = getattr(result, "grad_fn", None)
        for _ in range(_FAR):
            if node is None:
                break
            if node.name() == _NODE:
                return node
            node = next((n for n, _ in node.next_functions if n is not None), None)
    return None
