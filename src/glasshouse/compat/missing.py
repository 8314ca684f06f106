"""What a door says when a script asks for what is not behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from glasshouse.errors import Unsupported


def names_what_is_there(module: str, names: Iterable[str]) -> Callable[[str], Any]:
    """A module's `__getattr__`: an error that lists what the module has."""
    listed = ", ".join(sorted(n for n in names if not n.startswith("_")))

    def __getattr__(name: str) -> Any:
        # Python itself asks for names such as __path__, and takes AttributeError for an answer.
        if name.startswith("__"):
            raise AttributeError(name)
        raise Unsupported(f"{module} has no {name} here; it has {listed}")

    return __getattr__
