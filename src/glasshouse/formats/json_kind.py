"""Which format a JSON file is in, from its first bytes: the keys that its outer levels use.

A small scanner walks the head without building anything. It notes the keys of the document, of its
first graph and of that graph's first node; the head may end anywhere.
"""

from __future__ import annotations

import re

# An unclosed string runs to the end of the head: trying again at every quote would be quadratic.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)
_COLON = re.compile(r"\s*:")
MAX_DEPTH = 12


def outer_keys(head: str) -> dict[tuple[str, ...], set[str]]:
    """Keys by path; a list's first element has the path part "0", others are not looked at."""
    found: dict[tuple[str, ...], set[str]] = {}
    path: list[str] = []
    lists: list[bool] = []  # whether each open container is a list
    counts: list[int] = []
    key = ""
    for token in _TOKEN.finditer(head):
        text = token[0]
        if text in "{[":
            if lists:
                path.append(str(counts[-1]) if lists[-1] else key)
            lists.append(text == "[")
            counts.append(0)
            if len(lists) > 100_000:
                break
            if text == "{" and len(path) <= MAX_DEPTH:
                found.setdefault(tuple(path), set())
        elif text in "}]":
            if not lists:
                break
            lists.pop()
            counts.pop()
            if path:
                path.pop()
        elif text == ",":
            if lists and lists[-1]:
                counts[-1] += 1
        elif text.startswith('"') and _COLON.match(head, token.end()):
            key = text[1:-1]
            if len(path) <= MAX_DEPTH:
                found.setdefault(tuple(path), set()).add(key)
    return found


def json_kind(head: str) -> str:
    """One of hidet, model_explorer, node_data, styler, sync, pt2, or "" for none of them."""
    keys = outer_keys(head)
    top = keys.get((), set())
    if not top:
        first = keys.get(("0",), set())
        if {"queries", "styles"} & first:
            return "styler"
        return "model_explorer" if {"nodes", "subgraphs", "id"} & first else ""
    if "mappingEntries" in top:
        return "sync"
    if {"graph_module", "schema_version"} <= top:
        return "pt2"
    if "graphs" in top:
        graph = keys.get(("graphs", "0"), set())
        node = keys.get(("graphs", "0", "nodes", "0"), set())
        if "format" in top or {"inputs", "outputs"} & graph or {"type", "inputs", "outputs"} & node:
            return "hidet"
        return "model_explorer"
    if "nodes" in top:
        return "model_explorer"
    inner = [keys.get((key,), set()) for key in top]
    return "node_data" if any("results" in k for k in inner) else ""
