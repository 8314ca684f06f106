"""Which module a weight belongs to, by its dotted name: "encoder.0.weight" is in "encoder.0".

Modules are those that the nodes of a graph name. They are held as a tree of the parts between dots,
so that a name of a hundred thousand parts costs its length once.
"""

from __future__ import annotations


class Modules:
    """The modules of a graph."""

    def __init__(self) -> None:
        self._next: dict[tuple[int, str], int] = {}  # (place in the tree, part) -> place
        self._module: dict[int, tuple[list[str], int]] = {}  # place -> path, and how much of it

    def add(self, path: list[str]) -> None:
        """A module's path, with all modules around it; its parts may hold dots themselves."""
        place = 0
        for depth, name in enumerate(path, 1):
            for part in name.split("."):
                place = self._next.setdefault((place, part), len(self._next) + 1)
            self._module.setdefault(place, (path, depth))

    def of(self, weight: str) -> list[str]:
        """The path of the module that a weight's name points into; [] if there is none."""
        owner, dot, _ = weight.rpartition(".")
        place: int | None = 0 if dot else None
        for part in owner.split("."):
            if place is None:
                return []
            place = self._next.get((place, part))
        path, depth = self._module.get(-1 if place is None else place, ([], 0))
        return path[:depth]
