"""A module that another one imports for names in its annotations: loaded when it is first used.

PyTorch's exporter imports networkx, 285 modules, through files that plan what a training step
computes twice. An export needs none of it, and it takes 0.45 s and 9 MB. A lazy loader of importlib
loads it all the same, at the first name that is read: annotations read names.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from threading import get_ident
from types import ModuleType
from typing import Any


@contextmanager
def imported_late(name: str) -> Iterator[None]:
    """What is imported meanwhile gets a stand-in for a module, unless that is loaded already; all
    that is read from the stand-in later, or by another thread, is the module's."""
    if name in sys.modules or find_spec(name) is None:
        yield
        return
    stand_in = _StandIn(name)
    sys.modules[name] = stand_in
    try:
        yield
    finally:
        stand_in.importer = None
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]


class _StandIn(ModuleType):
    """Gives names that say only what they are called while its thread imports others."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.importer: int | None = get_ident()

    def loaded(self) -> ModuleType:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return import_module(self.__name__)

    def __getattr__(self, name: str) -> Any:
        # What begins with underscores is asked by the machinery of imports: for submodules.
        if self.importer == get_ident() and not name.startswith("__"):
            return _Name(self, name)
        return getattr(self.loaded(), name)


class _Name:
    """A name of a module that was not loaded: stands in annotations, and can be used all the same
    (called, looked into, inherited from)."""

    def __init__(self, module: _StandIn, name: str) -> None:
        self._module, self._name = module, name

    def __repr__(self) -> str:
        return f"{self._module.__name__}.{self._name}"

    def __getitem__(self, _: object) -> _Name:
        return self

    def __or__(self, _: object) -> _Name:
        return self

    __ror__ = __or__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._used()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._used(), name)

    def __mro_entries__(self, _: tuple[type, ...]) -> tuple[Any, ...]:
        return (self._used(),)

    def _used(self) -> Any:
        return getattr(self._module.loaded(), self._name)
