"""Tuning: of the variants of a tile the fastest measured one whose error is small enough.

What was measured is kept on disk, a small file for each problem, by everything that can change it:
sizes, code of the kernels, compiler, processor, on a GPU also what else the kernel of the model
computes, since that is what is measured. A file appears whole or not at
all, so processes can share them; one that cannot be read is measured again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from glasshouse.backend.base import Backend, Progress
from glasshouse.backend.cache import hash_text, write_whole
from glasshouse.backend.cache_folder import made_cache_folder
from glasshouse.backend.claim import claimed
from glasshouse.backend.store import fetch, publish
from glasshouse.lower.choice import Candidate, Choice, Problem, unmeasured
from glasshouse.lower.kernel.kernel import Kernel
from glasshouse.lower.program import Call

WORTH = 5e7
"""Operations from which a layer is measured unasked: 0.2 ms on this machine's two cores."""

TOLERANCE = 2e-5
"""Error of a kernel, relative to its largest result. F(4, 3) shows 7e-6 to 1.1e-5, F(2, 3) 2e-6."""

KEPT_WITHIN = 1.03
"""The usual variant stays when it is at most this much slower than the best: that is noise."""

OPAQUE_WITHIN = 1.1
"""A variant of our own stays when it is at most this much slower than an opaque one, which nothing
overlaps with. On an H200, 512 x 2048 x 8192 with a residual: 31.2 us and cuBLASLt's 29.4 when they
are measured, 29.6 and 30.8 between the kernels of a model, with 2.7 us more of gaps."""

LEAST_EACH = 3
"""Variants of a problem that are measured however many problems there are: the first of them are
the nearest by estimate."""


class Tuner:
    """Answers lowering's questions from measurements: those on disk, and new ones."""

    def __init__(
        self,
        backend: Backend,
        every: bool = False,
        tolerance: float = TOLERANCE,
        progress: Progress | None = None,
    ) -> None:
        """`every`: also layers too small to be worth it."""
        self._backend = backend
        self._every = every
        self._tolerance = tolerance
        self._progress = progress
        self._known: dict[str, list[Candidate]] = {}
        self._problems = 1  # of the program
        self._builds = False  # for measurements
        self._asking: Mapping[Problem, Call] = {}

    def __call__(self, problem: Problem, names: Sequence[str], usual: str) -> Choice:
        why = self._why_not(problem, names)
        if why:
            return unmeasured(names, usual, why)
        file = self.file(problem)
        known = {c.name: c for c in self._known.get(problem.key, ())}
        tried = self._tried(names)
        measured = [known[n] for n in names if n in known]
        if not known.keys() >= set(tried):
            found = self._read(file, names)
            if found is None:
                # Ranks that measure at once disturb each other, and may disagree.
                with claimed(file):
                    found = self._read(file, names) or self._measured(file, problem, tried)
            if found is None:
                return unmeasured(names, usual, "usual; could not be measured here")
            self._known[problem.key] = measured = found
        choice = pick(measured, usual, self._tolerance, self._backend.target.opaque)
        left = [n for n in names if n not in {c.name for c in measured}]
        why = f"not measured among {self._problems} problems; tune=True measures all"
        return replace(
            choice, candidates=(*choice.candidates, *(Candidate(n, why=why) for n in left))
        )

    def _tried(self, names: Sequence[str]) -> list[str]:
        """Those of the variants that are measured: libraries' calls and, where a program has many
        problems, the first of our own."""
        target = self._backend.target
        own = [n for n in names if n not in target.opaque]
        if not self._every:
            own = own[: max(LEAST_EACH, int(min(target.candidates / self._problems, len(own))))]
        return [n for n in names if n in own or n in target.opaque]

    def _read(self, file: Path, names: Sequence[str]) -> list[Candidate] | None:
        """What is known of all variants, or of those that are measured here."""
        return _read(file, names) or _read(file, self._tried(names))

    def expect(
        self,
        asked: Iterable[tuple[Problem, Sequence[str]]],
        kernels: Sequence[Kernel] = (),
        asking: Mapping[Problem, Call] | None = None,
    ) -> None:
        """All questions that will follow, and which calls ask them: what has to be built for them
        is begun together, with those of the program's kernels that no answer will change."""
        self._asking = asking or {}
        those = {p: names for p, names in dict(asked).items() if not self._why_not(p, names)}
        self._problems = max(len(those), 1)
        pending = [
            (problem, self._tried(names))
            for problem, names in those.items()
            if self._read(self.file(problem), names) is None
        ]
        self._builds = bool(pending)
        if pending:
            open_ = {problem for problem, _ in pending}
            self._backend.prepare(
                pending,
                [k for k in kernels if not any(t.problem in open_ for t in k.tiles)],
                asking,
            )

    def begin(self, kernel: Kernel) -> None:
        """Begin to build a kernel whose variants are chosen, while others are measured."""
        if self._builds:
            self._backend.prepare((), (kernel,))

    def _why_not(self, problem: Problem, names: Sequence[str]) -> str:
        """Why a problem is not measured; empty if it is."""
        if not self._every and not problem.unasked:
            return "usual; measured when asked for (tune)"
        measurable = problem.op in self._backend.target.measured
        small = not self._every and problem.operations < WORTH
        if not measurable or len(names) < 2 or small:
            return "usual for such sizes; too small to be measured"
        return ""

    def _measured(
        self, file: Path, problem: Problem, names: Sequence[str]
    ) -> list[Candidate] | None:
        asking = self._asking.get(problem)
        measured = self._backend.measure(problem, names, self._progress, asking)
        if measured is not None:
            _write(file, problem, measured)
            if self._progress is not None:
                count = len(self._known) + 1
                self._progress(count, count, f"measured {problem.key}")
        return measured

    def file(self, problem: Problem) -> Path:
        """Where the measurement of a problem is kept."""
        asked = self._backend.measured_as(problem, self._asking.get(problem))
        key = hash_text(f"{self._backend.identity} {problem.key} {asked}".rstrip())
        return made_cache_folder() / f"tuned-{key}.json"


def pick(
    measured: Sequence[Candidate],
    usual: str,
    tolerance: float,
    opaque: frozenset[str] = frozenset(),
) -> Choice:
    """The fastest among the exact enough; the usual one when it is as fast, and an opaque one only
    where it is much faster than all others."""
    judged = [
        replace(
            c, why=c.why or f"error {c.error:.1e}" + ("" if c.error <= tolerance else ", too large")
        )
        for c in measured
    ]
    good = [c for c in judged if c.error <= tolerance]
    if not good:
        return Choice(usual, tuple(judged))
    best = min(good, key=lambda c: c.seconds)
    own = [c for c in good if c.name not in opaque and c.seconds <= best.seconds * OPAQUE_WITHIN]
    best = min(own or [best], key=lambda c: c.seconds)
    same = [c for c in good if c.name == usual and c.seconds <= best.seconds * KEPT_WITHIN]
    return Choice((same or [best])[0].name, tuple(judged))


def _read(file: Path, names: Sequence[str]) -> list[Candidate] | None:
    try:
        if not file.exists():
            fetch(file)
        rows = json.loads(file.read_text())
        found = {
            str(name): Candidate(str(name), float(seconds), float(error), *map(str, why))
            for name, seconds, error, *why in rows["measured"]
        }
        return [found[name] for name in names]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(file: Path, problem: Problem, measured: Sequence[Candidate]) -> None:
    rows = [[c.name, c.seconds, c.error, *([c.why] if c.why else [])] for c in measured]
    text = json.dumps({"problem": problem.key, "measured": rows})
    write_whole(file, text)
    publish(file)
