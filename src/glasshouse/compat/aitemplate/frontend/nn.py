"""`aitemplate.frontend.nn`: modules whose results have `_attrs`."""

from __future__ import annotations

from typing import Any

from glasshouse import Tensor, nn
from glasshouse.compat.aitemplate.frontend.tensor import with_attrs
from glasshouse.compat.missing import names_what_is_there


class Module(nn.Module):
    """A module that is called once, to build a graph."""

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        self._follow(args)
        for parameter in self.parameters():
            parameter.sync()  # its first value is data, not part of the graph
        return with_attrs(super().__call__(*args, **keywords))

    def _follow(self, args: Any) -> None:
        """Weights have the element type of what they meet: AITemplate's models are of one type."""
        kinds = [a.dtype for a in args if isinstance(a, Tensor) and a.dtype.is_float]
        named = {name: p.name for name, p in self.named_parameters() if p.dtype.is_float}
        if not kinds or all(p.dtype is kinds[0] for p in self.parameters() if p.dtype.is_float):
            return
        self.to(kinds[0])
        for name, parameter in self.named_parameters():
            if named.get(name):
                _name(parameter, named[name])

    def name_parameter_tensor(self, prefix: str = "") -> None:
        """Give each parameter the name under which constants are set: dots become underscores."""
        for name, parameter in self.named_parameters():
            full = f"{prefix}.{name}" if prefix else name
            _name(parameter, full.replace(".", "_"))


def _name(parameter: Any, name: str) -> None:
    parameter.sync()
    parameter.name = name
    parameter.value.node.attrs = {**parameter.value.node.attrs, "name": name}


class Sequential(Module, nn.Sequential):
    """Modules called one after the other."""


class ModuleList(Module, nn.ModuleList):
    """Modules in a list."""


class Linear(Module, nn.Linear):
    """`x @ weight.T + bias`, with AITemplate's specialisations."""


class LayerNorm(Module, nn.LayerNorm):
    """Layer norm over the last axes."""


class Dropout(Module, nn.Dropout):
    """Nothing, unless training."""


class Identity(Module, nn.Identity):
    """The same tensor."""


class Embedding(Module, nn.Embedding):
    """Rows of a table."""


__all__ = [
    "Dropout", "Embedding", "Identity", "LayerNorm", "Linear", "Module", "ModuleList", "Sequential",
]  # fmt: skip
__getattr__ = names_what_is_there("aitemplate.frontend.nn", __all__)
