"""Builds the statements that compute one element of a fused group, from its loads to its stores.

Each element that is needed, a value at an index, becomes one `Let`, made once. What an element
needs in turn is found by `access` (ops that move elements), by the op itself (elementwise ops) or
by a fold (reductions). The walk is a trampoline over generators, so depth costs no stack.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

from glasshouse.errors import Unsupported
from glasshouse.ir.dtype import from_storage
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ir.sources import CONSTANT
from glasshouse.ir.types import Shape
from glasshouse.lower.kernel.expr import Apply, Expr, Load, Number, Var
from glasshouse.lower.kernel.index import ZERO, Checked, Index, Loop, of
from glasshouse.lower.kernel.statement import Fold, Let, Ops, Role, Store
from glasshouse.lower.nest import Nest
from glasshouse.lower.order import Orders, position
from glasshouse.lower.target import Target
from glasshouse.ops.shapes import axes_of

Element = tuple[Value, tuple[Index, ...]]
Steps = Generator[Element, Var, Expr]
"""Yields the elements that it needs, is sent the variables that hold them, returns the element."""

Access = Callable[[Node, int, tuple[Index, ...]], Steps]
"""The element of an output (its number is given) of an op that moves or makes elements."""

MOST_PLACES = 8
"""At how many places of a nest a value is computed. Slices and concats multiply them: one layer of
Longformer's attention had thousands, in 35 MB of code."""
LARGEST_INDEX = 40
"""Atoms in index expressions, for a value that is not in memory: it stands in all that follows."""


class Names:
    """Counts the variables of a kernel, so that each has a name of its own."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        self.last += 1
        return self.last


class Entangled(Unsupported):
    """A value is needed at too many places, or at one that is too hard to tell: it must lie in
    memory before."""

    def __init__(self, value: Value) -> None:
        super().__init__("one value is needed at too many places")
        self.value = value


@dataclass
class _Scope:
    """Where statements go: the innermost depth of the nest, or the inside of a fold."""

    names: dict[Element, Var]
    lets: list[Let]
    loops: tuple[Loop, ...]


class ElementBuilder:
    """Adds statements to a nest.

    `buffers` says which values lie in memory, under which name; `names` counts the variables of a
    kernel; `ops_of` gives the ops of the group that a node stands for; `halves` are two loops, an
    outer and an inner one, in place of one over which a fold goes.
    """

    def __init__(
        self,
        nest: Nest,
        target: Target,
        buffers: Mapping[Value, str],
        orders: Orders,
        access: Mapping[str, Access],
        names: Names,
        ops_of: Callable[[Node], Ops],
        halves: Mapping[Loop, tuple[Loop, Loop]],
    ) -> None:
        self.nest = nest
        self.target = target
        self.buffers = buffers
        self.orders = orders
        self.access = access
        self.names = names
        self.ops_of = ops_of
        self.halves = halves
        self.given: dict[Value, Var] = {}  # values that the surrounding code holds in a variable
        self._scopes: list[_Scope] = [_Scope({}, [], tuple(nest.loops))]
        self._folds: dict[Element, Var] = {}
        self._places: dict[Value, set[tuple[Index, ...]]] = {}

    # --------------------------------------------------------------------------------------- public
    def element(self, value: Value, index: tuple[Index, ...]) -> Var:
        """The variable that holds an element; its statements are added on the way."""
        stack: list[tuple[Element, Steps]] = []
        wanted: Element = (value, index)
        while True:
            known = self._known(wanted)
            if known is not None and not stack:
                return known
            try:
                if known is None:
                    stack.append((wanted, self._steps(*wanted)))
                    wanted = next(stack[-1][1])
                else:
                    wanted = stack[-1][1].send(known)
            except StopIteration as done:
                wanted = stack.pop()[0]
                self._bind(wanted, done.value)

    def store(
        self, buffer: str, value: Value, index: tuple[Index, ...], reshapes: Sequence[Node] = ()
    ) -> None:
        """Compute an element and write it to its place in a buffer, that of any reshape of it."""
        var = self.element(value, index)
        where = position(value, index, self.orders)
        scope = self._scopes[0]
        ops = (*self.ops_of(value.node), *(op for node in reshapes for op in self.ops_of(node)))
        self.nest.depth[-1] += [*scope.lets, Store(buffer, where, var, value.type.dtype, ops)]
        scope.lets = []

    def value_in(self, name: str) -> Value | None:
        """The value of which a variable of the innermost loop holds an element at a place that does
        not come from data."""
        return next(
            (
                value
                for (value, index), var in self._scopes[0].names.items()
                if var.name == name
                and not any(isinstance(a, Checked) for i in index for a in i.atoms())
            ),
            None,
        )

    # ------------------------------------------------------------------------------------- internal
    def _known(self, element: Element) -> Var | None:
        """Only the current scope counts: a fold stands before what its user has computed so far."""
        if element[0] in self.given:
            return self.given[element[0]]
        return self._folds.get(element) or self._scopes[-1].names.get(element)

    def _bind(self, element: Element, value: Expr) -> None:
        if element in self._folds:
            return
        scope = self._scopes[-1]
        node = element[0].node
        if isinstance(value, Var):  # only moved: whatever computes the variable does that too
            scope.names[element] = value
            self.nest.moved.setdefault(value.name, []).extend(self.ops_of(node))
            return
        dtype = element[0].type.dtype
        name = f"t{self.names.next()}_"
        ops = () if isinstance(value, Load) else self.ops_of(node)
        scope.lets.append(Let(name, dtype, value, ops))
        scope.names[element] = Var(name, dtype)

    def _steps(self, value: Value, index: tuple[Index, ...]) -> Steps:
        node = value.node
        if value in self.buffers:
            return self._load(value, index)
        if node.op is CONSTANT:
            return self._literal(value)
        places = self._places.setdefault(value, set())
        places.add(index)
        if len(places) > MOST_PLACES or any(i.inner_size > LARGEST_INDEX for i in index):
            raise Entangled(value)
        name = node.op.name
        if name in self.access:
            return self.access[name](node, value.index, index)
        if name in self.target.folds:
            return self._folded(node, index)
        if node.op.kind is Kind.ELEMENTWISE and name in self.target.elementwise:
            return self._elementwise(node, index)
        raise Unsupported(f"{self.target.name} has no code for {name} inside a loop")

    def _load(self, value: Value, index: tuple[Index, ...]) -> Steps:
        yield from ()  # a load needs no other element
        return Load(self.buffers[value], position(value, index, self.orders), value.type.dtype)

    def _literal(self, value: Value) -> Steps:
        yield from ()  # a number needs no other element
        data = value.node.attrs["data"]
        if data is None or data.size != 1:
            raise Unsupported("a constant of several elements must lie in a buffer")
        dtype = value.type.dtype
        return Number(from_storage(data, dtype).reshape(-1)[0].item(), dtype)

    def _elementwise(self, node: Node, index: tuple[Index, ...]) -> Steps:
        args: list[Var] = []
        for operand in node.inputs:
            var = yield operand, broadcast_index(index, operand.type.shape)
            args += [var]
        return applied(node, *args)

    def _folded(self, node: Node, index: tuple[Index, ...]) -> Steps:
        """A reduction: a fold over fresh loops, at the least depth where its index is known."""
        if len(self._scopes) > 1 and any(
            i.depends_on(loop) for s in self._scopes[1:] for loop in s.loops for i in index
        ):
            raise Entangled(node.outputs[0])  # a reduction inside of another one
        if not all(i.is_affine for i in index):
            raise Entangled(node.outputs[0])  # a reduction at a computed place
        source, result = node.inputs[0], node.outputs[0]
        number = self.names.next()
        loops, inner = self._in_halves(*_fold_loops(node, index, f"r{number}_"))
        level = self.nest.level_of(lambda loop: any(i.depends_on(loop) for i in index))
        self._scopes.append(_Scope({}, [], tuple(loops)))
        element = yield source, inner
        lets = tuple(self._scopes.pop().lets)
        var = Var(f"acc{number}_", result.type.dtype)
        self.nest.depth[level].append(
            Fold(
                var.name, node.op.name, var.dtype, tuple(loops), Role.SERIAL, lets, element,
                self.ops_of(node),
            )
        )  # fmt: skip
        self._folds[result, index] = var
        return var

    def _in_halves(
        self, loops: list[Loop], inner: tuple[Index, ...]
    ) -> tuple[list[Loop], tuple[Index, ...]]:
        """Loops of a fold, and the index of its operand, where reshapes ask for parts of them."""
        split = next((x for x in loops if x in self.halves), None)
        while split is not None:
            first, second = self.halves[split]
            place = of(first) * second.extent + of(second)
            inner = tuple(i.at(split, place) for i in inner)
            at = loops.index(split)
            loops = [*loops[:at], first, second, *loops[at + 1 :]]
            split = next((x for x in loops if x in self.halves), None)
        return loops, inner


def applied(node: Node, *args: Expr) -> Apply:
    """A node of the graph as an op on elements."""
    attrs = tuple(node.attrs.items())
    return Apply(node.op.name, args, node.outputs[0].type.dtype, attrs)


def _fold_loops(
    node: Node, index: tuple[Index, ...], prefix: str
) -> tuple[list[Loop], tuple[Index, ...]]:
    """Loops over the axes that a reduction folds, and the index of its operand."""
    shape = node.inputs[0].type.shape
    axes = axes_of(node.attrs["axes"], len(shape))
    loops: list[Loop] = []
    inner: list[Index] = []
    kept = iter(index)
    for axis, size in enumerate(shape):
        if axis not in axes:
            inner.append(next(kept))
            continue
        if node.attrs["keepdims"]:
            next(kept)
        if size == 1:
            inner.append(ZERO)
        else:
            loops.append(Loop(f"{prefix}{axis}_", size))
            inner.append(of(loops[-1]))
    return loops, tuple(inner)


def broadcast_index(index: tuple[Index, ...], shape: Shape) -> tuple[Index, ...]:
    """The index of an operand that was broadcast: right-aligned, 0 where its size is 1."""
    aligned = index[len(index) - len(shape) :]
    return tuple([ZERO if size == 1 else i for i, size in zip(aligned, shape, strict=True)])
