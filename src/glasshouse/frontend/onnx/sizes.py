"""Which computations on shapes are done during import: small integer tensors whose elements
are numbers or symbolic sizes, so that shapes come out static or symbolic instead of unknown.

Elements are Python numbers and sizes in object arrays; NumPy moves them about and calls their own
operators. What a size cannot do (a fraction, an unclear comparison) leaves the node to the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from glasshouse.errors import GlasshouseError
from glasshouse.frontend.onnx.call import OnnxCall
from glasshouse.frontend.onnx.item import Array, Item, of_sizes
from glasshouse.ir.dim import SymDim, bounds, dim_max, dim_min, floor_div, product, remainder
from glasshouse.ir.dtype import Category, DType, bool_, int64

MAX_ELEMENTS = 256
TABLE: dict[str, Callable[..., Any]] = {}


class Unclear(Exception):
    """What this would be depends on sizes in a way that no size can say."""


def evaluate(call: OnnxCall) -> Item | None:
    """The one result of a node, if its operands are small and known; None otherwise."""
    rule = TABLE.get(call.node.op_type)
    if rule is None or call.node.domain not in ("", "ai.onnx") or call.outputs != 1:
        return None
    if call.opset < 7 and "broadcast" in call.attrs:
        return None
    if call.node.op_type in ("Shape", "Size"):
        return of_sizes(call.builder, rule(call), int64)
    operands = [_elements(i) if i is not None else None for i in call.items]
    present = [i for i in call.items if i is not None]
    if not present or sum(o is not None for o in operands) != len(present):
        return None
    # A tensor of floats is worth it only when a size is among the operands.
    if not any(i.sizes is not None for i in present) and present[0].dtype.is_float:
        return None
    try:
        out = rule(call, *operands)
    except (Unclear, GlasshouseError, ValueError, IndexError, TypeError, ZeroDivisionError):
        return None
    dtype = present[-1].dtype
    if isinstance(out, tuple):
        out, dtype = out
    array = np.asarray(out, object)
    if array.size > MAX_ELEMENTS:
        return None
    return of_sizes(call.builder, array, dtype)


def _elements(item: Any) -> Array | None:
    value = item.value if isinstance(item, Item) else None
    if value is None or value.size > MAX_ELEMENTS or value.ndim > 2:
        return None
    if value.dtype == object:
        return value
    return np.asarray(value.tolist(), object).reshape(value.shape)


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        TABLE.update(dict.fromkeys(names, function))
        return function

    return register


def each(function: Callable[..., Any]) -> Callable[..., Array]:
    """A function of elements over arrays that broadcast."""
    many = np.frompyfunc(function, function.__code__.co_argcount, 1)
    return lambda *xs: np.asarray(many(*xs), object)


# -------------------------------------------------------------------------------- where sizes arise
@rule("Shape")
def _shape(call: OnnxCall) -> Any:
    shape = call.type(0).shape
    return np.array(shape[call.attr("start", 0) : call.attr("end")], object)


@rule("Size")
def _size(call: OnnxCall) -> Any:
    return product(call.type(0).shape)


# -------------------------------------------------------------------------------------- moved about
rule("Identity")(lambda c, x: x)


@rule("Cast")
def _cast(call: OnnxCall, x: Array) -> tuple[Array, DType]:
    dtype = call.dtype("to")
    return each(lambda v: _as(v, dtype))(x), dtype


def _as(v: Any, dtype: DType) -> Any:
    if isinstance(v, SymDim):
        if dtype is bool_:
            raise Unclear
        return v
    if dtype is bool_:
        return bool(v)
    return float(v) if dtype.category is Category.FLOAT else int(v)


@rule("Gather")
def _gather(call: OnnxCall, x: Array, at: Array) -> tuple[Array, DType]:
    return np.take(x, at.astype(np.int64), call.attr("axis", 0)), call.item(0).dtype


@rule("Concat")
def _concat(call: OnnxCall, *xs: Array) -> Array:
    return np.concatenate(xs, call.attr("axis", 0))


@rule("Unsqueeze")
def _unsqueeze(call: OnnxCall, x: Array, axes: Array | None = None) -> tuple[Array, DType]:
    listed = call.attr("axes") if axes is None else axes.reshape(-1).tolist()
    return np.expand_dims(x, tuple(listed)), call.item(0).dtype


@rule("Squeeze")
def _squeeze(call: OnnxCall, x: Array, axes: Array | None = None) -> tuple[Array, DType]:
    listed = call.attr("axes") if axes is None else axes.reshape(-1).tolist()
    return np.squeeze(x, None if listed is None else tuple(listed)), call.item(0).dtype


@rule("Reshape")
def _reshape(call: OnnxCall, x: Array, shape: Array) -> tuple[Array, DType]:
    wanted = [int(s) for s in shape.reshape(-1)]
    if 0 in wanted:
        raise Unclear
    return x.reshape(wanted), call.item(0).dtype


@rule("Slice")
def _slice(call: OnnxCall, x: Array, *places: Array | None) -> tuple[Array, DType]:
    if not places:
        given = [call.attr("starts"), call.attr("ends"), call.attr("axes"), None]
    else:
        given = [None if p is None else [int(v) for v in p.reshape(-1)] for p in places]
        given += [None] * (4 - len(given))
    starts, ends, axes, steps = given
    cuts = [slice(None)] * x.ndim
    for i, axis in enumerate(axes if axes is not None else range(len(starts))):
        step = steps[i] if steps else 1
        end = None if step < 0 and ends[i] < -x.shape[axis] else ends[i]
        cuts[axis] = slice(starts[i], end, step)
    return x[tuple(cuts)], call.item(0).dtype


@rule("Expand")
def _expand(call: OnnxCall, x: Array, shape: Array) -> tuple[Array, DType]:
    wanted = np.broadcast_shapes(x.shape, tuple(int(s) for s in shape))
    if math.prod(wanted) > MAX_ELEMENTS:
        raise Unclear
    return np.broadcast_to(x, wanted), call.item(0).dtype


@rule("Range")
def _range(call: OnnxCall, start: Array, stop: Array, step: Array) -> list[Any]:
    ends = [v[()] for v in (start, stop, step)]
    if any(not isinstance(v, int) for v in ends) or abs(ends[1] - ends[0]) > MAX_ELEMENTS:
        raise Unclear
    return list(range(*ends))


@rule("ConstantOfShape")
def _constant(call: OnnxCall, shape: Array) -> tuple[Array, DType]:
    from glasshouse.frontend.onnx.tensors import array_of

    wanted = tuple(int(s) for s in shape.reshape(-1))
    if call.attr("value") is None or math.prod(wanted) > MAX_ELEMENTS or len(wanted) > 1:
        raise Unclear
    data, dtype = array_of(call.attr("value"), None)
    if dtype.is_float:
        raise Unclear
    return np.full(wanted, data.reshape(-1)[0].item(), object), dtype


# --------------------------------------------------------------------------------------- arithmetic
rule("Add")(lambda c, x, y: each(lambda a, b: a + b)(x, y))
rule("Sub")(lambda c, x, y: each(lambda a, b: a - b)(x, y))
rule("Mul")(lambda c, x, y: each(lambda a, b: _whole(a) * _whole(b))(x, y))
rule("Neg")(lambda c, x: each(lambda a: -a)(x))
rule("Abs")(lambda c, x: each(_abs)(x))
rule("Floor", "Ceil", "Round")(lambda c, x: each(_round(c.node.op_type))(x))
rule("Min")(lambda c, *xs: _fold(dim_min, min, xs))
rule("Max")(lambda c, *xs: _fold(dim_max, max, xs))


def _whole(v: Any) -> Any:
    """A float that is a whole number, so that it can multiply a size."""
    return int(v) if isinstance(v, float) and v.is_integer() else v


def _abs(a: Any) -> Any:
    if isinstance(a, SymDim):
        if bounds(a)[0] < 0:
            raise Unclear
        return a
    return abs(a)


def _round(kind: str) -> Callable[[Any], Any]:
    functions: dict[str, Any] = {"Floor": math.floor, "Ceil": math.ceil, "Round": round}

    def one(a: Any) -> Any:
        return a if isinstance(a, SymDim) else float(functions[kind](a))

    return one


def _fold(sizes: Any, numbers: Any, xs: Any) -> Array:
    def two(a: Any, b: Any) -> Any:
        return sizes(a, b) if isinstance(a, SymDim) or isinstance(b, SymDim) else numbers(a, b)

    out = xs[0]
    for x in xs[1:]:
        out = each(two)(out, x)
    return np.asarray(out, object)


@rule("Div")
def _div(call: OnnxCall, x: Array, y: Array) -> Array:
    exact = call.item(0).dtype.is_float

    def two(a: Any, b: Any) -> Any:
        if not isinstance(a, SymDim) and not isinstance(b, SymDim):
            if exact:
                return a / b
            quotient = abs(a) // abs(b)
            return quotient if (a < 0) == (b < 0) else -quotient
        a, b = _whole(a), _whole(b)
        if isinstance(a, float) or isinstance(b, float) or bounds(a)[0] < 0 or bounds(b)[0] < 1:
            raise Unclear
        out = floor_div(a, b)
        if exact and out * b != a:
            raise Unclear
        return out

    return each(two)(x, y)


@rule("Mod")
def _mod(call: OnnxCall, x: Array, y: Array) -> Array:
    def two(a: Any, b: Any) -> Any:
        if isinstance(a, SymDim) or isinstance(b, SymDim):
            if bounds(a)[0] < 0 or bounds(b)[0] < 1:
                raise Unclear
            return remainder(a, b)
        if call.attr("fmod", 0):
            raise Unclear
        return a % b

    return each(two)(x, y)


@rule("ReduceProd", "ReduceSum")
def _reduce(call: OnnxCall, x: Array, axes: Array | None = None) -> tuple[Any, DType]:
    if x.ndim != 1 or (axes is not None and axes.size == 0):
        raise Unclear
    total: Any = product(tuple(x)) if call.node.op_type == "ReduceProd" else sum(x, 0)
    return (np.array([total], object) if call.attr("keepdims", 1) else total), call.item(0).dtype


# --------------------------------------------------------------------------------------- comparison
def _compare(test: Callable[[float, float], bool | None]) -> Callable[..., Any]:
    """`test(low, high)` of the difference's bounds: True, False, or None where it depends."""

    def two(a: Any, b: Any) -> bool:
        if isinstance(a, SymDim) or isinstance(b, SymDim):
            found = test(*bounds(a - b))
        else:
            found = test(a - b, a - b)
        if found is None:
            raise Unclear
        return found

    return lambda c, x, y: (each(two)(x, y), bool_)


rule("Equal")(
    _compare(lambda low, high: True if low == high == 0 else False if low > 0 or high < 0 else None)
)
rule("Greater")(_compare(lambda low, high: True if low > 0 else False if high <= 0 else None))
rule("GreaterOrEqual")(
    _compare(lambda low, high: True if low >= 0 else False if high < 0 else None)
)
rule("Less")(_compare(lambda low, high: True if high < 0 else False if low >= 0 else None))
rule("LessOrEqual")(_compare(lambda low, high: True if high <= 0 else False if low > 0 else None))
rule("Not")(lambda c, x: (each(lambda a: not a)(x), bool_))
rule("And")(lambda c, x, y: (each(lambda a, b: a and b)(x, y), bool_))
rule("Or")(lambda c, x, y: (each(lambda a, b: a or b)(x, y), bool_))


@rule("Where")
def _where(call: OnnxCall, test: Array, x: Array, y: Array) -> Array:
    return each(lambda t, a, b: a if t else b)(test, x, y)
