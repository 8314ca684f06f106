"""How lowering asks which of several variants computes something: a problem, names, a choice.

An anchor that knows several variants describes its problem (sizes and element type alone, so that
equal layers ask the same question) and names the variants. Who answers is not its business:
`by_estimate` takes the usual variant; the runtime's tuner measures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Problem:
    """What is to be computed, without data: a `conv` with its sizes as numbers, say."""

    op: str
    dtype: str
    numbers: tuple[int, ...]
    operations: float  # multiply-adds and such: what a measurement is worth
    unasked: bool = field(default=True, compare=False)  # measured without being asked for

    @property
    def key(self) -> str:
        return f"{self.op} {self.dtype} {' '.join(map(str, self.numbers))}"


BY_SHAPE = "by_shape"
"""The variant of a routine that looks at the shape itself: nothing to measure."""


@dataclass(frozen=True)
class Candidate:
    """One variant; `error` is relative to the largest result of the most exact variant."""

    name: str
    seconds: float = 0.0  # 0: not measured
    error: float = 0.0
    why: str = ""


@dataclass(frozen=True)
class Choice:
    """The variant taken, and what it was chosen from."""

    name: str
    candidates: tuple[Candidate, ...] = ()


Chooser = Callable[[Problem, Sequence[str], str], Choice]
"""Called with the problem, the names of the variants, and the one that is usually best."""


def by_estimate(problem: Problem, names: Sequence[str], usual: str) -> Choice:
    """The usual variant, unmeasured."""
    return unmeasured(names, usual, "usual for such sizes")


def unmeasured(names: Sequence[str], taken: str, why: str) -> Choice:
    """A choice among names without figures."""
    shown = dict.fromkeys([taken, *names])
    return Choice(taken, tuple(Candidate(n, why=why if n == taken else "") for n in shown))
