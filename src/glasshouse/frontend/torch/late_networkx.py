"""networkx, imported when it is used.

PyTorch imports it with AOTAutograd, for the types in the signatures of two files about activation
checkpointing: 284 modules, 12 MB and a quarter of a second that no export needs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

NAME = "networkx"
_TYPES = "torch._functorch._activation_checkpointing."


class _Late(ModuleType):
    """Stands for networkx in the modules that were imported meanwhile; loads it when asked."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(NAME) is self:
            if name == "__file__":  # `inspect` asks all modules for it
                raise AttributeError(name)
            if str(sys._getframe(1).f_globals.get("__name__")).startswith(_TYPES):
                return Any  # in a signature: no function of these files runs yet
            del sys.modules[NAME]
        return getattr(import_module(NAME), name)


@contextmanager
def late_networkx() -> Iterator[None]:
    """While it lasts, what PyTorch imports does not import networkx."""
    spec = None if NAME in sys.modules else find_spec(NAME)
    if spec is None:
        yield
        return
    late = _Late(NAME)
    late.__spec__ = spec  # Dynamo asks for those of modules that it knows
    sys.modules[NAME] = late
    try:
        yield
    finally:
        if sys.modules.get(NAME) is late:
            del sys.modules[NAME]


def import_aot_autograd() -> None:
    """Import what every export and every graph of Dynamo's needs of PyTorch."""
    with late_networkx():
        import torch._functorch.aot_autograd  # noqa: F401
