"""How whole graphs become the stages of a recording: a node that stays costs nothing."""

from __future__ import annotations

from collections.abc import Iterable

from glasshouse.formats.explain import explain
from glasshouse.formats.snapshots import SnapNode, Snapshot, match
from glasshouse.record import GraphWriter
from glasshouse.record.schema import RewriteRow


class StageWriter:
    """Adds snapshot after snapshot to a graph as stages; a node that stays costs nothing."""

    def __init__(self, graph: GraphWriter) -> None:
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
