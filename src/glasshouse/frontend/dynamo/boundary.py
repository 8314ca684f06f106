"""How tensors cross between PyTorch and a compiled graph without being copied.

AOTAutograd's graphs hand on much that needs no kernel: arguments that are saved for the backward
graph as they are, transposed weights, one result under several names. Such outputs are taken out of
the graph; PyTorch makes them as views, of an argument or of a result. What lies in another order
than row by row (channels last, a transposed weight) crosses as it lies in memory, and the graph
permutes it, where layouts and kernels can take that into account.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from glasshouse.frontend.torch.dtypes import COMPLEX_PARTS
from glasshouse.frontend.torch.memory import storage_of
from glasshouse.frontend.torch.program import Captured, written_storages
from glasshouse.ir.signature import Fixed
from glasshouse.lower.order import channels_last, free_images

aten = torch.ops.aten

Axes = tuple[int, ...]
Steps = tuple[Callable[[Any], Any], ...]

# Views with as many elements as what they are views of: they say nothing of how that lies.
_SAME = {aten.detach.default, aten.alias.default}
_WHOLE = _SAME | {
    aten.view.default, aten.permute.default, aten.t.default, aten.transpose.int,
    aten.unsqueeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.expand.default,
    aten.view_as_complex.default, aten.view_as_real.default,
}  # fmt: skip
PARTS = {aten.slice.Tensor, aten.select.int}
VIEWS = _WHOLE | PARTS


@dataclass(frozen=True)
class Way:
    """How one output comes about: from an argument or a result, by views."""

    given: bool  # from an argument; else from what the graph inside makes
    number: int
    steps: Steps


class Boundary:
    """What stands around `inside`, the graph that is compiled.

    `orders` says in which order the axes of outputs lie, where that is free and not row by row, by
    name; arguments that are called as outputs of a former graph lie as they did there. Of a forward
    graph, `returned` outputs come first that the caller sees. The others lie row by row where they
    are parts of something in PyTorch (a token of each text): those would be copied into place here,
    and copied out of it by the backward graph. `same` are arguments that are another one under a
    second name (`one_under_two_names`): the graph inside has each once.
    """

    def __init__(
        self,
        module: fx.GraphModule,
        orders: Mapping[str, Axes] | None = None,
        returned: int | None = None,
        same: Mapping[str, str] | None = None,
    ) -> None:
        self.orders = dict(orders or {})
        graph = fx.Graph()
        copied: dict[fx.Node, fx.Node] = {}
        graph.graph_copy(module.graph, copied)
        output = next(n for n in module.graph.nodes if n.op == "output")
        leaves = pytree.tree_leaves(output.args[0], is_leaf=lambda n: n is None)
        self.names = [n.name if isinstance(n, fx.Node) else "" for n in leaves]
        given = [n for n in module.graph.nodes if n.op == "placeholder"]
        changing = written_storages(module)
        self.ways, bases = _ways(leaves, given, changing)
        by_name = {n.name: n for n in given}
        again = {n for n in given if same and same.get(n.name) in by_name}
        for node in again:
            copied[node].replace_all_uses_with(copied[by_name[(same or {})[node.name]]])
            graph.erase_node(copied[node])
        self.count = len(given)
        self.numbers = [i for i, n in enumerate(given) if n not in again]  # which are inside
        given = [n for n in given if n not in again]
        self.entering = [self._entered(graph, copied[n], n) for n in given]
        # Parts of something (a slice that is saved): one of them would send the call, with all its
        # arguments, the general way, 30 us for each.
        self.parts = [
            i for i, n in enumerate(given)
            if self.entering[i] is None and strides_of(n) is not None
            and storage_of(n.meta.get("val")) not in changing  # those are written where they are
        ]  # fmt: skip
        self.leaving: list[Axes | None] = []
        made: list[Any] = []
        for base in bases:
            order = self._order(base) if isinstance(base, fx.Node) else None
            twin = copied[base] if isinstance(base, fx.Node) else base
            made.append(twin if order is None else permuted(graph, twin, base, order))
            self.leaving.append(None if order is None else inverse(order))
        graph.output(made)
        graph.eliminate_dead_code()
        self.inside = fx.GraphModule(module, graph)
        self.bases = bases
        seen = {w.number for w in self.ways[:returned] if not w.given}
        self.strides = [
            strides_of(b) if order is None and number in seen else None
            for number, (b, order) in enumerate(zip(bases, self.leaving, strict=True))
        ]
        self._lie_well = not any(self.leaving) and not any(self.strides)

    def _order(self, node: fx.Node) -> Axes | None:
        return self.orders.get(node.name) or lying_order(node.meta.get("val"))

    def _entered(self, graph: fx.Graph, twin: fx.Node, node: fx.Node) -> Axes | None:
        order = self._order(node)
        if order is not None:
            users = list(twin.users)
            with graph.inserting_after(twin):
                back = permuted(graph, twin, node, inverse(order))
            for user in users:
                user.replace_input_with(twin, back)
            val = node.meta["val"]
            back.meta["val"], twin.meta["val"] = val, val.permute(order).contiguous()
        return order

    def once(self, flat: Sequence[Any]) -> Sequence[Any]:
        """Those of all arguments that the graph inside has."""
        return flat if len(self.numbers) == self.count else [flat[i] for i in self.numbers]

    def enter(self, flat: Sequence[Any]) -> list[Any]:
        """The arguments of the graph inside, for those of a call: plain tensors as they lie."""
        out = []
        for x, order in zip(self.once(flat), self.entering, strict=True):
            out.append(plain(x) if order is None else x.permute(order))
        for number in self.parts:
            out[number] = out[number].contiguous()
        return out

    def unseen(self, captured: Captured, returned: int) -> list[int]:
        """Outputs of the captured graph that none of the first so many of a call is made of."""
        outputs = captured.outputs
        shown = [outputs[w.number] for w in self.ways[:returned] if not w.given]
        places = {p for p in outputs if not isinstance(p, Fixed)}
        return sorted(places.difference(p for p in shown if not isinstance(p, Fixed)))

    def leave(self, flat: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """The outputs of a call, from its arguments and what the graph inside made."""
        made = results
        if not self._lie_well:
            made = [
                laid_out(r, strides) if order is None else r.permute(order)
                for r, order, strides in zip(results, self.leaving, self.strides, strict=True)
            ]
        out = []
        for way in self.ways:
            x = flat[way.number] if way.given else made[way.number]
            for step in way.steps:
                x = step(x)
            out.append(x)
        return out


def one_under_two_names(boundary: Boundary, returned: int) -> dict[str, str]:
    """Outputs that are saved for a backward graph and are the same tensor as an earlier such one,
    by name: views that take each other back (a product's operand, transposed twice)."""
    first: dict[tuple[bool, int], str] = {}
    found: dict[str, str] = {}
    for name, way in list(zip(boundary.names, boundary.ways, strict=True))[returned:]:
        if name and not way.steps:
            other = first.setdefault((way.given, way.number), name)
            if other != name:
                found[name] = other
    return found


_TOKEN = torch.empty(0)
"""What stands for a token of AOTAutograd, which orders effects and comes as None."""


def plain(x: Any) -> Any:
    """An argument without its history, and without a class of its own (a parameter)."""
    if x is None:
        return _TOKEN
    return x.detach() if isinstance(x, torch.Tensor) else x


def _ways(
    leaves: Sequence[Any], given: Sequence[fx.Node], changing: Container[int | None]
) -> tuple[list[Way], list[Any]]:
    """How each output comes about, and what has to be computed for that, each once; `changing` is
    the memory that the graph writes to."""
    numbers = {node: i for i, node in enumerate(given)}
    bases: dict[Any, int] = {}
    ways: list[Way] = []
    for place, leaf in enumerate(leaves):
        if not isinstance(leaf, fx.Node):  # None, a number
            ways.append(Way(False, bases.setdefault(("fixed", place, leaf), len(bases)), ()))
            continue
        source, steps = _followed(leaf, VIEWS)
        if source in numbers and storage_of(source.meta.get("val")) not in changing:
            ways.append(Way(True, numbers[source], _at_once(source, leaf, steps)))
            continue
        source, steps = _followed(leaf, _WHOLE)
        number = bases.setdefault(source, len(bases))
        ways.append(Way(False, number, _at_once(source, leaf, steps)))
    return ways, [b[2] if isinstance(b, tuple) else b for b in bases]


def _followed(node: fx.Node, views: set[Any]) -> tuple[fx.Node, Steps]:
    """What a node is a view of, and how."""
    steps: list[Callable[[Any], Any]] = []
    while node.target in views and not _symbolic(node):
        if node.target not in _SAME:
            steps.append(_step(node.target, node.args[1:], node.kwargs))
        node = node.all_input_nodes[0]
    return node, tuple(reversed(steps))


def _at_once(source: fx.Node, node: fx.Node, steps: Steps) -> Steps:
    """Views in one step, or none where they take each other back (a gradient that is transposed
    twice): each takes PyTorch 10 us when caches are full of a product's data."""
    first, last = source.meta.get("val"), node.meta.get("val")
    if not steps or not isinstance(first, torch.Tensor) or not isinstance(last, torch.Tensor):
        return steps
    if not _fixed(first) or not _fixed(last) or first.storage_offset() != last.storage_offset():
        return steps
    if first.dtype is not last.dtype:  # pairs of numbers, as complex ones
        return steps
    lies, shape, strides = first.stride(), tuple(last.shape), last.stride()
    if shape == tuple(first.shape) and strides == lies:
        return ()

    def view(x: Any) -> Any:
        if x.stride() == lies:
            return x.as_strided(shape, strides)
        for step in steps:
            x = step(x)
        return x

    return (view,)


def _step(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Callable[[Any], Any]:
    return lambda x: target(x, *args, **kwargs)


def _symbolic(node: fx.Node) -> bool:
    """Whether a view's sizes are computed: then it stays in the graph."""
    return len(node.all_input_nodes) != 1


def lying_order(val: Any) -> Axes | None:
    """The axes of a dense tensor, slowest first; None where it lies row by row, or nobody knows."""
    if not isinstance(val, torch.Tensor) or val.dtype in COMPLEX_PARTS or not _fixed(val):
        return None
    if val.is_contiguous():
        return None
    order = tuple(sorted(range(val.dim()), key=lambda axis: -val.stride(axis)))
    return order if val.permute(order).is_contiguous() else None


def _fixed(val: torch.Tensor) -> bool:
    return val.layout is torch.strided and all(
        isinstance(s, int) for s in (*val.shape, *val.stride())
    )


def inverse(order: Axes) -> Axes:
    """The axes that take a permutation back."""
    return tuple(order.index(axis) for axis in range(len(order)))


def permuted(graph: fx.Graph, twin: fx.Node, node: fx.Node, order: Axes) -> fx.Node:
    """A node that gives the axes of `twin` in this order; all else is as `node` has it."""
    out = graph.call_function(aten.permute.default, (twin, list(order)))
    out.meta = {**node.meta, "val": node.meta["val"].permute(order)}
    return out


def strides_of(node: Any) -> Axes | None:
    """How an output lies in PyTorch, where that is known and not row by row.

    AOTAutograd makes views of outputs by their strides.
    """
    val = getattr(node, "meta", {}).get("val")
    if not isinstance(val, torch.Tensor) or not _fixed(val) or val.is_contiguous():
        return None
    return tuple(val.stride())


def laid_out(result: Any, strides: Axes | None) -> Any:
    """The result with these strides; copied where it has others."""
    if strides is None or not isinstance(result, torch.Tensor) or result.stride() == strides:
        return result
    shape = result.shape
    for axis, stride in enumerate(strides):
        if stride == 0:  # expanded: one row that is seen many times
            result = result.narrow(axis, 0, 1)
    out = torch.empty_strided(result.shape, strides, dtype=result.dtype, device=result.device)
    return out.copy_(result).expand(shape)


# ------------------------------------------------------------------------------ what may lie freely
def saved_orders(boundary: Boundary, captured: Captured, returned: int) -> dict[str, Axes]:
    """Images that are saved for a backward graph, and how they lie best, by name.

    `returned` outputs come first that the caller sees; those lie as PyTorch's do, and so does what
    is seen through a view.
    """
    seen = {
        w.number for i, w in enumerate(boundary.ways) if not w.given and (i < returned or w.steps)
    }
    images = free_images(captured.graph)
    found: dict[str, Axes] = {}
    for number, base in enumerate(boundary.bases):
        place = captured.outputs[number]
        if number in seen or not isinstance(base, fx.Node) or isinstance(place, Fixed):
            continue
        if captured.graph.outputs[place] in images and boundary.leaving[number] is None:
            called = [n for n, w in zip(boundary.names, boundary.ways, strict=True)
                      if not w.given and w.number == number]  # fmt: skip
            found.update(dict.fromkeys((base.name, *called), channels_last(base.meta["val"].dim())))
    return found
