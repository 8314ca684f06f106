"""Where NVIDIA's libraries are installed, and what is common to calling one of them.

They are used where they are found (PyTorch's packages and the toolkit have them) and never needed.
"""

from __future__ import annotations

import ctypes
import glob
import os
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, Protocol, TypeVar

from glasshouse.errors import ExecutionError

Made = TypeVar("Made")


class LibraryRefused(ExecutionError):
    """A library has no algorithm for what it is asked for."""


class LibraryCall(Protocol):
    """One call of a library, ready to be started."""

    def start(self, arguments: Sequence[int], stream: int) -> None:
        """Begin it in a stream; `arguments` are those of the kernel, workspace first."""


def _places(names: Sequence[str], folders: Sequence[str]) -> Iterator[str]:
    """Where a library may be; by its plain name it is the one that PyTorch has loaded."""
    yield from names
    word = names[0].split(".so")[0]
    spec = find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        for inside in folders:
            yield from sorted(glob.glob(os.path.join(folder, inside, f"{word}.so.*")), reverse=True)
    for root in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if root:
            yield from sorted(glob.glob(f"{root}/lib64/{word}.so.*"), reverse=True)


def installed(
    names: Sequence[str], folders: Sequence[str], made: Callable[[Any], Made]
) -> Made | None:
    """What is made of the first library that can be loaded and has all functions; `folders` are
    those of NVIDIA's packages that may hold it."""
    for name in _places(names, folders):
        try:
            return made(ctypes.CDLL(name))
        except (OSError, AttributeError):
            continue
    return None
