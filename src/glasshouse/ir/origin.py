"""What a node knows of where it comes from: the user's code, or a rewrite that made it."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Scope:
    """One step of a module path: the attribute's name, the module's class, where it was called."""

    name: str
    cls: str = ""
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of the user's call stack."""

    file: str
    line: int
    function: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """Where in the user's model: module path and call stack, both outermost first.

    The last of `frames` is the user's line; frames of a library below it are kept in `below`.
    """

    scopes: tuple[Scope, ...] = ()
    frames: tuple[Frame, ...] = ()
    below: tuple[Frame, ...] = ()

    @property
    def path(self) -> str:
        """`encoder.layer.0.attention`; "" outside any module."""
        return ".".join(s.name for s in self.scopes if s.name)

    def __str__(self) -> str:
        place = f"{self.frames[-1].file}:{self.frames[-1].line}" if self.frames else ""
        inside = f"in {self.path}" if self.path else ""
        return " ".join(p for p in (place, inside) if p)


NOWHERE = Source()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a node comes from.

    A traced node has a `source`. A made node also names the nodes it replaces, the pass and the
    rule; its source is that of the node it stands for. `grad_of` is the forward node whose gradient
    a node computes. `labels` put it into groups that are not modules, as pairs (grouping, group):
    ("phase", "backward"), ("partition", "cpu").
    """

    source: Source = NOWHERE
    name: str = ""  # the name it had in the user's model or file, if any
    pass_name: str = ""
    rule: str = ""
    replaces: tuple[int, ...] = ()
    grad_of: int | None = None
    labels: tuple[tuple[str, str], ...] = ()
    spans: tuple[str, ...] = ()  # modules below `source` that it was merged from: query, key, value

    def label(self, grouping: str) -> str | None:
        return next((group for key, group in self.labels if key == grouping), None)

    def with_label(self, grouping: str, group: str) -> Origin:
        kept = tuple(pair for pair in self.labels if pair[0] != grouping)
        return replace(self, labels=(*kept, (grouping, group)))
