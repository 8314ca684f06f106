"""Prints kernel IR: a line for each statement, blocks in braces, `@0,2` for the ops computed there.

kernel k0_relu(x0: float32[64]) -> (y0: float32[64]) {
  for i0_ < 64 vector {
    let t1_: float32 = x0[i0_] @0
    store y0[i0_] = relu(t1_) @0
  }
}
"""

from __future__ import annotations

from collections.abc import Iterable

from glasshouse.ir.dim import Dim, SymDim
from glasshouse.ir.printer import format_attr
from glasshouse.lower.kernel.expr import Apply, Attrs, Choose, Compare, Expr, Load, Number, Position
from glasshouse.lower.kernel.index import Atom, Checked, Derived, Index, Loop
from glasshouse.lower.kernel.kernel import OPERAND, OUTPUT, TEMPORARY, Buffer, Kernel
from glasshouse.lower.kernel.queries import symbols_of_kernel
from glasshouse.lower.kernel.statement import (
    Fold,
    For,
    Form,
    Let,
    Operand,
    Ops,
    Parts,
    Role,
    Statement,
    Store,
    Tile,
)

_STEP = "  "


def print_kernel(kernel: Kernel) -> str:
    """The whole kernel as text."""
    operands, outputs = (_buffers(kernel.with_role(r)) for r in (OPERAND, OUTPUT))
    lines = [f"symbol {found.declared}" for found in symbols_of_kernel(kernel)]
    lines.append(f"kernel {kernel.name}({operands}) -> ({outputs}) {{")
    if kernel.ops:
        lines.append(f"{_STEP}ops {', '.join(kernel.ops)}")
    lines += [f"{_STEP}temporary {_buffer(b)}" for b in kernel.with_role(TEMPORARY)]
    if kernel.workspace != 0:
        lines.append(f"{_STEP}workspace {kernel.workspace}")
    if kernel.variant != "loops":
        lines.append(f"{_STEP}variant {kernel.variant}")
    lines += [f"{_STEP}form {_form(f)}" for f in kernel.forms]
    return "\n".join([*lines, *_block(kernel.body, _STEP), "}"]) + "\n"


def _buffers(buffers: Iterable[Buffer]) -> str:
    return ", ".join(map(_buffer, buffers))


def _buffer(buffer: Buffer) -> str:
    known = " constant" if buffer.constant else ""
    return f"{buffer.name}: {buffer.dtype.name}[{buffer.size}]{known}"


def _block(statements: Iterable[Statement], indent: str) -> list[str]:
    lines: list[str] = []
    for s in statements:
        lines += _statement(s, indent)
    return lines


def _statement(s: Statement, indent: str) -> list[str]:
    inner = indent + _STEP
    match s:
        case For():
            head = f"{indent}for {_loop(s.loop)} {s.role.value} {{"
            return [head, *_block(s.body, inner), indent + "}"]
        case Let():
            return [f"{indent}let {s.name}: {s.dtype} = {print_expr(s.value)}{_ops(s.ops)}"]
        case Store():
            place = f"{s.buffer}[{print_index(s.index)}]"
            return [f"{indent}store {place} = {print_expr(s.value)}{_ops(s.ops)}"]
        case Fold():
            over = f" over {_loops(s.loops)}" if s.loops else ""
            vector = " vector" if s.role is Role.VECTOR else ""
            head = f"{indent}fold {s.name}: {s.dtype} = {s.op}{over}{vector} {{"
            tail = f"{indent}}} of {print_expr(s.element)}{_ops(s.ops)}"
            return [head, *_block(s.body, inner), tail]
        case Parts():
            parts = f"{s.outer.name}, {_loop(s.inner)}"
            return [f"{indent}parts {parts} of {_loop(s.loop)}"]
        case Tile():
            return _tile(s, indent)


def _tile(s: Tile, indent: str) -> list[str]:
    inner = indent + _STEP
    lines = [f"{indent}tile {s.op}{_attrs(s.attrs)} by {s.routine}{_ops(s.ops)} {{"]
    if s.problem is not None:
        numbers = " ".join(map(str, s.problem.numbers))
        about = f"{s.problem.op} {s.problem.dtype} {s.problem.operations!r} {numbers}"
        lines.append(f"{inner}problem {about}")
    if s.variants:
        lines.append(f"{inner}variants {', '.join(s.variants)}")
    if s.variant:
        lines.append(f"{inner}variant {s.variant}")
    lines += [f"{inner}operand {_operand(o)}" for o in s.operands]
    lines += [f"{inner}form {_form(f)}" for f in s.forms]
    for scratch in s.scratch:
        kind = f" {scratch.dtype}" if scratch.dtype is not None else ""
        lines.append(f"{inner}scratch {scratch.name}: {scratch.nbytes} bytes{kind}")
    lines += [f"{inner}write {number} to {buffer}" for number, buffer in s.writes]
    order = "" if s.order is None else f" order {format_attr(s.order)}"
    made = f"{s.dtype}[{', '.join(map(str, s.shape))}]{order}"
    if not s.result:
        return [*lines, f"{inner}result {made}", indent + "}"]
    lines.append(f"{inner}result {made} as {s.result} over {_loops(s.variables)} {{")
    lines += _block(s.epilogue, inner + _STEP)
    return [*lines, inner + "}", indent + "}"]


def _operand(operand: Operand) -> str:
    over = f" over {_loops(operand.loops)}" if operand.loops else ""
    return f"{'constant ' if operand.constant else ''}{print_expr(operand.element)}{over}"


def _form(form: Form) -> str:
    when = "once" if form.once else "always"
    return f"{form.kind}{format_attr(form.attrs)}: {form.dtype} of {form.buffer} {when}"


def _ops(ops: Ops) -> str:
    return " @" + ",".join(map(str, ops)) if ops else ""


def _loop(loop: Loop) -> str:
    return f"{loop.name} < {loop.extent}"


def _loops(loops: Iterable[Loop]) -> str:
    return ", ".join(map(_loop, loops))


# ---------------------------------------------------------------------------------- expressions
def print_expr(e: Expr) -> str:
    match e:
        case Load():
            return f"{e.buffer}[{print_index(e.index)}]"
        case Number():
            return f"{e.value!r}:{e.dtype}"
        case Apply():
            args = ", ".join(map(print_expr, e.args))
            return f"{e.op}{_attrs(e.attrs)}({args}):{e.dtype}"
        case Position():
            return f"position({print_index(e.index)}):{e.dtype}"
        case Choose():
            tests = " and ".join(map(_compare, e.conditions))
            return f"if {tests} then {print_expr(e.then)} else ({print_expr(e.otherwise)})"
        case _:
            return e.name


def _compare(c: Compare) -> str:
    left, right = print_index(c.left), print_index(c.right)
    return f"{left} {c.op} {right}"


def print_index(index: Index) -> str:
    parts = [_atom(a) if c == 1 else f"{_atom(a)} * {_size(c)}" for a, c in index.terms]
    if index.constant != 0 or not parts:
        parts.append(_size(index.constant))
    return " + ".join(parts)


def _atom(atom: Atom) -> str:
    match atom:
        case Loop():
            return atom.name
        case Derived():
            return f"{atom.how}({print_index(atom.index)}, {_size(atom.size)})"
        case Checked():
            return f"checked({atom.name}, {_size(atom.size)})"


def _size(size: Dim) -> str:
    return f"({size})" if isinstance(size, SymDim) else str(size)


def _attrs(attrs: Attrs) -> str:
    if not attrs:
        return ""
    return "{" + ", ".join(f"{k}={format_attr(v)}" for k, v in attrs) + "}"
