"""Renders the innermost statements of a body: for one element, or for several neighbours along a
loop, whose loads and stores then move up to 16 bytes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from glasshouse.backend.cxx.elements import Elements
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import C_TYPE, index_text, unless_empty
from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import NARROW
from glasshouse.lower.kernel.expr import Apply, Choose, Expr, Load, Position, Var
from glasshouse.lower.kernel.index import GUARDED, Checked, Derived, Index, Loop
from glasshouse.lower.kernel.statement import Let, Parts, Statement, Store

WIDEST = 8
"""Neighbours that one thread computes at most."""


def most_neighbours(statements: Iterable[Statement], loop: Loop, limit: int = WIDEST) -> int:
    """How many neighbours along a loop can be computed together: a power of two."""
    accesses = list(_accesses(statements))
    chain = _chain(statements, loop)
    count = limit
    while count > 1:
        moved = [size for index, size in accesses if together(index, chain[-1], count)]
        whole = all(isinstance(x.extent, int) and x.extent % count == 0 for x in chain)
        if whole and moved and max(moved) * count <= 16:
            return count
        count //= 2
    return 1


def _accesses(statements: Iterable[Statement]) -> Iterable[tuple[Index, int]]:
    for s in statements:
        if isinstance(s, Store):
            yield s.index, s.dtype.itemsize
        elif isinstance(s, Let) and isinstance(s.value, Load):
            yield s.value.index, s.value.dtype.itemsize


def together(index: Index, loop: Loop, count: int) -> bool:
    """Whether `count` neighbours along the loop lie together, aligned to their number."""
    if index.coefficient(loop) != 1 or any(loop in _inside(a) for a, _ in index.terms if a != loop):
        return False
    rest: list[Dim] = [c for a, c in index.terms if a != loop]
    return all(isinstance(c, int) and c % count == 0 for c in (*rest, index.constant))


def _inside(atom: object) -> Iterable[Loop]:
    index = getattr(atom, "index", None)
    return [a for a in index.atoms() if isinstance(a, Loop)] if isinstance(index, Index) else []


def put_body(
    out: KernelText,
    statements: Sequence[Statement],
    loop: Loop | None,
    count: int,
    index: str = "int",
    given: Callable[[], None] | None = None,
    last: Callable[[Elements], None] | None = None,
    early: Sequence[Let] = (),
    held: Callable[[Let], str | None] = lambda let: None,
) -> None:
    """Statements for `count` neighbours from the loop's variable on; `given` writes lines that
    stand before, `last` lines behind the statements, both for each neighbour. What is loaded
    `early` (`put_loads`) is in `loaded_`; `held` tells where the neighbours of a load are already.
    """
    one = Elements()
    if count == 1 or loop is None:
        if given is not None:
            given()
        for s in statements:
            at = next((i for i, x in enumerate(early) if x is s), None)
            if at is None or not isinstance(s, Let):
                one.put(out, s)
            else:
                out.add(
                    f"const auto {s.name} = {_element(f'gh::get<{at}>(loaded_)[0]', s)};", s.ops
                )
        if last is not None:
            last(one)
        return
    names = _chain(statements, loop)
    inner = names[-1]
    loaded: dict[str, str] = {}
    stored: list[Store] = []
    same = _same_for_all(statements, names)
    first: set[str] = set()  # bound once, before the neighbours
    for s in statements:
        if isinstance(s, Parts):
            one.put(out, s)
        if (
            isinstance(s, Let)
            and isinstance(s.value, Load)
            and _is_run(s.value.index, inner, count)
        ):
            gathered = _bound_here(statements, _checked(s.value.index))
            if not gathered <= same.keys():
                continue  # the neighbours of one are not those of the next
            for let in same.values():
                if let.name not in first and let.name in _needed(gathered, same):
                    one.put(out, let)
                    first.add(let.name)
            name = f"{s.name}v"
            at = next((i for i, x in enumerate(early) if x is s), None)
            text = _load(s, inner, count) if at is None else f"gh::get<{at}>(loaded_)"
            text = held(s) or text
            out.add(f"const auto {name} = {text};", s.ops)
            loaded[s.name] = name
    for s in statements:
        if isinstance(s, Store) and together(s.index, inner, count):
            out.add(f"gh::Vec<{C_TYPE[s.dtype]}, {count}> {_made(s, stored)};", s.ops)
            stored.append(s)
    for x in names:
        out.add(f"const {index} {x.name}first_ = {x.name};")
    out.pragma("#pragma unroll")
    with out.block(f"for (int u_ = 0; u_ < {count}; ++u_) {{", "}"):
        for x in names:
            out.add(f"const {index} {x.name} = {x.name}first_ + u_;")
        if given is not None:
            given()
        for s in statements:
            if isinstance(s, Parts) and s.inner in names:
                continue  # known: the part of the first one, moved on
            if isinstance(s, Let) and s.name in first:
                continue
            if isinstance(s, Let) and s.name in loaded:
                text = _element(f"{loaded[s.name]}[u_]", s)
                out.add(f"const auto {s.name} = {text};", s.ops)
            elif any(s is x for x in stored):
                assert isinstance(s, Store)
                value = one.stored(out, s)
                narrow = f"gh::from_scalar<{C_TYPE[s.dtype]}>({value})"
                text = narrow if s.dtype in NARROW else value
                out.add(f"{_made(s, stored)}[u_] = {text};", s.ops)
            else:
                one.put(out, s)
        if last is not None:
            last(one)
    for s in stored:
        # Outside of the loop over neighbours, variables are those of the first.
        out.add(f"gh::store_vec({s.buffer} + {index_text(s.index)}, {_made(s, stored)});", s.ops)


def _element(text: str, let: Let) -> str:
    """One of what was loaded together, as it is computed with."""
    return f"gh::to_scalar({text})" if let.dtype in NARROW else text


def early_loads(
    statements: Sequence[Statement], loop: Loop, count: int, single: bool = False
) -> list[Let]:
    """Loads of neighbours, or with `single` of one element, whose position is known from the loops
    alone."""
    inner = _chain(statements, loop)[-1]
    return [
        s
        for s in statements
        if (count > 1 or single) and isinstance(s, Let) and isinstance(s.value, Load)
        if (count == 1 or _is_run(s.value.index, inner, count)) and not _checked(s.value.index)
    ]  # fmt: skip


def put_loads(
    out: KernelText,
    statements: Sequence[Statement],
    early: Sequence[Let],
    loop: Loop,
    count: int,
    beside: str = "",
) -> None:
    """Loads them, and gives them back together, with what `beside` loads behind them."""
    one, inner = Elements(), _chain(statements, loop)[-1]
    for s in statements:
        if isinstance(s, Parts):
            one.put(out, s)
        if any(s is x for x in early):
            assert isinstance(s, Let)
            out.add(f"const auto {s.name}v = {_load(s, inner, count)};", s.ops)
    names = [*(f"{s.name}v" for s in early), *([beside] if beside else [])]
    out.add(f"return gh::loaded({', '.join(names)});")


def _load(let: Let, loop: Loop, count: int) -> str:
    assert isinstance(let.value, Load)
    place = _guarded_as_run(let.value.index, loop, count)
    text = f"gh::load_vec<{count}>({let.value.buffer} + {index_text(place)})"
    none = f"gh::Vec<{C_TYPE[let.value.dtype]}, {count}>{{}}"
    return unless_empty(let.value.index, text, none)


def _is_run(index: Index, loop: Loop, count: int) -> bool:
    """Whether `count` neighbours are loaded together. Of what is guarded, a piece of a
    concatenation, a run is inside as a whole, or nobody asks for it."""
    if together(index, loop, count):
        return True
    inside = [(a, c) for a, c in index.terms if loop in _inside(a)]
    if len(inside) != 1 or index.coefficient(loop) != 0:
        return False
    ((atom, coefficient),) = inside
    if not isinstance(atom, Derived) or atom.how != GUARDED or coefficient != 1:
        return False
    sizes = (atom.size, index.constant, *(c for a, c in index.terms if a is not atom))
    even = all(isinstance(d, int) and d % count == 0 for d in sizes)
    return even and together(atom.index, loop, count)


def _guarded_as_run(index: Index, loop: Loop, count: int) -> Index:
    """The place of a run: the last inside is the one that ends with the piece."""
    terms = tuple(
        (replace(a, size=a.size - (count - 1)), c)
        if isinstance(a, Derived) and a.how == GUARDED and count > 1 and loop in _inside(a)
        else (a, c)
        for a, c in index.terms
    )
    return Index(terms, index.constant)


def _checked(index: Index) -> set[str]:
    """The variables that a position is read from."""
    return {a.name for a in index.atoms() if isinstance(a, Checked)}


def _bound_here(statements: Iterable[Statement], names: set[str]) -> set[str]:
    return {s.name for s in statements if isinstance(s, Let) and s.name in names}


def _reads(value: Expr) -> tuple[set[str], set[Loop]]:
    """The variables and the loops that an expression depends on."""
    variables, loops = set[str](), set[Loop]()
    pending: list[Expr] = [value]
    while pending:
        x = pending.pop()
        indexes: list[Index] = []
        if isinstance(x, Var):
            variables.add(x.name)
        elif isinstance(x, (Load, Position)):
            indexes.append(x.index)
        elif isinstance(x, Apply):
            pending += x.args
        elif isinstance(x, Choose):
            pending += (x.then, x.otherwise)
            indexes += [side for c in x.conditions for side in (c.left, c.right)]
        for index in indexes:
            variables |= _checked(index)
            loops |= {a for a in index.atoms() if isinstance(a, Loop)}
    return variables, loops


def _same_for_all(statements: Iterable[Statement], names: Sequence[Loop]) -> dict[str, Let]:
    """What has one value for all neighbours along the loops, by name and in order."""
    moving, out = set[str](), dict[str, Let]()
    along = {*names}
    for s in statements:
        if isinstance(s, Parts):
            along |= {s.outer, s.inner}
        elif isinstance(s, Let):
            variables, loops = _reads(s.value)
            if variables & moving or loops & along:
                moving.add(s.name)
            else:
                out[s.name] = s
    return out


def _needed(wanted: set[str], same: Mapping[str, Let]) -> set[str]:
    """Variables with all that they are computed from, as far as it is among `same`."""
    out, pending = set[str](), list(wanted)
    while pending:
        name = pending.pop()
        if name in same and name not in out:
            out.add(name)
            pending += _reads(same[name].value)[0]
    return out


def _made(store: Store, stored: Sequence[Store]) -> str:
    """The variable that collects what is stored."""
    at = next((i for i, s in enumerate(stored) if s is store), len(stored))
    return f"out{at}v"


def _chain(statements: Iterable[Statement], loop: Loop) -> list[Loop]:
    """The loop, the inner part of it where it is divided, the inner part of that ..."""
    chain = [loop]
    for s in statements:
        if isinstance(s, Parts) and s.loop == chain[-1]:
            chain.append(s.inner)
    return chain
