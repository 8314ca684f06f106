"""How `table.txt` is read: sections named by state and reason, names below them.

    [ok]
    abs acos add

    [opaque: the number of results depends on the data]
    nonzero

Every op stands in exactly one of ok, opaque, opaque in part, and skipped. Further sections say more
about ops that have a state: `no gradient: ...`, `another gradient: ...` (where PyTorch's is the
odd one) and `captured by running once: ...`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

STATES = ("ok", "opaque in part", "opaque", "skipped")
MORE = ("no gradient", "another gradient", "captured by running once")
PATH = Path(__file__).parent / "table.txt"


@dataclass
class Table:
    states: dict[str, tuple[str, str]] = field(default_factory=dict)  # op -> (state, reason)
    more: dict[str, dict[str, str]] = field(default_factory=lambda: {m: {} for m in MORE})

    def counts(self) -> dict[str, int]:
        found = Counter(state for state, _ in self.states.values())
        return {state: found[state] for state in STATES}

    def text(self) -> str:
        """The counts, and what is not ok by its reason."""
        counts = ", ".join(f"{n} {state}" for state, n in self.counts().items())
        lines = [f"OpInfo: {len(self.states)} ops: {counts}"]
        reasons = Counter((s, why) for s, why in self.states.values() if s != "ok")
        for kind, ops in self.more.items():
            reasons.update((kind, why) for why in ops.values())
        lines += [f"  {n:4} {state}: {why}" for (state, why), n in reasons.most_common()]
        return "\n".join(lines)


def read(text: str) -> Table:
    table = Table()
    state = reason = ""
    for line in text.splitlines():
        if line.startswith("["):
            state, _, reason = line.strip("[]").partition(": ")
            assert state in STATES + MORE, f"{state!r} is no state"
            assert reason or state == "ok", f"[{state}] needs a reason"
            continue
        if line.startswith("#"):
            continue
        held = table.more.get(state)
        for name in line.split():
            where = table.states if held is None else held
            assert name not in where, f"{name} stands in two sections"
            if held is None:
                table.states[name] = (state, reason)
            else:
                held[name] = reason
    return table


def load() -> Table:
    return read(PATH.read_text(encoding="utf-8"))
