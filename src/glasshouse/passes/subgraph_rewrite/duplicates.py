"""Which nodes are superfluous: what nothing reads, and what is computed already."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable

import numpy as np

from glasshouse.ir.given_sizes import may_give_size
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.rewriter import Rewriter
from glasshouse.ir.sources import CONSTANT, INPUT, VARIABLE

_SMALL = 64
"""Constants with at most this many elements are compared by their data."""

_FOLDED = 1 << 20
"""Bytes up to which those without a name are compared, too: what was folded may be there for every
layer (the empty caches of a Llama of 22 layers were 44 times the same 256 KB)."""


def remove_dead(graph: Graph, rw: Rewriter) -> None:
    """Remove what no output and no update needs."""
    dead = [
        n for n in graph.nodes
        if n.op is not INPUT and n not in graph.updates
        and not any(v._uses or graph.is_held(v) for v in n.outputs)
        and not may_give_size(n)
    ]  # fmt: skip
    if dead:
        rw.remove_dead(dead, why="nothing reads it")


def merge_duplicates(graph: Graph, rw: Rewriter) -> None:
    """Let equal nodes be one; in topological order, operands are merged before their readers."""
    first: dict[Hashable, Node] = {}
    for node in graph.nodes:
        key = _key(node)
        if key is None:
            continue
        kept = first.setdefault(key, node)
        if kept is not node:
            why = f"%{kept.id} is the same {node.op.label}"
            rw.replace(node, kept.outputs, rule="duplicate", why=why, matched=[kept])


def _key(node: Node) -> Hashable | None:
    op = node.op
    if op is CONSTANT:
        return _constant_key(node)
    if op is INPUT or op is VARIABLE or not op.traits.merges:
        return None
    operands = tuple([(v.node.id, v.index) for v in node.inputs])
    key = (op.name, operands, tuple(node.attrs.values()))
    try:
        hash(key)
    except TypeError:  # an array or a graph among the attributes
        return None
    return key


def _constant_key(node: Node) -> Hashable | None:
    data = node.attrs["data"]
    if data is None:
        return None
    type, name = node.output.type, node.attrs["name"]
    if data.size <= _SMALL:
        return ("constant", type, name, np.asarray(data).tobytes())
    if not name and data.nbytes <= _FOLDED:
        digest = hashlib.sha256(np.asarray(data).tobytes()).digest()
        return ("constant", type, name, digest)
    return ("constant", type, name, id(data))
