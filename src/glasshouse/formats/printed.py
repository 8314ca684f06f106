"""How printed argument lists are taken apart: at marks outside brackets and strings."""

from __future__ import annotations

_OPEN, _CLOSE = "([{<", ")]}>"


def split_top(text: str, mark: str = ",") -> list[str]:
    """Parts between marks that stand outside brackets and strings; empty ones are dropped."""
    parts, depth, start, i = [], 0, 0, 0
    while i < len(text):
        c = text[i]
        if c == '"':
            i = end_of_string(text, i)
            continue
        if depth == 0 and text.startswith(mark, i):
            parts.append(text[start:i].strip())
            i += len(mark)
            start = i
            continue
        if text.startswith("->", i):
            i += 2
            continue
        depth += (c in _OPEN) - (c in _CLOSE)
        i += 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]


def end_of_string(text: str, start: int) -> int:
    """Behind the string literal that starts here."""
    i = start + 1
    while i < len(text) and text[i] != '"':
        i += 2 if text[i] == "\\" else 1
    return min(i + 1, len(text))
