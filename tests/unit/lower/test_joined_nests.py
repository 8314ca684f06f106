"""Parts of one output go through the loops that they have in common once."""

from glasshouse.ir.dtype import float32
from glasshouse.lower.joined_nests import joined
from glasshouse.lower.kernel.expr import Load, Var
from glasshouse.lower.kernel.index import Loop, of
from glasshouse.lower.kernel.statement import For, Let, Role, Statement, Store

ROWS, PLANES = Loop("i0_", 8), Loop("i1_", 3)
SHORT, LONG = Loop("i2_", 4), Loop("i2_", 40)
SERIAL, PARALLEL, VECTOR = Role.SERIAL, Role.PARALLEL, Role.VECTOR


def nest(*loops: tuple[Loop, Role], reads: str = "x0", writes: str = "y0") -> Statement:
    """Loops, outermost first, around a copy of an element."""
    at = sum((of(loop) for loop, _ in loops), of(Loop("k_", 1)))
    body: tuple[Statement, ...] = (
        Let(f"t{id(loops)}_", float32, Load(reads, at, float32)),
        Store(writes, at, Var(f"t{id(loops)}_", float32), float32),
    )
    for loop, role in reversed(loops):
        body = (For(loop, role, body),)
    return body[0]


def inside(statement: Statement) -> tuple[Statement, ...]:
    assert isinstance(statement, For)
    return statement.body


def test_all_common_loops_are_gone_through_once() -> None:
    parts = [
        nest((ROWS, PARALLEL), (PLANES, SERIAL), (last, SERIAL)) for last in (SHORT, LONG, SHORT)
    ]
    (one,) = joined([[part] for part in parts])
    (planes,) = inside(one)
    assert [s.loop for s in inside(planes) if isinstance(s, For)] == [SHORT, LONG, SHORT]


def test_rows_of_other_numbers_stay_apart() -> None:
    parts = [nest((last, PARALLEL), (ROWS, SERIAL)) for last in (SHORT, LONG)]
    assert joined([[part] for part in parts]) == parts


def test_loops_that_threads_share_stay_directly_inside_of_each_other() -> None:
    shared = [nest((ROWS, PARALLEL), (last, PARALLEL)) for last in (SHORT, LONG)]
    assert joined([[part] for part in shared]) == shared
    deeper = [nest((ROWS, PARALLEL), (PLANES, PARALLEL), (x, SERIAL)) for x in (SHORT, LONG)]
    (one,) = joined([[part] for part in deeper])
    (planes,) = inside(one)
    assert len(inside(planes)) == 2


def test_vectors_and_roles_are_kept() -> None:
    over = [nest((ROWS, VECTOR)), nest((ROWS, VECTOR))]
    assert joined([[part] for part in over]) == over
    unlike = [nest((ROWS, SERIAL), (SHORT, SERIAL)), nest((ROWS, PARALLEL), (LONG, SERIAL))]
    assert joined([[part] for part in unlike]) == unlike


def test_what_reads_the_part_before_comes_behind_all_of_it() -> None:
    first = nest((ROWS, PARALLEL), (SHORT, SERIAL))
    second = nest((ROWS, PARALLEL), (LONG, SERIAL), reads="y0", writes="y1")
    assert joined([[first], [second]]) == [first, second]
    two = [nest((ROWS, PARALLEL), (LONG, SERIAL)), nest((ROWS, PARALLEL), (SHORT, SERIAL))]
    assert joined([[first], two]) == [first, *two]  # one that was split in two is left
