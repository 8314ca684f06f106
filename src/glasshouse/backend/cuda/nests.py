"""Renders loops and folds as functions of a grid.

Without folds, every element of the iteration space is a thread's. Otherwise a row, one turn of the
loops that the folds depend on, is shared by a warp or a block, whose threads fold together and then
go over the loops inside; or it is one thread's, where neighbouring rows are neighbours in memory;
or, where these are few and long (the gradient of a bias), a block takes some of them, so that its
threads read neighbours, and shares their terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from glasshouse.backend.cuda.chains import Chain, chain_of
from glasshouse.backend.cuda.elements import most_neighbours, put_body
from glasshouse.backend.cuda.held_rows import HeldRows, Pass, held_rows
from glasshouse.backend.cuda.text import CudaText
from glasshouse.backend.cxx.elements import Elements
from glasshouse.backend.cxx.spelling import FOLDS
from glasshouse.backend.cxx.words import COMPUTE_TYPE, size_text
from glasshouse.ir.dim import Dim, bounds, product
from glasshouse.lower.kernel.expr import Load
from glasshouse.lower.kernel.index import Loop
from glasshouse.lower.kernel.statement import Fold, Statement, Store

THREADS = 256
SMALL_ROW = 1024
"""Elements of a row up to which a warp is enough."""
TINY_ROW = 32
"""Elements of a row up to which a thread is."""
COLUMNS, LONG_COLUMN, COLUMN_THREADS = 16, 64, 1024
"""Rows that a block takes where they are neighbours: 32 bytes of half floats, which memory hands
over together; terms from which they are long; and its threads at most."""
ENOUGH_THREADS = 132 * 512
"""Threads that keep a large chip busy: fewer are not given several neighbours each."""

LONG_SUM = 128
"""Terms that a thread adds one after the other in float32; the sum of more is held in float64: a
float32 that a million terms were added to has lost ten of its 24 bits. Such a sum waits for memory,
also where float64 is slow."""

_ACROSS = {"sum": "Sum", "prod": "Prod", "max": "Max", "min": "Min", "any": "Any", "all": "All"}


def render_nests(out: CudaText, nests: Sequence[Sequence[Statement]]) -> None:
    """Nests that stand beside each other as one function."""
    chains = [chain_of(nest) for nest in nests]
    if not chains[0].fold_levels:
        _elementwise(out, chains)
    else:
        (chain,) = chains
        _folding(out, chain)


def _folding(out: CudaText, chain: Chain) -> None:
    levels = chain.fold_levels
    # Folds at several depths: the outermost ones are shared, the inner ones each thread's own.
    level = levels[0]
    if level == len(chain.loops) and _by_columns(chain, level):
        _columns(out, chain)
    elif level == len(chain.loops) and _by_thread(chain, level):
        _row_by_thread(out, chain)
    else:
        _shared_rows(out, chain, level)


# ------------------------------------------------------------------------------------ elementwise
def _elementwise(out: CudaText, chains: Sequence[Chain]) -> None:
    """The blocks of one nest behind those of another."""
    totals = [product(tuple(x.extent for x in chain.loops)) for chain in chains]
    counts = [_count(chain, total) for chain, total in zip(chains, totals, strict=True)]
    ends: list[Dim] = [0]
    for total, count in zip(totals, counts, strict=True):
        ends.append(ends[-1] + _blocks(total, THREADS * count))
    with out.function((ends[-1], 1, 1), THREADS):
        if len(chains) == 1:
            _elements(out, chains[0], totals[0], counts[0], "blockIdx.x")
            return
        for chain, total, count, begin, end in zip(
            chains, totals, counts, ends[:-1], ends[1:], strict=True
        ):
            with out.block(f"if (blockIdx.x < {size_text(end)}) {{", "}"):
                _elements(out, chain, total, count, f"(blockIdx.x - {size_text(begin)})")
                out.add("return;")


def _count(chain: Chain, total: Dim) -> int:
    """Neighbours that a thread computes."""
    if not chain.loops:
        return 1
    limit = max(1, int(min(bounds(total)[0] // ENOUGH_THREADS, 8)))
    return most_neighbours(chain.bodies[-1], chain.loops[-1], 1 << (limit.bit_length() - 1))


def _elements(out: CudaText, chain: Chain, total: Dim, count: int, block: str) -> None:
    _thread_number(out, total, count, block)
    _decompose(out, "e_", chain.loops)
    for body in chain.bodies[:-1]:
        put_body(out, body, None, 1)
    put_body(out, chain.bodies[-1], chain.loops[-1] if chain.loops else None, count, out.index)


def _thread_number(out: CudaText, total: Dim, count: int = 1, block: str = "blockIdx.x") -> None:
    many = f" * {count}" if count > 1 else ""
    first = f"({out.index}){block}" if out.index != "int" else block
    out.add(f"const {out.index} e_ = ({first} * {THREADS} + threadIdx.x){many};")
    out.add(f"if (e_ >= {size_text(total)}) return;")


# ----------------------------------------------------------------------------------------- rows
def _by_thread(chain: Chain, level: int) -> bool:
    """Whether each row is one thread's: rows are short, or neighbours of each other in memory."""
    folds = [s for s in chain.bodies[level] if isinstance(s, Fold)]
    longest = max(bounds(_extent(f))[1] for f in folds)
    if longest <= TINY_ROW:
        return True
    rows = bounds(product(tuple(x.extent for x in chain.loops)))[0]
    return rows >= 4096 and _are_neighbours(chain, folds)


def _are_neighbours(chain: Chain, folds: Sequence[Fold]) -> bool:
    """Whether what folds read is together along the rows more often than along their terms."""
    if not chain.loops:
        return False
    beside, along = chain.loops[-1], [f.loops[-1] for f in folds]
    loads = [
        let.value for f in folds for let in f.body if isinstance(let.value, Load)
    ]  # fmt: skip
    own = [x for x in loads if x.index.coefficient(beside) != 0]  # others are the same for all rows
    near = sum(any(x.index.coefficient(r) == 1 for r in along) for x in own)
    return sum(x.index.coefficient(beside) == 1 for x in own) > near


def _by_columns(chain: Chain, level: int) -> bool:
    """Whether a block takes several rows: they are neighbours, long, and too few for threads."""
    folds = [s for s in chain.bodies[level] if isinstance(s, Fold)]
    shortest = min(bounds(_extent(f))[0] for f in folds)
    rows = bounds(product(tuple(x.extent for x in chain.loops)))
    few = rows[0] >= COLUMNS and rows[1] < ENOUGH_THREADS
    return few and shortest >= LONG_COLUMN and _are_neighbours(chain, folds)


def _columns(out: CudaText, chain: Chain) -> None:
    """A block for each 16 rows; thread t has part t / 16 of the terms of row t % 16."""
    total = product(tuple(x.extent for x in chain.loops))
    folds = [s for s in chain.bodies[-1] if isinstance(s, Fold)]
    threads, least = COLUMN_THREADS, min(bounds(_extent(f))[0] for f in folds)
    while threads > 128 and threads // COLUMNS * 8 > least:
        threads //= 2
    parts = threads // COLUMNS
    with out.function((_blocks(total, COLUMNS), 1, 1), threads):
        first = f"({out.index})blockIdx.x" if out.index != "int" else "blockIdx.x"
        out.add(f"const {out.index} column_ = {first} * {COLUMNS} + threadIdx.x % {COLUMNS};")
        out.add(f"const bool inside_ = column_ < {size_text(total)};")
        out.add(f"const {out.index} row_ = inside_ ? column_ : 0;")
        out.add(f"const int lane_ = threadIdx.x / {COLUMNS};")
        _decompose(out, "row_", chain.loops)
        for body in chain.bodies[:-1]:
            put_body(out, body, None, 1)
        written = [s for s in chain.bodies[-1] if isinstance(s, Store)]
        for s in chain.bodies[-1]:
            if isinstance(s, Fold):
                held = _HeldFold(s, bounds(_extent(s))[1] / parts)
                held.begin(out)
                with _over(out, s.loops, _Team(parts), 1):
                    put_body(out, s.body, None, 1, last=partial(held.step, out))
                joined = f"gh::across_parts<gh::{_ACROSS[s.op]}, {COLUMNS}, {parts}>"
                held.end(out, f"{joined}({held.name})")
            elif not isinstance(s, Store):
                Elements().put(out, s)
        with out.block("if (inside_ && lane_ == 0) {", "}"):
            for s in written:
                Elements().put(out, s)


def _row_by_thread(out: CudaText, chain: Chain) -> None:
    total = product(tuple(x.extent for x in chain.loops))
    with out.function((_blocks(total, THREADS), 1, 1), THREADS):
        _thread_number(out, total)
        _decompose(out, "e_", chain.loops)
        for body in chain.bodies:
            for s in body:
                _serial(out, s)


def _serial(out: CudaText, s: Statement) -> None:
    """A statement of one thread."""
    if not isinstance(s, Fold):
        Elements().put(out, s)
        return
    held = _HeldFold(s, bounds(_extent(s))[1])
    held.begin(out)
    with ExitStack() as around:
        for loop in s.loops:
            head = f"for ({out.index} {loop.name} = 0; {loop.name} < {size_text(loop.extent)}; "
            around.enter_context(out.block(f"{head}++{loop.name}) {{", "}"))
        for let in s.body:
            Elements().put(out, let)
        held.step(out, Elements())
    held.end(out, held.name)


def _shared_rows(out: CudaText, chain: Chain, level: int) -> None:
    """A row for each warp or block."""
    outer, inner = chain.loops[:level], chain.loops[level:]
    rows = product(tuple(x.extent for x in outer))
    folds = [s for s in chain.bodies[level] if isinstance(s, Fold)]
    longest = max(
        bounds(d)[1]
        for d in (*(_extent(f) for f in folds), product(tuple(x.extent for x in inner)))
    )
    team = _Team(_team_size(longest, bounds(rows)[1]))
    held = held_rows(_passes(chain, level), team.size) if out.index == "int" else None
    if held is not None:
        team = _Team(held.size)
    per_block = _rows_together(team.size, bounds(rows)[0])
    threads = team.size * per_block
    with out.function((_blocks(rows, per_block), 1, 1), threads, waits=held is None):
        if team.size == 32:
            first = f"({out.index})blockIdx.x" if out.index != "int" else "blockIdx.x"
            out.add(f"const {out.index} row_ = {first} * {per_block} + threadIdx.x / 32;")
            out.add("const int lane_ = threadIdx.x % 32;")
        else:
            out.add(f"const {out.index} row_ = blockIdx.x;")
            out.add("const int lane_ = threadIdx.x;")
        if held is not None:
            held.put(out, constant=True)
            out.add("gh::wait_for_earlier(ctx);")
        out.add(f"if (row_ >= {size_text(rows)}) return;")
        _decompose(out, "row_", outer)
        for body in chain.bodies[:level]:
            put_body(out, body, None, 1)
        if held is not None:
            held.put(out, constant=False)
        written = [s for s in chain.bodies[level] if isinstance(s, Store)]
        for s in chain.bodies[level]:
            if isinstance(s, Fold):
                _shared_fold(out, s, team, held)
            elif not isinstance(s, Store):
                Elements().put(out, s)
        if written:
            with out.block("if (lane_ == 0) {", "}"):
                for s in written:
                    Elements().put(out, s)
        if inner:
            _inside(out, chain, level, team, held)


def _passes(chain: Chain, level: int) -> list[Pass]:
    """All loops over a row, where each is a single one; none where they are not alike."""
    folds = [s for s in chain.bodies[level] if isinstance(s, Fold)]
    inner, bodies = chain.loops[level:], chain.bodies[level + 1 :]
    nested = any(isinstance(s, Fold) for body in bodies for s in body)
    if len(inner) > 1 or nested or any(len(f.loops) != 1 for f in folds):
        return []
    passes: list[Pass] = [(f.loops[0], f.body) for f in folds]
    return [*passes, (inner[0], bodies[0])] if inner else passes


def _rows_together(size: int, rows: float) -> int:
    """Rows of a block: of warps four, or fewer where there are more multiprocessors than blocks."""
    return int(max(1, min(128 // size, rows // 132))) if size == 32 else 1


def _team_size(longest: float, rows: float) -> int:
    """Threads that share a row: eight elements each, fewer where there are rows enough for all."""
    most = 1024 if rows < 132 else THREADS
    if longest <= SMALL_ROW and rows >= 132 * 8:
        return 32
    size = 32
    while size < most and size * 8 < longest:
        size *= 2
    return size


@dataclass(frozen=True)
class _HeldFold:
    """What a thread holds of a fold over so many terms of its own."""

    fold: Fold
    terms: float

    @property
    def is_long(self) -> bool:
        plain = self.fold.op == "sum" and COMPUTE_TYPE[self.fold.dtype] == "float"
        return plain and self.terms > LONG_SUM

    @property
    def name(self) -> str:
        return self.fold.name + ("total_" if self.is_long else "")

    def begin(self, out: CudaText) -> None:
        fold = self.fold
        kind = "double" if self.is_long else COMPUTE_TYPE[fold.dtype]
        out.add(f"{kind} {self.name} = {FOLDS[fold.op].start(fold.dtype)};", fold.ops)

    def step(self, out: CudaText, one: Elements) -> None:
        value = one.value(self.fold.element)
        added = f"{self.name} + (double)({value})"
        step = added if self.is_long else FOLDS[self.fold.op].step(self.name, value)
        out.add(f"{self.name} = {step};", self.fold.ops)

    def end(self, out: CudaText, whole: str) -> None:
        """`whole`: what threads that share the fold make of their parts."""
        if self.is_long:
            out.add(f"const float {self.fold.name} = (float){whole};", self.fold.ops)
        elif whole != self.name:
            out.add(f"{self.name} = {whole};", self.fold.ops)


@dataclass(frozen=True)
class _Team:
    """Threads that compute a row together."""

    size: int

    def folded(self, op: str, name: str) -> str:
        if self.size == 32:
            return f"gh::across_warp<gh::{_ACROSS[op]}>({name})"
        return f"gh::across_block<gh::{_ACROSS[op]}, {self.size}>({name})"


def _shared_fold(out: CudaText, s: Fold, team: _Team, rows: HeldRows | None) -> None:
    held = _HeldFold(s, bounds(_extent(s))[1] / team.size)
    held.begin(out)
    last = s.loops[-1]
    if rows is not None:
        _over_held(out, rows, last, s.body, lambda one: held.step(out, one))
    else:
        size = bounds(_extent(s))[0]
        limit = 8 if size >= 8 * team.size else 4 if size >= 128 else 1
        count = most_neighbours(s.body, last, limit)
        with _over(out, s.loops, team, count):
            put_body(out, s.body, last, count, out.index, last=lambda one: held.step(out, one))
    held.end(out, team.folded(s.op, held.name))


def _over_held(
    out: CudaText,
    rows: HeldRows,
    loop: Loop,
    body: Sequence[Statement],
    last: Callable[[Elements], None] | None = None,
) -> None:
    """A pass over a row that is held: turns are unrolled, so that registers have names."""
    out.pragma("#pragma unroll")
    with out.block(f"for (int h_ = 0; h_ < {rows.turns}; ++h_) {{", "}"):
        out.add(f"const int {loop.name} = {rows.first};")
        if not rows.is_whole:
            out.add(f"if ({loop.name} >= {rows.extent}) continue;")
        where = partial(rows.where, loop)
        put_body(out, body, loop, rows.count, out.index, last=last, held=where)


def _inside(out: CudaText, chain: Chain, level: int, team: _Team, held: HeldRows | None) -> None:
    """The loops inside of a row, element by element over the team's threads."""
    loops, bodies = chain.loops[level:], chain.bodies[level + 1 :]
    if held is not None:
        _over_held(out, held, loops[0], bodies[0])
        return
    size = bounds(product(tuple(x.extent for x in loops)))[0]
    folds_inside = any(isinstance(s, Fold) for body in bodies for s in body)
    limit = 1 if folds_inside else 8 if size >= 8 * team.size else 4 if size >= 128 else 1
    count = most_neighbours(bodies[-1], loops[-1], limit)
    with _over(out, loops, team, count):
        for body in bodies[:-1]:
            for s in body:
                _serial(out, s)
        if folds_inside:
            for s in bodies[-1]:
                _serial(out, s)
        else:
            put_body(out, bodies[-1], loops[-1], count, out.index)


def _over(out: CudaText, loops: Sequence[Loop], team: _Team, count: int) -> ExitStack:
    """Opens a loop in which the threads of a team share all turns of some loops."""
    total = size_text(product(tuple(x.extent for x in loops)))
    stack = ExitStack()
    name = out.fresh("f_")
    many = f" * {count}" if count > 1 else ""
    head = (
        f"for ({out.index} {name} = lane_{many}; {name} < {total}; {name} += {team.size * count})"
    )
    stack.enter_context(out.block(f"{head} {{", "}"))
    _decompose(out, name, loops)
    return stack


def _decompose(out: CudaText, name: str, loops: Sequence[Loop]) -> None:
    """The variable of each loop from one number that counts all turns through."""
    if len(loops) == 1:
        out.add(f"const {out.index} {loops[0].name} = {name};")
        return
    rest = name
    for loop in reversed(loops[1:]):
        extent = size_text(loop.extent)
        quotient = f"{loop.name}q_"
        out.add(f"const {out.index} {quotient} = {rest} / {extent};")
        out.add(f"const {out.index} {loop.name} = {rest} - {quotient} * {extent};")
        rest = quotient
    if loops:
        out.add(f"const {out.index} {loops[0].name} = {rest};")


def _extent(fold: Fold) -> Dim:
    return product(tuple(x.extent for x in fold.loops))


def _blocks(total: Dim, each: int) -> Dim:
    return (total + (each - 1)) // each
