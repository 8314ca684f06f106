"""Renders loops and folds: serial, shared among threads, over vectors.

The innermost loop of a vector nest goes over whole vectors, with `t` telling how many lanes of the
last one count. Where folds stand inside of it, each lane folds its own elements, and several
vectors go side by side, so that a fold reads a run of memory at each step, not one vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from glasshouse.backend.cxx.elements import Elements
from glasshouse.backend.cxx.spelling import FOLDS
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import COMPUTE_TYPE, size_text
from glasshouse.ir.dim import bounds
from glasshouse.lower.kernel.index import Loop
from glasshouse.lower.kernel.queries import work
from glasshouse.lower.kernel.statement import Fold, For, Statement

PARALLEL_FROM = 16384
"""Elements from which a nest is worth a second thread: waking one costs about what these cost."""


class Nests:
    """Renders the statements of one kernel that are no tiles."""

    def __init__(self, out: KernelText) -> None:
        self.out = out
        self.single: set[str] = set()  # variables of folds, which hold one element

    def statement(self, s: Statement) -> None:
        """A statement outside of any loop."""
        match s:
            case For():
                self._nest(s)
            case Fold():
                self._fold(s)
            case _:
                Elements().put(self.out, s)

    def _nest(self, s: For) -> None:
        """A loop that stands in no other."""
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
        opened = f"ctx.parallel({extent}, {test}, [&](int64_t begin, int64_t end) {{"
        with self.out.block(opened, "});"):
            if inner is None:
                self._loop(s, "begin", "end")
            else:
                self._both(s.loop.name, inner)

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
        if s.role.is_vector:
            if any(isinstance(x, Fold) for x in s.body):
                self._strips(s, low, high)
                return
            with _vector_loop(self.out, s.loop, low, high):
                elements = Elements(s.loop, self.single)
                for x in s.body:
                    elements.put(self.out, x)
            return
        if not any(isinstance(x, (For, Fold)) for x in s.body):
            self.out.pragma("#pragma GCC ivdep")
        with self.out.block(_head(s.loop, low, high), "}"):
            for x in s.body:
                match x:
                    case For():
                        self._loop(x, "0", size_text(x.loop.extent))
                    case Fold():
                        self._fold(x)
                    case _:
                        Elements().put(self.out, x)

    def _fold(self, s: Fold) -> None:
        out, spelling = self.out, FOLDS[s.op]
        start, ctype = spelling.start(s.dtype), COMPUTE_TYPE[s.dtype]
        lanes = s.name + "v"
        if s.role.is_vector:
            out.add(f"gh::vf {lanes}({start});", s.ops)
        else:
            out.add(f"{ctype} {s.name} = {start};", s.ops)
        with ExitStack() as around:
            for loop in s.loops[:-1]:
                around.enter_context(out.block(_head(loop, "0", size_text(loop.extent)), "}"))
            if s.role.is_vector:
                last = s.loops[-1]
                around.enter_context(_vector_loop(out, last, "0", size_text(last.extent)))
                elements = Elements(last, self.single)
                for let in s.body:
                    elements.put(out, let)
                step = spelling.step(lanes, elements.value(s.element))
                out.add(f"{lanes} = gh::merge(t, {lanes}, {step});", s.ops)
            else:
                if s.loops:
                    if spelling.pragma:
                        out.pragma(spelling.pragma.format(acc=s.name))
                    last = s.loops[-1]
                    head = _head(last, "0", size_text(last.extent))
                    around.enter_context(out.block(head, "}"))
                elements = Elements()
                for let in s.body:
                    elements.put(out, let)
                step = spelling.step(s.name, elements.value(s.element))
                out.add(f"{s.name} = {step};", s.ops)
        if s.role.is_vector:
            out.add(f"const float {s.name} = {spelling.lanes}({lanes});", s.ops)
        self.single.add(s.name)

    def _strips(self, s: For, low: str, high: str) -> None:
        """A loop over several vectors side by side, each lane of which folds for itself."""
        out = self.out
        each = "GH_UNROLL for (int u_ = 0; u_ < strip_.vectors; ++u_) {"
        known = [f"const int64_t {s.loop.name} = {low} + step_ + u_ * gh::W;"]
        elements = Elements(s.loop, self.single)
        opened = f"gh::for_each_strip({high} - {low}, [&](int64_t step_, auto t, auto strip_) {{"
        with out.block(opened, "});"):
            for fold in (x for x in s.body if isinstance(x, Fold)):
                spelling = FOLDS[fold.op]
                lanes = f"{fold.name}v[u_]"
                out.add(f"gh::vf {fold.name}v[strip_.vectors];", fold.ops)
                start = f"gh::vf({spelling.start(fold.dtype)})"
                out.add(f"{each} {lanes} = {start}; }}", fold.ops)
                with ExitStack() as around:
                    for r in fold.loops:
                        around.enter_context(out.block(_head(r, "0", size_text(r.extent)), "}"))
                    around.enter_context(out.block(each, "}"))
                    for line in known:
                        out.add(line)
                    for let in fold.body:
                        elements.put(out, let)
                    step = spelling.step(lanes, elements.value(fold.element))
                    out.add(f"{lanes} = {step};", fold.ops)
                known.append(f"const gh::vf {fold.name} = {lanes};")
            with out.block(each, "}"):
                for line in known:
                    out.add(line)
                for x in s.body:
                    if not isinstance(x, Fold):
                        elements.put(out, x)


def _shared_with(s: For) -> For | None:
    """The loop inside that threads share together with this one, if any."""
    inner = s.body[0] if len(s.body) == 1 else None
    return inner if isinstance(inner, For) and inner.role.is_parallel else None


def _head(loop: Loop, low: str, high: str) -> str:
    return f"for (int64_t {loop.name} = {low}; {loop.name} < {high}; ++{loop.name}) {{"


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
