"""Nodes that are the same whatever they are called: by what they compute from what."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping

from glasshouse.record.graph_view import StageView


def structure_keys(stage: StageView) -> dict[int, str]:
    """A key for every node id, made of ops, types, attributes and what they are computed from.

    Equal nodes of one graph are counted, in order; names, modules and lines do not matter.
    """
    nodes = stage.nodes
    ids = nodes.array("id").tolist()
    reads = dict(zip(ids, nodes.pylist("input_nodes"), strict=True))
    own = {
        id: repr(facts)
        for id, *facts in zip(
            ids, nodes.pylist("op"), nodes.pylist("outputs"), nodes.pylist("input_ports"),
            nodes.pylist("attr_keys"), nodes.pylist("attr_values"), strict=True,
        )
    }  # fmt: skip
    hashes: dict[int, str] = {}
    for id in _in_order(ids, reads):
        below = ",".join(hashes.get(i, "?") for i in reads[id])
        hashes[id] = hashlib.blake2b(f"{own[id]}({below})".encode(), digest_size=12).hexdigest()
    seen: dict[str, int] = defaultdict(int)
    out: dict[int, str] = {}
    for id in ids:
        out[id] = f"{hashes[id]} {seen[hashes[id]]}"
        seen[hashes[id]] += 1
    return out


def _in_order(ids: list[int], reads: Mapping[int, list[int]]) -> list[int]:
    """Producers before consumers; what lies in a circle, as it stands."""
    known = set(ids)
    waiting = {id: len({i for i in reads[id] if i in known}) for id in ids}
    users: dict[int, list[int]] = defaultdict(list)
    for id in ids:
        for i in dict.fromkeys(reads[id]):
            if i in known:
                users[i].append(id)
    ready = [id for id in ids if not waiting[id]]
    out: list[int] = []
    while ready:
        id = ready.pop()
        out.append(id)
        for user in users[id]:
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    placed = set(out)
    return out + [id for id in ids if id not in placed]
