"""How ONNX's reductions are spelled: results keep the element type of the operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.onnx.call import NotKnown, OnnxCall
from glasshouse.frontend.onnx.opaque import opaque_call
from glasshouse.frontend.onnx.registry import Spelling, spell
from glasshouse.ir.dtype import bool_, float64
from glasshouse.ir.types import tensor_type
from glasshouse.ops import composite
from glasshouse.ops.control import body_of
from glasshouse.ops.scan import scan as scan_op
from glasshouse.ops.shapes import axis_of, reduced

_LEAST = {"max": float("-inf"), "min": float("inf")}


def _how(c: OnnxCall) -> dict[str, Any] | None:
    """Axes and keepdims; None where nothing is reduced."""
    if c.has(1) and c.value(1) is None:
        c.importer.want(c.item(1))
        raise _AxesNotKnown("the axes are not known before it runs")
    axes = c.given(1, "axes")
    if not axes:
        if c.attr("noop_with_empty_axes", 0):
            return None
        axes = None
    return {"axes": axes, "keepdims": bool(c.attr("keepdims", 1))}


class _AxesNotKnown(NotKnown):
    """Then each size is the operand's or 1, and nobody knows which before it runs."""


def reduction(name: str) -> Callable[[Spelling], Spelling]:
    """Register a reduction; with unknown axes it is an opaque node whose rank is known."""

    def register(spelling: Spelling) -> Spelling:
        def guarded(c: OnnxCall) -> Any:
            try:
                return spelling(c)
            except _AxesNotKnown as error:
                rank, count = c.type(0).rank, c.type(1).shape[0]
                if c.declared() is not None or not isinstance(count, int):
                    raise
                if not c.attr("keepdims", 1):
                    rank -= count if count or c.attr("noop_with_empty_axes", 0) else rank
                shape = [c.importer.model.symbols.fresh() for _ in range(rank)]
                c.importer.model.refused.append((c.node.op_type, error.message))
                return opaque_call(c.importer, c, [tensor_type(c.item(0).dtype, shape)])

        return spell(name)(guarded)

    return register


def _fold(before: Callable[[Any], Any], op: str, after: Callable[[Any], Any]) -> Any:
    def spelling(c: OnnxCall) -> Any:
        x, how = c[0], _how(c)
        wide = before(x)
        out = wide if how is None else wide.apply(op, **how)
        return after(out).cast(x.dtype)

    return spelling


def _real(x: Any) -> Any:
    return x if x.dtype.is_float else x.cast(float64)


def _same(x: Any) -> Any:
    return x


reduction("ReduceSum")(_fold(_same, "sum", _same))
reduction("ReduceProd")(_fold(_same, "prod", _same))
reduction("ReduceMean")(_fold(_real, "mean", _same))
reduction("ReduceL1")(_fold(lambda x: x if x.dtype.bits == 1 else abs(x), "sum", _same))
reduction("ReduceL2")(_fold(lambda x: _real(x) * _real(x), "sum", lambda y: y.apply("sqrt")))
reduction("ReduceSumSquare")(_fold(lambda x: x * x, "sum", _same))
reduction("ReduceLogSum")(_fold(_real, "sum", lambda y: y.apply("log")))


@reduction("ReduceLogSumExp")
def log_sum_exp(c: OnnxCall) -> Any:
    x, how = c[0], _how(c)
    if how is None:
        return x
    if 0 in x.shape:
        return _real(x).apply("exp").apply("sum", **how).apply("log").cast(x.dtype)
    return composite.logsumexp(_real(x), **how).cast(x.dtype)


def _extreme(op: str) -> Callable[[OnnxCall], Any]:
    def spelling(c: OnnxCall) -> Any:
        x, how = c[0], _how(c)
        if how is None:
            return x
        if x.dtype is bool_:
            return x.apply("any" if op == "max" else "all", **how)
        if 0 in x.shape:
            if not x.dtype.is_float:
                raise Unsupported("the extreme of no whole numbers")
            shape = reduced(x.shape, how["axes"], how["keepdims"])
            return c.full(shape, _LEAST[op], x.dtype)
        return x.apply(op, **how)

    return spelling


reduction("ReduceMax")(_extreme("max"))
reduction("ReduceMin")(_extreme("min"))


def _index(op: str) -> Callable[[OnnxCall], Any]:
    def spelling(c: OnnxCall) -> Any:
        x = c[0]
        axis = axis_of(c.attr("axis", 0), x.ndim)
        keep = bool(c.attr("keepdims", 1))
        if not c.attr("select_last_index", 0):
            return x.apply(op, axis=axis, keepdims=keep)
        found = x.apply("flip", axes=[axis]).apply(op, axis=axis, keepdims=keep)
        return c.full((), x.shape[axis] - 1, found.dtype) - found

    return spelling


spell("ArgMax")(_index("argmax"))
spell("ArgMin")(_index("argmin"))


def _running(c: OnnxCall) -> dict[str, Any]:
    return {
        "axis": int(c.number(1)), "exclusive": bool(c.attr("exclusive", 0)),
        "reverse": bool(c.attr("reverse", 0)),
    }  # fmt: skip


@spell("CumSum")
def cumsum(c: OnnxCall) -> Any:
    return c[0].apply("cumsum", **_running(c)).cast(c[0].dtype)


@spell("CumProd")
def cumprod(c: OnnxCall) -> Any:
    how = _running(c)
    x = composite.moveaxis(c[0], how["axis"], 0)

    def step(total: Any, now: Any) -> Any:
        new = total * now
        return new, total if how["exclusive"] else new

    one = tensor_type(x.dtype, x.shape[1:])
    begin = c.full(one.shape, 1, x.dtype)
    body = body_of(step, one, one)
    _, out = scan_op(begin, x, body=body, carries=1, scanned=1, reverse=how["reverse"])
    return composite.moveaxis(out, 0, how["axis"])


@spell("TopK")
def topk(c: OnnxCall) -> Any:
    x = c[0]
    if (declared := c.declared_for_want_of(1)) is not None:
        k = declared[0].shape[axis_of(c.attr("axis", -1), x.ndim)]
    else:
        k = c.sizes(1)[0] if c.has(1) else c.attr("k")
    return x.apply("topk", k=k, axis=c.attr("axis", -1), largest=bool(c.attr("largest", 1)))
