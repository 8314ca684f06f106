"""Renders loops and folds: serial, shared among threads, over vectors.

The innermost loop of a vector nest goes over whole vectors, with `t` telling how many lanes of the
last one count. Where folds stand inside of it, each lane folds its own elements, and several
vectors go side by side, so that a fold reads a run of memory at each step, not one vector (a loop
behind the folds is gone through by all of them); or each fold goes over vectors itself, and its
results are brought together one by one. Long sums of floats are cut into runs (`long_sums.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise

from glasshouse.backend.cpu.fixed_values import fixed_values
from glasshouse.backend.cpu.kept_rows import Row, kept_rows
from glasshouse.backend.cpu.known_places import checked_before
from glasshouse.backend.cpu.long_sums import BY_ELEMENTS, BY_VECTORS, Runs, runs_of
from glasshouse.backend.cpu.ranges import Ranges, ranges_of
from glasshouse.backend.cpu.runs import run_of
from glasshouse.backend.cpu.turned import Turned, turned
from glasshouse.backend.cxx.elements import VECTOR_TYPE, Elements
from glasshouse.backend.cxx.spelling import FOLDS, FoldSpelling
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import COMPUTE_TYPE, index_text, size_text
from glasshouse.ir.dim import bounds
from glasshouse.ir.dtype import DType, bool_, float32, float64
from glasshouse.lower.kernel.expr import Apply, Var
from glasshouse.lower.kernel.index import Checked, Loop
from glasshouse.lower.kernel.queries import (
    alike_along,
    depends,
    loads,
    reads_where_data_says,
    variables,
    work,
)
from glasshouse.lower.kernel.statement import Fold, For, Let, Ops, Role, Statement, Store
from glasshouse.lower.roles import MUCH, cost_of

LONG = 128
"""Elements of a fold from which four vectors go side by side: twice as many as they hold at most.
"""

PARALLEL_FROM = 16384
"""Elements from which a nest is worth a second thread: waking one costs about what these cost."""


class Nests:
    """Renders the statements of one kernel that are no tiles."""

    def __init__(self, out: KernelText) -> None:
        self.out = out
        self.single: set[str] = set()  # variables outside of vector loops: they hold one element
        self.rows: dict[str, Row] = {}  # by variable of a vector loop: where it is kept

    def statement(self, s: Statement) -> None:
        """A statement outside of any loop."""
        match s:
            case For():
                self._nest(s)
            case Fold():
                self._fold(s)
            case _:
                self._put(s)

    def _put(self, s: Statement) -> None:
        """A statement on single elements; vectors inside take what it computes in all lanes."""
        Elements().put(self.out, s)
        if isinstance(s, Let):
            self.single.add(s.name)

    def _nest(self, s: For) -> None:
        """A loop that stands in no other."""
        copy = turned(s)
        if copy is not None:
            self._turned(s, copy)
            return
        extent = size_text(s.loop.extent)
        if not s.role.is_parallel:
            self._loop(s, "0", extent)
            return
        amount = work(s)
        enough = bounds(amount)[0] >= PARALLEL_FROM
        test = "true" if enough else f"{size_text(amount)} >= {PARALLEL_FROM}"
        inner = _shared_with(s)
        if inner is not None:
            extent = size_text(s.loop.extent * inner.loop.extent)
        # Where a place that data say may be reported, pointers that are caught by reference are
        # loaded anew for each element: a gather of 64 x 1000 takes 69 us that way, 38 this way.
        caught = "=, &ctx" if reads_where_data_says(s.body) else "&"
        opened = f"ctx.parallel({extent}, {test}, [{caught}](int64_t begin, int64_t end) {{"
        with self.out.block(opened, "});"):
            if inner is None and (picking := _picked_alike(s)) is not None:
                self._picked(s.loop.name, *picking)
            elif inner is None:
                self._loop(s, "begin", "end")
            else:
                self._both(s.loop.name, inner)

    def _picked(self, name: str, inner: For, alike: Sequence[Let]) -> None:
        """Rows in fours, so that each place that data say is found once for four elements."""
        out = self.out
        opened = "gh::each_four(begin, end, [=, &ctx](int64_t first_, auto rows_) {"
        with (
            out.block(opened, "});"),
            out.block(_head(inner.loop, "0", size_text(inner.loop.extent)), "}"),
        ):
            for let in alike:
                self._put(let)
            with out.block("GH_UNROLL for (int u_ = 0; u_ < rows_.n; ++u_) {", "}"):
                out.add(f"const int64_t {name} = first_ + u_;")
                for x in inner.body:
                    if x not in alike:
                        self._put(x)

    def _turned(self, s: For, copy: Turned) -> None:
        """A copy that swaps axes; threads share its outermost loop, as that of any nest."""
        extent, shared = size_text(s.loop.extent), s.role.is_parallel
        by_columns = s.loop == copy.columns
        low, high = ("begin", "end") if shared else ("0", extent)
        with ExitStack() as around:
            if shared:
                enough = bounds(work(s))[0] >= PARALLEL_FROM
                test = "true" if enough else f"{size_text(work(s))} >= {PARALLEL_FROM}"
                opened = f"ctx.parallel({extent}, {test}, [&](int64_t begin, int64_t end) {{"
                around.enter_context(self.out.block(opened, "});"))
            for loop in copy.around:
                bounds_of = (low, high) if loop == s.loop else ("0", size_text(loop.extent))
                around.enter_context(self.out.block(_head(loop, *bounds_of), "}"))
            first = low if by_columns else "0"
            count = f"{high} - {low}" if by_columns else size_text(copy.columns.extent)
            self.out.add(copy.line(first, count), copy.store.ops)

    def _both(self, name: str, inner: For) -> None:
        """Two loops that run from `begin` to `end` together."""
        size = size_text(inner.loop.extent)
        head = f"for (int64_t {name} = begin / {size}; {name} * {size} < end; ++{name}) {{"
        with self.out.block(head, "}"):
            low = f"gh::max_of<int64_t>(begin - {name} * {size}, 0)"
            high = f"gh::min_of<int64_t>(end - {name} * {size}, {size})"
            self.out.add(f"const int64_t low_ = {low};")
            self.out.add(f"const int64_t high_ = {high};")
            self._loop(inner, "low_", "high_")

    def _loop(self, s: For, low: str, high: str) -> None:
        """One loop over turns from low to high, with what it holds."""
        if all(isinstance(x, (Let, Store)) for x in s.body):
            s = replace(s, body=self._checked(s.body, [s.loop]))
        run = run_of(s)
        if run is not None and run.name not in self.out.given:
            self.out.add(run.line(low, high if low == "0" else f"{high} - {low}"), run.store.ops)
            return
        if s.role.is_vector:
            folds = [x for x in s.body if isinstance(x, Fold)]
            if folds:
                (self._folded_apart if folds[0].role.is_vector else self._strips)(s, low, high)
                return
            body = self._without_fixed(s.body, s.loop)
            with _vector_loop(self.out, s.loop, low, high):
                elements = Elements(s.loop, self.single)
                for x in body:
                    self._put_vector(elements, x)
            return
        ranges = ranges_of(s)
        if ranges is not None:
            self._ranges(s, ranges, low, high)
            return
        if not any(isinstance(x, (For, Fold)) for x in s.body):
            self.out.pragma("#pragma GCC ivdep")
        with self.out.block(_head(s.loop, low, high), "}"):
            for x in self._with_rows(s.body):
                match x:
                    case For():
                        self._loop(x, "0", size_text(x.loop.extent))
                    case Fold():
                        self._fold(x)
                    case _:
                        self._put(x)

    def _with_rows(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """A body of which later sweeps read what earlier ones keep, with room for it."""
        kept = kept_rows(body, self.out.fresh)
        if kept is None:
            return body
        for row in kept.rows.values():
            self.out.add(f"alignas(64) {COMPUTE_TYPE[row.dtype]} {row.name}[{row.extent}];")
        self.rows.update(kept.rows)
        return kept.body

    def _without_fixed(self, body: tuple[Statement, ...], loop: Loop) -> tuple[Statement, ...]:
        """Writes, in front of a loop over vectors, what it would read in each turn anew."""
        fixed = fixed_values(body, [loop])
        for let in fixed:
            self._put(let)
        return tuple(x for x in body if x not in fixed)

    def _put_vector(self, elements: Elements, s: Statement) -> None:
        """A statement of a sweep; later ones may read what it computes."""
        elements.put(self.out, s)
        if isinstance(s, Let) and s.name in self.rows and elements.along is not None:
            place = f"{self.rows[s.name].name} + {elements.along.name}"
            self.out.add(f"gh::store({place}, {s.name}, t);", s.ops)

    def _checked(
        self, body: Sequence[Statement], loops: Sequence[Loop], ops: Ops = ()
    ) -> tuple[Statement, ...]:
        checks, body = checked_before(body, loops, self.out.fresh)
        for line in checks:
            self.out.add(line, ops)
        return tuple(body)

    def _ranges(self, s: For, ranges: Ranges, low: str, high: str) -> None:
        """A loop that falls apart at points; a range that lies outside is none."""
        with self.out.block("{", "}"):
            ends = []
            for point in ranges.points:
                ends.append(self.out.fresh("end"))
                at = f"gh::max_of<int64_t>({index_text(point)}, {low})"
                self.out.add(f"const int64_t {ends[-1]} = gh::min_of<int64_t>({at}, {high});")
            for body, (begin, end) in zip(ranges.bodies, pairwise((low, *ends, high)), strict=True):
                self._loop(For(s.loop, Role.SERIAL, body), begin, end)

    def _fold(self, s: Fold) -> None:
        out, spelling = self.out, FOLDS[s.op]
        s = replace(s, body=_lets(self._checked(s.body, s.loops, s.ops)))
        vector = s.role.is_vector
        runs = runs_of(s, BY_VECTORS if vector else BY_ELEMENTS)
        four = vector and _goes_in_fours(s)
        part = s.name + "v" if vector else s.name + "run" if runs else s.name
        kind, start = COMPUTE_TYPE[s.dtype], spelling.start(s.dtype)
        begun, folded = f"{kind} {part} = {start};", part
        if vector:
            begun = f"{VECTOR_TYPE[s.dtype]} {part}"
            each = _lanes_of(s.dtype, start)
            begun += f"[4] = {{{', '.join([each] * 4)}}};" if four else f" = {each};"
            whole = _joined(spelling, part) if four else part
            folded, part = f"{spelling.lanes}({whole})", f"{part}[u_]" if four else part
        total = s.name + "total"
        out.add(f"double {total} = 0;" if runs else begun, s.ops)
        with ExitStack() as around:
            for level, loop in enumerate(s.loops):
                low, high = "0", size_text(loop.extent)
                if runs and level == runs.level:
                    ended = f"{total} += {folded};"
                    low, high = around.enter_context(_run(out, runs, high, [begun], ended, s.ops))
                is_last = level == len(s.loops) - 1
                if is_last and vector:
                    s = replace(s, body=_lets(self._without_fixed(s.body, loop)))
                    way = _vectors_in_fours if four else _vector_loop
                    around.enter_context(way(out, loop, low, high))
                    continue
                if is_last and spelling.pragma:
                    out.pragma(spelling.pragma.format(acc=part))
                around.enter_context(out.block(_head(loop, low, high), "}"))
            elements = Elements(s.loops[-1], self.single) if vector else Elements()
            for let in s.body:
                self._put_vector(elements, let)
            step = _step(s, part, elements)
            out.add(f"{part} = {f'gh::merge(t, {part}, {step})' if vector else step};", s.ops)
        if runs or vector:
            result = f"({kind}){total}" if runs else folded
            out.add(f"const {kind} {s.name} = {result};", s.ops)
        self.single.add(s.name)

    def _folded_apart(self, s: For, low: str, high: str) -> None:
        """A loop over vectors of what folds give, which go over vectors of their own, one lane
        after the other."""
        out, name = self.out, s.loop.name
        folds = [x for x in s.body if isinstance(x, Fold)]
        with _vector_loop(out, s.loop, low, high):
            for fold in folds:
                out.add(f"alignas(64) {COMPUTE_TYPE[fold.dtype]} {fold.name}at[gh::W];", fold.ops)
            lanes = f"for (int64_t lane_ = 0, first_ = {name}; lane_ < t.n; ++lane_) {{"
            with out.block(lanes, "}"):
                out.add(f"const int64_t {name} = first_ + lane_;")
                for fold in folds:
                    self._fold(fold)
                    out.add(f"{fold.name}at[lane_] = {fold.name};", fold.ops)
            for fold in folds:
                self.single.discard(fold.name)
                load = "gh::load_mask" if fold.dtype is bool_ else "gh::load"
                given = f"{load}({fold.name}at, t)"
                out.add(f"const {VECTOR_TYPE[fold.dtype]} {fold.name} = {given};", fold.ops)
            elements = Elements(s.loop, self.single)
            for x in s.body:
                if not isinstance(x, Fold):
                    elements.put(out, x)

    def _strips(self, s: For, low: str, high: str) -> None:
        """A loop over several vectors side by side, each lane of which folds for itself."""
        out = self.out
        each = "GH_UNROLL for (int u_ = 0; u_ < strip_.vectors; ++u_) {"
        known = [f"const int64_t {s.loop.name} = {low} + step_ + u_ * gh::W;"]
        elements = Elements(s.loop, self.single)
        opened = f"gh::for_each_strip({high} - {low}, [&](int64_t step_, auto t, auto strip_) {{"
        with out.block(opened, "});"):
            folds = [x for x in s.body if isinstance(x, Fold)]
            for fold in folds:
                spelling = FOLDS[fold.op]
                runs = runs_of(fold, BY_ELEMENTS)
                lanes, total = f"{fold.name}v[u_]", f"{fold.name}total[u_]"
                kind = VECTOR_TYPE[fold.dtype]
                begun = [
                    f"{kind} {fold.name}v[strip_.vectors];",
                    f"{each} {lanes} = {_lanes_of(fold.dtype, spelling.start(fold.dtype))}; }}",
                ]
                for line in (
                    [f"gh::LaneTotals {fold.name}total[strip_.vectors];"] if runs else begun
                ):
                    out.add(line, fold.ops)
                with ExitStack() as around:
                    for level, r in enumerate(fold.loops):
                        bounds = "0", size_text(r.extent)
                        if runs and level == runs.level:
                            ended = f"{each} {total}.add({lanes}); }}"
                            made = _run(out, runs, bounds[1], begun, ended, fold.ops)
                            bounds = around.enter_context(made)
                        around.enter_context(out.block(_head(r, *bounds), "}"))
                    own = self._alike_for_lanes(fold, s.loop, [x.name for x in folds])
                    around.enter_context(out.block(each, "}"))
                    for line in known:
                        out.add(line)
                    for x in own:
                        elements.put(out, x)
                    step = _step(fold, lanes, elements)
                    out.add(f"{lanes} = {step};", fold.ops)
                result = f"{total}.value()" if runs else lanes
                known.append(f"const {kind} {fold.name} = {result};")
            inner = s.body[-1]
            body: list[Statement] = [x for x in s.body if not isinstance(x, Fold)]
            with ExitStack() as around:
                if isinstance(inner, For):
                    for let in (x for x in body if isinstance(x, Let)):
                        kind, lanes = VECTOR_TYPE[let.dtype], f"{let.name}v[u_]"
                        out.add(f"{kind} {let.name}v[strip_.vectors];", let.ops)
                        with out.block(each, "}"):
                            for line in known:
                                out.add(line)
                            elements.put(out, let)
                            out.add(f"{lanes} = {let.name};", let.ops)
                        known.append(f"const {kind} {let.name} = {lanes};")
                    turns = _head(inner.loop, "0", size_text(inner.loop.extent))
                    around.enter_context(out.block(turns, "}"))
                    body = list(inner.body)
                around.enter_context(out.block(each, "}"))
                for line in known:
                    out.add(line)
                for x in body:
                    elements.put(out, x)

    def _alike_for_lanes(
        self, fold: Fold, loop: Loop, folded: Sequence[str]
    ) -> tuple[Statement, ...]:
        """Writes what a turn of a fold computes for all lanes alike, places that data say checked
        among it; gives what is left for each of them."""
        alike = alike_along(fold.body, loop, folded)
        for let in alike:
            self._put(let)
        return self._checked([let for let in fold.body if let not in alike], [], fold.ops)


def _lets(body: Sequence[Statement]) -> tuple[Let, ...]:
    return tuple(x for x in body if isinstance(x, Let))


def _step(s: Fold, part: str, elements: Elements) -> str:
    """What an element makes of the accumulator. In vectors a sum of products takes one instruction
    a turn, rounded once: distances between 256 and 200 points take 0.76 of the time."""
    lets = {let.name: let.value for let in s.body}
    element = lets.get(s.element.name, s.element) if isinstance(s.element, Var) else s.element
    if elements.along is not None and s.op == "sum" and isinstance(element, Apply):
        same = all(x.dtype is s.dtype for x in (element, *element.args))
        if element.op == "multiply" and same and s.dtype in (float32, float64):
            factors = ", ".join(map(elements.value, element.args))
            return f"gh::fma({factors}, {part})"
    value = elements.value(s.element)
    return FOLDS[s.op].step(part, value) if elements.along is None else FOLDS[s.op].on(part, value)


def _goes_in_fours(s: Fold) -> bool:
    """Whether a fold takes in four vectors side by side: one waits for the one before it, which is
    what a fold of cheap elements takes its time for. Products of 64 rows of 1000 took 8.2 us, and
    take 6.2; the least and the greatest of a million took 161, and take 97."""
    return bounds(s.loops[-1].extent)[1] >= LONG and sum(map(cost_of, s.body)) < MUCH


def _joined(spelling: FoldSpelling, part: str) -> str:
    """What four accumulators make together."""
    first, second = (spelling.on(f"{part}[{i}]", f"{part}[{i + 1}]") for i in (0, 2))
    return spelling.on(f"({first})", f"({second})")


def _lanes_of(dtype: DType, value: str) -> str:
    """A vector of one value."""
    return f"{'gh::splat' if dtype is bool_ else VECTOR_TYPE[dtype]}({value})"


@contextmanager
def _run(
    out: KernelText, runs: Runs, extent: str, begun: list[str], ended: str, ops: Ops
) -> Iterator[tuple[str, str]]:
    """A run of a long sum, with what begins and ends it; gives the turns that it takes."""
    head = f"for (int64_t run_ = 0; run_ < {extent}; run_ += {runs.turns}) {{"
    with out.block(head, "}"):
        out.add(f"const int64_t end_ = gh::min_of<int64_t>(run_ + {runs.turns}, {extent});")
        for line in begun:
            out.add(line, ops)
        yield "run_", "end_"
        out.add(ended, ops)


def _shared_with(s: For) -> For | None:
    """The loop inside that threads share together with this one, if any."""
    inner = s.body[0] if len(s.body) == 1 else None
    return inner if isinstance(inner, For) and inner.role.is_parallel else None


def _picked_alike(s: For) -> tuple[For, list[Let]] | None:
    """The loop inside of this one that reads each row at the same places, which data say (columns
    by a list), and what it computes for all rows alike; None if it is not so."""
    inner = s.body[0] if len(s.body) == 1 else None
    if not isinstance(inner, For) or inner.role.is_vector:
        return None
    if not all(isinstance(x, (Let, Store)) for x in inner.body):
        return None
    alike: list[Let] = []
    others: set[str] = set()
    places: set[str] = set()
    for x in (x for x in inner.body if isinstance(x, Let)):
        places |= {
            a.name for v in loads(x.value) for a in v.index.atoms() if isinstance(a, Checked)
        }
        if depends(x, s.loop) or variables(x.value) & others:
            others.add(x.name)
        else:
            alike.append(x)
    return (inner, alike) if places and others and not places & others else None


def _head(loop: Loop, low: str, high: str) -> str:
    return f"for (int64_t {loop.name} = {low}; {loop.name} < {high}; ++{loop.name}) {{"


@contextmanager
def _vectors_in_fours(out: KernelText, loop: Loop, low: str, high: str) -> Iterator[None]:
    """A loop over vectors, of which `u_` is the number among those side by side."""
    opened = f"gh::for_each_four({high} - {low}, [&](int64_t step_, auto t, auto strip_) {{"
    with (
        out.block(opened, "});"),
        out.block("GH_UNROLL for (int u_ = 0; u_ < strip_.vectors; ++u_) {", "}"),
    ):
        out.add(f"const int64_t {loop.name} = {low} + step_ + u_ * gh::W;")
        yield


@contextmanager
def _vector_loop(out: KernelText, loop: Loop, low: str, high: str) -> Iterator[None]:
    if low == "0":
        with out.block(f"gh::for_each_vector({high}, [&](int64_t {loop.name}, auto t) {{", "});"):
            yield
        return
    opened = f"gh::for_each_vector({high} - {low}, [&](int64_t step_, auto t) {{"
    with out.block(opened, "});"):
        out.add(f"const int64_t {loop.name} = {low} + step_;")
        yield
