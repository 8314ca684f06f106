"""How a graph changes: every change is a step with a rule, a reason and origins.

    rw.replace(node, lambda: relu(rw.expr(x)), rule="relu-of-relu", why="relu is idempotent")
    rw.reject([producer, consumer], why="would recompute 1.2 GFLOP to save 3 MB", flops=1.2e9)

New nodes can only be made inside `replace`, which gives them the nodes they stand for. What dies
with the old node is removed at once, so that use counts are true. `touched()` hands out the nodes
that a worklist should look at again. A `Listener` sees each step; a veto (for bisecting) skips it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glasshouse.errors import GraphError
from glasshouse.ir.attrs import AttrValue
from glasshouse.ir.builder import Builder
from glasshouse.ir.expr import Expr
from glasshouse.ir.given_sizes import may_give_size
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.home import made_from
from glasshouse.ir.op import Op
from glasshouse.ir.origin import Origin
from glasshouse.ir.sources import INPUT
from glasshouse.ir.types import TensorType, symbols_in

New = Value | Expr | Sequence[Value | Expr]
Place = tuple[int, int]
"""A value by the id of its node and the number of the output, which outlive the node."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One step that was taken."""

    number: int  # counts the steps of one pass run, from 0
    pass_name: str
    rule: str
    why: str
    before: tuple[int, ...]  # nodes that it replaced or removed
    after: tuple[int, ...]  # nodes that it made
    redirected: tuple[int, ...]  # nodes that read something else now
    seconds: float
    equal: tuple[tuple[Place, Place], ...] = ()  # (old, new) values that are to be the same


@dataclass(frozen=True, slots=True)
class Reject:
    """One step that was considered and not taken."""

    pass_name: str
    rule: str
    why: str
    nodes: tuple[int, ...]
    numbers: Mapping[str, float] = field(default_factory=dict)


class Listener:
    """Sees what a rewriter does. Override what is of interest."""

    def rewritten(self, graph: Graph, step: Rewrite) -> None: ...

    def rejected(self, graph: Graph, step: Reject) -> None: ...


def place_of(value: Value) -> Place:
    """The name of a value in a `Rewrite`."""
    return value.node.id, value.index


class Rewriter(Builder):
    """The only way to change a graph."""

    def __init__(
        self,
        graph: Graph,
        pass_name: str = "",
        listeners: Sequence[Listener] = (),
        allows: Callable[[int], bool] | None = None,
    ) -> None:
        self.graph = graph
        self.pass_name = pass_name
        self.listeners = listeners
        self.steps = 0  # steps taken or vetoed so far
        self._allows = allows
        self._origin: Origin | None = None
        self._rule = ""
        self._made: dict[Node, None] = {}
        self._touched: dict[Node, None] = {}
        self._told: set[tuple[str, str, tuple[int, ...]]] = set()

    # ------------------------------------------------------------------------------------- building
    def emit(
        self,
        op: Op,
        inputs: tuple[Value, ...],
        attrs: Mapping[str, AttrValue],
        types: Sequence[TensorType],
    ) -> Node:
        if self._origin is None:
            raise GraphError(
                f"a pass made a {op.label} outside of a rewrite",
                hint="build new nodes in the callable that is given to Rewriter.replace",
            )
        for value in inputs:
            if value.node not in self.graph:
                raise self._not_here(value.node)
        node = self.graph._add(op, inputs, attrs, types, self._origin)
        self._made[node] = None
        return node

    def where(self) -> str:
        return str(self._origin.source) if self._origin else ""

    def expr(self, value: Value) -> Expr:
        """A handle to compute with, inside the callable that builds the new nodes."""
        return Expr(value, self)

    # ------------------------------------------------------------------------------------- changing
    def replace(
        self,
        old: Node | Value | Sequence[Value],
        new: New | Callable[[], New],
        *,
        why: str,
        rule: str = "",
        matched: Iterable[Node] = (),
        labels: Mapping[str, str] | None = None,
    ) -> bool:
        """Let everything that read the old values read the new ones; False if the step was vetoed.

        `new` is what exists already, or a callable that builds it. `matched` are further nodes
        that the rewrite looked at and stands for (the convolution under a batch norm): they belong
        to the origin of what is made. `labels` are put on it: `{"variant": "split_k"}`.
        """
        olds = (
            old.outputs
            if isinstance(old, Node)
            else (old,)
            if isinstance(old, Value)
            else tuple(old)
        )
        number, self.steps = self.steps, self.steps + 1
        if self._allows is not None and not self._allows(number):
            return False
        self._rule = rule or self.pass_name
        for value in olds:
            if value.node not in self.graph:
                raise self._not_here(value.node)
        begin = time.perf_counter()
        stands_for = list(dict.fromkeys([v.node for v in olds] + list(matched)))
        origin = made_from(stands_for, self.pass_name, rule)
        for grouping, group in (labels or {}).items():
            origin = origin.with_label(grouping, group)
        news = self._built(new, origin)
        self._require_fit(olds, news)
        redirected: dict[Node, None] = {}
        for old_value, new_value in zip(olds, news, strict=True):
            if old_value is not new_value:
                redirected.update(
                    dict.fromkeys(self.graph._redirect(old_value, new_value, self._made))
                )
        removed = self._sweep([*(v.node for v in olds), *self._made])
        made = [n for n in self._made if n in self.graph]
        gone = [n.id for n in removed if n not in self._made]
        self._made = {}
        self._touched.update(dict.fromkeys([*made, *redirected, *(v.node for v in news)]))
        before = dict.fromkeys([*(n.id for n in stands_for), *gone])
        step = Rewrite(
            number, self.pass_name, rule, why, tuple(before), tuple(n.id for n in made),
            tuple(n.id for n in redirected), time.perf_counter() - begin,
            tuple((place_of(o), place_of(n)) for o, n in zip(olds, news, strict=True)),
        )  # fmt: skip
        for listener in self.listeners:
            listener.rewritten(self.graph, step)
        return True

    def remove_dead(self, nodes: Iterable[Node], *, why: str, rule: str = "dead-node") -> bool:
        """Remove those of `nodes`, and of what only they used, that nothing reads."""
        number, self.steps = self.steps, self.steps + 1
        if self._allows is not None and not self._allows(number):
            return False
        begin = time.perf_counter()
        removed = self._sweep(nodes)
        if not removed:
            self.steps = number
            return False
        ids = tuple(n.id for n in removed)
        step = Rewrite(number, self.pass_name, rule, why, ids, (), (), time.perf_counter() - begin)
        for listener in self.listeners:
            listener.rewritten(self.graph, step)
        return True

    def reject(self, nodes: Iterable[Node], *, why: str, rule: str = "", **numbers: float) -> None:
        """Record, once, a decision not to act, with the figures that decided."""
        if not self.listeners:
            return
        step = Reject(self.pass_name, rule, why, tuple(n.id for n in nodes), numbers)
        key = (rule, why, step.nodes)
        if key not in self._told:
            self._told.add(key)
            for listener in self.listeners:
                listener.rejected(self.graph, step)

    def touched(self) -> list[Node]:
        """Nodes made, redirected or read anew since the last call, that are still in the graph."""
        out = [n for n in self._touched if n in self.graph]
        self._touched = {}
        return out

    # ------------------------------------------------------------------------------------- internal
    def _built(self, new: New | Callable[[], New], origin: Origin) -> tuple[Value, ...]:
        if callable(new):
            self._origin = origin
            try:
                new = new()
            except BaseException:
                self._sweep(self._made)
                self._made = {}
                raise
            finally:
                self._origin = None
        many: Sequence[Any] = new if isinstance(new, (list, tuple)) else [new]
        return tuple(n.value if isinstance(n, Expr) else n for n in many)

    def _require_fit(self, olds: Sequence[Value], news: Sequence[Value]) -> None:
        """The new values have the number and the types of the old ones; else nothing stays made."""
        error = self._misfit(olds, news)
        if error is not None:
            self._sweep(self._made)
            self._made = {}
            raise error

    def _misfit(self, olds: Sequence[Value], news: Sequence[object]) -> GraphError | None:
        if len(news) != len(olds):
            return GraphError(f"rule {self._rule} gives {len(news)} values for {len(olds)}")
        for old, new in zip(olds, news, strict=True):
            where = str(old.node.origin.source)
            if not isinstance(new, Value):
                return GraphError(
                    f"rule {self._rule} gives {new!r} of type {type(new).__name__} for {old!r}",
                    where,
                    "give a value (`node.output`), or a callable that returns one or several",
                )
            if new.node not in self.graph:
                return self._not_here(new.node)
            if old.type != new.type:
                before, after = str(old.type), str(new.type)
                if before == after:  # sizes of one name and two ranges
                    before += f" ({', '.join(s.declared for s in symbols_in([old.type]))})"
                    after += f" ({', '.join(s.declared for s in symbols_in([new.type]))})"
                return GraphError(
                    f"rule {self._rule} turns {before} into {after} in place of {old.node}", where,
                    "what takes a value's place has its shape and element type",
                )  # fmt: skip
        return None

    def _not_here(self, node: Node) -> GraphError:
        return GraphError(
            f"rule {self._rule} names {node}, which is not in the graph",
            str(node.origin.source),
            "it is of another graph, or a rewrite before this one removed it "
            "(`node in graph` tells)",
        )

    def _sweep(self, nodes: Iterable[Node]) -> list[Node]:
        """Remove what is dead among `nodes` and their producers; inputs of the graph stay."""
        removed: list[Node] = []
        stack = list(nodes)
        while stack:
            node = stack.pop()
            if node not in self.graph or node.op is INPUT or node in self.graph.updates:
                continue
            if may_give_size(node) or any(v._uses or self.graph.is_held(v) for v in node.outputs):
                self._touched[node] = None
                continue
            self.graph._remove(node)
            removed.append(node)
            stack.extend(v.node for v in node.inputs)
        return removed
