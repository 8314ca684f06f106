"""Steps of several ranks on one clock: all leave a collective at the same moment.

Clocks of machines differ, so ranks are lined up where they meet: a collective ends for everybody
when the last one has come and the data is there. Who comes last is waited for by all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

Rank = int
_WORTH_NAMING = 0.05  # of the whole time that the others wait for one rank


@dataclass(frozen=True)
class RankStep:
    """One step of a rank's program; `meets` is the collective that it waits for, "" if none."""

    name: str
    seconds: float
    meets: str = ""


@dataclass(frozen=True)
class Meeting:
    """One collective: when each rank came to it, and what kept the last one."""

    name: str
    places: tuple[int, ...]  # of the waiting step, by rank
    came: tuple[float, ...]  # seconds from the beginning, by rank
    ended: float
    last: Rank
    late: float  # seconds that the last rank came behind the middle one of the others
    kept_by: str = ""  # the last rank's step that took longest beside the others'


@dataclass(frozen=True)
class RankTimeline:
    """`starts` has the beginning of every step, by rank."""

    starts: list[list[float]]
    meetings: list[Meeting]
    seconds: float

    def straggler(self) -> tuple[Rank, float] | None:
        """The rank that the others wait for longest, and the seconds; None if none stands out."""
        waited: dict[Rank, float] = {}
        for meeting in self.meetings:
            waited[meeting.last] = waited.get(meeting.last, 0.0) + meeting.late
        rank = max(waited, key=lambda r: waited[r], default=-1)
        if rank < 0 or waited[rank] < _WORTH_NAMING * self.seconds:
            return None
        return rank, waited[rank]


def lined_up(ranks: Sequence[Sequence[RankStep]]) -> RankTimeline:
    """Times from the beginning of a call, which all ranks begin together.

    Where ranks have different numbers of collectives, the first ones are lined up.
    """
    waits = [[i for i, step in enumerate(steps) if step.meets] for steps in ranks]
    starts: list[list[float]] = [[] for _ in ranks]
    meetings: list[Meeting] = []
    begins, now = [0] * len(ranks), 0.0
    for places in zip(*waits, strict=False):
        parts = [s[b:p] for s, b, p in zip(ranks, begins, places, strict=True)]
        came = [_laid(starts[r], part, now) for r, part in enumerate(parts)]
        for r, arrival in enumerate(came):
            starts[r].append(arrival)
        # Who comes last waits for the data alone.
        transfer = min(steps[p].seconds for steps, p in zip(ranks, places, strict=True))
        now = max(came) + transfer
        last = max(range(len(came)), key=came.__getitem__)
        others = [c for r, c in enumerate(came) if r != last]
        late = came[last] - median(others) if others else 0.0
        name = ranks[0][places[0]].meets
        kept = _kept_by(parts, last) if late > 0 else ""
        meetings.append(Meeting(name, tuple(places), tuple(came), now, last, late, kept))
        begins = [p + 1 for p in places]
    ends = [_laid(starts[r], s[begins[r] :], now) for r, s in enumerate(ranks)]
    return RankTimeline(starts, meetings, max(ends, default=0.0))


def _laid(starts: list[float], steps: Sequence[RankStep], now: float) -> float:
    """Steps one behind the other; when the last one ends."""
    for step in steps:
        starts.append(now)
        now += step.seconds
    return now


def _kept_by(parts: Sequence[Sequence[RankStep]], last: Rank) -> str:
    alike = len({len(p) for p in parts}) == 1

    def longer(i: int) -> float:
        others = [p[i].seconds for r, p in enumerate(parts) if r != last] if alike else []
        return parts[last][i].seconds - (median(others) if others else 0.0)

    place = max(range(len(parts[last])), key=longer, default=-1)
    return parts[last][place].name if place >= 0 else ""
