"""Scales, zero points and the numbers of draws as arguments of a kernel: layers that differ in them
alone are compiled once.

A zero point that is 0, or the least byte, stays in the text: what it adds is then left out.
"""

from __future__ import annotations

import numpy as np

from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import C_TYPE, COMPUTE_TYPE, number_text
from glasshouse.ir.dtype import float32, uint8
from glasshouse.lower.kernel.expr import Apply, Number, Var
from glasshouse.lower.kernel.kernel import Kernel
from glasshouse.lower.kernel.queries import expressions, simple, variables
from glasshouse.lower.kernel.statement import Let, Store
from glasshouse.lower.quant import BYTES
from glasshouse.ops.quant import limits_of

_DRAWS = {"dropout", "uniform", "normal"}
"""Ops whose last arguments are a seed, the run's plus the number of the draw, and a position."""


def give_numbers(out: KernelText, kernel: Kernel) -> None:
    """Make the numbers that the loops and epilogues of a kernel quantize and draw with its
    arguments."""
    lets = [s for s in simple(kernel.body) if isinstance(s, Let)]
    named = {s.name: s for s in lets}
    if len(named) < len(lets):
        return  # a name stands for two things: which one is meant is known at its place alone
    for s in lets:
        e = s.value
        if not isinstance(e, Apply):
            continue
        if e.op in _DRAWS:
            _give_draw(out, named, e.args[-2])
        if e.op not in ("quantize", "dequantize"):
            continue
        numbers = [_number(named, a) for a in e.args[1:]]
        for arg, number in zip(e.args[1:], numbers, strict=True):
            if not isinstance(arg, Var) or arg.name in out.given or number is None:
                continue
            if may_be_given(number):
                out.given[arg.name] = argument(out, number)
        if e.op == "quantize" and e.dtype in BYTES:
            _prepare(out, s.name, e, numbers[1])
    out.whole = out.quantizers.keys() - _computed_with(kernel)


def _give_draw(out: KernelText, lets: dict[str, Let], seed: object) -> None:
    """Each layer's dropout has its own: with them in the text a T5 of four layers had 122 kernels
    instead of 100."""
    made = lets[seed.name].value if isinstance(seed, Var) and seed.name in lets else None
    for arg in made.args if isinstance(made, Apply) and made.op == "add" else ():
        number = _number(lets, arg)
        if isinstance(arg, Var) and arg.name not in out.given and number is not None:
            out.given[arg.name] = argument(out, number)


def _computed_with(kernel: Kernel) -> set[str]:
    """The variables that are neither stored alone nor dequantized at once."""
    found: set[str] = set()
    for s in simple(kernel.body):
        for e in expressions(s):
            if isinstance(s, Let) and isinstance(e, Apply) and e.op == "dequantize":
                found |= {name for a in e.args[1:] for name in variables(a)}
            elif not (isinstance(s, Store) and isinstance(e, Var)):
                found |= variables(e)
    return found


def _prepare(out: KernelText, name: str, e: Apply, zero: Number | None) -> None:
    """A line that computes what the scale and the zero point alone decide."""
    scale, point = e.args[1:]
    if zero is None or not isinstance(scale, Var) or not isinstance(point, Var):
        return
    if scale.name in out.given:
        low, high = limits_of(e.dtype, e.attr("low"), e.attr("high"))
        text = out.given.get(point.name) or number_text(zero.value, float32)
        made = out.quantizers[name] = f"steps{len(out.quantizers)}_"
        parameters = f"{out.given[scale.name]}, {text}, {low}, {high}"
        plain = e.dtype is uint8 and (zero.value, low, high) == (0, 0, 255)
        kind = f"{C_TYPE[e.dtype]}{', true' if plain else ''}"
        out.prepared.append(f"const gh::ToBytes<{kind}> {made}({parameters});")


def argument(out: KernelText, number: Number) -> str:
    """The argument that holds a number, or the number itself where that must stand in the text."""
    text = number_text(number.value, float32 if number.dtype.is_float else number.dtype)
    return out.number(COMPUTE_TYPE[number.dtype], text) if may_be_given(number) else text


def may_be_given(number: Number) -> bool:
    """Whether nothing is made of the number at compile time.

    A scale must be one by which `gh::ToBytes` divides: x / s is taken as a product with 1 / s and
    what that leaves over once more, which rounds as the division does (Markstein: right for every
    divisor whose fraction is not all ones). A division takes as long as ten of these.
    """
    if not number.dtype.is_float:
        return number.value not in (0, limits_of(number.dtype, None, None)[0])
    scale = np.float32(number.value)
    return bool(2.0**-64 <= scale <= 2.0**64) and int(scale.view(np.uint32)) % 2**23 != 2**23 - 1


def _number(lets: dict[str, Let], arg: object) -> Number | None:
    if isinstance(arg, Var) and arg.name in lets:
        value = lets[arg.name].value
        return value if isinstance(value, Number) else None
    return None
