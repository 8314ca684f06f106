"""Decides which node of one graph is which node of the next, when a file holds no links.

Passes saved as whole graphs (a folder of `N_Pass.json`) say nothing about what became of a node.
Nodes are matched by structure: first from the inputs down, then from the outputs up, then outward
from what is matched already. What is left over is explained as rewrites: a fused node by replaying
its list of ops over the old graph, the rest by the region it shares with what it replaced.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from glasshouse.record import GraphBuilder
from glasshouse.record.schema import RewriteRow

MAX_STARTS = 16


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

    Constants are left to their readers: files number them anew, so their order says nothing.
    """
    waiting = defaultdict(list)
    for i in reversed(range(len(old_codes))):
        if i not in pairs.of_old and not old.nodes[i].is_constant:
            waiting[old_codes[i]].append(i)
    for i, code in enumerate(new_codes):
        if i not in pairs.of_new and not new.nodes[i].is_constant and waiting.get(code):
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


# ------------------------------------------------------------------------------------- rewrites
@dataclass
class Rewrite:
    before: list[int]  # old nodes
    after: list[int]  # new nodes
    rule: str


def explain(old: Snapshot, new: Snapshot, pairs: dict[int, int]) -> list[Rewrite]:
    """What became of the old nodes that are gone, in terms of the new ones that appeared.

    Also adds to `pairs` what turns out to be old once the fused nodes around it are known.
    """
    gone = set(range(len(old.nodes))) - set(pairs.values())
    out: list[Rewrite] = []
    # Which old value each new value is: of paired nodes, then of fused nodes as they are explained.
    value_of = {
        (n, port): (o, port) for n, o in pairs.items() for port in range(len(new.nodes[n].outputs))
    }
    readers = old.consumers()
    made = [i for i in range(len(new.nodes)) if i not in pairs and not new.nodes[i].is_constant]
    while made:
        # The longest lists first: they have the fewest places where they can stand.
        later, before = [], len(made)
        for i in sorted(made, key=lambda i: -len(new.nodes[i].fused)):
            node = new.nodes[i]
            inside = _replay(old, new, readers, gone, node, value_of)
            if not inside:
                later.append(i)
                continue
            gone -= set(inside)
            _pair_constants(old, new, pairs, gone, node, inside, value_of)
            if node.fused:
                value_of[i, 0] = (inside[-1], 0)
                out.append(Rewrite(sorted(inside), [i], "fusion"))
            else:
                pairs[i] = inside[0]
                value_of |= {(i, port): (inside[0], port) for port in range(len(node.outputs))}
        made = later
        if len(made) == before:
            break
    rest = [i for i in range(len(new.nodes)) if i not in pairs and new.nodes[i].is_constant]
    out += _regions(old, new, pairs, gone, sorted(made + rest))
    return out


def _replay(
    old: Snapshot,
    new: Snapshot,
    readers: list[list[tuple[int, int]]],
    gone: set[int],
    node: SnapNode,
    value_of: dict[tuple[int, int], tuple[int, int]],
) -> list[int]:
    """The old nodes that a node stands for: its list of ops, run over the old graph."""
    ready: set[int] = set()
    starts: list[int] = []
    for value in node.inputs:
        if value in value_of:
            ready.add(value_of[value][0])
            starts += [r for r, _ in readers[value_of[value][0]] if r in gone]
        elif value[0] < 0 or not new.nodes[value[0]].is_constant:
            return []
    # Equal branches start alike and end differently, so a few starts are tried in turn.
    for turn in range(min(MAX_STARTS, len(starts))):
        inside = _run(old, readers, gone, node, ready, starts[turn:] + starts[:turn])
        if inside:
            return inside
    return []


def _run(
    old: Snapshot,
    readers: list[list[tuple[int, int]]],
    gone: set[int],
    node: SnapNode,
    given: set[int],
    starts: list[int],
) -> list[int]:
    wanted = Counter(node.fused or [node.op])
    ready = set(given)
    inside: list[int] = []
    front = starts[::-1]
    while front and wanted:
        i = front.pop()
        one = old.nodes[i]
        if i not in gone or i in ready or not wanted[one.op]:
            continue
        if any(p not in ready and not old.nodes[p].is_constant for p, _ in one.inputs if p >= 0):
            continue
        if not node.fused and one.local != node.local:
            continue
        wanted -= Counter([one.op])
        ready.add(i)
        inside.append(i)
        front += [r for r, _ in reversed(readers[i])]
    if wanted or (node.outputs and old.nodes[inside[-1]].outputs != node.outputs):
        return []
    return inside


def _pair_constants(
    old: Snapshot,
    new: Snapshot,
    pairs: dict[int, int],
    gone: set[int],
    node: SnapNode,
    inside: list[int],
    value_of: dict[tuple[int, int], tuple[int, int]],
) -> None:
    """Constants that a fused node reads are those that its ops read, by type and order."""
    read = [p for i in inside for p, _ in old.nodes[i].inputs if p in gone]
    for producer, _ in node.inputs:
        if producer < 0 or producer in pairs or not new.nodes[producer].is_constant:
            continue
        for i, candidate in enumerate(read):
            if candidate in gone and old.nodes[candidate].local == new.nodes[producer].local:
                pairs[producer] = candidate
                value_of[producer, 0] = (candidate, 0)
                gone.discard(candidate)
                del read[i]
                break


def _regions(
    old: Snapshot, new: Snapshot, pairs: dict[int, int], gone: set[int], made: list[int]
) -> list[Rewrite]:
    """Left-over nodes that touch, in either graph or across a shared neighbour, as one rewrite."""
    leader: dict[Hashable, Hashable] = {}

    def find(x: Hashable) -> Hashable:
        while leader.setdefault(x, x) != x:
            leader[x] = x = leader[leader[x]]
        return x

    left = set(made)
    key: Hashable
    for i in gone:
        find(("old", i))
        for producer, port in old.nodes[i].inputs:
            key = ("old", producer) if producer in gone else ("value", producer, port)
            leader[find(key)] = find(("old", i))
    for i in made:
        find(("new", i))
        for producer, port in new.nodes[i].inputs:
            if producer in left:
                key = ("new", producer)
            else:
                key = ("value", pairs.get(producer, -1 - producer), port)
            leader[find(key)] = find(("new", i))
    regions: dict[Hashable, Rewrite] = {}
    for x in sorted(leader, key=str):
        if isinstance(x, tuple) and x[0] in ("old", "new"):
            region = regions.setdefault(find(x), Rewrite([], [], "rewritten"))
            (region.before if x[0] == "old" else region.after).append(x[1])
    for region in regions.values():
        region.before.sort()
        region.after.sort()
    return sorted(regions.values(), key=lambda r: (r.after, r.before))


# ------------------------------------------------------------------------------------- recording
class StageWriter:
    """Adds snapshot after snapshot to a graph as stages; a node that stays costs nothing."""

    def __init__(self, graph: GraphBuilder) -> None:
        self.graph = graph
        self.last: Snapshot | None = None
        self.ids: list[int] = []
        self.next_id = 0

    def add(self, snapshot: Snapshot, name: str, *, pass_name: str = "", doc: str = "") -> None:
        stage = self.graph.stage(name, pass_name=pass_name, doc=doc)
        pairs = match(self.last, snapshot) if self.last else {}
        rewrites = explain(self.last, snapshot, pairs) if self.last else []
        ids = []
        for i in range(len(snapshot.nodes)):
            if i in pairs:
                ids.append(self.ids[pairs[i]])
            else:
                ids.append(self.next_id)
                self.next_id += 1
        replaces = {i: [self.ids[o] for o in r.before] for r in rewrites for i in r.after}
        rules = {i: r.rule for r in rewrites for i in r.after}
        for i, node in enumerate(snapshot.nodes):
            previous = pairs.get(i)
            if previous is None or not self._same(previous, node, ids):
                self._row(node, ids, ids[i], replaces.get(i, ()), pass_name, rules.get(i, ""))
        kept = set(pairs.values())
        for i, id in enumerate(self.ids):
            if i not in kept:
                self.graph.end(id, stage)
        inputs = [ids[i] for i, node in enumerate(snapshot.nodes) if node.fixed]
        self.graph.set_io(inputs, [(ids[n], port) for n, port in snapshot.outputs if n >= 0])
        why = "found by comparing the saved graphs"
        for r in rewrites:
            before, after = [self.ids[i] for i in r.before], [ids[i] for i in r.after]
            self.graph.add(RewriteRow(stage, pass_name, r.rule, why, before, after))
        self.last, self.ids = snapshot, ids

    def _same(self, previous: int, node: SnapNode, ids: list[int]) -> bool:
        assert self.last is not None
        before = self.last.nodes[previous]
        now = [(ids[p] if p >= 0 else -1, port) for p, port in node.inputs]
        then = [(self.ids[p] if p >= 0 else -1, port) for p, port in before.inputs]
        return now == then and before.attrs == node.attrs and before.outputs == node.outputs

    def _row(
        self,
        node: SnapNode,
        ids: list[int],
        id: int,
        replaces: Iterable[int],
        pass_name: str,
        rule: str,
    ) -> None:
        self.graph.node(
            node.op,
            id=id,
            name=node.name,
            kind=node.kind,
            inputs=[(ids[p] if p >= 0 else -1, port) for p, port in node.inputs],
            outputs=node.outputs,
            attrs=node.attrs,
            groups=node.groups,
            pass_name=pass_name if rule else "",
            rule=rule,
            replaces=list(replaces),
            bodies=node.bodies,
            output_names=node.output_names,
            input_names=node.input_names,
        )
