"""Products that a library computes (`cublaslt.py`): which can be, and how such a call is shown.

It is an opaque call: its text is a comment that says what is computed, and in profiles a kernel of
one block notes the clock before it and behind it. What the library can do after a product is add a
bias and a residual and apply one function; where anything else follows it is no candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glasshouse.backend.cuda.cublaslt import ACTIVATIONS, CUBLASLT, WORKSPACE
from glasshouse.backend.cuda.installed_library import ROOM_ALIGNED
from glasshouse.backend.cuda.text import CudaText
from glasshouse.ir.dtype import DType
from glasshouse.lower.kernel.expr import Apply, Expr, Load, Var
from glasshouse.lower.kernel.index import Loop, of
from glasshouse.lower.kernel.statement import Let, Scratch, Statement, Store, Tile

ROOM = Scratch("room", WORKSPACE + ROOM_ALIGNED)


@dataclass(frozen=True)
class Follows:
    """What a library does behind a product: buffers that it adds, a function, where results go."""

    out: str = ""
    bias: str | None = None
    residual: str | None = None
    activation: str = ""


def followed_by(
    variables: Sequence[Loop], result: str, statements: Sequence[Statement], dtype: DType
) -> Follows | None:
    """What follows a product [m, n], in a library's words; None where it has none for it."""
    if len(variables) != 2 or not all(isinstance(x.extent, int) for x in variables):
        return None
    m, n = variables
    row, everywhere = of(n), of(m) * n.extent + of(n)
    sums: dict[str, Follows] = {result: Follows()}
    loads: dict[str, Load] = {}

    def added(known: Follows, load: Load) -> Follows | None:
        if known.activation or load.dtype is not dtype:
            return None
        if load.index == row and known.bias is None:
            return Follows(bias=load.buffer, residual=known.residual)
        if load.index == everywhere and known.residual is None:
            return Follows(bias=known.bias, residual=load.buffer)
        return None

    def made(value: Expr) -> Follows | None:
        if not isinstance(value, Apply) or value.dtype is not dtype:
            return None
        names = [x.name for x in value.args if isinstance(x, Var)]
        if len(names) != len(value.args):
            return None
        if value.op == "add":
            known = next((sums[x] for x in names if x in sums), None)
            load = next((loads[x] for x in names if x in loads), None)
            return added(known, load) if known is not None and load is not None else None
        known = sums.get(names[0])
        word = _function(value)
        if known is None or known.activation or not word:
            return None
        return Follows(bias=known.bias, residual=known.residual, activation=word)

    stored: Follows | None = None
    for s in statements:
        if isinstance(s, Let) and isinstance(s.value, Load):
            loads[s.name] = s.value
        elif isinstance(s, Let):
            known = made(s.value)
            if known is None:
                return None
            sums = {s.name: known}  # sums on the way are read by nothing else
        elif isinstance(s, Store) and isinstance(s.value, Var) and stored is None:
            known = sums.get(s.value.name)
            if known is None or s.index != everywhere or s.dtype is not dtype:
                return None
            stored = Follows(s.buffer, known.bias, known.residual, known.activation)
        else:
            return None
    return stored


def _function(value: Apply) -> str:
    """The library's word for an elementwise op; its GELU is the one with a hyperbolic tangent."""
    if value.op == "gelu":
        return "gelu_tanh" if ("approximate", "tanh") in value.attrs else ""
    return value.op if value.op in ACTIVATIONS else ""


def put_call(
    out: CudaText, tile: Tile, operands: tuple[str, str], sizes: tuple[int, int, int],
    dtype: DType, across: tuple[bool, bool], apart: tuple[int, int],
) -> None:  # fmt: skip
    """The call for a product of left [m, k] and right [n, k], or of what lies `across`, [k, m] and
    [k, n]; rows are so many elements `apart`."""
    left, right = operands
    follows = followed_by(tile.variables[-2:], tile.result, tile.epilogue, tile.dtype)
    assert follows is not None, "it is a candidate"
    m, n, k = sizes
    text = f"{left}[{k}, {m}]^T" if across[0] else f"{left}[{m}, {k}]"
    text += f" {right}[{k}, {n}]" if across[1] else f" {right}[{n}, {k}]^T"
    text += "".join(f" + {x}" for x in (follows.bias, follows.residual) if x)
    text = f"{follows.activation}({text})" if follows.activation else text
    ops = {op for s in tile.epilogue for op in getattr(s, "ops", ())} | set(tile.ops)
    line = f"// cublasLtMatmul, a call of NVIDIA's library: {follows.out}[{m}, {n}] = {text}"
    with out.called({
        "library": CUBLASLT, "dtype": dtype.name, "sizes": sizes, "across": list(across),
        "apart": list(apart),
        "operands": [out.number_of(x) for x in (left, right, follows.out)],
        "bias": None if follows.bias is None else out.number_of(follows.bias),
        "residual": None if follows.residual is None else out.number_of(follows.residual),
        "activation": follows.activation, "room": out.offset_of(out.scratch(tile, ROOM.name)),
    }):  # fmt: skip
        out.add(line, tuple(sorted(ops)))
