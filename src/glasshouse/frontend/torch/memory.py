"""Which tensors of a captured program share memory, and what a call does to it: results
that are views of an argument, and arguments that get new values in place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from glasshouse.errors import CaptureError, ShapeError
from glasshouse.frontend.torch import strided
from glasshouse.frontend.torch.aten import find
from glasshouse.frontend.torch.call import AtenCall
from glasshouse.frontend.torch.compute import as_opaque, compute, refuse, spell
from glasshouse.frontend.torch.decompose import decomposed
from glasshouse.frontend.torch.foreach import is_foreach
from glasshouse.frontend.torch.given_gradient import passed_on
from glasshouse.frontend.torch.slot import Slot
from glasshouse.frontend.torch.views import put_back

if TYPE_CHECKING:
    from glasshouse.frontend.torch.importer import Importer

_DETACHED = ("aten::detach", "aten::detach_")
"""What is written through these (`x.data.clamp_()`), autograd does not see."""


def call_slots(importer: Importer, call: AtenCall) -> Any:
    """What a call gives, as slots; the arguments that it writes to hold new values then."""
    schema = call.target._schema
    if torch.Tag.inplace_view in call.target.tags and (twin := _without_underscore(call.target)):
        # `unsqueeze_`: the same memory seen in another way; from here on by both names.
        viewed = replace(call, target=twin, written=[])
        slot = call.env[call.node.args[0]] = _slots(importer, viewed)
        return slot
    if schema.name in strided.NAMES and (made := _by_memory(importer, call)) is not None:
        return made
    if call.written and is_foreach(call.target):
        return _each_in_place(importer, call)
    if call.written and all(r.alias_info is not None for r in schema.returns):
        return _in_place(importer, call)
    return _slots(importer, call)


def storage_of(val: Any) -> int | None:
    """Which memory a tensor lies in: two fake tensors share it as the real ones would."""
    if not isinstance(val, torch.Tensor):
        return None
    try:
        return int(val.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # a subclass without storage of its own
        return None


def _slots(importer: Importer, call: AtenCall) -> Any:
    result = compute(importer, call)
    val = call.node.meta.get("val")
    if isinstance(result, (list, tuple)):
        vals = val if isinstance(val, (list, tuple)) else [None] * len(result)
        pairs = enumerate(zip(result, vals, strict=True))
        return tuple(_slot(importer, call, r, v, i) for i, (r, v) in pairs)
    return _slot(importer, call, result, val, None)


def _slot(importer: Importer, call: AtenCall, handle: Any, val: Any, number: int | None) -> Any:
    if not hasattr(handle, "type"):
        return handle
    place = _view_of(importer, call.node, val)
    held = call.env[call.node.args[place]] if place is not None else None
    if place is None or not isinstance(held, Slot):
        return Slot(handle)
    origin = importer.builder.origin

    def replay(parent: Any) -> Any:
        with importer.builder.at(origin):
            out = compute(importer, call.with_argument(place, parent))
            return out if number is None else out[number]

    hidden = importer.stops and call.target._schema.name in _DETACHED

    def back(parent: Any, new: Any) -> Any:
        whole = put_back(call.target, call.args, parent, new, replay)
        return passed_on(importer, parent, whole) if hidden else whole

    return Slot(handle, parent=held, replay=replay, back=back)


def _in_place(importer: Importer, call: AtenCall) -> Any:
    """`add_`, `copy_`, and `out=`: the new value of each written argument, then its slot."""
    schema = call.target._schema
    slots = call.written_slots()
    spelling = find(schema.name, call.target._overloadname, call.args)
    if spelling is None:
        plain = schema.name.removesuffix("_")
        spelling = find(plain, call.target._overloadname, call.args)
    mark = importer.builder.graph._next_id
    try:
        if spelling is None or not all(isinstance(s, Slot) for s in slots):
            raise CaptureError("it has no spelling")
        new = spell(importer, spelling, call)
        many = list(new) if isinstance(new, (tuple, list)) else [new]
        if len(many) != len(slots):
            raise ShapeError(f"{len(many)} results for {len(slots)} tensors")
        for slot, value in zip(slots, many, strict=True):
            slot.assign(value)
    except Exception as error:  # as in `compute`: whatever a spelling stumbles over, the op runs
        refuse(importer, call, error, mark)
        as_opaque(importer, call)
    return slots[0] if len(slots) == 1 else tuple(slots)


def _each_in_place(importer: Importer, call: AtenCall) -> None:
    """An op that writes to every tensor of a list, and gives nothing."""
    found = decomposed(call.target, call.node.args, call.node.kwargs)
    if found is None:
        raise CaptureError(f"{call.target} has no spelling for single tensors")
    with importer.inside(importer.builder.origin):
        importer.run(found[0], [call.env[n] for n in found[1]])


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


def _by_memory(importer: Importer, call: AtenCall) -> Slot | None:
    """`as_strided` and its like, which read the memory around their argument; None where that lies
    row by row in memory of its own: its spelling reads it so."""
    node: Any = call.node.args[0]
    val, slot = node.meta.get("val"), call.env[node]
    if not isinstance(val, torch.Tensor) or not isinstance(slot, Slot):
        return None
    root: Any = node
    while (place := _view_of(importer, root, root.meta.get("val"))) is not None:
        root = root.args[place]
    if root is node and slot.root is slot and (importer.views_by_schema or strided.is_whole(val)):
        return None
    scatters = call.target._schema.name == "aten::as_strided_scatter"
    rest = call.args[2:] if scatters else call.args[1:]
    names = ("size", "stride", "storage_offset")[len(rest) :]
    found = strided.strided(
        root.meta["val"], call.env[root], val, [*rest, *(call.kwargs.get(n) for n in names)]
    )
    if scatters:
        return Slot(slot.seen_in(found.write(found.memory.read(), call.args[1])))
    copies = call.target._schema.name == "aten::as_strided_copy"
    return Slot(found.view().read()) if copies else found.view()


def _view_of(importer: Importer, node: fx.Node, val: Any) -> int | None:
    """The number of the argument that a result is a view of, if it is one."""
    if node.op != "call_function":
        return None
    return _viewed(node) if importer.views_by_schema else _shared(node, val)


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
