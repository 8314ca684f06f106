"""How symbolic sizes read: `Mul(Integer(2), Symbol('s0', ...))` as `2*s0`."""

from __future__ import annotations

import re

_TOKEN = re.compile(r"\s*(?:([A-Za-z_]\w*)\(|'([^']*)'|(-?\d+)|([A-Za-z_]\w*)=\w+|([,)]))")
_INFIX = {"Add": " + ", "Mul": "*", "Pow": "**", "FloorDiv": "//", "Mod": " % ", "PythonMod": " % ",
          "CeilDiv": " ceildiv ", "TrueDiv": "/"}  # fmt: skip
MAX_LENGTH = 10_000


def readable(expression: str) -> str:
    """An expression as people write it; unknown spellings are given back as they are."""
    if "(" not in expression or len(expression) > MAX_LENGTH:
        return expression
    stack: list[tuple[str, list[str]]] = [("", [])]
    place = 0
    while place < len(expression):
        found = _TOKEN.match(expression, place)
        if not found:
            return expression
        place = found.end()
        call, quoted, number, keyword, mark = found.groups()
        if call is not None:
            stack.append((call, []))
        elif quoted is not None or number is not None:
            stack[-1][1].append(quoted if quoted is not None else number)
        elif mark == ")":
            if len(stack) < 2:
                return expression
            name, arguments = stack.pop()
            stack[-1][1].append(_apply(name, arguments))
        else:
            assert keyword or mark == ","
    done = stack[0][1]
    return done[0] if len(stack) == 1 and len(done) == 1 else expression


def _apply(name: str, arguments: list[str]) -> str:
    if name in ("Symbol", "Integer", "Float"):
        return arguments[0] if arguments else name
    if name in _INFIX and len(arguments) > 1:
        loose = name != "Add"
        parts = [f"({a})" if loose and re.search(r"[ *%/]", a) else a for a in arguments]
        return _INFIX[name].join(parts)
    return f"{name}({', '.join(arguments)})"
