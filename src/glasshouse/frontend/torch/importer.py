"""How an fx graph of ATen ops becomes nodes: one after the other, each with its origin."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from glasshouse.errors import CaptureError
from glasshouse.frontend.torch import collectives, given_gradient, higher_order, symbolic
from glasshouse.frontend.torch.call import AtenCall, Env, written_arguments
from glasshouse.frontend.torch.complex import Complex, joined
from glasshouse.frontend.torch.dims import Symbols
from glasshouse.frontend.torch.dtypes import COMPLEX_PARTS, dtype_of
from glasshouse.frontend.torch.memory import call_slots
from glasshouse.frontend.torch.slot import Slot, contents
from glasshouse.frontend.torch.source import GRADIENT_OF, Sources
from glasshouse.frontend.torch.weights import array_of
from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.dtype import bool_, float32, int64
from glasshouse.ir.graph import Node
from glasshouse.ir.origin import Origin

# Ops that only check or annotate at run time; what they check, the graph's own types say.
_IGNORED = {
    "aten::_assert_tensor_metadata", "aten::_assert_scalar", "aten::_assert_async",
    "aten::sym_constrain_range", "aten::sym_constrain_range_for_size",
    "profiler::_record_function_enter", "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
}  # fmt: skip


Rule = Callable[[Sequence[Any]], Sequence[Any]]
"""From the gradients of a node's results to those of its operands."""


class Importer:
    """Adds the nodes of fx graphs to a builder's graph."""

    def __init__(self, builder: GraphBuilder, symbols: Symbols, sources: Sources) -> None:
        self.builder = builder
        self.symbols = symbols
        self.sources = sources
        self.refused: list[tuple[str, str]] = []  # (op, why its spelling did not do)
        self.views_by_schema = False  # where the program's fake tensors do not share memory
        self.stops = False  # whether gradients will be taken, and must end where the model says
        self.stopped: set[Node] = set()  # nodes through which no gradient flows
        self.rules: dict[Node, Rule] = {}  # gradients that the model gives itself, or PyTorch
        self.gradient_of: Node | None = None  # the node whose backward is imported now
        self.computed: dict[str, int] | None = None  # where one graph has forward and backward:
        # the node that an fx node of the forward became, by its name
        self._inside: Origin | None = None  # what all nodes have while it is set

    @contextmanager
    def inside(self, origin: Origin) -> Iterator[None]:
        """Let all that is imported meanwhile have this origin, or that of an outer `inside`."""
        before = self._inside
        self._inside = before or origin
        try:
            yield
        finally:
            self._inside = before

    def run(self, module: Any, inputs: Sequence[Any]) -> Any:
        """What the module's graph gives for these slots and values, as its output node has it."""
        env: Env = {}
        given = iter(inputs)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                env[node] = next(given)
            elif node.op == "get_attr":
                env[node] = self._attribute(module, node)
            elif node.op == "output":
                return self.values(node.args[0], env, read=False)
            elif node.op == "call_function":
                origin = self._inside or self._origin(node)
                before = self.builder.graph._next_id
                with self.builder.at(origin):
                    env[node] = self._call(module, node, env)
                if self.computed is not None and self.builder.graph._next_id > before:
                    self.computed[node.name] = self.builder.graph._next_id - 1
            else:
                raise CaptureError(
                    f"{node.op} {node.target} is not an ATen op",
                    str(self.sources.of(node)),
                    "trace the module itself, or a GraphModule that torch.export made",
                )
        raise CaptureError("the captured graph has no output")

    def _origin(self, node: fx.Node) -> Origin:
        found = self.sources.origin(node, label=str(node.target))
        if self.gradient_of is None:
            of = (self.computed or {}).get(node.meta.get(GRADIENT_OF, ""))
            return found if of is None else replace(found, grad_of=of)
        kept = tuple(pair for pair in found.labels if pair[0] != "phase")
        labels = (*kept, ("phase", "backward"))
        return Origin(found.source, found.name, grad_of=self.gradient_of.id, labels=labels)

    def without_gradient(self, handle: Any) -> Any:
        """The same value, through which no gradient flows."""
        out = handle.apply("barrier")
        self.stopped.add(out.value.node)
        return out

    def _call(self, module: Any, node: fx.Node, env: Env) -> Any:
        target = node.target
        if node.users and all(_is_ignored(user) for user in node.users):
            return None
        if target is operator.getitem and isinstance(env.get(node.args[0]), (tuple, list)):
            return env[node.args[0]][node.args[1]]
        if isinstance(target, torch._ops.HigherOrderOperator):
            return higher_order.convert(self, module, node, env)
        if not isinstance(target, torch._ops.OpOverload) or symbolic.is_symbolic(
            node.meta.get("val")
        ):
            return symbolic.value(self, node, self.values(node.args, env))
        schema = target._schema
        if schema.name in (given_gradient.STAND_IN, given_gradient.MARK):
            return given_gradient.convert(self, node, env)
        if schema.name in _IGNORED or (not node.users and not schema.is_mutable):
            return None
        if collectives.is_collective(node) and "wait" in schema.name:
            return env[node.args[0]]  # the slot of a collective waits when it is read
        args, kwargs = self.values(list(node.args), env), self.values(dict(node.kwargs), env)
        if collectives.is_collective(node):
            return collectives.started(self, node, args, kwargs)
        if not any(hasattr(a, "builder") for a in args):
            args = self._tensors(schema, args)
        return call_slots(
            self, AtenCall(node, target, args, kwargs, env, written_arguments(schema))
        )

    def _tensors(self, schema: Any, args: Sequence[Any]) -> list[Any]:
        """Numbers in the place of tensors as tensors: `aten.div.Tensor(8, 2)` has no other."""
        kinds = {bool: bool_, int: int64, float: float32}

        def one(a: Any, parameter: Any) -> Any:
            if str(parameter.type) != "Tensor":
                return a
            if isinstance(a, complex):
                return joined(one(a.real, parameter), one(a.imag, parameter))
            known = kinds.get(type(a))
            return (
                a if known is None else self.builder.apply("full", shape=(), value=a, dtype=known)
            )

        return [one(a, p) for a, p in zip(args, schema.arguments, strict=False)]

    def values(self, given: Any, env: Mapping[fx.Node, Any], read: bool = True) -> Any:
        """fx arguments with handles, sizes and element types in the place of nodes and torch's."""
        if isinstance(given, fx.Node):
            found = env[given]
            return contents(found) if read else found
        if isinstance(given, (list, tuple)):
            many = [self.values(g, env, read) for g in given]
            return tuple(many) if isinstance(given, tuple) else many
        if isinstance(given, dict):
            return {k: self.values(v, env, read) for k, v in given.items()}
        if isinstance(given, slice):
            parts = (given.start, given.stop, given.step)
            return slice(*[self.values(p, env, read) for p in parts])
        if isinstance(given, torch.dtype) and given not in COMPLEX_PARTS:
            return dtype_of(given)
        if isinstance(given, torch.SymInt):
            return self.symbols.dim(given)
        return given

    def _attribute(self, module: Any, node: fx.Node) -> Any:
        found = module
        for part in node.target.split("."):
            found = getattr(found, part)
        if not isinstance(found, torch.Tensor):
            return found
        tensor, origin = found, self._inside or self.sources.origin(node, str(node.target))

        def make() -> Any:
            with self.builder.at(origin):
                kind = dtype_of(tensor.dtype)
                held = self.builder.constant(array_of(tensor), kind, node.target)
                made = self.builder.wrap(held)
                return Complex(made) if tensor.dtype in COMPLEX_PARTS else made

        return Slot(make=make)


def _is_ignored(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.name in _IGNORED
