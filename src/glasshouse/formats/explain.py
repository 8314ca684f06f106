"""What became of nodes that a pass took away, when all there is are two whole graphs.

A fused node is explained by replaying its list of ops over the old graph, starting from what it
reads. What remains is explained by region: left-over nodes that touch belong to one rewrite.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable
from dataclasses import dataclass

from glasshouse.formats.snapshots import SnapNode, Snapshot

MAX_STARTS = 16
MAX_TWINS = 8


@dataclass
class ReadRewrite:
    before: list[int]  # old nodes
    after: list[int]  # new nodes
    rule: str


def explain(old: Snapshot, new: Snapshot, pairs: dict[int, int]) -> list[ReadRewrite]:
    """What became of the old nodes that are gone, in terms of the new ones that appeared.

    Also adds to `pairs` what turns out to be old once the fused nodes around it are known.
    """
    return _Explainer(old, new, pairs).run()


class _Explainer:
    def __init__(self, old: Snapshot, new: Snapshot, pairs: dict[int, int]) -> None:
        self.old = old
        self.new = new
        self.pairs = pairs
        self.readers = old.consumers()
        self.gone = set(range(len(old.nodes))) - set(pairs.values())
        self.fusions: dict[int, ReadRewrite] = {}
        self.twins: dict[Hashable, list[int]] = defaultdict(list)
        # Which old value each new value is: of paired nodes, and of fused ones once explained.
        self.value_of = {
            (n, port): (o, port)
            for n, o in pairs.items()
            for port in range(len(new.nodes[n].outputs))
        }

    def run(self) -> list[ReadRewrite]:
        nodes = self.new.nodes
        made = [i for i in range(len(nodes)) if i not in self.pairs and not nodes[i].is_constant]
        while made:
            # The longest lists first: they have the fewest places where they can stand.
            order = sorted(made, key=lambda i: -len(nodes[i].fused))
            later = [i for i in order if not self._explain(i)]
            if len(later) == len(made):
                later = [i for i in order if not self._explain_with_twin(i)]
            if len(later) == len(made):
                break
            made = later
        self._constants_in_order()
        rest = [i for i in range(len(nodes)) if i not in self.pairs and nodes[i].is_constant]
        return [*self.fusions.values(), *self._regions(sorted(made + rest))]

    # ---------------------------------------------------------------------------- replaying
    def _explain(self, i: int) -> bool:
        node = self.new.nodes[i]
        inside = self._replay(node)
        if not inside:
            return False
        self.gone -= set(inside)
        self._pair_constants(node, inside)
        if node.fused:
            self.value_of[i, 0] = (inside[-1], 0)
            self.fusions[i] = ReadRewrite(sorted(inside), [i], "fusion")
            self.twins[self._twin_key(node)].append(i)
        else:
            self.pairs[i] = inside[0]
            for port in range(len(node.outputs)):
                self.value_of[i, port] = (inside[0], port)
        return True

    def _twin_key(self, node: SnapNode) -> Hashable:
        read = tuple(v for v in node.inputs if v[0] < 0 or not self.new.nodes[v[0]].is_constant)
        return (node.op, tuple(node.outputs), tuple(node.fused), read)

    def _explain_with_twin(self, i: int) -> bool:
        """Equal fused nodes (queries and values of one input) may have been taken for each other:
        exchange what this node reads with an equal one and see whether it can be explained then."""
        for producer, _ in self.new.nodes[i].inputs:
            if producer not in self.fusions:
                continue
            for twin in self.twins[self._twin_key(self.new.nodes[producer])][:MAX_TWINS]:
                if twin == producer:
                    continue
                self._exchange(producer, twin)
                if self._explain(i):
                    return True
                self._exchange(producer, twin)
        return False

    def _exchange(self, a: int, b: int) -> None:
        one, two = self.fusions[a], self.fusions[b]
        one.before, two.before = two.before, one.before
        values = self.value_of
        values[a, 0], values[b, 0] = values[b, 0], values[a, 0]
        for (x, _), (y, _) in zip(self.new.nodes[a].inputs, self.new.nodes[b].inputs, strict=False):
            if x != y and x in self.pairs and y in self.pairs and self.new.nodes[x].is_constant:
                self.pairs[x], self.pairs[y] = self.pairs[y], self.pairs[x]
                values[x, 0], values[y, 0] = values[y, 0], values[x, 0]

    def _replay(self, node: SnapNode) -> list[int]:
        """The old nodes that a node stands for: its list of ops, run over the old graph."""
        ready: set[int] = set()
        starts: list[int] = []
        for value in node.inputs:
            if value in self.value_of:
                producer = self.value_of[value][0]
                ready.add(producer)
                starts += [r for r, _ in self.readers[producer] if r in self.gone]
            elif value[0] < 0 or not self.new.nodes[value[0]].is_constant:
                return []
        # Equal branches start alike and end differently, so a few starts are tried in turn.
        for turn in range(min(MAX_STARTS, len(starts))):
            inside = self._run(node, ready, starts[turn:] + starts[:turn])
            if inside:
                return inside
        return []

    def _run(self, node: SnapNode, given: set[int], starts: list[int]) -> list[int]:
        nodes = self.old.nodes
        wanted = Counter(node.fused or [node.op])
        ready = set(given)
        inside: list[int] = []
        front = starts[::-1]
        while front and wanted:
            i = front.pop()
            one = nodes[i]
            if i not in self.gone or i in ready or not wanted[one.op]:
                continue
            if any(p not in ready and not nodes[p].is_constant for p, _ in one.inputs if p >= 0):
                continue
            if not node.fused and one.local != node.local:
                continue
            wanted -= Counter([one.op])
            ready.add(i)
            inside.append(i)
            front += [r for r, _ in reversed(self.readers[i])]
        if wanted or (node.outputs and nodes[inside[-1]].outputs != node.outputs):
            return []
        return inside

    # ---------------------------------------------------------------------------- constants
    def _pair_constants(self, node: SnapNode, inside: list[int]) -> None:
        """Constants that a node reads are those that its ops read, by type and order."""
        read = [p for i in inside for p, _ in self.old.nodes[i].inputs if p in self.gone]
        for producer, _ in node.inputs:
            if producer < 0 or producer in self.pairs or not self.new.nodes[producer].is_constant:
                continue
            like = self.new.nodes[producer].local
            for k, candidate in enumerate(read):
                if candidate in self.gone and self.old.nodes[candidate].local == like:
                    self._pair(producer, candidate)
                    del read[k]
                    break

    def _constants_in_order(self) -> None:
        """Constants left over in equal number on both sides stayed what they were."""
        before, after = defaultdict(list), defaultdict(list)
        for i in sorted(self.gone):
            if self.old.nodes[i].is_constant:
                before[self.old.nodes[i].local].append(i)
        for i, node in enumerate(self.new.nodes):
            if i not in self.pairs and node.is_constant:
                after[node.local].append(i)
        for like, new in after.items():
            if len(before[like]) == len(new):
                for n, o in zip(new, before[like], strict=True):
                    self._pair(n, o)

    def _pair(self, new: int, old: int) -> None:
        self.pairs[new] = old
        self.value_of[new, 0] = (old, 0)
        self.gone.discard(old)

    # ---------------------------------------------------------------------------- regions
    def _regions(self, made: list[int]) -> list[ReadRewrite]:
        """Left-over nodes that touch, in a graph or across a shared neighbour, as one rewrite."""
        leader: dict[Hashable, Hashable] = {}

        def find(x: Hashable) -> Hashable:
            while leader.setdefault(x, x) != x:
                leader[x] = x = leader[leader[x]]
            return x

        left = set(made)
        key: Hashable
        for i in self.gone:
            find(("old", i))
            for producer, port in self.old.nodes[i].inputs:
                key = ("old", producer) if producer in self.gone else ("value", producer, port)
                leader[find(key)] = find(("old", i))
        for i in made:
            find(("new", i))
            for producer, port in self.new.nodes[i].inputs:
                if producer in left:
                    key = ("new", producer)
                else:
                    key = ("value", self.pairs.get(producer, -1 - producer), port)
                leader[find(key)] = find(("new", i))
        regions: dict[Hashable, ReadRewrite] = {}
        for x in sorted(leader, key=str):
            if isinstance(x, tuple) and x[0] in ("old", "new"):
                region = regions.setdefault(find(x), ReadRewrite([], [], "rewritten"))
                (region.before if x[0] == "old" else region.after).append(x[1])
        for region in regions.values():
            region.before.sort()
            region.after.sort()
        return sorted(regions.values(), key=lambda r: (r.after, r.before))
