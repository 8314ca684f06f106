"""Decides the statements that compute one element of a fused group, from its loads to its stores.

Each element that is needed, a value at an index, becomes one statement, made once. What an
element needs in turn is found by `access` (injective ops), by the target's spelling (elementwise
ops) or by a fold (reductions). The walk is a trampoline over generators, so depth costs no stack.

In a vector nest a statement computes a vector of neighbours along the innermost loop; what has no
vector form raises `NotVector`, and the nest is built again with single elements.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass

from glasshouse.errors import Unsupported
from glasshouse.ir.dtype import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    from_storage,
    int8,
    uint8,
)
from glasshouse.ir.graph import Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ir.sources import CONSTANT
from glasshouse.ir.types import Shape
from glasshouse.lower.cxx import C_TYPE, COMPUTE_TYPE, number_text
from glasshouse.lower.index import ZERO, Computed, Index, Loop, of
from glasshouse.lower.nest import Fold, Nest
from glasshouse.lower.order import Orders, position
from glasshouse.lower.target import Target
from glasshouse.ops.shapes import axes_of

Element = tuple[Value, tuple[Index, ...]]
Steps = Generator[Element, str, str]
"""Yields the elements that it needs, is sent their names, returns the expression."""

Access = Callable[["ScalarCode", Node, int, tuple[Index, ...]], Steps]

_HALVES = (bfloat16, float16)
_VECTOR_TYPE: dict[DType, str] = {
    float32: "gh::vf",
    bfloat16: "gh::vf",
    float16: "gh::vf",
    int8: "gh::vf",  # between memory and (de)quantizing only: arithmetic on them would not wrap
    uint8: "gh::vf",
    bool_: "gh::vm",
}
_BYTES = (int8, uint8)
_MOVERS = ("reshape", "permute", "rearrange", "expand", "barrier")


MOST_PLACES = 8
"""At how many places of a nest a value is computed. Slices and concats multiply them: one layer of
Longformer's attention had thousands, in 35 MB of code."""
LONGEST_INDEX = 400
"""Letters of a computed index, for a value that is not in memory: it stands in all that follows."""


class NotVector(Exception):
    """Something in the group has no vector form."""


class Entangled(Unsupported):
    """A value is needed at too many places, or at one that is too hard to tell: it must lie in
    memory before."""

    def __init__(self, value: Value) -> None:
        super().__init__("one value is needed at too many places")
        self.value = value


@dataclass
class _Scope:
    """Where statements go: the innermost depth of the nest, or the inside of a fold."""

    names: dict[Element, str]
    lines: list[str]
    loops: tuple[Loop, ...]

    @property
    def innermost(self) -> Loop | None:
        return self.loops[-1] if self.loops else None


class ScalarCode:
    """Emits statements into a nest. `buffers` says which values lie in memory, under which name."""

    def __init__(
        self,
        nest: Nest,
        target: Target,
        buffers: Mapping[Value, str],
        orders: Orders,
        access: Mapping[str, Access],
    ) -> None:
        self.nest = nest
        self.target = target
        self.buffers = buffers
        self.orders = orders
        self.access = access
        self.given: dict[Value, str] = {}  # values that the surrounding code holds in a variable
        self._count = 0
        self._scopes: list[_Scope] = [_Scope({}, [], tuple(nest.loops))]
        self._hoisted: dict[Element, str] = {}
        self._places: dict[Value, set[tuple[Index, ...]]] = {}

    @property
    def vector(self) -> bool:
        """Whether a statement that is made now computes a vector."""
        if len(self._scopes) == 1:
            return self.nest.vector
        return self.nest.fold_vector or self.nest.along

    # --------------------------------------------------------------------------------------- public
    def element(self, value: Value, index: tuple[Index, ...]) -> str:
        """The name of the variable that holds an element; its statements are emitted on the way."""
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

    def store(self, buffer: str, value: Value, index: tuple[Index, ...]) -> None:
        """Compute an element and write it to its place in a buffer."""
        name = self.element(value, index)
        where = position(value, index, self.orders)
        place = self.nest.slot(where)
        dtype = value.type.dtype
        if not self.vector:
            narrow = f"gh::from_scalar<{C_TYPE[dtype]}>({name})" if dtype in _HALVES else name
            self._flush(f"{buffer}[{place}] = {narrow};")
        elif self._reach(where) != 1 or (dtype in _BYTES and not _is_quantized(value)):
            raise NotVector
        else:
            verb = "gh::store_mask" if dtype is bool_ else "gh::store"
            self._flush(f"{verb}({buffer} + {place}, {name}, t);")

    def number(self, number: float | int | bool, dtype: DType) -> str:
        """A number as an element, or as a vector of equal elements."""
        text = number_text(number, dtype)
        if not self.vector:
            return text
        return f"gh::splat({text})" if dtype is bool_ else f"gh::vf({text})"

    def scalars_only(self) -> None:
        """Say that what follows has no vector form."""
        if self.vector:
            raise NotVector

    # ------------------------------------------------------------------------------------- internal
    def _flush(self, last: str) -> None:
        scope = self._scopes[0]
        self.nest.depth[-1] += [*scope.lines, last]
        scope.lines = []

    def _fresh(self) -> str:
        self._count += 1
        return f"t{self._count}_"

    def _known(self, element: Element) -> str | None:
        """Only the current scope counts: a fold stands before what its user has computed so far."""
        if element[0] in self.given:
            return self.given[element[0]]
        folded = self._hoisted.get(element)
        if folded is not None:
            return f"gh::vf({folded})" if self.vector and not self.nest.along else folded
        return self._scopes[-1].names.get(element)

    def _bind(self, element: Element, expression: str) -> None:
        if element in self._hoisted:
            return
        scope = self._scopes[-1]
        name = self._fresh()
        scope.lines.append(f"const {self._type_of(element[0].type.dtype)} {name} = {expression};")
        scope.names[element] = name

    def _type_of(self, dtype: DType) -> str:
        if not self.vector:
            return COMPUTE_TYPE[dtype]
        if dtype not in _VECTOR_TYPE:
            raise NotVector
        return _VECTOR_TYPE[dtype]

    def _reach(self, where: Index) -> int:
        """How far apart neighbours along the vector loop lie: 0 or 1; else there is no vector."""
        loop = self._scopes[0 if self.nest.along else -1].innermost
        if loop is None:
            return 0
        step = where.coefficient(loop)
        if step not in (0, 1) or any(isinstance(a, Computed) for a, _ in where.terms):
            raise NotVector
        return int(step == 1)

    def _steps(self, value: Value, index: tuple[Index, ...]) -> Steps:
        node = value.node
        if value in self.buffers:
            return self._load(value, index)
        if node.op is CONSTANT:
            return self._literal(value)
        places = self._places.setdefault(value, set())
        places.add(index)
        if len(places) > MOST_PLACES or any(i.computed_letters > LONGEST_INDEX for i in index):
            raise Entangled(value)
        if node.op.name in self.access:
            return self.access[node.op.name](self, node, value.index, index)
        if node.op.name in self.target.folds:
            return self._folded(node, index)
        if node.op.kind is Kind.ELEMENTWISE and node.op.name in self.target.spell:
            return self._elementwise(node, index)
        raise Unsupported(f"{self.target.name} has no code for {node.op.name} inside a loop")

    def _load(self, value: Value, index: tuple[Index, ...]) -> Steps:
        yield from ()  # a load needs no other element
        where = position(value, index, self.orders)
        place = self.nest.slot(where)
        buffer, dtype = self.buffers[value], value.type.dtype
        if not self.vector:
            text = f"{buffer}[{place}]"
            return f"gh::to_scalar({text})" if dtype in _HALVES else text
        if dtype not in _VECTOR_TYPE:
            raise NotVector
        if self._reach(where):
            return f"gh::{'load_mask' if dtype is bool_ else 'load'}({buffer} + {place}, t)"
        if dtype is bool_:
            return f"gh::splat({buffer}[{place}])"
        return f"gh::vf(gh::to_scalar({buffer}[{place}]))"

    def _literal(self, value: Value) -> Steps:
        yield from ()  # a number needs no other element
        data = value.node.attrs["data"]
        if data is None or data.size != 1:
            raise Unsupported("a constant of several elements must lie in a buffer")
        return self.number(
            from_storage(data, value.type.dtype).reshape(-1)[0].item(), value.type.dtype
        )

    def _elementwise(self, node: Node, index: tuple[Index, ...]) -> Steps:
        if self.vector and not self._has_vector_form(node):
            raise NotVector
        names: list[str] = []
        for operand in node.inputs:
            name = yield operand, broadcast_index(index, operand.type.shape)
            names += [name]
        return self.target.spell[node.op.name](node, names)

    def _has_vector_form(self, node: Node) -> bool:
        dtypes = {v.type.dtype for v in (*node.inputs, *node.outputs)}
        if node.op.name in self.target.scalar_only or not dtypes <= {*_HALVES, float32, bool_}:
            return False
        return bool_ not in dtypes or node.op.name in self.target.on_masks

    def _folded(self, node: Node, index: tuple[Index, ...]) -> Steps:
        """A reduction: a fold over fresh loops, at the least depth where its index is known."""
        if len(self._scopes) > 1 and any(
            i.depends_on(loop) for s in self._scopes[1:] for loop in s.loops for i in index
        ):
            raise Unsupported("a reduction inside another one needs a kernel of its own")
        if any(isinstance(a, Computed) for i in index for a, _ in i.terms):
            raise Unsupported("a reduction at a computed place needs a kernel of its own")
        source, result = node.inputs[0], node.outputs[0]
        spelling = self.target.folds[node.op.name]
        self._count += 1
        loops, inner = _fold_loops(node, index, f"r{self._count}_")
        vector = self.nest.fold_vector
        level = self.nest.level_of(lambda loop: any(i.depends_on(loop) for i in index))
        if self.nest.vector and (level == len(self.nest.loops)) != self.nest.along:
            raise NotVector  # inside of the loop over vectors stand only folds along its lanes
        if (vector or self.nest.along) and (
            not loops or not spelling.lanes or result.type.dtype not in (*_HALVES, float32)
        ):
            raise NotVector
        name = f"acc{self._count}_"
        self._scopes.append(_Scope({}, [], tuple(loops)))
        element = yield source, inner
        lines = self._scopes.pop().lines
        start, ctype = spelling.start(result.type.dtype), COMPUTE_TYPE[result.type.dtype]
        if self.nest.along:
            lanes = name + "v[u_]"
            inside = [*lines, f"{lanes} = {spelling.step(lanes, element)};"]
            fold = Fold(loops, [f"gh::vf({start})"], inside, [], False, lanes=name)
        elif vector:
            lanes = name + "v"
            begin = [f"gh::vf {lanes}({start});"]
            inside = [*lines, f"{lanes} = gh::merge(t, {lanes}, {spelling.step(lanes, element)});"]
            fold = Fold(
                loops, begin, inside, [f"const float {name} = {spelling.lanes}({lanes});"], True
            )
        else:
            inside = [*lines, f"{name} = {spelling.step(name, element)};"]
            pragma = spelling.pragma.format(acc=name) if loops else ""
            fold = Fold(loops, [f"{ctype} {name} = {start};"], inside, [], False, pragma)
        self.nest.depth[level].append(fold)
        self._hoisted[result, index] = name
        return name


def _is_quantized(value: Value) -> bool:
    """Whether bytes are made here: copies of bytes are faster as they are than through floats."""
    while value.node.op.name in _MOVERS:
        value = value.node.inputs[0]
    return value.node.op.name == "quantize"


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
    return tuple(ZERO if size == 1 else i for i, size in zip(aligned, shape, strict=True))
