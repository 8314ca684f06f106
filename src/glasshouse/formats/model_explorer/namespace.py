"""How a namespace is cut into groups: `/` separates, `\\/` is a slash inside a name."""

from __future__ import annotations


def split(namespace: str) -> tuple[str, ...]:
    """The names of the groups, outermost first; of a `;` list the last entry counts."""
    if ";" in namespace:
        entries = [e for e in namespace.split(";") if e]
        namespace = entries[-1] if entries else ""
    if "\\/" not in namespace:
        return tuple(part for part in namespace.split("/") if part)
    parts, part, i = [], [], 0
    while i < len(namespace):
        if namespace.startswith("\\/", i):
            part.append("/")
            i += 2
            continue
        if namespace[i] == "/":
            parts.append("".join(part))
            part = []
        else:
            part.append(namespace[i])
        i += 1
    parts.append("".join(part))
    return tuple(p for p in parts if p)


def join(path: tuple[str, ...] | list[str]) -> str:
    """The namespace of a path; the inverse of `split` as far as names are not empty."""
    # A semicolon would cut the namespace and cannot be escaped.
    return "/".join(p.replace("/", "\\/").replace(";", ",") or "_" for p in path)
