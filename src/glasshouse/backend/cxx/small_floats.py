"""Which floats of a kernel int32 holds, so that they become int64 by way of it.

AVX2 has no conversion of floats to 64 bits, and one that goes element by element keeps its whole
loop from vectors: places and weights of four taps (grid_sample, 16,384 points) took 0.40 ms.
"""

from __future__ import annotations

from glasshouse.backend.cxx.words import COMPUTE_TYPE
from glasshouse.ir.dtype import int64
from glasshouse.lower.kernel.expr import Apply, Expr, Number, Var
from glasshouse.lower.kernel.statement import Let

_REACH = 2**30
"""Bounds that any float type holds, with room for rounding."""

_ROUNDINGS = frozenset({"round", "floor", "ceil", "trunc"})
_NEVER = ""


class SmallFloats:
    """The variables that lie within int32 unless they are NaN, as far as statements have told."""

    def __init__(self) -> None:
        self._nan_with: dict[str, str] = {}  # by variable: the one that is NaN where it is
        self._tested: dict[str, str] = {}  # by variable: the one whether which is NaN it says

    def note(self, let: Let) -> None:
        """Learn what a variable holds."""
        name, made = let.name, let.value
        self._tested.pop(name, None)
        self._nan_with.pop(name, None)
        if not isinstance(made, Apply):
            self._learn(name, self._nan_of(made))
            return
        first = made.args[0]
        if made.op == "isnan" and isinstance(first, Var):
            self._tested[name] = first.name
        elif made.op == "clip" and made.dtype.is_float and isinstance(first, Var):
            bounds = made.attr("low"), made.attr("high")
            if all(b is not None and abs(b) <= _REACH for b in bounds):
                self._nan_with[name] = first.name
        elif made.op in _ROUNDINGS:
            self._learn(name, self._nan_of(first))
        elif made.op == "where":
            tested = self._tested.get(first.name) if isinstance(first, Var) else None
            then, other = (self._nan_of(x) for x in made.args[1:])
            if then is not None and other is not None:
                never = then == _NEVER and other in (_NEVER, tested)
                self._learn(name, _NEVER if never else name)

    def _learn(self, name: str, nan_with: str | None) -> None:
        if nan_with is not None:
            self._nan_with[name] = nan_with

    def _nan_of(self, value: Expr) -> str | None:
        """The variable that is NaN where a value is, "" if it never is; None: it may be large."""
        if isinstance(value, Number):
            return _NEVER if value.dtype.is_float and abs(value.value) <= _REACH else None
        return self._nan_with.get(value.name) if isinstance(value, Var) else None

    def cast(self, let: Let) -> str:
        """A cast of such a float to int64; nothing for all else."""
        made = let.value
        if not isinstance(made, Apply) or made.op != "cast" or let.dtype is not int64:
            return ""
        (source,) = made.args
        nan_with = self._nan_of(source) if isinstance(source, Var) else None
        if nan_with is None or not isinstance(source, Var):
            return ""
        kind = COMPUTE_TYPE[int64]
        small = f"{kind}(gh::convert<int32_t>({source.name}))"
        if nan_with == _NEVER:
            return small
        least = f"std::numeric_limits<{kind}>::min()"
        return f"gh::select(gh::is_nan({source.name}), {least}, {small})"
