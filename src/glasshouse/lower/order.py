"""Layouts: the order of a value's axes in memory.

Row-major is the rule. Images between convolutions have their channels last: vectors then run
over channels, and no kernel needs a transpose. An order lists the axes from the slowest to the
fastest; it belongs to a buffer and never changes what a value means.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ir.types import Shape
from glasshouse.lower.kernel.index import Index, offset
from glasshouse.ops.shapes import axis_of

Order = tuple[int, ...]
Orders = Mapping[Value, Order]


_PARTS = ("pad", "slice")
"""Ops that give a larger or smaller image of the same."""


def channels_last(rank: int) -> Order:
    return (0, *range(2, rank), 1)


def lying(shape: Shape, order: Order | None) -> Shape:
    """The sizes in the order of the layout."""
    return shape if order is None else tuple(shape[axis] for axis in order)


def position(value: Value, index: tuple[Index, ...], orders: Orders) -> Index:
    """The position of an element in its buffer."""
    order = orders.get(value)
    if order is None:
        return offset(index, value.type.shape)
    return offset(tuple(index[a] for a in order), lying(value.type.shape, order))


def choose_orders(
    graph: Graph, also: Container[str] = (), turned: Container[str] = ()
) -> dict[Value, Order]:
    """Channels last for what convolutions and pools make, and for what follows element by element.

    `also`: further ops that make images so on a target; `turned`: those whose rows it turns as a
    whole where a convolution wants that. Inputs, outputs and updates of the graph keep the order
    that the caller expects.
    """
    images = _all_images(graph, lambda value: not graph.is_held(value), also, turned)
    return {v: channels_last(v.type.rank) for v in images}


def free_images(graph: Graph) -> set[Value]:
    """Values that would have their channels last if nobody expected another order."""
    return set(_all_images(graph, lambda value: True))


def _all_images(
    graph: Graph,
    may_be: Callable[[Value], bool],
    also: Container[str] = (),
    turned: Container[str] = (),
) -> dict[Value, None]:
    images: dict[Value, None] = {}
    wanted = _wanted_images(graph)
    for node in graph.nodes:
        if node.op.kind is not Kind.SOURCE:
            made = _images(node, images, wanted, also)
            if node.op.name in turned and node.outputs[0].type.rank > 2:
                made += [v for v in node.outputs[:1] if v in wanted]
            images.update(dict.fromkeys(v for v in made if may_be(v)))
    return images


def _images(
    node: Node, orders: Container[Value], wanted: Container[Value], also: Container[str]
) -> list[Value]:
    """The outputs of a kernel that have their channels last: those that it makes as images, and
    those that it only calls channels first and that are `wanted` as images."""

    def makes(n: Node, known: Container[Value]) -> bool:
        return n.op.name in also or _makes_image(n, known)

    images = _followed(node, orders, makes)
    turned = _followed(node, orders, lambda n, known: makes(n, known) or _turns(n, known))
    return [v for v in turned if v in images or v in wanted]


def _followed(
    node: Node, orders: Container[Value], makes: Callable[[Node, Container[Value]], bool]
) -> list[Value]:
    body = node.attrs.get("body")
    if node.op.name != "fused" or not isinstance(body, Graph):
        return list(node.outputs[:1]) if makes(node, orders) else []
    inside = {v for outer, v in zip(node.inputs, body.inputs, strict=True) if outer in orders}
    for member in body.nodes:
        if member.op.kind is not Kind.SOURCE and makes(member, inside):
            inside.add(member.outputs[0])
    return [v for v, inner in zip(node.outputs, body.outputs, strict=True) if inner in inside]


def _turns(node: Node, images: Container[Value]) -> bool:
    """Whether an op calls the last axis of something row-major the second: with channels last it
    stays where it is. A LayerNorm over channels in front of a convolution is written so."""
    rank = node.outputs[0].type.rank
    if node.op.name != "permute" or rank < 3 or node.inputs[0] in images:
        return False
    axes = [axis_of(a, rank) for a in node.attrs["axes"]]
    return axes == [0, rank - 1, *range(1, rank - 1)]


def _wanted_images(graph: Graph) -> set[Value]:
    """Values that a convolution, a pool or the like goes over, as they are or behind ops by
    element. In a backward graph, all of a batch norm lies between what was saved and those."""
    wanted: set[Value] = set()
    for node in reversed(graph.nodes):
        body = node.attrs.get("body")
        if node.op.name == "fused" and isinstance(body, Graph):
            pairs = zip(node.outputs, body.outputs, strict=True)
            wanted.update(inner for v, inner in pairs if v in wanted)
            for member in reversed(body.nodes):
                wanted.update(_wants(member, wanted))
            inside = zip(node.inputs, body.inputs, strict=True)
            wanted.update(v for v, inner in inside if inner in wanted)
        else:
            wanted.update(_wants(node, wanted))
    return wanted


def _wants(node: Node, wanted: Container[Value]) -> list[Value]:
    if node.op.kind is Kind.SOURCE:
        return []
    if node.op.traits.image:
        return [node.inputs[0]]
    if node.op.name == "conv_weight_grad":
        return list(node.inputs[:2])
    out = node.outputs[0]
    if out not in wanted:
        return []
    if node.op.name in _PARTS:
        return [node.inputs[0]]
    if node.op.kind is not Kind.ELEMENTWISE:
        return []
    return [v for v in node.inputs if v.type.shape == out.type.shape]


def _makes_image(node: Node, images: Container[Value]) -> bool:
    """Whether an op makes an image, or goes on with one by element or by channel."""
    out = node.outputs[0].type
    if out.rank < 3:
        return False
    if node.op.traits.image:
        return True
    if node.op.name == "concat":
        return any(v in images for v in node.inputs)
    if node.op.name in _PARTS:
        return node.inputs[0] in images
    if node.op.name == "reshape":
        return _shuffled(node) in images
    if node.op.name == "layer_norm":  # over all but the batch, in whatever order it lies
        return axis_of(node.attrs["axis"], out.rank) == 1 and node.inputs[0] in images
    return node.op.kind is Kind.ELEMENTWISE and any(
        v in images and v.type.shape == out.shape for v in node.inputs
    )


def _shuffled(node: Node) -> Value | None:
    """What a reshape ends a shuffle of: an image whose channels are split into groups, exchanged
    and joined, while its pixels stay where they are."""
    out, swap = node.outputs[0].type, node.inputs[0].node
    if swap.op.name != "permute" or swap.inputs[0].node.op.name != "reshape":
        return None
    split, (source,) = swap.inputs[0].type, swap.inputs[0].node.inputs[:1]
    rank, pixels = split.rank, out.rank - 2
    axes = [axis_of(a, rank) for a in swap.attrs["axes"]]
    still = [0, *range(rank - pixels, rank)]
    if [axes[a] for a in still] != still or source.type.shape != out.shape:
        return None
    return source if [split.shape[a] for a in still] == [out.shape[0], *out.shape[2:]] else None
