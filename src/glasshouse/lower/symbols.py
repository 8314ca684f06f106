"""Names of variables for symbols, the sizes that are known only when a program runs."""

from __future__ import annotations


def symbol_name(name: str) -> str:
    """A variable for a symbol; names from files may hold anything, and stay apart."""
    plain = (c if c == "_" or (c.isascii() and c.isalnum()) else f"_{ord(c):x}_" for c in name)
    return "n_" + "".join(plain)
