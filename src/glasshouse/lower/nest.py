"""Decides the shape of generated code: loops, and at which depth each statement stands.

A `Nest` is a list of loops and, for each depth, the statements that stand inside that many of them.
Positions in buffers stay `Index` objects until the text is rendered, so that neighbouring loops
over which every access runs on evenly can be merged into one long loop first. The innermost loop
of a vector nest goes over whole vectors, with `t` telling how many lanes of the last one count.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from glasshouse.ir.dim import Dim, bounds, product
from glasshouse.lower.cxx import size_text
from glasshouse.lower.index import Computed, Index, Loop

PARALLEL_FROM = 16384
"""Elements from which a nest is worth a second thread: waking one costs about what these cost."""

SHORT = 16
"""Turns of an outermost loop that are too few to be shared evenly."""

_SLOT = re.compile("\x01(\\d+)\x02")


@dataclass
class Fold:
    """Loops that fold elements into an accumulator; `end` makes the result of it."""

    loops: list[Loop]
    begin: list[str]
    inside: list[str]
    end: list[str]
    vector: bool
    pragma: str = ""
    lanes: str = ""  # in an `along` nest, the accumulator: one lane for each element of the vector


Statement = str | Fold


@dataclass
class Nest:
    """Loops over an iteration space, with statements at each depth."""

    loops: list[Loop]
    vector: bool = False  # whether the innermost loop goes over vectors
    fold_vector: bool = False  # whether those of folds do
    along: bool = False  # folds stand inside of the vector loop: each lane folds its own elements
    depth: list[list[Statement]] = field(default_factory=list)
    offsets: list[Index] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.depth = [[] for _ in range(len(self.loops) + 1)]

    def slot(self, index: Index) -> str:
        """A mark in the text that becomes the index when the nest is rendered."""
        self.offsets.append(index)
        return f"\x01{len(self.offsets) - 1}\x02"

    def level_of(self, depends: Callable[[Loop], bool]) -> int:
        """The least depth at which everything that `depends` names is known."""
        return max((i + 1 for i, loop in enumerate(self.loops) if depends(loop)), default=0)

    @property
    def folds(self) -> list[Fold]:
        return [s for level in self.depth for s in level if isinstance(s, Fold)]

    def work(self) -> Dim:
        """How many elements the nest computes, folds counted in."""
        total = product(tuple(loop.extent for loop in self.loops))
        for level, statements in enumerate(self.depth):
            around = product(tuple(loop.extent for loop in self.loops[:level]))
            for s in statements:
                if isinstance(s, Fold):
                    total = total + around * product(tuple(loop.extent for loop in s.loops))
        return total

    # ------------------------------------------------------------------------------------ rendering
    def render(self, indent: str = "  ") -> list[str]:
        """The nest as lines of C++."""
        work = self.work()
        self._merge()
        if self.depth[0]:  # a block, because another nest of the kernel may have the same names
            inside = self._statements(0, indent + "  ") + self._shared(work, indent + "  ")
            return [f"{indent}{{", *inside, f"{indent}}}"]
        return self._shared(work, indent)

    def _shared(self, work: Dim, indent: str) -> list[str]:
        """The loops; the outermost is shared among threads where that pays."""
        if not self.loops:
            return []
        extent = size_text(self.loops[0].extent)
        low, high = bounds(work)
        if high < PARALLEL_FROM:
            return self._loops("0", extent, indent)
        enough = "true" if low >= PARALLEL_FROM else f"{size_text(work)} >= {PARALLEL_FROM}"
        both = self._shares_two()
        if both:
            extent = size_text(self.loops[0].extent * self.loops[1].extent)
        opened = f"{indent}ctx.parallel({extent}, {enough}, [&](int64_t begin, int64_t end) {{"
        inside = self._loops("begin", "end", indent + "  ", both)
        return [opened, *inside, f"{indent}}});"]

    def _shares_two(self) -> bool:
        """Whether threads share the two outermost loops: a batch that may be 1 feeds one thread."""
        if len(self.loops) < 2 or isinstance(self.loops[0].extent, int) or self.depth[1]:
            return False
        outer, inner = (bounds(loop.extent)[0] for loop in self.loops[:2])
        return outer < SHORT and inner > 0

    def _loops(self, begin: str, end: str, indent: str, both: bool = False) -> list[str]:
        lines: list[str] = []
        closing: list[str] = []
        for i, loop in enumerate(self.loops):
            low, high = (begin, end) if i == 0 else ("0", size_text(loop.extent))
            if both and i == 0:
                lines += _part_of_both(loop.name, size_text(self.loops[1].extent), indent)
                closing.append(indent + "}")
                indent += "  "
                continue
            if both and i == 1:
                low, high = "low_", "high_"
            last = i == len(self.loops) - 1
            if last and self.along:
                return lines + self._strips(loop, low, high, indent) + closing[::-1]
            opened, closed = _loop_text(loop, low, high, indent, last and self.vector)
            if last and not self.vector and not self.folds:
                lines.append("#pragma GCC ivdep")
            lines += opened
            closing.append(closed)
            indent += "  "
            lines += self._statements(i + 1, indent)
        return lines + closing[::-1]

    @property
    def folds_come_first(self) -> bool:
        """Whether no fold of the innermost loop stands behind other statements of it."""
        kinds = [isinstance(s, Fold) for s in self.depth[-1]]
        return sorted(kinds, reverse=True) == kinds

    def _strips(self, loop: Loop, low: str, high: str, indent: str) -> list[str]:
        """The innermost loop of an `along` nest: several vectors side by side.

        A fold then reads a run of memory at each step, not one vector.
        """
        each = "GH_UNROLL for (int u_ = 0; u_ < strip_.vectors; ++u_) {"
        known = [f"const int64_t {loop.name} = {low} + step_ + u_ * gh::W;"]
        inner = indent + "  "
        lines = [
            f"{indent}gh::for_each_strip({high} - {low}, [&](int64_t step_, auto t, auto strip_) {{"
        ]
        for fold in (s for s in self.depth[-1] if isinstance(s, Fold)):
            lines.append(f"{inner}gh::vf {fold.lanes}v[strip_.vectors];")
            lines += [f"{inner}{each} {fold.lanes}v[u_] = {s}; }}" for s in fold.begin]
            closing, deep = [], inner
            for r in fold.loops:
                opened, closed = _loop_text(r, "0", size_text(r.extent), deep, False)
                lines += opened
                closing.append(closed)
                deep += "  "
            lines.append(deep + each)
            lines += [f"{deep}  {self._filled(s)}" for s in (*known, *fold.inside)]
            lines += [deep + "}", *closing[::-1]]
            known = [*known, f"const gh::vf {fold.lanes} = {fold.lanes}v[u_];"]
        rest = [s for s in self.depth[-1] if isinstance(s, str)]
        lines += [inner + each, *(f"{inner}  {self._filled(s)}" for s in (*known, *rest))]
        return [*lines, inner + "}", indent + "});"]

    def _statements(self, level: int, indent: str) -> list[str]:
        lines: list[str] = []
        for statement in self.depth[level]:
            if isinstance(statement, str):
                lines.append(indent + self._filled(statement))
            else:
                lines += self._fold(statement, indent)
        return lines

    def _fold(self, fold: Fold, indent: str) -> list[str]:
        lines = [indent + self._filled(s) for s in fold.begin]
        closing: list[str] = []
        inner = indent
        for i, loop in enumerate(fold.loops):
            last = i == len(fold.loops) - 1
            if last and fold.pragma:
                lines.append(fold.pragma)
            opened, closed = _loop_text(
                loop, "0", size_text(loop.extent), inner, last and fold.vector
            )
            lines += opened
            closing.append(closed)
            inner += "  "
        lines += [inner + self._filled(s) for s in fold.inside]
        return lines + closing[::-1] + [indent + self._filled(s) for s in fold.end]

    def _filled(self, text: str) -> str:
        return _SLOT.sub(lambda m: self.offsets[int(m[1])].text(), text)

    # -------------------------------------------------------------------------------------- merging
    def _merge(self) -> None:
        """Join neighbouring loops over which every access advances evenly."""
        texts = self._texts()
        at = len(self.loops) - 2
        while at >= 0:
            if not self.depth[at + 1] and self._join(self.loops, at, texts):
                del self.depth[at + 1]
            at -= 1
        for fold in self.folds:
            for at in range(len(fold.loops) - 2, -1, -1):
                self._join(fold.loops, at, texts)

    def join(self, at: int, name: str) -> bool:
        """Make the loops at `at` and behind it one, of this name, if accesses allow it."""
        return self._join(self.loops, at, self._texts(), name)

    def _texts(self) -> list[str]:
        texts = [s for level in self.depth for s in level if isinstance(s, str)]
        return texts + [t for f in self.folds for t in f.begin + f.inside]

    def _join(self, loops: list[Loop], at: int, texts: list[str], name: str = "") -> bool:
        outer, inner = loops[at], loops[at + 1]
        if any(outer.name in t or inner.name in t for t in texts):
            return False
        for index in self.offsets:
            if index.coefficient(outer) != index.coefficient(inner) * inner.extent:
                return False
            if any(
                isinstance(a, Computed) and (outer.name in a.text or inner.name in a.text)
                for a, _ in index.terms
            ):
                return False
        joined = Loop(name or inner.name, outer.extent * inner.extent)
        self.offsets = [
            Index(
                tuple((joined if a == inner else a, c) for a, c in o.terms if a != outer),
                o.constant,
            )
            for o in self.offsets
        ]
        loops[at : at + 2] = [joined]
        return True


def _part_of_both(name: str, inner: str, indent: str) -> list[str]:
    """Opens the outer of two loops that run from `begin` to `end` together."""
    return [
        f"{indent}for (int64_t {name} = begin / {inner}; {name} * {inner} < end; ++{name}) {{",
        f"{indent}  const int64_t low_ = gh::max_of<int64_t>(begin - {name} * {inner}, 0);",
        f"{indent}  const int64_t high_ = gh::min_of<int64_t>(end - {name} * {inner}, {inner});",
    ]


def _loop_text(loop: Loop, low: str, high: str, indent: str, vector: bool) -> tuple[list[str], str]:
    """The lines that open a loop, and the one that closes it."""
    name = loop.name
    if not vector:
        return [f"{indent}for (int64_t {name} = {low}; {name} < {high}; ++{name}) {{"], indent + "}"
    if low == "0":
        return [
            f"{indent}gh::for_each_vector({high}, [&](int64_t {name}, auto t) {{"
        ], indent + "});"
    opened = [
        f"{indent}gh::for_each_vector({high} - {low}, [&](int64_t step_, auto t) {{",
        f"{indent}  const int64_t {name} = {low} + step_;",
    ]
    return opened, indent + "});"
