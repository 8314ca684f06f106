"""Decides how ONNX's reductions are spelled: results keep the element type of the operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.onnx.call import Call
from glasshouse.frontend.onnx.registry import spell
from glasshouse.ir.dtype import bool_, float64
from glasshouse.ops import composite
from glasshouse.ops.shapes import axis_of, reduced

_LEAST = {"max": float("-inf"), "min": float("inf")}


def _how(c: Call) -> dict[str, Any] | None:
    """Axes and keepdims; None where nothing is reduced."""
    axes = c.given(1, "axes")
    if not axes:
        if c.attr("noop_with_empty_axes", 0):
            return None
        axes = None
    return {"axes": axes, "keepdims": bool(c.attr("keepdims", 1))}


def _fold(before: Callable[[Any], Any], op: str, after: Callable[[Any], Any]) -> Any:
    def spelling(c: Call) -> Any:
        x, how = c[0], _how(c)
        wide = before(x)
        out = wide if how is None else wide.apply(op, **how)
        return after(out).cast(x.dtype)

    return spelling


def _real(x: Any) -> Any:
    return x if x.dtype.is_float else x.cast(float64)


def _same(x: Any) -> Any:
    return x


spell("ReduceSum")(_fold(_same, "sum", _same))
spell("ReduceProd")(_fold(_same, "prod", _same))
spell("ReduceMean")(_fold(_real, "mean", _same))
spell("ReduceL1")(_fold(lambda x: x if x.dtype.bits == 1 else abs(x), "sum", _same))
spell("ReduceL2")(_fold(lambda x: _real(x) * _real(x), "sum", lambda y: y.apply("sqrt")))
spell("ReduceSumSquare")(_fold(lambda x: x * x, "sum", _same))
spell("ReduceLogSum")(_fold(_real, "sum", lambda y: y.apply("log")))


@spell("ReduceLogSumExp")
def log_sum_exp(c: Call) -> Any:
    x, how = c[0], _how(c)
    if how is None:
        return x
    if 0 in x.shape:
        return _real(x).apply("exp").apply("sum", **how).apply("log").cast(x.dtype)
    return composite.logsumexp(_real(x), **how).cast(x.dtype)


def _extreme(op: str) -> Callable[[Call], Any]:
    def spelling(c: Call) -> Any:
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


spell("ReduceMax")(_extreme("max"))
spell("ReduceMin")(_extreme("min"))


def _index(op: str) -> Callable[[Call], Any]:
    def spelling(c: Call) -> Any:
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


def _running(c: Call) -> dict[str, Any]:
    return {
        "axis": int(c.number(1)), "exclusive": bool(c.attr("exclusive", 0)),
        "reverse": bool(c.attr("reverse", 0)),
    }  # fmt: skip


@spell("CumSum")
def cumsum(c: Call) -> Any:
    return c[0].apply("cumsum", **_running(c)).cast(c[0].dtype)


@spell("TopK")
def topk(c: Call) -> Any:
    x = c[0]
    if c.has(1) and c.value(1) is None and c.declared() is not None:
        c.importer.want(c.item(1))
        k = c.declared().shape[axis_of(c.attr("axis", -1), x.ndim)]  # type: ignore[union-attr]
    else:
        k = c.sizes(1)[0] if c.has(1) else c.attr("k")
    return x.apply("topk", k=k, axis=c.attr("axis", -1), largest=bool(c.attr("largest", 1)))
