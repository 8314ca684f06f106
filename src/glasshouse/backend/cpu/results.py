"""Decides what a template does with its results: the lambda that takes each vector of them."""

from __future__ import annotations

from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim
from glasshouse.ir.graph import Value
from glasshouse.lower.cxx import C_TYPE, size_text
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
    return _taken(writer, out, variables, order, whole)[0]


def take_rows(
    writer: KernelWriter, out: Value, variables: dict[str, Dim], order: Order | None = None
) -> str:
    """As `take_results`, for templates over rows and columns, which are also told where rows go.

    They then own the lines before they write them: 2 % of a product with 512 multiplications.
    """
    body, written = _taken(writer, out, variables, order)
    if written is None:
        return body
    buffer, value = written
    size = f"(long)sizeof({C_TYPE[value.type.dtype]})"
    columns = size_text(list(variables.values())[-1])
    return f"{body}, gh::NoRowsDone{{}}, gh::OutHint{{{buffer}, {columns} * {size}, {size}}}"


def _taken(
    writer: KernelWriter,
    out: Value,
    variables: dict[str, Dim],
    order: Order | None,
    whole: str = "",
) -> tuple[str, tuple[str, Value] | None]:
    """The lambda, and the buffer that it fills in the order of the template's results, if any."""
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
        return head + f"gh::store({place} + {at}, {RESULT}, t); }}", (place, out)
    for value in after.outputs:
        writer.buffers[value] = writer.outputs[value]
    alike = [(writer.outputs[v], v) for v in after.alike]
    return head + " ".join(after.lines) + " }", alike[0] if alike else None
