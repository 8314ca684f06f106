"""How each op on elements and each fold is written in C++ for CPUs.

The same text serves single elements and vectors: `element.h` and `vmath.h` overload every function
for both. Comparisons of vectors give masks; `&`, `|`, `^` and `!` work on masks as on bools.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from glasshouse.backend.cxx.words import C_TYPE, COMPUTE_TYPE, number_text, size_text
from glasshouse.ir.dtype import NARROW, Category, DType, bool_, float32, float64
from glasshouse.lower.kernel.expr import Apply
from glasshouse.ops.elementwise import bound_in
from glasshouse.ops.quant import limits_of

Spelling = Callable[[Apply, list[str]], str]
"""Writes an op whose arguments are written already."""


@dataclass(frozen=True)
class FoldSpelling:
    """How a reduction is computed."""

    start: Callable[[DType], str]  # the value of an empty fold
    step: Callable[[str, str], str]  # accumulator, element -> accumulator
    lanes: str = ""  # function that folds the lanes of a vector accumulator; "" if there is none
    pragma: str = ""  # what lets the compiler use several scalar accumulators at once
    of_vectors: Callable[[str, str], str] | None = None  # the step, where it is another one

    def on(self, accumulator: str, element: str) -> str:
        """The step of vectors."""
        return (self.of_vectors or self.step)(accumulator, element)


_FLOATS = (float32, *NARROW)


def _call(function: str) -> Spelling:
    return lambda e, args: f"gh::{function}({', '.join(args)})"


def _rounded(function: str) -> Spelling:
    """A division of integers reports zeros to the context; one of floats has a result for them."""

    def spelling(e: Apply, args: list[str]) -> str:
        owner = "gh::" if e.dtype.is_float else "ctx."
        return f"{owner}{function}({', '.join(args)})"

    return spelling


def _compare(operator: str, for_bool: str) -> Spelling:
    """Comparisons; booleans have no order in vectors, so theirs are spelled by logic."""

    def spell(e: Apply, args: list[str]) -> str:
        if e.args[0].dtype is bool_:
            return "(" + for_bool.format(*args) + ")"
        return f"({args[0]} {operator} {args[1]})"

    return spell


def _logic(text: str) -> Spelling:
    """Logic on truth values; other operands are true where they are not zero."""

    def spell(e: Apply, args: list[str]) -> str:
        truths = [_truth(v.dtype, a) for v, a in zip(e.args, args, strict=True)]
        return "(" + text.format(*truths) + ")"

    return spell


def _truth(dtype: DType, name: str) -> str:
    return name if dtype is bool_ else f"({name} != {number_text(0, dtype)})"


def _bits(operator: str) -> Spelling:
    def spell(e: Apply, args: list[str]) -> str:
        if e.dtype is bool_:
            return f"({args[0]} {operator} {args[1]})"
        return f"{COMPUTE_TYPE[e.dtype]}({args[0]} {operator} {args[1]})"

    return spell


def _bitwise_not(e: Apply, args: list[str]) -> str:
    if e.dtype is bool_:
        return f"(!{args[0]})"
    return f"{COMPUTE_TYPE[e.dtype]}(~{args[0]})"


def _from_front(e: Apply, args: list[str]) -> str:
    x, besides = args[0], e.attr("besides")
    kept = f" && {x} != {besides}" if besides else ""
    return f"({x} < 0{kept} ? {_highest(e.dtype)} : {x})"


def _divide(e: Apply, args: list[str]) -> str:
    return f"({args[0]} / {args[1]})"


def _clip(e: Apply, args: list[str]) -> str:
    dtype = e.dtype
    text = args[0]
    for bound, function in ((e.attr("low"), "max"), (e.attr("high"), "min")):
        if bound is not None:
            number = number_text(bound_in(bound, dtype.carrier), dtype)
            text = f"gh::{function}({text}, gh::like({args[0]}, {number}))"
    return text


def _cast(e: Apply, args: list[str]) -> str:
    """Vectors hold floats and masks only, so a cast among them is a rounding or a comparison."""
    source, wanted = e.args[0].dtype, e.attr("dtype")
    if source in _FLOATS and wanted in _FLOATS:
        wider = wanted.bits > source.bits  # and holds all: half floats differ among themselves
        if wider or wanted is source:
            return args[0]
        return f"gh::round_{C_TYPE[wanted].removeprefix('gh::')}({args[0]})"
    return f"gh::convert<{COMPUTE_TYPE[wanted]}>({args[0]})"


def _gelu(e: Apply, args: list[str]) -> str:
    return f"gh::{'gelu_tanh' if e.attr('approximate') == 'tanh' else 'gelu'}({args[0]})"


def _leaky_relu(e: Apply, args: list[str]) -> str:
    x, slope = args[0], number_text(e.attr("slope"), e.dtype)
    return f"gh::select({x} > 0.0f, {x}, {x} * {slope})"


def _elu(e: Apply, args: list[str]) -> str:
    x, alpha = args[0], number_text(e.attr("alpha"), e.dtype)
    return f"gh::select({x} > 0.0f, {x}, gh::expm1({x}) * {alpha})"


def _hardsigmoid(e: Apply, args: list[str]) -> str:
    x = args[0]
    three, six, zero = (f"gh::like({x}, {n}.0f)" for n in (3, 6, 0))
    return f"(gh::min(gh::max({x} + {three}, {zero}), {six}) / {six})"


def _hardswish(e: Apply, args: list[str]) -> str:
    """The product before the quotient: what overflows in PyTorch overflows here."""
    x = args[0]
    three, six, zero = (f"gh::like({x}, {n}.0f)" for n in (3, 6, 0))
    return f"({x} * gh::min(gh::max({x} + {three}, {zero}), {six}) / {six})"


def _softplus(e: Apply, args: list[str]) -> str:
    beta, threshold = e.attr("beta"), e.attr("threshold")
    dtype = e.dtype
    b, limit = number_text(beta, dtype), number_text(threshold, dtype)
    scaled = f"({args[0]} * {b})"
    return f"gh::select({scaled} > {limit}, {args[0]}, gh::softplus({scaled}) / {b})"


def _where(e: Apply, args: list[str]) -> str:
    return f"gh::select({_truth(e.args[0].dtype, args[0])}, {args[1]}, {args[2]})"


def _power(e: Apply, args: list[str]) -> str:
    return f"gh::power({args[0]}, {args[1]})"


def _quantize(e: Apply, args: list[str]) -> str:
    low, high = limits_of(e.dtype, e.attr("low"), e.attr("high"))
    return f"gh::quantize<{C_TYPE[e.dtype]}>({', '.join(args)}, {low}, {high})"


def _random(e: Apply, args: list[str]) -> str:
    """A random element: a hash of the seed and of the element's number."""
    wide = e.dtype if e.dtype is float64 else float32
    if e.op == "dropout":
        x, seed, number = args
        p = e.attr("p")
        scale = number_text(1 / (1 - p) if p < 1 else 0.0, wide)
        zero = number_text(0.0, wide)
        return f"gh::keeps({seed}, {number}, {math.ceil(p * 2**24)}) ? {x} * {scale} : {zero}"
    first, second = (
        (e.attr("low"), e.attr("high") - e.attr("low"))
        if e.op == "uniform"
        else (e.attr("mean"), e.attr("std"))
    )
    numbers = f"{number_text(first, wide)}, {number_text(second, wide)}"
    return f"gh::{e.op}<{COMPUTE_TYPE[wide]}>({', '.join(args)}, {numbers})"


def _arange(e: Apply, args: list[str]) -> str:
    start, step = (
        number_text(a, e.dtype)
        if isinstance(a, (int, float))
        else f"{COMPUTE_TYPE[e.dtype]}({size_text(a)})"
        for a in (e.attr("start"), e.attr("step"))
    )
    return f"{start} + {args[0]} * {step}"


def _one_hot(e: Apply, args: list[str]) -> str:
    return f"{COMPUTE_TYPE[e.dtype]}({args[0]} == {args[1]})"


SPELL: dict[str, Spelling] = {
    "add": _call("add"), "subtract": _call("sub"), "multiply": _call("mul"), "divide": _divide,
    "floor_divide": _rounded("floor_div"), "remainder": _rounded("floor_mod"), "power": _power,
    "maximum": _call("max"), "minimum": _call("min"), "negative": _call("neg"),
    "absolute": _call("abs"), "sign": _call("sign_of"),
    "less": _compare("<", "(!{0} & {1})"), "less_equal": _compare("<=", "(!{0} | {1})"),
    "greater": _compare(">", "({0} & !{1})"), "greater_equal": _compare(">=", "({0} | !{1})"),
    "equal": _compare("==", "!({0} ^ {1})"), "not_equal": _compare("!=", "({0} ^ {1})"),
    "logical_and": _logic("{0} & {1}"), "logical_or": _logic("{0} | {1}"),
    "logical_xor": _logic("{0} ^ {1}"), "logical_not": _logic("!{0}"),
    "bitwise_and": _bits("&"), "bitwise_or": _bits("|"), "bitwise_xor": _bits("^"),
    "bitwise_not": _bitwise_not,
    "left_shift": _call("shift_left"), "right_shift": _call("shift_right"),
    "where": _where,
    "cast": _cast, "isnan": _call("is_nan"), "isinf": _call("is_inf"), "clip": _clip,
    **{
        name: _call(name)
        for name in (
            "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos",
            "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "floor",
            "ceil", "trunc", "sigmoid", "relu", "silu",
        )
    },
    "round": _call("rint"), "gelu": _gelu, "leaky_relu": _leaky_relu, "elu": _elu,
    "hardsigmoid": _hardsigmoid, "hardswish": _hardswish, "softplus": _softplus,
    "quantize": _quantize, "dequantize": _call("dequantize"), "uniform": _random,
    "normal": _random, "dropout": _random, "arange": _arange, "one_hot": _one_hot,
    "from_front": _from_front,
}  # fmt: skip

ON_MASKS = frozenset(
    {
        "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_and",
        "logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor",
        "bitwise_not", "where", "cast", "isnan", "isinf", "any", "all",
    }
)  # fmt: skip
SCALAR_ONLY = frozenset({"floor_divide", "left_shift", "right_shift"})


def _lowest(dtype: DType) -> str:
    if dtype.is_float:
        return number_text(float("-inf"), dtype)
    if dtype.category is Category.BOOL:
        return "false"
    return f"std::numeric_limits<{COMPUTE_TYPE[dtype]}>::min()"


def _highest(dtype: DType) -> str:
    if dtype.is_float:
        return number_text(float("inf"), dtype)
    if dtype.category is Category.BOOL:
        return "true"
    return f"std::numeric_limits<{COMPUTE_TYPE[dtype]}>::max()"


FOLDS: dict[str, FoldSpelling] = {
    "sum": FoldSpelling(
        lambda d: number_text(0, d), lambda a, x: f"{a} + {x}", "gh::reduce_add",
        "#pragma omp simd reduction(+ : {acc})",
    ),
    "prod": FoldSpelling(
        lambda d: number_text(1, d), lambda a, x: f"{a} * {x}", "gh::reduce_mul",
        "#pragma omp simd reduction(* : {acc})",
    ),
    "max": FoldSpelling(_lowest, lambda a, x: f"gh::max({a}, {x})", "gh::reduce_max"),
    "min": FoldSpelling(_highest, lambda a, x: f"gh::min({a}, {x})", "gh::reduce_min"),
    "any": FoldSpelling(
        lambda d: "false", lambda a, x: f"{a} | ({x} != 0)", "gh::any",
        of_vectors=lambda a, x: f"{a} | gh::convert<bool>({x})",
    ),
    "all": FoldSpelling(
        lambda d: "true", lambda a, x: f"{a} & ({x} != 0)", "gh::all",
        of_vectors=lambda a, x: f"{a} & gh::convert<bool>({x})",
    ),
}  # fmt: skip
