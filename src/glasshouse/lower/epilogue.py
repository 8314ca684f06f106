"""Decides what a template does with each result: the ops behind the anchor, inlined at its index.

A template hands over a vector of neighbouring results and their index. From there the index is
carried forward to each output, unchanged through elementwise ops, moved through reshapes and
permutations; the statements are then those of `scalar`, with the anchor's result given.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, SymDim
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.op import Kind
from glasshouse.lower.access import ACCESS
from glasshouse.lower.cxx import size_text
from glasshouse.lower.index import ZERO, Index, Loop, SplitLoop, delinearized, of, offset
from glasshouse.lower.nest import Nest
from glasshouse.lower.order import Order, lying, position
from glasshouse.lower.scalar import NotVector, ScalarCode
from glasshouse.lower.writer import KernelWriter
from glasshouse.ops.shapes import axis_of

WIDEST = 16
"""Lanes of the widest vector: a loop split at a multiple of this never cuts a vector in two."""

RESULT = "acc"
"""The variable in which a template hands over its results."""


@dataclass
class Epilogue:
    """The body of the function that a template calls for each vector of results."""

    lines: list[str]
    outputs: list[Value]
    alike: list[Value]  # outputs that lie in their buffers just as the template's results do


@dataclass
class _Place:
    """Where in the anchor's output a result lies, in terms of the template's variables."""

    loops: list[Loop]  # the last one runs over the lanes
    position: Index
    order: Order | None  # in which the axes of the result follow each other
    splits: list[tuple[Loop, Loop, Loop]] = field(default_factory=list)  # one, its outer and inner

    def split(self, request: SplitLoop) -> None:
        """Two variables for one, by a division that is done once for each vector."""
        loop, inner = request.loop, request.inner
        if loop not in self.loops:
            raise Unsupported("a reshape inside of a reduction follows")
        if loop == self.loops[-1] and (isinstance(inner, SymDim) or inner % WIDEST != 0):
            raise Unsupported("vectors of results would be cut in two")
        outer_loop = Loop(loop.name + "o_", loop.extent // inner)
        inner_loop = Loop(loop.name + "i_", inner)
        self.splits.append((loop, outer_loop, inner_loop))
        at = self.loops.index(loop)
        self.loops[at : at + 1] = [outer_loop, inner_loop]
        factor = self.position.coefficient(loop)
        rest = Index(
            tuple((a, c) for a, c in self.position.terms if a != loop), self.position.constant
        )
        self.position = rest + (of(outer_loop) * inner + of(inner_loop)) * factor


def epilogue(
    writer: KernelWriter, result: Value, variables: dict[str, Dim], order: Order | None = None
) -> Epilogue:
    """Statements for one vector of results.

    `variables` are the template's indices with their extents, outermost first; together they run
    over the anchor's output in `order` (row-major if None), the last one over the lanes. Raises
    `Unsupported` where what follows cannot be inlined; the template then writes plain results.
    """
    loops = [Loop(name, extent) for name, extent in variables.items()]
    index = tuple(of(x) if x.extent != 1 or x is loops[-1] else ZERO for x in loops)
    place = _Place(loops, offset(index, tuple(variables.values())), order)
    while True:
        try:
            return _attempt(writer, result, place)
        except SplitLoop as request:
            place.split(request)
        except NotVector:
            raise Unsupported("what follows has no vector form") from None


def _attempt(writer: KernelWriter, result: Value, place: _Place) -> Epilogue:
    outputs = [v for v in writer.body.outputs if v not in writer.buffers]
    order = place.order or tuple(range(result.type.rank))
    lies = delinearized(place.position, lying(result.type.shape, order))
    index = tuple(lies[order.index(axis)] for axis in range(result.type.rank))
    where = _forward(result, index, outputs)
    nest = Nest(list(place.loops), vector=True)
    code = ScalarCode(nest, writer.target, writer.buffers, writer.orders, ACCESS)
    code.given[result] = RESULT
    for value in outputs:
        code.store(writer.outputs[value], value, where[value])
    if nest.folds:
        raise Unsupported("a reduction follows")
    prelude = _divisions(nest, place)
    lines = [nest._filled(s) for level in nest.depth for s in level if isinstance(s, str)]
    apart = {v: position(v, where[v], writer.orders) + -place.position for v in outputs}
    alike = [v for v in outputs if apart[v] == ZERO]
    return Epilogue([*prelude, *lines], outputs, alike)


def _divisions(nest: Nest, place: _Place) -> list[str]:
    """Finds the parts of split variables, of those whose parts are not put together again.

    A pixel is split into row and column to follow what comes, which mostly leads to one place as
    far on as the pixel: two divisions for each vector were 5 % of a Winograd layer of 64 channels.
    """
    lines: list[str] = []
    for loop, outer, inner in reversed(place.splits):
        if outer in nest.loops and nest.join(nest.loops.index(outer), loop.name):
            continue
        size = size_text(inner.extent)
        lines = [
            f"const int64_t {outer.name} = {loop.name} / {size};",
            f"const int64_t {inner.name} = {loop.name} - {outer.name} * {size};",
            *lines,
        ]
    return lines


def _forward(
    result: Value, index: tuple[Index, ...], outputs: list[Value]
) -> dict[Value, tuple[Index, ...]]:
    """The index at which each output depends on the anchor's result at `index`."""
    where = {result: index}
    pending = [result]
    while pending:
        value = pending.pop()
        for user in value.users:
            moved = _moved(user, value, where[value])
            out = user.outputs[0]
            if out not in where:
                where[out] = moved
                pending.append(out)
    if any(v not in where for v in outputs):
        raise Unsupported("an output does not depend on the anchor")
    return where


def _moved(user: Node, value: Value, index: tuple[Index, ...]) -> tuple[Index, ...]:
    shape, out = value.type.shape, user.outputs[0].type.shape
    if user.op.kind is Kind.ELEMENTWISE:
        if len(out) < len(shape) or out[len(out) - len(shape) :] != shape:
            raise Unsupported("results are broadcast")
        if any(d != 1 for d in out[: len(out) - len(shape)]):
            raise Unsupported("results are repeated")
        return (ZERO,) * (len(out) - len(shape)) + index
    if user.op.name == "reshape":
        return delinearized(offset(index, shape), out)
    if user.op.name == "permute":
        return tuple(index[axis_of(a, len(shape))] for a in user.attrs["axes"])
    if user.op.name == "rearrange":
        merged = []
        for axes in user.attrs["plan"]:
            axes = [axis_of(a, len(shape)) for a in axes]
            merged.append(offset(tuple(index[a] for a in axes), tuple(shape[a] for a in axes)))
        return tuple(merged)
    raise Unsupported(f"{user.op.name} follows")
