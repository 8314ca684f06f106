"""The call of a compiled training graph as straight Python, written out for its boundary.

AOTAutograd calls two graphs a step, each with every weight and every saved tensor. What
`Boundary.enter`, `Runner` and `Boundary.leave` decide for each of them in loops is known when the
graph is: here it is one line each. Two tiny layers take 9 us of a step less so, of 28.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from glasshouse.frontend.dynamo.boundary import Boundary, laid_out, plain
from glasshouse.frontend.dynamo.execute import Runner
from glasshouse.frontend.torch.dtypes import COMPLEX_PARTS
from glasshouse.ir.signature import Fixed
from glasshouse.runtime.arrays import as_complex
from glasshouse.runtime.function_modes import is_in_mode, unseen

Boxed = Callable[[Sequence[Any]], list[Any]]
"""A function of one list of arguments, as AOTAutograd calls what has `_boxed_call`."""


def crossing(
    boundary: Boundary, runner: Runner, general: Callable[..., list[Any]], moves: bool = False
) -> Boxed:
    """What calls the graph inside of a boundary; `general` serves what is not written out, and
    calls whose tensors are other ones than usual (a conjugate, one on another device). `moves`:
    results leave for another device."""

    def otherwise(flat: Sequence[Any]) -> list[Any]:
        with unseen():
            return general(*flat)

    quick = None if moves else runner.quick()
    given = [n for n in boundary.inside.graph.nodes if n.op == "placeholder"]
    are_tensors = all(
        isinstance(given[i].meta.get("val"), torch.Tensor) for i in runner.captured.inputs
    )
    made: Boxed = otherwise
    if quick is not None and are_tensors:
        made = _written(boundary, given, runner, quick, otherwise)
    made._boxed_call = True  # type: ignore[attr-defined]  # how AOTAutograd asks
    return made


def _written(
    boundary: Boundary, given: Sequence[Any], runner: Runner, quick: Callable[..., Any],
    otherwise: Boxed,
) -> Boxed:  # fmt: skip
    names: dict[str, Any] = {
        "quick": quick, "otherwise": otherwise, "plain": plain, "Tensor": torch.Tensor,
        "laid_out": laid_out, "view_as_real": torch.view_as_real, "is_in_mode": is_in_mode(),
        "as_complex": as_complex,
    }  # fmt: skip
    numbers = boundary.numbers  # of the arguments that the graph inside has, among all
    lines = ["if is_in_mode(): return alone(flat)"]
    lines.append(f"{''.join(f'a{i}, ' for i in range(boundary.count))} = flat")
    for place in runner.captured.inputs:
        a, order = f"a{numbers[place]}", boundary.entering[place]
        if order is not None:
            entered = f"{a}.permute({order})"
        else:  # a parameter is of a class of its own, frozen or not
            entered = f"{a} if type({a}) is Tensor and not {a}.requires_grad else plain({a})"
        lines.append(f"x{place} = {entered}")
        if given[place].meta["val"].dtype in COMPLEX_PARTS:
            lines.append(f"x{place} = view_as_real(x{place}.resolve_conj())")
        if place in boundary.parts:
            lines.append(f"x{place} = x{place}.contiguous()")
    lines.append(f"made = quick(({''.join(f'x{i}, ' for i in runner.captured.inputs)}))")
    lines.append("if made is None: return otherwise(flat)")
    outputs = [f"y{i}" for i in range(len(runner.graph.outputs))]
    lines.append(f"{', '.join(outputs)} = made")
    lines += [f"y{i} = as_complex(y{i})" for i in sorted(runner.captured.complex)]
    for number, place in enumerate(runner.captured.outputs):
        if isinstance(place, Fixed):
            names[f"m{number}"] = place.value
            continue
        laid = f"y{place}"
        if (order := boundary.leaving[number]) is not None:
            laid += f".permute({order})"
        elif (strides := boundary.strides[number]) is not None:
            laid = f"laid_out({laid}, {strides})"
        lines.append(f"m{number} = {laid}")
    left = []
    for way in boundary.ways:
        value = f"{'a' if way.given else 'm'}{way.number}"
        for step in way.steps:
            name = f"step{len(names)}"
            names[name] = step
            value = f"{name}({value})"
        left.append(value)
    exec("\n    ".join(["def call(flat):", *lines, f"return [{', '.join(left)}]"]), names)
    made: Boxed = names["call"]

    def alone(flat: Sequence[Any]) -> list[Any]:
        with unseen():
            return made(flat)

    names["alone"] = alone
    return made
