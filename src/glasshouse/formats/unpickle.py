"""What a pickle may say: plain containers, strings and numbers, and never "run this".

An interpreter of its own for the part of the pickle language that builds dict, list, tuple, str,
bytes, int, float, bool and None. Everything that names or calls something is refused, so nothing
is imported or executed; memory stays within a small multiple of the input.
"""

from __future__ import annotations

import pickletools
import struct
from typing import Any, NoReturn

from glasshouse.errors import FormatError
from glasshouse.record.budget import Budget

_NAMES = {ord(op.code): op.name for op in pickletools.opcodes}
_CALLS = {"REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "GLOBAL", "STACK_GLOBAL",
          "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"}  # fmt: skip

# Opcodes that push a number stored in a fixed layout.
_FIXED = {ord("J"): "<i", ord("K"): "<B", ord("M"): "<H", ord("G"): ">d"}
# Opcodes that push text or bytes behind a length: layout of the length, and whether it is text.
_COUNTED = {
    0x8C: ("<B", True), ord("X"): ("<I", True), 0x8D: ("<Q", True),
    ord("C"): ("<B", False), ord("B"): ("<I", False), 0x8E: ("<Q", False),
    ord("U"): ("<B", True), ord("T"): ("<i", True),
}  # fmt: skip
_CONSTANTS: dict[int, Any] = {ord("N"): None, 0x88: True, 0x89: False}


class _Mark:
    pass


_MARK = _Mark()


def load(data: bytes, where: str, budget: Budget | None = None) -> Any:
    """The value that a pickle builds; FormatError for anything but plain data."""
    return Machine(data, where, budget or Budget(where, len(data))).run()


def brief(value: Any) -> str:
    """A value for a message; never `repr` of a container, which may hold itself or shared lists
    that unfold without end."""
    if isinstance(value, (str, bytes)):
        return repr(value[:40])
    if isinstance(value, (bool, float, type(None))) or (
        isinstance(value, int) and value.bit_length() < 200
    ):
        return repr(value)
    return f"a {type(value).__name__}"


class Machine:
    def __init__(self, data: bytes, where: str, budget: Budget) -> None:
        self.data = data
        self.where = where
        self.position = 0
        self.stack: list[Any] = []
        self.budget = budget
        budget.place = lambda: f"byte {self.position}"
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        while True:
            start = self.position
            code = self.take(1)[0]
            if code == ord("."):
                value = self.pop()
                if self.stack:
                    self.bad("leaves more than one value behind")
                return value
            try:
                self.step(code)
            except FormatError:
                raise
            except (ValueError, TypeError, OverflowError, UnicodeDecodeError) as error:
                self.bad(f"is damaged at byte {start} ({type(error).__name__})")

    def bad(self, what: str) -> NoReturn:
        raise FormatError(f"{self.where}: the pickle {what}")

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self.data):
            self.bad("is cut off")
        found = self.data[self.position : end]
        self.position = end
        return found

    def number(self, layout: str) -> Any:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def line(self) -> str:
        end = self.data.find(b"\n", self.position)
        if end < 0:
            self.bad("is cut off")
        found = self.data[self.position : end].decode("latin-1")
        self.position = end + 1
        return found

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is _MARK:
            self.bad("takes from an empty stack")
        return self.stack.pop()

    def top(self, kind: type) -> Any:
        if not self.stack or type(self.stack[-1]) is not kind:
            self.bad(f"adds to something that is no {kind.__name__}")
        return self.stack[-1]

    def fresh(self, container: Any) -> Any:
        self.budget.spend("objects")
        return container

    def since_mark(self) -> list[Any]:
        items: list[Any] = []
        while self.stack:
            item = self.stack.pop()
            if item is _MARK:
                items.reverse()
                return items
            items.append(item)
        return self.bad("closes what it never opened")

    def fill(self, target: dict[Any, Any], items: list[Any]) -> None:
        if len(items) % 2:
            self.bad("has a key without a value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            # Hashes of larger ints can be made to collide on purpose, which would take for ever.
            if not isinstance(key, str) and not (isinstance(key, int) and abs(key) < 2**60):
                self.bad(f"has a key of type {type(key).__name__}")
            target[key] = value

    def step(self, code: int) -> None:
        stack = self.stack
        if code in _COUNTED:
            layout, is_text = _COUNTED[code]
            raw = self.take(self.number(layout))
            stack.append(raw.decode("utf-8", "replace") if is_text else raw)
        elif code == 0x94:  # MEMOIZE
            self.remember(len(self.memo))
        elif code in _FIXED:
            stack.append(self.number(_FIXED[code]))
        elif code in _CONSTANTS:
            stack.append(_CONSTANTS[code])
        elif code == ord("("):
            stack.append(_MARK)
        elif code == ord("}"):
            stack.append(self.fresh({}))
        elif code == ord("]"):
            stack.append(self.fresh([]))
        elif code == ord(")"):
            stack.append(())
        elif code == ord("a"):
            item = self.pop()
            self.top(list).append(item)
        elif code == ord("e"):
            items = self.since_mark()
            self.top(list).extend(items)
        elif code == ord("s"):
            value, key = self.pop(), self.pop()
            self.fill(self.top(dict), [key, value])
        elif code == ord("u"):
            items = self.since_mark()
            self.fill(self.top(dict), items)
        elif code in b"hjg":  # BINGET, LONG_BINGET, GET
            self.recall({ord("h"): "<B", ord("j"): "<I"}.get(code))
        elif code in b"qrp":  # BINPUT, LONG_BINPUT, PUT
            layout_of = {ord("q"): "<B", ord("r"): "<I"}
            self.remember(self.number(layout_of[code]) if code in layout_of else int(self.line()))
        else:
            self.rare(code)

    def rare(self, code: int) -> None:
        stack = self.stack
        if code == 0x80:  # PROTO
            if self.number("<B") > 5:
                self.bad("is of a newer protocol than 5")
        elif code == 0x95:  # FRAME
            self.take(8)
        elif code in (0x85, 0x86, 0x87):  # TUPLE1 to TUPLE3
            items = [self.pop() for _ in range(code - 0x84)]
            stack.append(self.fresh(tuple(reversed(items))))
        elif code == ord("t"):
            stack.append(self.fresh(tuple(self.since_mark())))
        elif code == ord("l"):
            stack.append(self.fresh(self.since_mark()))
        elif code == ord("d"):
            made: dict[Any, Any] = self.fresh({})
            self.fill(made, self.since_mark())
            stack.append(made)
        elif code in (0x8A, 0x8B):  # LONG1, LONG4
            raw = self.take(self.number("<B" if code == 0x8A else "<i"))
            stack.append(int.from_bytes(raw, "little", signed=True))
        elif code == ord("I"):
            text = self.line()
            stack.append({"00": False, "01": True}.get(text) if text in ("00", "01") else int(text))
        elif code == ord("L"):
            stack.append(int(self.line().removesuffix("L")))
        elif code == ord("F"):
            stack.append(float(self.line()))
        elif code == ord("V"):
            stack.append(self.line().encode("latin-1").decode("raw-unicode-escape"))
        elif code == ord("S"):
            quoted = self.line()
            if len(quoted) < 2 or quoted[0] not in "'\"" or quoted[-1] != quoted[0]:
                self.bad("has a string without quotes")
            stack.append(quoted[1:-1].encode("latin-1").decode("unicode-escape"))
        elif code == ord("0"):
            self.pop()
        elif code == ord("1"):
            self.since_mark()
        elif code == ord("2"):
            stack.append(self.top(type(stack[-1]) if stack else object))
        else:
            self.other(code)

    def other(self, code: int) -> None:
        """An instruction that is more than plain data."""
        self.refuse(code)

    def refuse(self, code: int) -> NoReturn:
        name = _NAMES.get(code)
        if name in _CALLS:
            self.bad(f"asks to run code ({name} at byte {self.position - 1}); it is not opened")
        if name is None:
            self.bad(f"has an unknown instruction at byte {self.position - 1}")
        self.bad(f"holds more than plain data ({name} at byte {self.position - 1})")

    def remember(self, key: int) -> None:
        if not self.stack or self.stack[-1] is _MARK:
            self.bad("remembers nothing")
        # Without this bound a few bytes could claim gigabytes; every entry has cost one byte.
        if len(self.memo) > self.position:
            self.bad("remembers more than it says")
        self.memo[key] = self.stack[-1]

    def recall(self, layout: str | None) -> None:
        key = int(self.line()) if layout is None else self.number(layout)
        if key not in self.memo:
            self.bad("recalls what it never remembered")
        self.stack.append(self.memo[key])
