"""Gives each loop of a nest its role, from the target's facts: which go over vectors, and which are
shared among threads.

Vectors run over the innermost loop of the nest and over the innermost loops of its folds; or over
that of the nest alone, where each lane folds elements of its own; or over those of the folds alone,
whose results are brought together one by one where much is computed with them; or over the loop
around the innermost one, where elements lie side by side along it alone (a softmax over channels of
planes); or nowhere. What is best is tried first, and what has no vector form decides. Where
elements do not lie side by side but much is computed with them, their lanes are filled one by one.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace

from glasshouse.ir.dim import Dim, bounds, product
from glasshouse.ir.op import REGISTRY, Kind
from glasshouse.lower.kernel.expr import Apply, Choose, Load, Number, Var
from glasshouse.lower.kernel.index import Checked, Index, Loop
from glasshouse.lower.kernel.queries import alike_along, depends, is_same_along, variables
from glasshouse.lower.kernel.statement import Fold, Let, Role, Store
from glasshouse.lower.nest import Inner, Nest
from glasshouse.lower.target import Target

SHORT = 16
"""Turns of an outermost loop that are too few to be shared evenly."""

FEW_LANES = 4
"""Turns of a loop from which a vector that is mostly empty is faster than one after the other."""

MUCH = 12
"""Operations on an element (one exponential) from which vectors pay whose lanes are filled one by
one: a gate of tanh and sigmoid over channels that lie apart took 34 ns an element, and takes 5."""


def assign(nest: Nest, target: Target) -> tuple[list[Role], Role]:
    """The roles of the nest's loops, outermost first, and that of its folds' innermost loops."""
    roles = [Role.SERIAL] * len(nest.loops)
    _share(nest, target, roles)
    of_folds = Role.SERIAL
    folds = nest.folds
    folds_have_vectors = all(_fold_has_vectors(f, f.loops[-1:], target) for f in folds)
    one_by_one = bool(nest.loops) and nest_has_vectors(nest, target)
    if not one_by_one and not folds_have_vectors and _lanes_lie_around(nest, target):
        nest.lift()
        _give_vectors(roles, -2)
        return roles, of_folds
    if not one_by_one and nest.loops and _computes_much(nest):
        one_by_one = nest_has_vectors(nest, target, by_lanes=True)
    if _folds_are_short(nest, folds, target):
        one_by_one = True
    elif folds and folds_have_vectors:
        of_folds = Role.VECTOR
        here = [isinstance(s, Fold) for s in nest.depth[-1]]
        # Vectors of what folds give pay where much follows; then folds come before all else.
        follows = sorted(here, reverse=True) == here and _computes_much(nest)
        one_by_one = one_by_one and (follows or not any(here))
    elif any(isinstance(s, Fold) for s in nest.depth[-1]):
        one_by_one = one_by_one and _folds_by_lane(nest, folds, target)
    if one_by_one:
        _give_vectors(roles, -1)
    return roles, of_folds


def _give_vectors(roles: list[Role], at: int) -> None:
    roles[at] = Role.PARALLEL_VECTOR if roles[at].is_parallel else Role.VECTOR


def _lanes_lie_around(nest: Nest, target: Target) -> bool:
    """Whether each lane along the loop around the innermost one can fold for itself, and go over
    the innermost loop itself. A log-softmax over 16 channels of 32 x 32, four images, took 480 us,
    and takes 25."""
    if len(nest.loops) < 2 or bounds(nest.loops[-2].extent)[1] < FEW_LANES:
        return False
    around, loop = nest.depth[-2], nest.loops[-2]
    inside = [s for s in nest.depth[-1] if not isinstance(s, Fold)]
    return (
        bool(around)
        and all(isinstance(s, Fold) and _fold_has_vectors(s, [loop], target) for s in around)
        and len(inside) == len(nest.depth[-1])
        and _have_vectors(inside, loop, target)
    )


def nest_has_vectors(nest: Nest, target: Target, by_lanes: bool = False) -> bool:
    """Whether the innermost statements, folds not counted, can compute neighbours side by side;
    `by_lanes`: also where elements have to be brought together one by one."""
    plain = [s for s in nest.depth[-1] if not isinstance(s, Fold)]
    return _have_vectors(plain, nest.loops[-1], target, by_lanes)


def can_fold_by_lane(nest: Nest, target: Target) -> bool:
    """Whether each lane could fold for itself, if what it reads lay side by side."""
    return (
        bounds(nest.loops[-1].extent)[0] >= target.widest
        and nest_has_vectors(nest, target)
        and _folds_by_lane(nest, nest.folds, target, by_lanes=True)
    )


def _computes_much(nest: Nest) -> bool:
    return sum(map(cost_of, nest.depth[-1])) >= MUCH


def cost_of(s: Inner) -> float:
    """Operations that a statement computes for an element."""
    value = s.value if isinstance(s, Let) else None
    return REGISTRY[value.op].traits.cost or 1.0 if isinstance(value, Apply) else 0.0


def held_up_by(nest: Nest, target: Target) -> tuple[str, bool] | None:
    """A variable without which the innermost loop could go over vectors: an element at an index
    from data, or a test of integers. In memory it would be an operand like others. And whether that
    loop computes an exponential or the like.
    """
    innermost = nest.depth[-1]
    if not nest.loops or any(isinstance(s, Fold) for s in innermost):
        return None
    loop = nest.loops[-1]
    inner = {s.name for s in innermost if isinstance(s, Let)}
    read: set[str] = set()  # by what can go over vectors
    stored: set[str] = set()
    found: str | None = None
    costly = False
    for s in reversed(innermost):
        if isinstance(s, Store):
            if not _have_vectors([s], loop, target):
                return None
            stored |= variables(s.value)
        elif isinstance(s, Let) and s.name in read | stored:
            if _has_vector_form(s, loop, target, by_lanes=True) and not _reads_at(s, inner):
                read |= variables(s.value)
                costly = costly or cost_of(s) >= MUCH
            elif s.name in stored:
                return None
            else:
                found = s.name
    return (found, costly) if found else None


def _share(nest: Nest, target: Target, roles: list[Role]) -> None:
    """Threads share the outermost loop where that pays, or two: a batch that may be 1 feeds one."""
    if not nest.loops or bounds(work_of(nest))[1] < target.parallel_from:
        return
    roles[0] = Role.PARALLEL
    if len(nest.loops) < 2 or isinstance(nest.loops[0].extent, int) or nest.depth[1]:
        return
    outer, inner = (bounds(loop.extent)[0] for loop in nest.loops[:2])
    if outer < SHORT and inner > 0:
        roles[1] = Role.PARALLEL


def work_of(nest: Nest) -> Dim:
    """How many elements the loops compute, folds inside of them counted in."""
    total = product(tuple(loop.extent for loop in nest.loops))
    for level, statements in enumerate(nest.depth[1:], 1):
        around = product(tuple(loop.extent for loop in nest.loops[:level]))
        for s in statements:
            if isinstance(s, Fold):
                total = total + around * product(tuple(loop.extent for loop in s.loops))
    return total


def _folds_are_short(nest: Nest, folds: list[Fold], target: Target) -> bool:
    """Whether folds are over so few elements that vectors of them would be mostly empty, and each
    lane can fold for itself instead, its elements brought together one by one: distances of points
    in 3 or 4 dimensions take half the time; in 8 they would take longer."""
    if not folds or not nest.loops or bounds(nest.loops[-1].extent)[0] < target.widest:
        return False
    few = all(
        len(f.loops) == 1 and bounds(f.loops[0].extent)[1] <= target.widest // 4 for f in folds
    )
    return (
        few
        and nest_has_vectors(nest, target, by_lanes=True)
        and _folds_by_lane(nest, folds, target, by_lanes=True)
    )


def _folds_by_lane(nest: Nest, folds: list[Fold], target: Target, by_lanes: bool = False) -> bool:
    """Whether each lane can fold for itself, with no fold computed again and again for a loop that
    it does not depend on; folds come before all else."""
    kinds = [isinstance(s, Fold) for s in nest.depth[-1]]
    return (
        sum(kinds) == len(folds)
        and sorted(kinds, reverse=True) == kinds
        and all(any(_varies(nest, f, level) for f in folds) for level in range(len(nest.loops)))
        and all(_has_lanes(f, folds, nest.loops[-1], target, by_lanes) for f in folds)
    )


def _varies(nest: Nest, fold: Fold, level: int) -> bool:
    """Whether a fold changes with a loop: by what it reads there, or by what was read before it."""
    made = {s.name for s in nest.depth[level + 1] if isinstance(s, Let)}
    return depends(fold, nest.loops[level]) or any(
        not made.isdisjoint(variables(let.value)) for let in fold.body
    )


def _has_lanes(
    fold: Fold, folds: Iterable[Fold], loop: Loop, target: Target, by_lanes: bool
) -> bool:
    """Whether neighbours along a loop around folds are folded side by side. What is the same for
    all of them needs no vector: the place of a row in a table is found once, and the row read as it
    lies. Means of 30 rows of 32 columns, for 256 users, took 1.1 ms, and take 0.08."""
    alike = alike_along(fold.body, loop, [f.name for f in folds])
    own = tuple(let for let in fold.body if let not in alike)
    return _fold_has_vectors(replace(fold, body=own), (loop,), target, by_lanes)


def _fold_has_vectors(
    fold: Fold, along: Iterable[Loop], target: Target, by_lanes: bool = False
) -> bool:
    """Whether a fold can take in neighbours along a loop side by side."""
    vectors = target.vectors
    if not fold.loops or fold.op not in vectors.folds:
        return False
    is_mask = fold.dtype is vectors.mask and fold.op in vectors.on_masks
    if not is_mask and fold.dtype not in vectors.arithmetic:
        return False
    return all(_have_vectors(fold.body, loop, target, by_lanes) for loop in along)


def _have_vectors(
    statements: Iterable[Let | Store], loop: Loop, target: Target, by_lanes: bool = False
) -> bool:
    made_here: dict[str, Let] = {}
    for s in statements:
        if isinstance(s, Store):
            if s.dtype not in target.vectors.elements:
                return False
            if _step(s.index, loop) != 1 and not by_lanes:
                return False
            if not _keeps_bytes(s, made_here, target):
                return False
        elif not _has_vector_form(s, loop, target, by_lanes) or _reads_at(s, made_here):
            return False
        else:
            made_here[s.name] = s
    return True


def _has_vector_form(let: Let, loop: Loop, target: Target, by_lanes: bool) -> bool:
    vectors = target.vectors
    if let.dtype not in vectors.elements:
        return False
    value = let.value
    if isinstance(value, Load):
        return by_lanes or _step(value.index, loop) is not None
    if isinstance(value, Choose):
        return _choice_has_vectors(value, loop, by_lanes)
    if isinstance(value, Apply):
        return _op_has_vectors(value, target)
    return isinstance(value, (Number, Var))


def _reads_at(let: Let, made_here: Container[str]) -> bool:
    """Whether an element lies at an index from data that is another one for each neighbour."""
    value = let.value
    return isinstance(value, Load) and any(
        isinstance(a, Checked) and a.name in made_here for a in value.index.atoms()
    )


def _choice_has_vectors(value: Choose, loop: Loop, by_lanes: bool) -> bool:
    """A choice that is the same for neighbours takes one vector or the other; one that is not, its
    lanes one by one."""
    parts = (value.then, value.otherwise)
    if is_same_along(value, loop):
        return all(
            _choice_has_vectors(v, loop, False)
            if isinstance(v, Choose)
            else isinstance(v, (Number, Var))
            for v in parts
        )
    return by_lanes and all(isinstance(v, (Number, Var)) for v in parts)


def _op_has_vectors(value: Apply, target: Target) -> bool:
    vectors = target.vectors
    if any(a.dtype not in vectors.elements for a in value.args):
        return False
    if value.op in ("quantize", "dequantize"):
        return value.op == "dequantize" or value.dtype in vectors.bytes
    if value.op in vectors.scalar_only or REGISTRY[value.op].kind is not Kind.ELEMENTWISE:
        return False
    dtypes = {value.dtype, *(a.dtype for a in value.args)}
    masks = dtypes - vectors.arithmetic
    return not masks or (masks == {vectors.mask} and value.op in vectors.on_masks)


def _step(index: Index, loop: Loop) -> int | None:
    """How far apart neighbours along the loop lie: 0 or 1; None: further, or nobody knows."""
    step = index.step(loop)
    return int(step == 1) if step in (0, 1) else None


def _keeps_bytes(store: Store, made_here: dict[str, Let], target: Target) -> bool:
    """Bytes go through vectors where they are made of real numbers: copies of bytes are faster as
    they are than through floats."""
    if store.dtype not in target.vectors.bytes:
        return True
    let = made_here.get(store.value.name) if isinstance(store.value, Var) else None
    return let is not None and isinstance(let.value, Apply) and let.value.op == "quantize"
