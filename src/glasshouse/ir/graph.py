"""What a graph is: nodes in SSA form, the values between them, and who uses what.

A node's op, attributes, types and origin never change. Which values feed it is an edge of the
graph, and only `Rewriter` redirects edges; only a builder or a `Rewriter` adds nodes. Ids are
stable: a copy of a graph has the same ids, and an id is never used twice in a line of copies.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from glasshouse.cell import ShowsInCell
from glasshouse.errors import GraphError
from glasshouse.ir.attrs import AttrValue
from glasshouse.ir.given_sizes import may_give_size, size_givers, symbols_needed
from glasshouse.ir.op import Op
from glasshouse.ir.origin import Origin
from glasshouse.ir.signature import Signature
from glasshouse.ir.types import TensorType


class Value:
    """One output of a node."""

    __slots__ = ("_uses", "index", "node", "type")

    def __init__(self, node: Node, index: int, type: TensorType) -> None:
        self.node = node
        self.index = index
        self.type = type
        self._uses: dict[Node, int] = {}  # consumer -> number of operands that are this value

    @property
    def users(self) -> Iterable[Node]:
        """Nodes that read this value, each once, in the order in which they began to."""
        return self._uses.keys()

    @property
    def use_count(self) -> int:
        """Operands that are this value: `x * x` counts two. Graph outputs are not counted."""
        return sum(self._uses.values())

    def __repr__(self) -> str:
        return f"%{self.node.id}.{self.index}: {self.type}"


class Node:
    """An op applied to values."""

    __slots__ = ("attrs", "id", "inputs", "op", "origin", "outputs")

    def __init__(
        self,
        id: int,
        op: Op,
        inputs: tuple[Value, ...],
        attrs: Mapping[str, AttrValue],
        types: Sequence[TensorType],
        origin: Origin,
    ) -> None:
        self.id = id
        self.op = op
        self.inputs = inputs
        self.attrs = attrs
        self.origin = origin
        self.outputs = tuple([Value(self, i, t) for i, t in enumerate(types)])

    @property
    def output(self) -> Value:
        """The output of a node that has exactly one."""
        if len(self.outputs) != 1:
            raise GraphError(f"{self} has {len(self.outputs)} outputs, not one")
        return self.outputs[0]

    @property
    def users(self) -> dict[Node, None]:
        """Nodes that read any output."""
        return {user: None for v in self.outputs for user in v._uses}

    def __repr__(self) -> str:
        operands = ", ".join(f"%{v.node.id}" for v in self.inputs)
        return f"%{self.id} = {self.op.label}({operands})"


class Graph(ShowsInCell):
    """Inputs, nodes, outputs; and the new values that variables take after a run (`updates`)."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.signature: Signature | None = None  # how the model that it stands for is called
        self.device = ""  # where what it was traced for lies, if not on the host: "cuda"
        self.inputs: list[Value] = []
        self.output_names: list[str] = []
        self.written: dict[int, int] = {}  # output -> input that it is the new value of, by number
        self.all_or_nothing = False  # whether a run that fails leaves such inputs as they were
        self._outputs: list[Value] = []
        self._updates: dict[Node, Value] = {}
        self._nodes: dict[int, Node] = {}
        self._next_id = 0
        self._order: list[Node] | None = None
        # Values that leave the graph, and where: numbers of outputs, and variables they update.
        self._held: dict[Value, list[int | Node]] = {}
        # Nodes that may decide a size, and the symbols of each node where there are such.
        self._opaque: dict[int, Node] = {}
        self._symbols: dict[Node, frozenset[str]] = {}
        # Attributes and types with which `verify` found a node right: most stay from pass to pass.
        self._typed: dict[Node, tuple[Mapping[str, AttrValue], list[TensorType]]] = {}

    # ---------------------------------------------------------------------------------- reading
    @property
    def outputs(self) -> Sequence[Value]:
        return self._outputs

    @property
    def updates(self) -> Mapping[Node, Value]:
        """Variable node -> the value that it holds after a run."""
        return self._updates

    @property
    def nodes(self) -> Sequence[Node]:
        """All nodes, producers before consumers, otherwise in the order in which they were made."""
        if self._order is None:
            givers = self.size_givers
            behind = (lambda n: self._given_to(n, givers)) if givers else None
            self._order = _topological(self._nodes.values(), behind)
        return self._order

    @property
    def size_givers(self) -> dict[str, Node]:
        """Symbols that only a node's result determines, and that node."""
        return size_givers(self._nodes.values(), self._opaque.values()) if self._opaque else {}

    def _given_to(self, node: Node, givers: Mapping[str, Node]) -> list[Node]:
        names = self._symbols.get(node)
        if names is None:
            names = self._symbols[node] = symbols_needed(node)
        return [givers[n] for n in names if n in givers and givers[n] is not node]

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __contains__(self, node: object) -> bool:
        return isinstance(node, Node) and self._nodes.get(node.id) is node

    def node(self, id: int) -> Node:
        if id not in self._nodes:
            raise GraphError(f"the graph has no node {id}")
        return self._nodes[id]

    def find(self, id: int) -> Node | None:
        """The node with this id, if it is in the graph."""
        return self._nodes.get(id)

    def uses(self, value: Value) -> int:
        """How often a value is read, by nodes, outputs and updates together."""
        return value.use_count + len(self._held.get(value, ()))

    def is_held(self, value: Value) -> bool:
        """Whether a value leaves the graph as an output or an update."""
        return value in self._held

    def nodes_of(self, op: Op) -> list[Node]:
        return [n for n in self.nodes if n.op is op]

    def __str__(self) -> str:
        from glasshouse.ir.printer import print_graph  # printing sits above the data structure

        return print_graph(self)

    # --------------------------------------------------------------------------- for builders only
    def _add(
        self,
        op: Op,
        inputs: tuple[Value, ...],
        attrs: Mapping[str, AttrValue],
        types: Sequence[TensorType],
        origin: Origin,
        id: int | None = None,
    ) -> Node:
        if id is None:
            id = self._next_id
        self._next_id = max(self._next_id, id + 1)
        node = Node(id, op, inputs, attrs, types, origin)
        self._nodes[id] = node
        for value in inputs:
            value._uses[node] = value._uses.get(node, 0) + 1
        if may_give_size(node):
            self._opaque[id] = node
        self._order = None  # not appended to: a pass that walks `nodes` must not meet what it makes
        return node

    def _set_outputs(self, outputs: Iterable[Value], names: Iterable[str] = ()) -> None:
        for number, value in enumerate(self._outputs):
            self._release(value, number)
        self._outputs = list(outputs)
        self.output_names = list(names)
        for number, value in enumerate(self._outputs):
            self._held.setdefault(value, []).append(number)

    def _set_update(self, variable: Node, value: Value) -> None:
        if variable in self._updates:
            self._release(self._updates[variable], variable)
        self._updates[variable] = value
        self._held.setdefault(value, []).append(variable)

    def _redirect(self, old: Value, new: Value, keep: Container[Node]) -> list[Node]:
        """Let everything but `keep` that reads `old` read `new`; gives the nodes that changed."""
        changed = [user for user in old._uses if user not in keep]
        for user in changed:
            count = old._uses.pop(user)
            user.inputs = tuple([new if v is old else v for v in user.inputs])
            new._uses[user] = new._uses.get(user, 0) + count
        for place in self._held.get(old, ()):
            if isinstance(place, Node):
                self._updates[place] = new
            else:
                self._outputs[place] = new
        if old in self._held:
            self._held.setdefault(new, []).extend(self._held.pop(old))
        self._order = None
        return changed

    def _remove(self, node: Node) -> None:
        for value in node.inputs:
            count = value._uses.get(node, 0)
            if count > 1:
                value._uses[node] = count - 1
            else:
                value._uses.pop(node, None)
        del self._nodes[node.id]
        self._opaque.pop(node.id, None)
        self._symbols.pop(node, None)
        self._typed.pop(node, None)
        self._order = None

    def _release(self, value: Value, place: int | Node) -> None:
        self._held[value].remove(place)
        if not self._held[value]:
            del self._held[value]

    # -------------------------------------------------------------------------------------- copies
    def copy(self) -> Graph:
        """The same graph again, with the same ids; changing one leaves the other alone."""
        out = Graph(self.name)
        values: dict[Value, Value] = {}
        for node in self.nodes:
            inputs = tuple([values[v] for v in node.inputs])
            twin = out._add(
                node.op, inputs, node.attrs, [v.type for v in node.outputs], node.origin, node.id
            )
            values.update(zip(node.outputs, twin.outputs, strict=True))
        out.inputs = [values[v] for v in self.inputs]
        out._set_outputs([values[v] for v in self._outputs], self.output_names)
        for variable, value in self._updates.items():
            out._set_update(values[variable.outputs[0]].node, values[value])
        out._next_id = self._next_id
        out.signature, out.device = self.signature, self.device
        out.written, out.all_or_nothing = dict(self.written), self.all_or_nothing
        return out


def _topological(
    nodes: Iterable[Node], behind: Callable[[Node], list[Node]] | None = None
) -> list[Node]:
    """Stable and linear: each node right where it was made, unless a consumer needs it earlier.

    `behind` names further nodes that one must stand behind, without reading them.
    """
    order: list[Node] = []
    done: set[Node] = set()
    for root in nodes:
        if root in done:
            continue
        stack = [root]
        opened: set[Node] = set()
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            missing = [v.node for v in node.inputs if v.node not in done]
            if behind is not None:
                missing += [n for n in behind(node) if n not in done]
            if not missing:
                done.add(node)
                order.append(node)
                stack.pop()
            elif node in opened:
                raise GraphError(f"{node} depends on itself")
            else:
                opened.add(node)
                stack.extend(reversed(missing))
    return order
