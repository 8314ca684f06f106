"""How arguments and results that are tuples, lists and dicts of tensors are taken apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glasshouse.ir.signature import Container, Structure

Path = tuple[str, ...]


def flatten(tree: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    """The leaves with their paths, in order; None is no leaf.

    Containers are nested a few levels deep, so this one recursion has a small bound.
    """
    if tree is None:
        return []
    out: list[tuple[Path, Any]] = []
    for key, child in _children(tree):
        out += flatten(child, (*path, key))
    return out if _is_container(tree) else [(path, tree)]


def rebuild(tree: Any, leaf: Callable[[Path, Any], Any], path: Path = ()) -> Any:
    """The same containers with other leaves."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {k: rebuild(v, leaf, (*path, str(k))) for k, v in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*[rebuild(v, leaf, (*path, k)) for k, v in _children(tree)])
    if isinstance(tree, (tuple, list)):
        return type(tree)([rebuild(v, leaf, (*path, k)) for k, v in _children(tree)])
    return leaf(path, tree)


def _is_container(tree: Any) -> bool:
    return isinstance(tree, (dict, tuple, list))


def _children(tree: Any) -> list[tuple[str, Any]]:
    if isinstance(tree, dict):
        return [(str(k), v) for k, v in tree.items()]
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return list(zip(tree._fields, tree, strict=True))
    if isinstance(tree, (tuple, list)):
        return [(str(i), v) for i, v in enumerate(tree)]
    return []


def described(tree: Any, leaf: Callable[[Any], Structure]) -> Structure:
    """The containers as a signature tells of them; `leaf` says what stands for each leaf."""
    if tree is None or not _is_container(tree):
        return leaf(tree)
    children = _children(tree)
    parts = tuple(described(child, leaf) for _, child in children)
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        kind = type(tree)
        return Container(kind.__name__, kind._fields, parts, list, lambda made: kind(*made))
    plain = "dict" if isinstance(tree, dict) else "list" if isinstance(tree, list) else "tuple"
    names = tuple(tree) if isinstance(tree, dict) else tuple(range(len(parts)))
    return Container(plain, names, parts)
