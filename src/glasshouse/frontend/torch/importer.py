"""Decides how an fx graph of ATen ops becomes nodes: one after the other, each with its origin."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from glasshouse.errors import CaptureError, GlasshouseError, ShapeError
from glasshouse.frontend.torch import higher_order, symbolic
from glasshouse.frontend.torch.aten import IN_CONTEXT, Context, find
from glasshouse.frontend.torch.complex import Complex
from glasshouse.frontend.torch.dims import Symbols
from glasshouse.frontend.torch.dtypes import COMPLEX_PARTS, dtype_of
from glasshouse.frontend.torch.opaque import opaque_call
from glasshouse.frontend.torch.slot import Slot
from glasshouse.frontend.torch.source import Sources
from glasshouse.frontend.torch.views import put_back
from glasshouse.frontend.torch.weights import array_of
from glasshouse.ir.builder import GraphBuilder

# Ops that only check or annotate at run time; what they check, the graph's own types say.
_IGNORED = {
    "aten::_assert_tensor_metadata", "aten::_assert_scalar", "aten::_assert_async",
    "aten::sym_constrain_range", "aten::sym_constrain_range_for_size", "prims::device_put",
}  # fmt: skip


class Importer:
    """Adds the nodes of fx graphs to a builder's graph."""

    def __init__(self, builder: GraphBuilder, symbols: Symbols, sources: Sources) -> None:
        self.builder = builder
        self.symbols = symbols
        self.sources = sources
        self.refused: list[tuple[str, str]] = []  # (op, why its spelling did not do)

    def run(self, module: Any, inputs: Sequence[Any]) -> Any:
        """What the module's graph gives for these slots and values, as its output node has it."""
        env: dict[fx.Node, Any] = {}
        given = iter(inputs)
        for node in module.graph.nodes:
            if node.op == "placeholder":
                env[node] = next(given)
            elif node.op == "get_attr":
                env[node] = self._attribute(module, node)
            elif node.op == "output":
                return self._values(node.args[0], env, read=False)
            elif node.op == "call_function":
                self._call(module, node, env)
            else:
                raise CaptureError(
                    f"{node.op} {node.target} is not an ATen op",
                    str(self.sources.of(node)),
                    "trace the module itself, or a GraphModule that torch.export made",
                )
        raise CaptureError("the captured graph has no output")

    # ------------------------------------------------------------------------------------ one node
    def _call(self, module: Any, node: fx.Node, env: dict[fx.Node, Any]) -> None:
        target = node.target
        if target is operator.getitem and isinstance(env.get(node.args[0]), (tuple, list)):
            env[node] = env[node.args[0]][node.args[1]]
            return
        with self.builder.at(self.sources.origin(node, label=str(target))):
            if isinstance(target, torch._ops.HigherOrderOperator):
                env[node] = higher_order.convert(self, module, node, env)
            elif isinstance(target, torch._ops.OpOverload):
                if symbolic.is_symbolic(node.meta.get("val")):
                    env[node] = symbolic.value(self, node, self._values(node.args, env))
                else:
                    env[node] = self._overload(node, target, env)
            else:
                env[node] = symbolic.value(self, node, self._values(node.args, env))

    def _overload(self, node: fx.Node, target: Any, env: dict[fx.Node, Any]) -> Any:
        schema = target._schema
        if schema.name in _IGNORED:
            return None
        written = [
            i for i, a in enumerate(schema.arguments) if a.alias_info and a.alias_info.is_write
        ]
        if written:
            return self._in_place(node, target, written, env)
        args, kwargs = self._arguments(node, env)
        result = self._compute(node, target, args, kwargs, env)
        return self._slots(node, target, args, kwargs, result, env)

    def _arguments(
        self, node: fx.Node, env: dict[fx.Node, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        return self._values(list(node.args), env), self._values(dict(node.kwargs), env)

    def _compute(
        self,
        node: fx.Node,
        target: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        env: dict[fx.Node, Any],
    ) -> Any:
        """The op's spelling; an opaque node where it has none or refuses."""
        val = node.meta.get("val")
        spelling = find(target._schema.name, target._overloadname)
        if spelling is not None:
            graph = self.builder.graph
            mark = graph._next_id
            try:
                result = self._spell(spelling, node, args, kwargs, env)
                return self._as_declared(result, val)
            except GlasshouseError as error:
                self.refused.append((str(target), error.message))
                for id in range(graph._next_id - 1, mark - 1, -1):
                    graph._remove(graph.node(id))
        return opaque_call(
            self.builder, self.symbols, target, args, dict(kwargs), self._val(node)
        )[0]  # fmt: skip

    def _spell(
        self,
        spelling: Callable[..., Any],
        node: fx.Node,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        env: dict[fx.Node, Any],
    ) -> Any:
        if spelling not in IN_CONTEXT:
            return spelling(*args, **kwargs)

        def write(number: int, new: Any) -> None:
            self._write(env[node.args[number]], new)

        return spelling(Context(self.builder, write, node), *args, **kwargs)

    def _as_declared(self, result: Any, val: Any) -> Any:
        """The result in the element type that PyTorch gives it; an error where shapes differ."""
        if isinstance(val, (list, tuple)):
            given = result if isinstance(result, (list, tuple)) else (result,)
            if len(given) != len(val):
                raise ShapeError(f"{len(given)} results in the place of {len(val)}")
            return tuple(self._as_declared(r, v) for r, v in zip(given, val, strict=True))
        if not isinstance(val, torch.Tensor) or result is None:
            return result
        if (val.dtype in COMPLEX_PARTS) != isinstance(result, Complex):
            raise ShapeError(f"{result.type} in the place of {val.dtype}")
        if not isinstance(result, Complex):
            result = result.cast(dtype_of(val.dtype))
        wanted = val.shape
        if len(wanted) != result.ndim:
            raise ShapeError(f"{result.type} in the place of {list(wanted)}")
        for have, size in zip(result.shape, wanted, strict=True):
            if isinstance(have, int) and isinstance(size, int) and have != size:
                raise ShapeError(f"{result.type} in the place of {list(wanted)}")
        return result

    # ------------------------------------------------------------------------ memory: views, writes
    def _slots(
        self,
        node: fx.Node,
        target: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Any,
        env: dict[fx.Node, Any],
    ) -> Any:
        val = node.meta.get("val")
        if isinstance(result, (list, tuple)):
            vals = val if isinstance(val, (list, tuple)) else [None] * len(result)
            return tuple(
                self._slot(node, target, args, kwargs, r, v, i, env)
                for i, (r, v) in enumerate(zip(result, vals, strict=True))
            )
        return self._slot(node, target, args, kwargs, result, val, None, env)

    def _slot(
        self,
        node: fx.Node,
        target: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        handle: Any,
        val: Any,
        number: int | None,
        env: dict[fx.Node, Any],
    ) -> Any:
        if not hasattr(handle, "type"):
            return handle
        place = _shared(node, val)
        held = env[node.args[place]] if place is not None else None
        if place is None or not isinstance(held, Slot):
            return Slot(handle)
        origin = self.builder.origin

        def replay(parent: Any) -> Any:
            with self.builder.at(origin):
                again = [*args[:place], parent, *args[place + 1 :]]
                out = self._compute(node, target, again, kwargs, env)
                return out if number is None else out[number]

        def back(parent: Any, new: Any) -> Any:
            return put_back(target, args, kwargs, parent, new, replay)

        return Slot(handle, parent=held, replay=replay, back=back)

    def _in_place(
        self, node: fx.Node, target: Any, written: Sequence[int], env: dict[fx.Node, Any]
    ) -> Any:
        """`add_`, `copy_`, and `out=`: the new value of each written argument, then its slot."""
        schema = target._schema
        names = [schema.arguments[i].name for i in written]
        slots = [_argument(node, i, name, env) for i, name in zip(written, names, strict=True)]
        args, kwargs = self._arguments(node, env)
        out_of_place = {k: v for k, v in kwargs.items() if k not in names}
        base = schema.name.removesuffix("_")
        spelling = find(schema.name, target._overloadname) or (
            find(base, target._overloadname) if base != schema.name or "out" in names else None
        )
        graph = self.builder.graph
        mark = graph._next_id
        try:
            if spelling is None or not all(isinstance(s, Slot) for s in slots):
                raise CaptureError(f"{target} has no spelling")
            new = self._spell(spelling, node, args, out_of_place, env)
            many = list(new) if isinstance(new, (tuple, list)) else [new]
            for slot, value in zip(slots, many, strict=True):
                self._write(slot, value)
        except GlasshouseError as error:
            for id in range(graph._next_id - 1, mark - 1, -1):
                graph._remove(graph.node(id))
            if spelling is not None:
                self.refused.append((str(target), error.message))
            places = [i if i < len(args) else n for i, n in zip(written, names, strict=True)]
            _, values = opaque_call(self.builder, self.symbols, target, args, kwargs, None, places)
            for slot, value in zip(slots, values, strict=True):
                slot.write(value)
        return slots[0] if len(slots) == 1 else tuple(slots)

    def _write(self, slot: Slot, new: Any) -> None:
        old = slot.read()
        if isinstance(old, Complex) or isinstance(new, Complex):
            if not (isinstance(old, Complex) and isinstance(new, Complex)):
                raise ShapeError(f"{new.type} written into {old.type}")
            slot.write(new)
            return
        new = new.cast(old.dtype)
        if new.shape != old.shape:
            new = new.apply("expand", shape=old.shape)
        slot.write(new)

    # ------------------------------------------------------------------------------------ arguments
    def _values(self, given: Any, env: dict[fx.Node, Any], read: bool = True) -> Any:
        """fx arguments with handles, sizes and element types in the place of nodes and torch's."""
        if isinstance(given, fx.Node):
            found = env[given]
            return _read(found) if read else found
        if isinstance(given, (list, tuple)):
            many = [self._values(g, env, read) for g in given]
            return tuple(many) if isinstance(given, tuple) else many
        if isinstance(given, dict):
            return {k: self._values(v, env, read) for k, v in given.items()}
        if isinstance(given, slice):
            return slice(
                self._values(given.start, env, read), self._values(given.stop, env, read),
                self._values(given.step, env, read),
            )  # fmt: skip
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
        tensor, origin = found, self.sources.origin(node, str(node.target))

        def make() -> Any:
            with self.builder.at(origin):
                kind = dtype_of(tensor.dtype)
                return self.builder.wrap(self.builder.constant(array_of(tensor), kind, node.target))

        return Slot(make=make)

    def _val(self, node: fx.Node) -> Any:
        if "val" not in node.meta:
            raise CaptureError(
                f"the type of {node.target} is not known", str(self.sources.of(node)),
                "give example inputs, or a program that torch.export made",
            )  # fmt: skip
        return node.meta["val"]


def _read(found: Any) -> Any:
    if isinstance(found, Slot):
        return found.read()
    if isinstance(found, (list, tuple)):
        return tuple(_read(f) for f in found)
    return found


def _argument(node: fx.Node, number: int, name: str, env: dict[fx.Node, Any]) -> Any:
    given = node.args[number] if number < len(node.args) else node.kwargs.get(name)
    return env.get(given) if isinstance(given, fx.Node) else None


def storage_of(val: Any) -> int | None:
    """Which memory a tensor lies in: two fake tensors share it as the real ones would."""
    if not isinstance(val, torch.Tensor):
        return None
    try:
        return int(val.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


def _shared(node: fx.Node, val: Any) -> int | None:
    """The number of the argument in whose memory a result lies, if it lies in one."""
    mine = storage_of(val)
    if mine is None:
        return None
    for number, arg in enumerate(node.args):
        if isinstance(arg, fx.Node) and storage_of(arg.meta.get("val")) == mine:
            return number
    return None
