"""Renders a kernel of kernel IR as one C++ function, with a map from lines to ops."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from glasshouse.backend.cpu.given_numbers import give_numbers
from glasshouse.backend.cpu.headers import headers_apart, include_apart
from glasshouse.backend.cpu.nests import Nests
from glasshouse.backend.cpu.recipe import Recipe
from glasshouse.backend.cpu.routine import form_function
from glasshouse.backend.cpu.routines import FORMS, ROUTINES
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.ir.dim import Symbol
from glasshouse.lower.kernel.kernel import OPERAND, OUTPUT, Kernel
from glasshouse.lower.kernel.queries import symbols_of_kernel
from glasshouse.lower.kernel.statement import Form, Ops, Tile
from glasshouse.lower.symbols import symbol_name
from glasshouse.lower.workspace import places


@dataclass(frozen=True)
class KernelFunction:
    """A kernel's function: `text` is its parameter list and body, without its name.

    `lines` has, for each line of the text, the positions in the kernel's group of the ops that the
    line computes; `labels` are all of these ops. `numbers` are arguments behind all others.
    """

    name: str
    labels: tuple[str, ...]
    parameters: str
    text: str
    lines: tuple[Ops, ...]
    recipe: Recipe
    numbers: tuple[str, ...] = ()

    @property
    def symbol(self) -> str:
        """The function's name in compiled code: alike in all programs that have this kernel, made
        of the same headers apart."""
        words = self.name.split("_", 1)[-1]
        apart = headers_apart(include_apart(self.recipe.headers))
        content = repr((self.text, self.lines, apart)).encode()
        return f"{words}_{hashlib.sha256(content).hexdigest()[:12]}"


def render(kernel: Kernel, symbols: Sequence[Symbol]) -> KernelFunction:
    """A kernel as C++; the program's symbols are handed over as numbers."""
    out = KernelText(kernel)
    give_numbers(out, kernel)
    for name, dtype, offset in places(kernel):
        ctype = "char" if dtype is None else C_TYPE[dtype]
        out.add(f"{ctype}* {name} = ({ctype}*)(work + {size_text(offset)});")
    nests = Nests(out)
    for s in kernel.body:
        if isinstance(s, Tile):
            ROUTINES[s.routine].render(out, s)
            out.tile += 1
        else:
            nests.statement(s)
    parameters = _parameters(kernel, out)
    bound = [*_bound(kernel, symbols), *(f"  {line}" for line in out.prepared)]
    lines = [f"({parameters}) {{", *bound, *out.lines, "}"]
    ops: list[Ops] = [(), *((),) * len(bound), *out.ops, ()]
    recipe = recipe_of(kernel)
    numbers = tuple(value for _, _, value in out.numbers)
    text = "\n".join(lines)
    return KernelFunction(kernel.name, kernel.ops, parameters, text, tuple(ops), recipe, numbers)


def recipe_of(kernel: Kernel) -> Recipe:
    """How a kernel is compiled: as its dearest tile, with the parts that any of them calls."""
    each = [ROUTINES[tile.routine].recipe(tile) for tile in kernel.tiles]
    return Recipe(
        tuple(dict.fromkeys(part for r in each for part in r.parts)),
        max((r.seconds for r in each), default=Recipe.seconds),
        "-O2" if any(r.level == "-O2" for r in each) else Recipe.level,
        tuple(dict.fromkeys(header for r in each for header in r.headers)),
        max((r.shared_seconds for r in each), default=0.0),
    )


def _parameters(kernel: Kernel, text: KernelText) -> str:
    out = ["gh::Context& ctx", "char* work", "const int64_t* sizes"]
    out += [f"const {C_TYPE[b.dtype]}* {b.name}" for b in kernel.with_role(OPERAND)]
    out += [f"const void* packed{i}" for i in range(len(kernel.forms))]
    out += [f"{C_TYPE[b.dtype]}* {b.name}" for b in kernel.with_role(OUTPUT)]
    out += [f"{ctype} {name}" for ctype, name, _ in text.numbers]
    return ", ".join(out)


def _bound(kernel: Kernel, symbols: Sequence[Symbol]) -> list[str]:
    """The symbols that the kernel's sizes are made of, as variables."""
    used = symbols_of_kernel(kernel) if symbols else ()
    return [
        f"  const int64_t {symbol_name(s.name)} = sizes[{i}];"
        for i, s in enumerate(symbols)
        if s in used
    ]


def form_text(form: Form) -> str:
    """The function that brings a constant into a form, without its name."""
    return form_function(form, FORMS[form.kind].body(form))


def form_bytes(form: Form) -> str:
    """How many bytes a form takes, as an expression."""
    return FORMS[form.kind].nbytes(form)
