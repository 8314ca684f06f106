"""The modules that hold others: in sequence, in a list, in a dict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from glasshouse.errors import TypeMismatch
from glasshouse.nn.module import Module
from glasshouse.nn.parameter import Parameter


class _Numbered(Module):
    """Children under the names 0, 1, 2, ..."""

    def _all(self) -> list[Module]:
        return list(self.children())

    def append(self, module: Module) -> Any:
        self.add_module(str(len(self._modules)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        for module in modules:
            self.append(module)
        return self

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._all())

    def __getitem__(self, index: int | slice) -> Any:
        found = self._all()[index]
        return found if isinstance(found, Module) else type(self)(*self._wrapped(found))

    def _wrapped(self, modules: list[Module]) -> tuple[Any, ...]:
        return tuple(modules)


class Sequential(_Numbered):
    """Modules called one after the other; `Sequential({"name": module})` names them."""

    repeats = True

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            for number, given in enumerate(modules):
                if not isinstance(given, Module):
                    what = f"Sequential holds modules, not {type(given).__name__}"
                    raise TypeMismatch(what)
                self.add_module(str(number), given)

    def forward(self, x: Any) -> Any:
        for module in self.children():
            x = module(x)
        return x


class ModuleList(_Numbered):
    """Modules in a list, called by whoever holds it."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self.extend(modules)

    def _wrapped(self, modules: list[Module]) -> tuple[Any, ...]:
        return (modules,)


class ModuleDict(Module):
    """Modules by name."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        for name, module in (modules or {}).items():
            self.add_module(name, module)

    def __getitem__(self, name: str) -> Any:
        return self._modules[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def items(self) -> Iterator[tuple[str, Module]]:
        return self.named_children()


class ParameterList(Module):
    """Parameters under the names 0, 1, 2, ..."""

    def __init__(self, parameters: Iterable[Parameter] = ()) -> None:
        for number, parameter in enumerate(parameters):
            self.register_parameter(str(number), parameter)

    def __getitem__(self, index: int) -> Any:
        return list(self._parameters.values())[index]

    def __len__(self) -> int:
        return len(self._parameters)
