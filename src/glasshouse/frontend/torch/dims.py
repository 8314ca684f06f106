"""How PyTorch's symbolic sizes are written in a graph: names, ranges, formulas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, SymDim, dim_max, dim_min, floor_div, remainder, symbol

# Beyond this a bound says nothing: it is PyTorch's way to write "no limit".
_ENDLESS = 2**62


_WHOLE = {"ToFloat", "CeilToInt", "FloorToInt", "TruncToInt", "RoundToInt"}
"""What leaves a whole number as it is; of others there is no size."""


def mended(ranges: Mapping[Any, Any], graph: fx.Graph) -> dict[Any, Any]:
    """What PyTorch knows of each symbol, without what is wrong: it says that `masked_select` gives
    no more than its first operand has, though a larger mask repeats that."""
    found = dict(ranges)
    for node in graph.nodes:
        if node.target is torch.ops.aten.masked_select.default and "val" in node.meta:
            x, mask = (a.meta["val"].shape for a in node.args)
            size = node.meta["val"].shape[0]
            if isinstance(size, torch.SymInt) and torch.broadcast_shapes(x, mask) != x:
                found.pop(size.node.expr, None)
    return found


class Symbols:
    """The symbols of one program: PyTorch's (`s77`) by the names that a person gave them."""

    def __init__(self, ranges: Mapping[Any, Any] | None = None) -> None:
        self._ranges = {str(s): r for s, r in (ranges or {}).items()}
        self._names: dict[str, str] = {}
        self._known: dict[str, SymDim] = {}
        self._dims: dict[Any, Dim] = {}  # by expression: the same few occur thousands of times

    def name(self, torch_symbol: str, wanted: str) -> None:
        """Call a symbol by its name; the first name stays, and no two symbols share one."""
        if torch_symbol not in self._names and wanted not in self._names.values():
            self._names[torch_symbol] = wanted

    def dim(self, size: Any) -> Dim:
        """The size that an int or `torch.SymInt` stands for."""
        if isinstance(size, int):
            return size
        expr = size.node.expr
        found = self._dims.get(expr)
        if found is None:
            found = self._dims[expr] = self._convert(expr)
        return found

    def shape(self, sizes: Any) -> tuple[Dim, ...]:
        return tuple([s if type(s) is int else self.dim(s) for s in sizes])

    def _symbol(self, name: str) -> SymDim:
        if name not in self._known:
            held = self._ranges.get(name)
            low, high = (0, None) if held is None else (_bound(held.lower), _bound(held.upper))
            # PyTorch's own "no limit" below: a number that was read and may be anything.
            least = -_ENDLESS if low is None else low
            self._known[name] = symbol(self._names.get(name, name), least, high)
        return self._known[name]

    def _convert(self, expr: Any) -> Dim:
        """Post-order over the formula, with a stack of its own: formulas can be deep."""
        done: dict[Any, Dim] = {}
        pending = [expr]
        while pending:
            current = pending[-1]
            missing = [a for a in current.args if a not in done]
            if missing and not current.is_Integer:
                pending.extend(missing)
                continue
            done[current] = self._node(current, [done[a] for a in current.args])
            pending.pop()
        return done[expr]

    def _node(self, expr: Any, args: list[Dim]) -> Dim:
        if expr.is_Integer:
            return int(expr)
        if expr.is_Symbol:
            return self._symbol(str(expr))
        if expr.is_Float and float(expr).is_integer():  # a step of 1.0
            return int(expr)
        kind = type(expr).__name__
        if kind in _WHOLE:
            return args[0]
        if kind in ("IntTrueDiv", "FloatTrueDiv") and args[1] in (1, -1):
            return args[0] * args[1]
        if kind == "Add":
            return sum(args)
        if kind == "Mul":
            out: Dim = 1
            for a in args:
                out = out * a
            return out
        if kind == "Pow" and isinstance(args[1], int) and args[1] >= 0:
            return _power(args[0], args[1])
        if kind in ("FloorDiv", "CleanDiv"):
            return floor_div(args[0], args[1])
        if kind in ("Mod", "PythonMod"):
            return remainder(args[0], args[1])
        if kind in ("Max", "Min"):
            extreme = dim_max if kind == "Max" else dim_min
            out = args[0]
            for a in args[1:]:
                out = extreme(out, a)
            return out
        raise Unsupported(f"the size {expr} has no counterpart here")


def _power(base: Dim, times: int) -> Dim:
    out: Dim = 1
    for _ in range(times):
        out = out * base
    return out


def _bound(bound: Any) -> int | None:
    """A limit as a number; None for PyTorch's and SymPy's infinities."""
    if not isinstance(bound, int) and not getattr(bound, "is_Integer", False):
        return None
    value = int(bound)
    return value if abs(value) < _ENDLESS else None
