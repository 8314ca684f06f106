"""What a planted fault is: where it shows, which command must find it, what that must print."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

Plant = Callable[[pytest.MonkeyPatch], None]

INTERP = ("check", "{}", "--target", "interp")
NATIVE = ("check", "{}")
SLOWER = ("diff", "before.glass", "after.glass", "--max-slower", "3")
"""Of recordings that `explain` made before the fault was planted, and with it."""


@dataclass(frozen=True)
class Fault:
    """`command` has `{}` where the model stands; one that reads before.glass gets both recordings.

    `slow`: it needs a C++ compiler, or time.
    """

    name: str
    model: str
    plant: Plant
    says: tuple[str, ...]
    command: tuple[str, ...]
    slow: bool
    area: str  # the file that it is planted in


FAULTS: list[Fault] = []


def fault(
    model: str, *says: str, command: tuple[str, ...] = INTERP, slow: bool | None = None
) -> Callable[[Plant], Plant]:
    """Add what it decorates to the faults; those on native code are slow unless said otherwise."""

    def add(plant: Plant) -> Plant:
        late = "interp" not in command if slow is None else slow
        area = plant.__module__.rpartition(".")[2]
        FAULTS.append(Fault(plant.__name__, model, plant, says, command, late, area))
        return plant

    return add
