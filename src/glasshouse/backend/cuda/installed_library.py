"""Where NVIDIA's libraries are installed, and what is common to calling one of them.

They are used where they are found (PyTorch's packages and the toolkit have them) and never needed.
"""

from __future__ import annotations

import ctypes
import glob
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from importlib.util import find_spec
from typing import Any, ClassVar, Protocol, TypeVar

from glasshouse.backend.cuda.prepared_calls import Argument, PreparedCall, Step, make_in_python
from glasshouse.errors import LibraryRefused

Made = TypeVar("Made")
ROOM_ALIGNED = 256
"""Bytes to which cuBLASLt documents that its workspace must be aligned: its heuristic proposes an
algorithm, and the call is refused. Arenas keep to 64, so a call asks for so many bytes more and
begins at the next multiple."""


class LibraryCall(Protocol):
    """One call of a library, ready to be started."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held while its steps are made."""

    def steps(self, arguments: int, stream: int) -> list[Step]:
        """What begins it: the addresses of the kernel's arguments, workspace first, and of the
        stream, both of which are read then."""


def begin(call: LibraryCall, arguments: Sequence[int], stream: int) -> None:
    """Begin a call once."""
    given = (ctypes.c_uint64 * (len(arguments) + 1))(*arguments, stream)
    at = ctypes.addressof(given)
    with call.lock:
        make_in_python(call.steps(at, at + 8 * len(arguments)))


class DeclaredLibrary:
    """A library whose functions give a status; `functions` has the types of their parameters."""

    name: ClassVar[str]

    def __init__(self, found: Any, functions: Mapping[str, Sequence[Any]], version: str) -> None:
        self._functions = found
        for name, types in functions.items():
            function = getattr(found, name)
            function.argtypes = types
            function.restype = ctypes.c_int
        getattr(found, version).restype = ctypes.c_size_t
        self.version = int(getattr(found, version)())
        self._handle = 0

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._functions, name)(*arguments)
        if status:
            raise self._refused(name, status)

    def prepared(self, name: str, *arguments: Argument, keeps: Any = None) -> PreparedCall:
        """A call that is made later, and often."""
        refused = partial(self._refused, name)
        return PreparedCall(getattr(self._functions, name), arguments, refused, keeps)

    def made(self, name: str, *arguments: Any) -> int:
        """What a function writes through its first parameter."""
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle.value or 0

    @classmethod
    def _refused(cls, name: str, status: int) -> LibraryRefused:
        return LibraryRefused(f"{cls.name} refused {name}: status {status}")


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
