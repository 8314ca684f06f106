"""The call of a function that is trained, where two compiled graphs are all that there is to run.

What AOTAutograd does in every step around the graphs it divided (arguments that are written to,
views of arguments among the results, tensor subclasses, states of generators, sizes) is 130 us of
Python also where a function has none of that. Such a function is called by an autograd function of
its own here: two tiny layers took 1.4 times as long as eager PyTorch's step, now as long as it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo import compiled_autograd
from torch._functorch._aot_autograd.schemas import OutputType, SubclassCreationMeta
from torch._guards import TracingContext

from glasshouse.frontend.dynamo.crossing import Boxed
from glasshouse.frontend.dynamo.followed import Followed, keeps_graph
from glasshouse.frontend.dynamo.hooks import left_alone
from glasshouse.runtime.function_modes import is_in_mode, unseen

_NEW = (OutputType.non_alias, OutputType.unsafe_view_alias)
_MORE = (
    "num_intermediate_bases", "tokens", "num_backward_tokens", "is_rng_op_functionalized",
    "num_graphsafe_rng_states", "num_symints_saved_for_bw", "num_opaque_objects_saved_for_bw",
    "act_input_indices", "indices_of_inputs_that_requires_grad_with_mutations_in_bw",
    "num_tensors_saved_with_no_vc_check",
)  # fmt: skip
"""More to do, as AOTAutograd's description of a function names it; older PyTorch has not all."""


@dataclass(frozen=True)
class NewResults:
    """What AOTAutograd's forward graph returns, all of it new tensors, before what it saves."""

    count: int
    without: tuple[int, ...]  # which take no gradient
    tangents: tuple[int, ...]  # whose gradients the backward graph is given


def plain_results(arguments: int, returned: int) -> NewResults | None:
    """Those of the forward graph that AOTAutograd is having compiled, for a function of so many
    arguments; None where calling its graphs is not all that there is to do."""
    context = TracingContext.try_get()
    known: Any = None if context is None else context.fw_metadata
    if known is None:
        return None
    if any(getattr(known, name, None) for name in _MORE):
        return None
    if getattr(known, "grad_enabled_mutation", None) is not None:
        return None
    inputs, outputs = known.input_info, known.output_info
    described = (*known.subclass_inp_meta, *known.subclass_fw_graph_out_meta)
    if (
        len(inputs) != arguments  # one of them twice, or weights that the graph holds
        or any(isinstance(d, SubclassCreationMeta) for d in described)
        or any(i.mutates_data or i.mutates_metadata for i in inputs)
        or not 0 < len(outputs) == returned
        or any(o.output_type not in _NEW for o in outputs)
        or not all(issubclass(o.raw_type, torch.Tensor) for o in outputs)
    ):
        return None
    takes = [getattr(o, "requires_grad_for_backward", o.requires_grad) for o in outputs]
    return NewResults(
        returned,
        tuple(i for i, o in enumerate(outputs) if not o.requires_grad),
        tuple(i for i, is_given in enumerate(takes) if is_given),
    )


@dataclass
class PlainTraining:
    """The graphs of one such function, as they are compiled; the backward one comes with the first
    step, and until then AOTAutograd's call is taken."""

    results: NewResults
    forward: Boxed
    followed: Followed
    backward: Boxed | None = None
    cut: tuple[int, ...] = ()  # arguments that get no gradient: autograd is not to follow them
    dense: tuple[bool, ...] = ()  # which gradients of results the backward graph has row by row

    def call(self, general: Callable[..., Any]) -> Callable[..., Any]:
        """What runs a step's forward half; `general` is AOTAutograd's call."""
        apply = self._function()
        in_transform = torch._C._are_functorch_transforms_active
        in_mode = is_in_mode()

        def call(*flat: Any) -> Any:
            if (
                self.backward is None or not torch.is_grad_enabled() or in_transform()
                or compiled_autograd.compiled_autograd_enabled
            ):  # fmt: skip
                return general(*flat)
            if in_mode():
                with unseen():
                    return started(flat)
            return started(flat)

        def started(flat: Sequence[Any]) -> Any:
            if self.cut:
                flat = [x.detach() if i in self.cut else x for i, x in enumerate(flat)]
            return apply(*flat)

        return call

    def _function(self) -> Callable[..., Any]:
        run, count, without = self.forward, self.results.count, self.results.without
        whose, second = self.results.tangents, self.followed.second
        is_several = len(whose) > 1

        class CompiledFunction(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *flat: Any) -> Any:
                made = run(flat)
                # A view of a weight would be saved as one that requires a gradient.
                ctx.save_for_backward(*[x.detach() if x._is_view() else x for x in made[count:]])
                if without:
                    ctx.mark_non_differentiable(*[made[i] for i in without])
                if is_several:
                    ctx.set_materialize_grads(False)
                    ctx.like = [(made[i].shape, made[i].dtype, made[i].device) for i in whose]
                ctx.kept = second.kept(flat)
                return tuple(made[:count])

            @staticmethod
            @left_alone
            def backward(ctx: Any, *gradients: Any) -> Any:
                compiled = self.backward
                assert compiled is not None, "until it is there, AOTAutograd's call is taken"
                given = list(ctx.saved_tensors)
                arrived = [gradients[i] for i in whose]
                is_any_missing = is_several and any(a is None for a in arrived)
                are_given = [a is not None for a in arrived] if is_any_missing else []
                if is_any_missing:
                    arrived = [
                        torch.zeros(shape, dtype=dtype, device=device) if a is None else a
                        for a, (shape, dtype, device) in zip(arrived, ctx.like, strict=True)
                    ]
                for a, is_dense in zip(arrived, self.dense, strict=True):
                    # Of a sum it is one number, seen many times: a call with it is looked at anew.
                    given.append(a.contiguous() if is_dense else a)
                if with_graph := torch.is_grad_enabled():
                    given = [x.detach() for x in given]
                found: Sequence[Any] = compiled(given)
                if is_any_missing and self.followed.unreached is not None:
                    found = self.followed.unreached.without(found, are_given)
                if with_graph:
                    return tuple(second.attached(found, ctx.kept, gradients))
                if not keeps_graph():
                    ctx.kept = None
                return tuple(found)

        # What `Function.apply` does more is for functorch's transforms.
        above: Any = super(torch.autograd.Function, CompiledFunction)
        made: Callable[..., Any] = above.apply
        return made
