"""Decides how PyTorch's higher-order ops become control flow with bodies, or are inlined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from glasshouse.errors import CaptureError
from glasshouse.frontend.torch.slot import Slot

if TYPE_CHECKING:
    from glasshouse.frontend.torch.importer import Importer

# Ops whose body runs exactly once, with the place of the body and of its first operand.
_INLINED = {
    "wrap_with_set_grad_enabled": (1, 2), "wrap_with_autocast": (4, 5), "wrap": (0, 1),
    "tag_activation_checkpoint": (0, 1), "invoke_subgraph": (0, 2), "strict_mode": (0, 1),
    "wrap_activation_checkpoint": (0, 1),
}  # fmt: skip


def convert(importer: Importer, module: Any, node: Any, env: dict[Any, Any]) -> Any:
    """The results of a higher-order op, as slots."""
    name = node.target.name()
    if name in _INLINED:
        body, first = _INLINED[name]
        args = [env[a] if hasattr(a, "meta") else a for a in node.args]
        operands = args[first:]
        if name == "strict_mode":
            operands = list(operands[0])
        return importer.run(args[body], operands)
    raise CaptureError(
        f"{name} cannot be captured yet", str(importer.sources.of(node)),
        "write it with tensor ops",
    )  # fmt: skip


def slots(handles: Any) -> tuple[Slot, ...]:
    return tuple(Slot(h) for h in (handles if isinstance(handles, tuple) else (handles,)))
