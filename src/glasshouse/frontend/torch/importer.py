"""Decides how an fx graph of ATen ops becomes nodes: one after the other, each with its origin."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from glasshouse.errors import CaptureError, GlasshouseError, ShapeError
from glasshouse.frontend.torch import higher_order, symbolic
from glasshouse.frontend.torch.aten import IN_CONTEXT, Context, find
from glasshouse.frontend.torch.complex import Complex
from glasshouse.frontend.torch.decompose import decomposed
from glasshouse.frontend.torch.dims import Symbols
from glasshouse.frontend.torch.dtypes import COMPLEX_PARTS, dtype_of
from glasshouse.frontend.torch.opaque import opaque_call
from glasshouse.frontend.torch.slot import Slot
from glasshouse.frontend.torch.source import Sources
from glasshouse.frontend.torch.views import put_back
from glasshouse.frontend.torch.weights import array_of
from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.dtype import bool_, float32, int64
from glasshouse.ir.graph import Node
from glasshouse.ir.origin import Origin

Env = dict[fx.Node, Any]

# Ops that only check or annotate at run time; what they check, the graph's own types say.
_IGNORED = {
    "aten::_assert_tensor_metadata", "aten::_assert_scalar", "aten::_assert_async",
    "aten::sym_constrain_range", "aten::sym_constrain_range_for_size",
    "profiler::_record_function_enter", "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
}  # fmt: skip


@dataclass
class Call:
    """One op of the captured program, with handles in the place of its tensors."""

    node: fx.Node
    target: Any
    args: list[Any]
    kwargs: dict[str, Any]
    env: Env
    written: list[int]  # numbers of the arguments, in the schema, that it writes to
    any_dtype: bool = False  # whether results may differ from PyTorch's in their element type

    def with_argument(self, number: int, value: Any) -> Call:
        args = [*self.args[:number], value, *self.args[number + 1 :]]
        other = value.dtype is not self.args[number].dtype
        return replace(self, args=args, any_dtype=other)

    def written_names(self) -> list[str]:
        return [self.target._schema.arguments[i].name for i in self.written]

    def written_slots(self) -> list[Any]:
        found = []
        for number, name in zip(self.written, self.written_names(), strict=True):
            args = self.node.args
            given = args[number] if number < len(args) else self.node.kwargs.get(name)
            found.append(self.env.get(given) if isinstance(given, fx.Node) else None)
        return found


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
        self._inside: Origin | None = None  # of the op that is being decomposed

    def inside(self, origin: Origin | None) -> None:
        """Let all that is imported from now on have this origin; None ends it."""
        self._inside = origin

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
                origin = self._inside or self.sources.origin(node, label=str(node.target))
                with self.builder.at(origin):
                    env[node] = self._call(module, node, env)
            else:
                raise CaptureError(
                    f"{node.op} {node.target} is not an ATen op",
                    str(self.sources.of(node)),
                    "trace the module itself, or a GraphModule that torch.export made",
                )
        raise CaptureError("the captured graph has no output")

    # ------------------------------------------------------------------------------------ one node
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
        if schema.name in _IGNORED or (not node.users and not schema.is_mutable):
            return None
        written = [
            i for i, a in enumerate(schema.arguments) if a.alias_info and a.alias_info.is_write
        ]
        args, kwargs = self.values(list(node.args), env), self.values(dict(node.kwargs), env)
        if not any(hasattr(a, "builder") for a in args):
            args = self._tensors(schema, args)
        call = Call(node, target, args, kwargs, env, written)
        if torch.Tag.inplace_view in target.tags and (twin := _without_underscore(target)):
            # `unsqueeze_`: the same memory seen in another way; from here on by both names.
            viewed = replace(call, target=twin, written=[])
            slot = env[node.args[0]] = self._slots(viewed, self._compute(viewed))
            return slot
        if written and all(r.alias_info is not None for r in schema.returns):
            return self._in_place(call)
        return self._slots(call, self._compute(call))

    def _tensors(self, schema: Any, args: Sequence[Any]) -> list[Any]:
        """Numbers in the place of tensors as tensors: `aten.div.Tensor(8, 2)` has no other."""
        kinds = {bool: bool_, int: int64, float: float32}
        return [
            self.builder.apply("full", shape=(), value=a, dtype=kinds[type(a)])
            if type(a) in kinds and str(parameter.type) == "Tensor"
            else a
            for a, parameter in zip(args, schema.arguments, strict=False)
        ]

    def _compute(self, call: Call) -> Any:
        """The op's spelling, PyTorch's decomposition, or an opaque node: the first that does."""
        spelling = find(call.target._schema.name, call.target._overloadname)
        if spelling is not None:
            mark = self.builder.graph._next_id
            try:
                result = self._spell(spelling, call)
                return self._as_declared(result, _declared(call.node), call.any_dtype)
            except Exception as error:  # arguments that nobody thought of: the op still runs
                self._refuse(call, error, mark)
        if not call.written:
            found = self._decomposed(call)
            if found is not None:
                return found
        return self._opaque(call)

    def _refuse(self, call: Call, error: Exception, mark: int) -> None:
        """Forget what a spelling made before it gave up."""
        why = error.message if isinstance(error, GlasshouseError) else repr(error)
        self.refused.append((str(call.target), why))
        graph = self.builder.graph
        for id in range(graph._next_id - 1, mark - 1, -1):
            node = graph.find(id)
            if node is not None:
                graph._remove(node)

    def _spell(self, spelling: Callable[..., Any], call: Call) -> Any:
        call = _under_autocast(call)
        kwargs = {k: v for k, v in call.kwargs.items() if k not in call.written_names()}
        if spelling not in IN_CONTEXT:
            return spelling(*call.args, **kwargs)

        def write(number: int, new: Any) -> None:
            self._write(call.env[call.node.args[number]], new)

        stopped = self.without_gradient if self.stops else None
        return spelling(Context(self.builder, write, call.node, stopped), *call.args, **kwargs)

    def without_gradient(self, handle: Any) -> Any:
        """The same value, through which no gradient flows."""
        out = handle.apply("barrier")
        self.stopped.add(out.value.node)
        return out

    def _decomposed(self, call: Call) -> Any:
        found = decomposed(call.target, call.node.args, call.node.kwargs)
        if found is None:
            return None
        graph, before = self.builder.graph, self._inside
        mark = graph._next_id
        self._inside = before or self.builder.origin
        try:
            operands = [call.env[n] for n in found[1]]
            result = _read(self.run(found[0], operands))
            result = self._as_declared(result, _declared(call.node))
            new = [graph.find(id) for id in range(mark, graph._next_id)]
            needed = {n.attrs["target"] for n in new if n is not None and n.op.name == "opaque"}
            if needed:
                raise CaptureError(f"its decomposition needs {', '.join(sorted(needed))}")
            return result
        except GlasshouseError as error:
            self._refuse(call, error, mark)
            return None
        finally:
            self._inside = before

    def _opaque(self, call: Call) -> Any:
        if "val" not in call.node.meta:
            raise CaptureError(
                f"the type of {call.target} is not known", str(self.sources.of(call.node)),
                "give example inputs, or a program that torch.export made",
            )  # fmt: skip
        names = call.written_names()
        places = [i if i < len(call.args) else n for i, n in zip(call.written, names, strict=True)]
        result, values = opaque_call(
            self.builder, self.symbols, call.target, call.args, call.kwargs,
            call.node.meta["val"], places, _declared(call.node),
        )  # fmt: skip
        for slot, value in zip(call.written_slots(), values, strict=True):
            slot.write(value)
        return result

    def _as_declared(self, result: Any, val: Any, any_dtype: bool = False) -> Any:
        """The result in the element type that PyTorch gives it; an error where shapes differ."""
        if isinstance(val, (list, tuple)):
            given = result if isinstance(result, (list, tuple)) else (result,)
            if len(given) != len(val):
                raise ShapeError(f"{len(given)} results in the place of {len(val)}")
            pairs = zip(given, val, strict=True)
            return tuple(self._as_declared(r, v, any_dtype) for r, v in pairs)
        if not isinstance(val, torch.Tensor) or result is None:
            return result
        if (val.dtype in COMPLEX_PARTS) != isinstance(result, Complex):
            raise ShapeError(f"{result.type} in the place of {val.dtype}")
        if not isinstance(result, Complex) and not any_dtype:
            result = result.cast(dtype_of(val.dtype))
        wanted = val.shape
        if len(wanted) != result.ndim:
            raise ShapeError(f"{result.type} in the place of {list(wanted)}")
        for have, size in zip(result.shape, wanted, strict=True):
            if isinstance(have, int) and isinstance(size, int) and have != size:
                raise ShapeError(f"{result.type} in the place of {list(wanted)}")
        return result

    # ------------------------------------------------------------------------ memory: views, writes
    def _slots(self, call: Call, result: Any) -> Any:
        val = call.node.meta.get("val")
        if isinstance(result, (list, tuple)):
            vals = val if isinstance(val, (list, tuple)) else [None] * len(result)
            return tuple(
                self._slot(call, r, v, i) for i, (r, v) in enumerate(zip(result, vals, strict=True))
            )
        return self._slot(call, result, val, None)

    def _slot(self, call: Call, handle: Any, val: Any, number: int | None) -> Any:
        if not hasattr(handle, "type"):
            return handle
        place = _viewed(call.node) if self.views_by_schema else _shared(call.node, val)
        held = call.env[call.node.args[place]] if place is not None else None
        if place is None or not isinstance(held, Slot):
            return Slot(handle)
        origin = self.builder.origin

        def replay(parent: Any) -> Any:
            with self.builder.at(origin):
                out = self._compute(call.with_argument(place, parent))
                return out if number is None else out[number]

        def back(parent: Any, new: Any) -> Any:
            return put_back(call.target, call.args, parent, new, replay)

        return Slot(handle, parent=held, replay=replay, back=back)

    def _in_place(self, call: Call) -> Any:
        """`add_`, `copy_`, and `out=`: the new value of each written argument, then its slot."""
        schema = call.target._schema
        slots = call.written_slots()
        spelling = find(schema.name, call.target._overloadname)
        if spelling is None:
            spelling = find(schema.name.removesuffix("_"), call.target._overloadname)
        mark = self.builder.graph._next_id
        try:
            if spelling is None or not all(isinstance(s, Slot) for s in slots):
                raise CaptureError("it has no spelling")
            new = self._spell(spelling, call)
            many = list(new) if isinstance(new, (tuple, list)) else [new]
            if len(many) != len(slots):
                raise ShapeError(f"{len(many)} results for {len(slots)} tensors")
            for slot, value in zip(slots, many, strict=True):
                self._write(slot, value)
        except Exception as error:
            self._refuse(call, error, mark)
            self._opaque(call)
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
    def values(self, given: Any, env: Mapping[fx.Node, Any], read: bool = True) -> Any:
        """fx arguments with handles, sizes and element types in the place of nodes and torch's."""
        if isinstance(given, fx.Node):
            found = env[given]
            return _read(found) if read else found
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
                return self.builder.wrap(self.builder.constant(array_of(tensor), kind, node.target))

        return Slot(make=make)


# Ops that autocast runs in half precision: their operands are cast, not their result.
_CONTRACTIONS = {
    f"aten::{name}"
    for name in (
        "linear", "matmul", "mm", "bmm", "mv", "addmm", "baddbmm", "addmv", "conv1d", "conv2d",
        "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution",
        "einsum", "scaled_dot_product_attention",
    )
}  # fmt: skip


def _under_autocast(call: Call) -> Call:
    val = call.node.meta.get("val")
    if call.target._schema.name not in _CONTRACTIONS or not isinstance(val, torch.Tensor):
        return call
    if val.dtype not in (torch.float16, torch.bfloat16):
        return call
    kind = dtype_of(val.dtype)

    def cast(given: Any) -> Any:
        if isinstance(given, (list, tuple)):
            return [cast(g) for g in given]
        return given.cast(kind) if hasattr(given, "builder") and given.dtype.is_float else given

    args = [cast(a) for a in call.args]
    return replace(call, args=args)


def _without_underscore(target: Any) -> Any:
    """`aten.transpose.int` for `aten.transpose_`: with the same arguments; None without such."""
    space, _, name = target._schema.name.partition("::")
    packet = getattr(getattr(torch.ops, space), name.removesuffix("_"), None)
    wanted = [(a.name, str(a.type)) for a in target._schema.arguments]
    for overload in packet.overloads() if packet is not None else ():
        twin = getattr(packet, overload)
        if [(a.name, str(a.type)) for a in twin._schema.arguments] == wanted:
            return twin
    return None


def _is_ignored(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.name in _IGNORED


def _declared(node: fx.Node) -> Any:
    """The types of what an op gives; None for results that nothing reads."""
    val = node.meta.get("val")
    if not isinstance(val, (list, tuple)):
        return val
    users = [u for u in node.users if u.target is operator.getitem]
    read = (
        {u.args[1] for u in users if u.users}
        if len(users) == len(node.users)
        else set(range(len(val)))
    )
    return [v if i in read else None for i, v in enumerate(val)]


def _read(found: Any) -> Any:
    if isinstance(found, Slot):
        return found.read()
    if isinstance(found, (list, tuple)):
        return tuple(_read(f) for f in found)
    return found


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


def _viewed(node: fx.Node) -> int | None:
    """The number of the argument that a result is a view of: `Tensor(a) -> Tensor(a)`.

    True of ops below autograd. Above it, `contiguous` and its like say so too, and may copy.
    """
    schema: Any = node.target._schema
    alias = schema.returns[0].alias_info if len(schema.returns) == 1 else None
    for number, (argument, given) in enumerate(zip(schema.arguments, node.args, strict=False)):
        held = argument.alias_info
        if alias and held and held.before_set == alias.before_set and isinstance(given, fx.Node):
            return number
    return None
