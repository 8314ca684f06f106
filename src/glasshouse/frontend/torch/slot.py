"""What a captured tensor holds when models write into tensors and into views of them.

A graph has values, PyTorch has memory. A `Slot` is a tensor of the captured program: it has a value
of the graph, or it is a view of another slot and has its part of that. Writing into a slot gives
it another value; writing into a view gives its parent another value, and other views of it are
computed again when they are read next. A program that writes nothing makes no node for this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glasshouse.frontend.torch.complex import Complex, as_complex

Replay = Callable[[Any], Any]
Back = Callable[[Any, Any], Any]


class Slot:
    """A tensor whose value may be replaced.

    `replay(parent)` computes a view again, `back(parent, new)` gives the parent with the view's
    part replaced. `make()` gives the first value of a slot when it is first read: a weight enters
    the graph where it is used, or not at all.
    """

    __slots__ = ("_back", "_make", "_parent", "_replay", "_seen", "_value", "written")

    def __init__(
        self,
        value: Any = None,
        make: Callable[[], Any] | None = None,
        parent: Slot | None = None,
        replay: Replay | None = None,
        back: Back | None = None,
    ) -> None:
        self._value = value
        self._make = make
        self._parent = parent
        self._replay = replay
        self._back = back
        self._seen = parent.read() if parent is not None else None
        self.written = False

    @property
    def root(self) -> Slot:
        slot = self
        while slot._parent is not None:
            slot = slot._parent
        return slot

    def _chain(self) -> list[Slot]:
        """This slot and those that it is a view of, outermost first."""
        chain = [self]
        while chain[-1]._parent is not None:
            chain.append(chain[-1]._parent)
        return chain[::-1]

    def read(self) -> Any:
        """The handle of what it holds now."""
        if self._parent is None:
            if self._make is not None:
                make, self._make = self._make, None
                self._value = make()
            return self._value
        held = None
        for slot in self._chain():
            if slot._parent is None:
                held = slot.read()
                continue
            if slot._seen is not held:
                assert slot._replay is not None  # a view has one
                slot._value, slot._seen = slot._replay(held), held
            held = slot._value
        return held

    def seen_in(self, held: Any) -> Any:
        """What it would hold if what it is a view of in the end held this."""
        for slot in self._chain()[1:]:
            assert slot._replay is not None  # a view has one
            held = slot._replay(held)
        return held

    def write(self, new: Any) -> None:
        """Let it hold another value, and whatever shares its memory the parts of it."""
        chain = self._chain()
        held = [slot.read() for slot in chain]
        values = [new]
        for slot, parent in zip(reversed(chain[1:]), reversed(held[:-1]), strict=True):
            assert slot._back is not None  # a view has one
            values.append(slot._back(parent, values[-1]))
        values.reverse()
        for i, slot in enumerate(chain):
            slot._value = values[i]
            slot._seen = values[i - 1] if i else None
        chain[0].written = True

    def assign(self, new: Any) -> None:
        """Write as `copy_` does: cast and broadcast to what is held."""
        old = self.read()
        if isinstance(old, Complex):
            pairs = as_complex(new).pairs.cast(old.dtype)
            if pairs.shape != old.pairs.shape:
                pairs = pairs.apply("expand", shape=old.pairs.shape)
            self.write(Complex(pairs))
            return
        if isinstance(new, Complex):  # PyTorch warns, and leaves the imaginary part out
            new = new.parts()[0]
        new = new.cast(old.dtype)
        if new.shape != old.shape:
            new = new.apply("expand", shape=old.shape)
        self.write(new)


def contents(found: Any) -> Any:
    """What the slots in a result hold, with the handles in their place."""
    if isinstance(found, Slot):
        return found.read()
    if isinstance(found, (list, tuple)):
        return tuple(contents(f) for f in found)
    return found
