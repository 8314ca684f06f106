"""Gradients that a model gives itself (`torch.autograd.Function`), traced beside its forward ops.

While a training step is captured, each call of such a function is recorded as its forward ops, then
its backward ops on tensors that stand for the gradients of its results, then a mark that ties both
together. Reverse mode reaches the mark, puts the real gradients in the place of the stand-ins, and
goes on with what the function's backward gives. Afterwards the mark is taken out of the graph.

What is written in place under `torch.no_grad`, or through `x.data`, is marked too: autograd does
not see the writing, and gives the gradient of the new value to the old one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch.autograd.function import FunctionCtx, _SingleLevelFunction
from torch.utils.checkpoint import CheckpointFunction

from glasshouse.errors import CaptureError
from glasshouse.frontend.torch.complex import Complex
from glasshouse.frontend.torch.slot import Slot, contents
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import REGISTRY
from glasshouse.ops.create import full_near
from glasshouse.ops.shapes import unbroadcast

if TYPE_CHECKING:
    from glasshouse.frontend.torch.importer import Importer

STAND_IN, MARK = "glasshouse::gradient_of", "glasshouse::given_gradient"


# ------------------------------------------------------------------------------- while it is traced
# Plain ops, without a gradient of their own: `custom_op` would make an autograd.Function for each.
_LIBRARY = torch.library.Library("glasshouse", "FRAGMENT")
_LIBRARY.define("gradient_of(Tensor result) -> Tensor")
_LIBRARY.define(
    "given_gradient(str name, Tensor[] operands, Tensor[] gradients, Tensor[] results, "
    "Tensor[] stand_ins) -> Tensor[]"
)


def _gradient_of(result: torch.Tensor) -> torch.Tensor:
    """Stands for the gradient of a result."""
    return torch.zeros_like(result)


def _given_gradient(
    name: str, operands: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor],
    results: Sequence[torch.Tensor], stand_ins: Sequence[torch.Tensor],
) -> list[torch.Tensor]:  # fmt: skip
    """The results; the gradients are those of the operands."""
    return [r.clone() for r in results]


_LIBRARY.impl("gradient_of", _gradient_of, "CompositeExplicitAutograd")
_LIBRARY.impl("given_gradient", _given_gradient, "CompositeExplicitAutograd")


class _Context(FunctionCtx):
    """What a function's forward and backward share."""

    to_save: tuple[Any, ...] = ()
    non_differentiable: tuple[Any, ...] = ()
    dirty_tensors: tuple[Any, ...] = ()
    materialize_grads = True

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self.to_save


@contextmanager
def gradients_given() -> Iterator[None]:
    """While it lasts, calls of `torch.autograd.Function` are recorded with their backward.

    `Function.apply` goes on to the same method of its base class, also where a model has kept the
    bound method from before: so that is where they are met.
    """
    _SingleLevelFunction.apply = classmethod(_recorded)
    try:
        yield
    finally:
        del _SingleLevelFunction.apply


def _recorded(cls: Any, *args: Any, **kwargs: Any) -> Any:
    if cls is CheckpointFunction:  # (function, whether to keep the random state, its arguments)
        return args[0](*args[2:])
    needs = tuple(isinstance(a, torch.Tensor) and a.is_floating_point() for a in args)
    ctx = _Context(needs)
    with torch.no_grad():
        if cls.setup_context is not torch.autograd.Function.setup_context:
            out = cls.forward(*args, **kwargs)
            cls.setup_context(ctx, args, out)
        else:
            out = cls.forward(ctx, *args, **kwargs)
    many = list(out) if isinstance(out, tuple) else [out]
    if ctx.dirty_tensors:
        raise CaptureError(
            f"the autograd.Function {cls.__qualname__} writes into its argument (mark_dirty), "
            "which a training step cannot capture",
            hint="let it return a new tensor",
        )
    fixed = {id(t) for t in ctx.non_differentiable}
    places = [
        i for i, t in enumerate(many)
        if isinstance(t, torch.Tensor) and t.is_floating_point() and id(t) not in fixed
    ]  # fmt: skip
    operands = [a for a, needed in zip(args, needs, strict=True) if needed]
    if not places or not operands:
        return out
    results = [many[i] for i in places]
    marks = torch.ops.glasshouse
    stand_ins = [marks.gradient_of(r) for r in results]
    try:
        given = _backward(cls, ctx, many, dict(zip(places, stand_ins, strict=True)), needs)
    except CaptureError:
        if cls.__module__ != "torch._library.autograd":
            raise
        return out  # a custom op without a gradient: that matters once one is asked for
    kept = [(a, g) for a, g in zip(operands, given, strict=True) if g is not None]
    marked = marks.given_gradient(
        cls.__qualname__, [a for a, _ in kept], [g for _, g in kept], results, stand_ins
    )
    for place, tensor in zip(places, marked, strict=True):
        many[place] = tensor
    return tuple(many) if isinstance(out, tuple) else many[0]


def _backward(
    cls: Any, ctx: _Context, results: Sequence[Any], stand_ins: dict[int, Any],
    needs: Sequence[bool],
) -> list[Any]:  # fmt: skip
    """The gradient of each operand that is a float tensor; None where there is none."""
    arriving = [
        stand_ins[i] if i in stand_ins
        else torch.zeros_like(r) if isinstance(r, torch.Tensor) and ctx.materialize_grads
        else None
        for i, r in enumerate(results)
    ]  # fmt: skip
    try:
        with torch.no_grad():
            found = cls.backward(ctx, *arriving)
    except Exception as error:  # whatever the user's code raises
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise CaptureError(
            f"the backward of the autograd.Function {cls.__qualname__} cannot be captured: "
            f"{type(error).__name__}: {said[:200]}",
            _line(cls.backward, error),
            "compute it with torch ops of the saved tensors and the gradients",
        ) from error
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    if len(found) < len(needs):
        raise CaptureError(
            f"the backward of the autograd.Function {cls.__qualname__} gives {len(found)} "
            f"gradients for {len(needs)} arguments"
        )
    return [g for g, needed in zip(found, needs, strict=False) if needed]


def _line(function: Any, error: BaseException) -> str:
    """The line of a function that an exception passed through."""
    code = getattr(function, "__code__", None)
    if code is None:
        return ""
    line, step = code.co_firstlineno, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == code.co_filename:
            line = step.tb_lineno
        step = step.tb_next
    return f"{code.co_filename}:{line} in {function.__qualname__}"


# ----------------------------------------------------------------------------- while it is imported
@dataclass(frozen=True)
class GivenGradient:
    """What reverse mode does at a mark."""

    graph: Graph
    count: int  # of operands that have a gradient; results come behind them
    stand_ins: tuple[Any, ...]
    gradients: tuple[Any, ...]

    def __call__(self, arrived: Sequence[Any]) -> list[Any]:
        """Gradients of the mark's operands, with these in the place of the stand-ins."""
        real: dict[Value, Any] = {}
        for stand_in, gradient in zip(self.stand_ins, arrived, strict=True):
            if gradient is None:
                gradient = full_near(stand_in, stand_in.shape, 0, stand_in.dtype)
            real[stand_in.value] = gradient
            self.graph._redirect(stand_in.value, gradient.value, ())
        given = [real.get(g.value, g) for g in self.gradients]
        return [*given, *[None] * len(self.stand_ins)]


def convert(importer: Importer, node: Any, env: dict[Any, Any]) -> Any:
    """A stand-in or a mark as nodes; the importer learns the mark's rule."""
    if node.target._schema.name == STAND_IN:
        (result,) = importer.values(list(node.args), env)
        importer.gradient_of = result.value.node  # what follows, up to the mark, is its backward
        return Slot(_opaque(importer, "gradient", [result], [result.type])[0])
    importer.gradient_of = None
    name, *lists = importer.values(list(node.args), env)
    operands, gradients, results, stand_ins = ([contents(h) for h in many] for many in lists)
    types = [r.type for r in results]
    outs = _opaque(importer, name, [*operands, *results], types)
    # As autograd takes them: cast, and summed where they were broadcast.
    fitted = [unbroadcast(g.cast(o.dtype), o) for g, o in zip(gradients, operands, strict=True)]
    rule = GivenGradient(importer.builder.graph, len(operands), tuple(stand_ins), tuple(fitted))
    importer.rules[outs[0].value.node] = rule
    return tuple(Slot(o) for o in outs)


def _opaque(importer: Importer, name: str, operands: Sequence[Any], types: Sequence[Any]) -> Any:
    attrs = {"target": name, "arguments": "", "call": None, "types": list(types)}
    made = REGISTRY["opaque"].emit(importer.builder, list(operands), attrs)
    return [importer.builder.wrap(v) for v in made.outputs]


@dataclass(frozen=True)
class PassedOn:
    """What reverse mode does where a value was replaced behind autograd's back."""

    count: ClassVar[int] = 1  # the old value; the new one comes behind it

    def __call__(self, arrived: Sequence[Any]) -> list[Any]:
        return [arrived[0], None]


def passed_on(importer: Importer, old: Any, new: Any) -> Any:
    """The new value, whose gradient is the old one's."""
    if isinstance(old, Complex):
        return Complex(passed_on(importer, old.pairs, new.pairs))
    (out,) = _opaque(importer, "written unseen", [old, new], [new.type])
    importer.rules[out.value.node] = PassedOn()
    return out


def before_writing(value: Value, rules: Mapping[Node, Any]) -> Value:
    """What a value was before anything was written that autograd does not see."""
    while isinstance(rules.get(value.node), PassedOn):
        value = value.node.inputs[0]
    return value


def without_marks(graph: Graph, rules: Mapping[Node, Any]) -> None:
    """Let what reads a mark's results read what they are."""
    for node, rule in rules.items():
        if node not in graph or not isinstance(rule, (GivenGradient, PassedOn)):
            continue
        for out, held in zip(node.outputs, node.inputs[rule.count :], strict=True):
            graph._redirect(out, held, ())
        graph._remove(node)
