"""Convolutions that a library computes (`cudnn.py`): which can be, and how such a call is shown.

It is an opaque call: its text is a comment that says what is computed. Weights that are not known
before are brought into the library's form first, and what follows a convolution is a function of
ours behind it, over the results that the call has left, unless they go where they are wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glasshouse.backend.cuda.conv_weights import TAPS, turned_weights
from glasshouse.backend.cuda.cudnn import (
    CUDNN,
    CUDNN_TF32,
    DATA,
    FORWARD,
    WEIGHTS,
    Convolution,
    described,
    plan_of,
)
from glasshouse.backend.cuda.installed_library import ROOM_ALIGNED
from glasshouse.backend.cuda.routine import CudaRoutine, hand_over, neighbours, thread_for_channels
from glasshouse.backend.cuda.text import CudaText
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import product
from glasshouse.ir.dtype import DType, bfloat16, float16, float32, float64
from glasshouse.ir.graph import Node
from glasshouse.ir.types import Shape
from glasshouse.lower.builder import KernelBuilder
from glasshouse.lower.epilogue import in_order, take_results
from glasshouse.lower.kernel.expr import Var
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Form, Parts, Scratch, Store, Tile
from glasshouse.lower.order import channels_last
from glasshouse.lower.target import Needs
from glasshouse.lower.tiles import add_tile
from glasshouse.lower.view import whole
from glasshouse.ops.window import window_of

LIBRARY_CONV = "library_conv"
"""The routine of convolutions that have no kernel of our own."""
_KINDS = {"conv": FORWARD, "conv_transpose": DATA, "conv_weight_grad": WEIGHTS}
_TYPES = (float16, bfloat16, float32, float64)
_VARIANTS = (CUDNN, CUDNN_TF32)


def _convolution(
    op: str, attrs: Mapping[str, Any], first: Shape, second: Shape, made: Shape, dtype: DType,
    tf32: bool,
) -> Convolution | None:  # fmt: skip
    """What an op on operands of two shapes is in a library's words; None where it has none."""
    kind = _KINDS[op]
    image, weights, result = {
        FORWARD: (first, second, made), DATA: (made, second, first), WEIGHTS: (first, made, second),
    }[kind]  # fmt: skip
    window = window_of(weights[2:], attrs["stride"], attrs["padding"], attrs["dilation"])
    sizes = [d for d in (*image, *weights, *result) if isinstance(d, int)]
    if dtype not in _TYPES or len(sizes) < len((*image, *weights, *result)):
        return None
    rank = len(image)
    images, kernels, results = (tuple(sizes[i * rank : (i + 1) * rank]) for i in range(3))
    ends: list[int] = []
    for axis, (size, taps, count) in enumerate(
        zip(images[2:], kernels[2:], results[2:], strict=True)
    ):
        begin, stride = window.begins[axis], window.stride[axis]
        extent = (taps - 1) * window.dilation[axis] + 1
        # Where the last window ends is what matters: a library likes the same border on both sides.
        least = (count - 1) * stride + extent - size - begin
        ways = (begin, window.ends[axis], max(least, 0))
        fitting = [e for e in ways if least <= e < least + stride]
        if not fitting:
            return None
        ends.append(fitting[0])
    return Convolution(
        kind, dtype.name, images, kernels, results, window.stride, window.begins, tuple(ends),
        window.dilation, tf32,
    )  # fmt: skip


def library_variant(node: Node, tf32: bool) -> str:
    """The variant in which a library computes a convolution or a gradient of one; "" where it does
    not."""
    first, second = (v.type for v in node.inputs)
    made = node.output.type
    rounds = tf32 and first.dtype is float32
    if second.dtype is not first.dtype:
        return ""
    given = _convolution(
        node.op.name, node.attrs, first.shape, second.shape, made.shape, first.dtype, rounds
    )
    if given is None or plan_of(given) is None:
        return ""
    return CUDNN_TF32 if rounds else CUDNN


def library_conv(builder: KernelBuilder, node: Node) -> None:
    """Add a convolution, or a gradient of one, for which there is nothing but a library's."""
    name = library_variant(node, builder.target.tf32_convs)
    if not name:
        raise Unsupported(f"no kernel for this {node.op.name}, nor one of a library")
    order = channels_last(node.output.type.rank)
    first, second = node.inputs
    weights = None if node.op.name != "conv_weight_grad" else order
    operands = (whole(builder, first, order), whole(builder, second, weights))
    made = node.output.type
    last = made.shape[1]
    variables = {"pixel": made.numel // last, "oc": last}
    after = take_results(builder, node.output, variables, order)
    add_tile(builder, node, LIBRARY_CONV, operands, after, order, variants=(name,))


# ------------------------------------------------------------------------------------ rendering
def is_library(tile: Tile) -> bool:
    return tile.variant in _VARIANTS


def _given(tile: Tile) -> Convolution:
    x, y = tile.operands
    found = _convolution(
        tile.op, dict(tile.attrs), x.shape, y.shape, tile.shape, tile.dtype,
        tile.variant == CUDNN_TF32,
    )  # fmt: skip
    assert found is not None, "it is a candidate"
    return found


def _stored_plainly(tile: Tile) -> str:
    """The buffer that results go to as they are, in the order in which they are made; else ""."""
    store = in_order(tile)
    rest = [s for s in tile.epilogue if s is not store and not isinstance(s, Parts)]
    plain = store is not None and store.value == Var(tile.result, tile.dtype) and not rest
    return store.buffer if plain and isinstance(store, Store) else ""


def _is_turned(tile: Tile) -> bool:
    """Whether weights are an operand whose channels do not lie last as they are."""
    return tile.op != "conv_weight_grad" and product(tile.operands[1].shape[2:]) != 1


def library_needs(tile: Tile) -> Needs:
    """Room for the library, for weights in its form, and for results that something follows."""
    given, dtype = _given(tile), tile.dtype
    plan = plan_of(given)
    assert plan is not None, "it is a candidate"
    scratch = [Scratch("room", plan.room + ROOM_ALIGNED)]
    if not _stored_plainly(tile):
        scratch.append(Scratch("results", product(tile.shape) * dtype.itemsize, dtype))
    w = tile.operands[1]
    if w.constant and tile.op != "conv_weight_grad":  # of one tap too: our own kernels read these
        form = Form(view(w).buffer, TAPS, dtype, (w.shape[1], *w.shape), True)
        return (form,), tuple(scratch)
    if not _is_turned(tile):
        return (), tuple(scratch)
    size = product(w.shape) * dtype.itemsize
    return (), (*scratch, Scratch("taps", size, dtype))


def render_library_conv(out: CudaText, tile: Tile) -> None:
    """The call, with what stands before and behind it."""
    given = _given(tile)
    first, second = (view(x).buffer for x in tile.operands)
    if tile.forms:
        second = out.form(tile.forms[0])
    elif _is_turned(tile):
        second = turned_weights(out, tile)
    direct = _stored_plainly(tile)
    made = direct or out.scratch(tile, "results")
    image, weights, result = {
        FORWARD: (first, second, made), DATA: (made, second, first), WEIGHTS: (first, made, second),
    }[given.kind]  # fmt: skip
    plan = plan_of(given)
    assert plan is not None, "it is a candidate"
    room = [out.offset_of(out.scratch(tile, "room")), max(plan.room, 1)]
    with out.called({
        "library": CUDNN, "convolution": described(given),
        "places": [out.place_of(x) for x in (image, weights, result)], "room": room,
    }):  # fmt: skip
        out.add(_shown(given, (image, weights, result), plan.engine), tile.ops)
    if not direct:
        _put_after(out, tile, made)


def _shown(given: Convolution, buffers: tuple[str, str, str], engine: int) -> str:
    shapes = (given.image, given.weights, given.result)
    image, weights, result = (f"{b}{list(s)}" for b, s in zip(buffers, shapes, strict=True))
    text = {
        FORWARD: f"{result} = convolution of {image} with {weights}",
        DATA: f"{image} = gradient by the image of {result} with weights {weights}",
        WEIGHTS: f"{weights} = gradient by the weights of {result} over {image}",
    }[given.kind]
    rounding = ", float32 rounded to TF32" if given.tf32 else ""
    return (
        f"// cuDNN's engine {engine}, a call of NVIDIA's library: {text}, channels last{rounding}"
    )


def _put_after(out: CudaText, tile: Tile, made: str) -> None:
    """What follows, over results in memory: a thread for some neighbours."""
    rows, columns = tile.variables
    count = min(neighbours(tile), max(16 // tile.dtype.itemsize, 1))
    names = (rows.name, columns.name)
    with thread_for_channels(out, rows.extent, columns.extent, count, names):
        out.add(f"const auto found_ = gh::widened<{count}>({made} + e_);", tile.ops)
        hand_over(out, tile, f"gh::once(found_, {rows.name}, {columns.name}", count, names)


ROUTINES = {LIBRARY_CONV: CudaRoutine(render_library_conv, library_needs)}
