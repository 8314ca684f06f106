"""Which node of one graph is which node of the next, when a file holds no links.

Passes saved as whole graphs (a folder of `N_Pass.json`) say nothing about what became of a node.
Nodes are matched by structure: first from the inputs down, then from the outputs up, then outward
from what is matched already.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field


@dataclass
class SnapNode:
    """A node of one snapshot; producers are indices into the same snapshot (-1: none)."""

    name: str
    op: str
    kind: str
    inputs: list[tuple[int, int]] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    attrs: dict[str, str] = field(default_factory=dict)
    output_names: list[str] = field(default_factory=list)
    input_names: list[str] = field(default_factory=list)
    fused: list[str] = field(default_factory=list)  # ops inside, in order
    bodies: list[int] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    fixed: str = ""  # a name that means the same in every snapshot: a graph's input
    quiet: tuple[str, ...] = ()  # attributes that may differ in a node that is still the same

    @property
    def is_constant(self) -> bool:
        return not self.inputs and not self.fixed

    @property
    def local(self) -> Hashable:
        """What the node is without regard to its neighbours."""
        said = tuple(sorted((k, v) for k, v in self.attrs.items() if k not in self.quiet))
        return (self.op, self.fixed, tuple(self.outputs), said)


@dataclass
class Snapshot:
    """A whole graph, producers before consumers wherever it has no cycle."""

    nodes: list[SnapNode]
    outputs: list[tuple[int, int]]

    def consumers(self) -> list[list[tuple[int, int]]]:
        """For each node, who reads it: (consumer, operand)."""
        out: list[list[tuple[int, int]]] = [[] for _ in self.nodes]
        for i, node in enumerate(self.nodes):
            for operand, (producer, _) in enumerate(node.inputs):
                if 0 <= producer < len(out):
                    out[producer].append((i, operand))
        return out


# ------------------------------------------------------------------------------------- matching
def match(old: Snapshot, new: Snapshot) -> dict[int, int]:
    """Which old node each new node is, where it is one."""
    pairs = _Pairs()
    # Ids of equal structures are shared between the two graphs through one table.
    known: dict[Hashable, int] = {}
    _pair_in_order(pairs, old, new, _from_inputs(old, known), _from_inputs(new, known))
    _pair_in_order(pairs, old, new, _from_outputs(old, known), _from_outputs(new, known))
    _spread(pairs, old, new)
    return pairs.of_new


class _Pairs:
    def __init__(self) -> None:
        self.of_new: dict[int, int] = {}
        self.of_old: dict[int, int] = {}

    def add(self, old: int, new: int) -> None:
        self.of_new[new] = old
        self.of_old[old] = new


def _from_inputs(graph: Snapshot, known: dict[Hashable, int]) -> list[int]:
    codes: list[int] = []
    for node in graph.nodes:
        above = tuple((codes[p] if p < len(codes) else -2, port) for p, port in node.inputs)
        codes.append(known.setdefault(("down", node.local, above), len(known)))
    return codes


def _from_outputs(graph: Snapshot, known: dict[Hashable, int]) -> list[int]:
    readers = graph.consumers()
    leaves = defaultdict(list)
    for place, (node, port) in enumerate(graph.outputs):
        leaves[node].append((place, port))
    codes = [0] * len(graph.nodes)
    for i in range(len(graph.nodes) - 1, -1, -1):
        below = tuple(sorted((codes[c], operand) for c, operand in readers[i]))
        key = ("up", graph.nodes[i].local, below, tuple(leaves.get(i, ())))
        codes[i] = known.setdefault(key, len(known))
    return codes


def _pair_in_order(
    pairs: _Pairs, old: Snapshot, new: Snapshot, old_codes: list[int], new_codes: list[int]
) -> None:
    """Pair nodes of equal code: the first with the first, the second with the second.

    Constants of equal type are left to their readers: files number them anew, so their order
    says nothing.
    """
    old_count, new_count = Counter(old_codes), Counter(new_codes)
    waiting = defaultdict(list)
    for i in reversed(range(len(old_codes))):
        if i not in pairs.of_old:
            waiting[old_codes[i]].append(i)
    for i, code in enumerate(new_codes):
        if i in pairs.of_new or not waiting.get(code):
            continue
        if new.nodes[i].is_constant and (old_count[code] > 1 or new_count[code] > 1):
            continue
        pairs.add(waiting[code].pop(), i)


def _spread(pairs: _Pairs, old: Snapshot, new: Snapshot) -> None:
    """Pair neighbours of paired nodes that stand in the same place and are alike."""
    old_readers, new_readers = old.consumers(), new.consumers()
    queue = list(pairs.of_new.items())
    while queue:
        b, a = queue.pop()
        candidates = list(
            zip(
                [p for p, _ in old.nodes[a].inputs],
                [p for p, _ in new.nodes[b].inputs],
                strict=False,
            )
        )
        by_place = defaultdict(list)
        for reader, operand in reversed(old_readers[a]):
            if reader not in pairs.of_old:
                by_place[operand, old.nodes[reader].local].append(reader)
        for reader, operand in new_readers[b]:
            found = by_place.get((operand, new.nodes[reader].local))
            if found and reader not in pairs.of_new:
                candidates.append((found.pop(), reader))
        for x, y in candidates:
            if x < 0 or y < 0 or x in pairs.of_old or y in pairs.of_new:
                continue
            if old.nodes[x].local == new.nodes[y].local:
                pairs.add(x, y)
                queue.append((y, x))
