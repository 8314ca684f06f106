"""How a module prints: its class, and its children indented below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glasshouse.nn.module import Module


def print_module(module: Module) -> str:
    """`Sequential(`, then `  (0): Linear(in_features=4, out_features=2, bias=True)`, then `)`."""
    lines: list[str] = []
    # (module, its name with brackets, depth), or the line that closes one.
    stack: list[tuple[Module, str, int] | str] = [(module, "", 0)]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            lines.append(item)
            continue
        current, label, depth = item
        indent, name = "  " * depth, type(current).__name__
        children = [(n, m) for n, m in current._modules.items() if m is not None]
        extra = current.extra_repr()
        if not children:
            lines.append(f"{indent}{label}{name}({extra})")
            continue
        lines.append(f"{indent}{label}{name}(")
        if extra:
            lines.append(f"{indent}  {extra}")
        stack.append(f"{indent})")
        stack.extend((child, f"({n}): ", depth + 1) for n, child in reversed(children))
    return "\n".join(lines)
