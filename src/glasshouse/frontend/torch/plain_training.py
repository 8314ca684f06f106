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
from torch._dynamo import compiled_autograd, disable
from torch._functorch._aot_autograd.schemas import OutputType, SubclassCreationMeta
from torch._guards import TracingContext

from glasshouse.frontend.torch.crossing import Boxed
from glasshouse.runtime.function_modes import is_in_mode, unseen

_NEW = (OutputType.non_alias, OutputType.unsafe_view_alias)
_MORE = (
    "num_intermediate_bases", "tokens", "num_backward_tokens", "is_rng_op_functionalized",
    "num_graphsafe_rng_states", "num_symints_saved_for_bw", "num_opaque_objects_saved_for_bw",
    "act_input_indices", "indices_of_inputs_that_requires_grad_with_mutations_in_bw",
    "num_tensors_saved_with_no_vc_check",
)  # fmt: skip
"""More to do, as AOTAutograd's description of a function names it; older PyTorch has not all."""
_ONCE = "torch.compile with glasshouse does not support double backward: gradients of gradients"


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


def _left_alone(function: Any) -> Any:
    """Dynamo does not look into it, nor into what it calls: in a step that is compiled whole it is
    there when gradients are taken. `disable` says the same in 5 us a call."""
    try:
        from torch._C._dynamo.eval_frame import set_code_exec_strategy
        from torch._dynamo.types import FrameAction, FrameExecStrategy
    except ImportError:  # PyTorch before 2.7
        return disable(function)
    strategy = FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP)
    set_code_exec_strategy(function.__code__, strategy)
    return function


@dataclass
class PlainTraining:
    """The graphs of one such function, as they are compiled; the backward one comes with the first
    step, and until then AOTAutograd's call is taken."""

    results: NewResults
    forward: Boxed
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
        whose = self.results.tangents

        class CompiledFunction(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *flat: Any) -> Any:
                made = run(flat)
                # A view of a weight would be saved as one that requires a gradient.
                ctx.save_for_backward(*[x.detach() if x._is_view() else x for x in made[count:]])
                if without:
                    ctx.mark_non_differentiable(*[made[i] for i in without])
                return tuple(made[:count])

            @staticmethod
            @_left_alone
            def backward(ctx: Any, *gradients: Any) -> Any:
                compiled = self.backward
                assert compiled is not None, "until it is there, AOTAutograd's call is taken"
                given = list(ctx.saved_tensors)
                for i, is_dense in zip(whose, self.dense, strict=True):
                    # Of a sum it is one number, seen many times: a call with it is looked at anew.
                    given.append(gradients[i].contiguous() if is_dense else gradients[i])
                if torch.is_grad_enabled():
                    return _Once.apply(torch.empty(0, requires_grad=True), compiled, given)
                return tuple(compiled(given))

        # What `Function.apply` does more is for functorch's transforms.
        above: Any = super(torch.autograd.Function, CompiledFunction)
        made: Callable[..., Any] = above.apply
        return made


class _Once(torch.autograd.Function):
    """Gradients that were asked for with `create_graph=True`: they have none themselves."""

    @staticmethod
    def forward(ctx: Any, required: Any, backward: Boxed, given: list[Any]) -> Any:
        return tuple(backward(given))

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError(_ONCE)
