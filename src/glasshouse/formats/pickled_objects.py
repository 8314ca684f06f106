"""What a pickle of objects says, as inert records: which class, which arguments, which state.

The instructions that would import and call something leave a record of it instead. Nothing named in
the file is ever looked up, so a pickle that asks for `os.system` is a record with that name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from glasshouse.formats.unpickle import Machine, brief
from glasshouse.record.budget import Budget


@dataclass(frozen=True)
class Name:
    """A class or function, by its dotted name."""

    text: str


@dataclass(frozen=True, eq=False)
class Persistent:
    """Something that is kept outside of the pickle; of PyTorch: a storage."""

    value: Any


@dataclass(eq=False)
class Made:
    """An object that unpickling would have made by calling `what`."""

    what: str
    arguments: Any
    state: Any = None
    items: dict[Any, Any] = field(default_factory=dict)
    elements: list[Any] = field(default_factory=list)


def load(data: bytes, where: str, budget: Budget) -> Any:
    """The value that a pickle describes, with records in the place of objects."""
    return _Recorder(data, where, budget).run()


class _Recorder(Machine):
    def fill(self, target: dict[Any, Any], items: list[Any]) -> None:
        keys = [k if isinstance(k, str) else brief(k) for k in items[::2]]
        if len(items) % 2:
            self.bad("has a key without a value")
        target.update(zip(keys, items[1::2], strict=True))

    def top(self, kind: type) -> Any:
        if self.stack and type(self.stack[-1]) is Made and kind in (dict, list):
            made: Made = self.stack[-1]
            return made.items if kind is dict else made.elements
        return super().top(kind)

    def other(self, code: int) -> None:
        if code == ord("c"):
            module = self.line()
            self.stack.append(self.fresh(Name(f"{module}.{self.line()}")))
        elif code == 0x93:  # STACK_GLOBAL
            name, module = self.pop(), self.pop()
            self.stack.append(self.fresh(Name(f"{brief_text(module)}.{brief_text(name)}")))
        elif code in (ord("R"), 0x81, 0x92):  # REDUCE, NEWOBJ, NEWOBJ_EX
            if code == 0x92:
                self.pop()
            arguments, what = self.pop(), self.pop()
            self.stack.append(self.fresh(self.made(what, arguments)))
        elif code == ord("b"):  # BUILD
            state = self.pop()
            if self.stack and type(self.stack[-1]) is Made:
                self.stack[-1].state = state
        elif code == ord("Q"):
            self.stack.append(self.fresh(Persistent(self.pop())))
        elif code == ord("P"):
            self.stack.append(self.fresh(Persistent(self.line())))
        elif code == 0x8F:  # EMPTY_SET; a list serves as well
            self.stack.append(self.fresh([]))
        elif code == 0x90:  # ADDITEMS
            items = self.since_mark()
            self.top(list).extend(items)
        elif code == 0x91:  # FROZENSET
            self.stack.append(self.fresh(self.since_mark()))
        else:
            self.refuse(code)

    def made(self, what: Any, arguments: Any) -> Any:
        name = what.text if isinstance(what, Name) else "?"
        if name == "collections.OrderedDict":
            return {}
        return Made(name, arguments)


def brief_text(value: Any) -> str:
    return value if isinstance(value, str) else brief(value)
