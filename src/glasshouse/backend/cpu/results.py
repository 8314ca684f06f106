"""Decides what a template does with its results: the lambda that takes each vector of them."""

from __future__ import annotations

from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim
from glasshouse.ir.graph import Value
from glasshouse.lower.cxx import size_text
from glasshouse.lower.epilogue import RESULT, epilogue
from glasshouse.lower.index import strides
from glasshouse.lower.order import Order
from glasshouse.lower.writer import KernelWriter


def take_results(
    writer: KernelWriter,
    out: Value,
    variables: dict[str, Dim],
    order: Order | None = None,
    whole: str = "",
) -> str:
    """A lambda over the template's indices, a vector and its range `t`.

    What follows the anchor in the group is inlined where it can be; otherwise the plain results
    are written, in the template's order, and loops compute the rest from there. A template that
    sums whole numbers hands over `whole`; the expression given here makes real ones of them.
    """
    parameters = ", ".join(f"long {name}" for name in variables)
    head = f"[=]({parameters}, gh::vf {RESULT}, auto t) {{ "
    if whole:
        head = f"[=]({parameters}, gh::vi whole, auto t) {{ const gh::vf {RESULT} = {whole}; "
    try:
        after = epilogue(writer, out, variables, order)
    except Unsupported:
        place = writer.place_for(out, order)
        steps = strides(tuple(variables.values()))
        at = " + ".join(
            name if step == 1 else f"{name} * {size_text(step)}"
            for name, step in zip(variables, steps, strict=True)
        )
        return head + f"gh::store({place} + {at}, {RESULT}, t); }}"
    for value in after.outputs:
        writer.buffers[value] = writer.outputs[value]
    return head + " ".join(after.lines) + " }"
