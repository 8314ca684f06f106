"""cuDNN's graph interface through ctypes: descriptors with attributes, by the library's numbers.

The library is used where it is installed (PyTorch's packages have it) and never needed.
`GLASSHOUSE_CUDNN=0` leaves it out.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from functools import lru_cache
from typing import Any

from glasshouse.backend.cuda.installed_library import DeclaredLibrary, installed

_SWITCH = "GLASSHOUSE_CUDNN"
_OLDEST = 90000
"""The graph interface of cuDNN 9; earlier ones are not asked."""
_ADDRESS, _INT, _LONG = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64

# Every function with the types of its parameters; all give a status.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cudnnCreate": (_ADDRESS,),
    "cudnnSetStream": (_ADDRESS, _ADDRESS),
    "cudnnBackendCreateDescriptor": (_INT, _ADDRESS),
    "cudnnBackendDestroyDescriptor": (_ADDRESS,),
    "cudnnBackendSetAttribute": (_ADDRESS, _INT, _INT, _LONG, _ADDRESS),
    "cudnnBackendGetAttribute": (_ADDRESS, _INT, _INT, _LONG, _ADDRESS, _ADDRESS),
    "cudnnBackendFinalize": (_ADDRESS,),
    "cudnnBackendExecute": (_ADDRESS, _ADDRESS, _ADDRESS),
}

# Kinds of attributes (cudnnBackendAttributeType_t), with what an element is in memory.
HANDLE, DATA_TYPE, BOOLEAN, INT64, FLOAT, DOUBLE, POINTER = 0, 1, 2, 3, 4, 5, 6
CONVOLUTION_MODE, HEURISTIC, NOTE, DESCRIPTOR = 7, 8, 11, 15
_ELEMENTS: dict[int, Any] = {
    HANDLE: _ADDRESS, DATA_TYPE: _INT, BOOLEAN: ctypes.c_bool, INT64: _LONG,
    FLOAT: ctypes.c_float, DOUBLE: ctypes.c_double, POINTER: _ADDRESS, CONVOLUTION_MODE: _INT,
    HEURISTIC: _INT, NOTE: _INT, DESCRIPTOR: _ADDRESS,
}  # fmt: skip


class Cudnn(DeclaredLibrary):
    """Functions of `libcudnn`, and a handle in the context that is current."""

    name = "cuDNN"

    def __init__(self, found: Any) -> None:
        super().__init__(found, _FUNCTIONS, "cudnnGetVersion")
        if self.version < _OLDEST:
            raise OSError(f"cuDNN {self.version} is too old")
        self.lock = threading.RLock()
        """Of the handle, which has one stream at a time."""

    @property
    def handle(self) -> int:
        with self.lock:
            self._handle = self._handle or self.made("cudnnCreate")
            return self._handle


class Descriptor:
    """One of cuDNN's descriptors; it keeps those alive that it is made of."""

    def __init__(self, library: Cudnn, kind: int) -> None:
        self._library = library
        self._parts: list[Descriptor] = []
        made = ctypes.c_void_p()
        library.call("cudnnBackendCreateDescriptor", kind, ctypes.byref(made))
        self.address = made.value or 0
        weakref.finalize(self, _freed, library, self.address).atexit = False

    def set(self, attribute: int, kind: int, *values: Any) -> Descriptor:
        """Give an attribute one value or several; descriptors and tensors are given themselves."""
        self._parts += [v for v in values if isinstance(v, Descriptor)]
        plain = [v.address if isinstance(v, Descriptor) else v for v in values]
        data = (_ELEMENTS[kind] * max(len(plain), 1))(*plain)
        self._library.call(
            "cudnnBackendSetAttribute", self.address, attribute, kind, len(plain), data
        )
        return self

    def finished(self) -> Descriptor:
        self._library.call("cudnnBackendFinalize", self.address)
        return self

    def numbers(self, attribute: int, kind: int, most: int) -> list[int]:
        """Up to so many numbers that an attribute has."""
        data, count = (_ELEMENTS[kind] * most)(), ctypes.c_int64()
        self._library.call(
            "cudnnBackendGetAttribute", self.address, attribute, kind, most, ctypes.byref(count),
            data,
        )  # fmt: skip
        return list(data)[: min(count.value, most)]

    def parts(self, attribute: int, kind: int, most: int) -> list[Descriptor]:
        """Up to so many descriptors of a kind that an attribute has; cuDNN fills those that it is
        given."""
        count = ctypes.c_int64()
        found = [Descriptor(self._library, kind) for _ in range(most)]
        data = (ctypes.c_void_p * most)(*[x.address for x in found])
        self._library.call(
            "cudnnBackendGetAttribute", self.address, attribute, DESCRIPTOR, most,
            ctypes.byref(count), data,
        )  # fmt: skip
        kept = found[: min(count.value, most)]
        for x in kept:
            x._parts.append(self)
        return kept


def _freed(library: Cudnn, address: int) -> None:
    library.call("cudnnBackendDestroyDescriptor", address)


@lru_cache(maxsize=1)
def _library() -> Cudnn | None:
    return installed(("libcudnn.so.9",), ("cudnn/lib", "cu*/lib"), Cudnn)


def cudnn() -> Cudnn | None:
    """The library; None where there is none, or where it is not wanted."""
    return None if os.environ.get(_SWITCH) == "0" else _library()
