"""Packed forms of PyTorch's weights that several modules share: the graphs of one model, prefill
and decoding say, want most weights in the same form.

A form is found again for the same memory with the same version (which PyTorch counts) and the same
samples (see `Executable.stamp`): by what `torch.compile` tells changed weights by. It goes with the
last module that holds it.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any
from weakref import ref

from glasshouse.backend.base import Executable
from glasshouse.forking import ForkLock
from glasshouse.lower.kernel.statement import Form
from glasshouse.runtime.arrays import Array

_Key = tuple[int, int, Form]


@dataclass(frozen=True)
class _HeldForm:
    form: ref[Array]
    version: int
    stamp: int
    kind: type[Executable]  # of the backend that packed it


_HELD: dict[_Key, _HeldForm] = {}
_SHARING = ForkLock()


def shared_form(source: Array, form: Form, executable: Executable | None = None) -> Array | None:
    """What holds this form of a weight already; without an executable samples are not compared."""
    held = _HELD.get(_key(source, form))
    made = None if held is None else held.form()
    if held is None or made is None or held.version != _version(source):
        return None
    if executable is not None and (
        held.kind is not type(executable) or held.stamp != _stamp(source, executable)
    ):
        return None
    return made


def share(source: Array, form: Form, made: Array, executable: Executable) -> None:
    """Let others find a form that was packed."""
    version = _version(source)
    if version is None:
        return
    key = _key(source, form)

    def forget(gone: ref[Array]) -> None:
        held = _HELD.get(key)
        if held is not None and held.form is gone:
            _HELD.pop(key, None)

    with _SHARING.lock:
        stamp = _stamp(source, executable)
        _HELD[key] = _HeldForm(ref(made, forget), version, stamp, type(executable))


def _key(source: Array, form: Form) -> _Key:
    return source.ctypes.data, source.nbytes, form


def _version(source: Array) -> int | None:
    """How often PyTorch has written to the tensor whose memory this is; None: to nobody's."""
    held: Any = source
    while held is not None and not hasattr(held, "owner"):
        held = getattr(held, "base", None)
    return None if held is None else int(held.owner._version)


def _stamp(source: Array, executable: Executable) -> int:
    addresses = (ctypes.c_void_p * 1)(source.ctypes.data)
    sizes = (ctypes.c_int64 * 1)(source.nbytes)
    return executable.stamp(ctypes.addressof(addresses), ctypes.addressof(sizes), 1)
