"""What stays usable after `os.fork()`: locks, workspaces and collectors that other threads held.

A child has one thread, the one that forked. What the others held at that moment is held for ever,
and what they were writing is half written. Owners of such things are notified around every fork:
before it (they may wait for a moment at which all is whole), and after it on both sides.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from importlib import _bootstrap, import_module
from typing import Any
from weakref import ref


class ForkAware:
    """Told around every fork of this process, from the moment that `watch_forks` is called."""

    def watch_forks(self) -> None:
        key = id(self)
        _WATCHING[key] = ref(self, lambda _: _WATCHING.pop(key, None))

    def before_fork(self) -> None:
        """In the thread that forks; whatever this waits for, it must not wait for ever."""

    def after_fork_in_parent(self) -> None:
        """Undo what `before_fork` did; also when the fork failed."""

    def after_fork_in_child(self) -> None:
        """Replace what threads that are gone may have held. `before_fork` may not have run: a
        server written in C may fork by itself."""


# A dictionary, because other threads add to it and drop from it while it is read: a list of its
# values is made in one piece, that of a WeakSet's members is not.
_WATCHING: dict[int, ref[ForkAware]] = {}


class ForkLock(ForkAware):
    """A `lock` that is free in a forked child, whichever thread held it: `with owner.lock:`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.watch_forks()

    def after_fork_in_child(self) -> None:
        self.lock = threading.RLock()  # a `with` that is under way releases the old one


def _watching() -> list[ForkAware]:
    found = (watching() for watching in list(_WATCHING.values()))
    return [watching for watching in found if watching is not None]


def _before() -> None:
    _finish_imports()
    for watching in _watching():
        watching.before_fork()


def _finish_imports() -> None:
    """Wait for other threads that import parts of this package: the child could never import them.

    Python detects two threads that wait for each other's imports, and lets one go on. An import
    that begins after this look, or whose module is not made yet, is left to `_drop_imports`.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("glasshouse"):
            spec = getattr(module, "__spec__", None)
            if getattr(spec, "_initializing", False):
                import_module(name)


def _in_parent() -> None:
    for watching in _watching():
        watching.after_fork_in_parent()


def _drop_imports() -> None:
    """Free the locks of modules that the parent's other threads were importing, and forget them.

    Python keeps one lock for each module under import, and frees none of them in a child.
    """
    locks: dict[str, Callable[[], Any]] = getattr(_bootstrap, "_module_locks", {})
    for name, found in list(locks.items()):
        owner = getattr(found(), "owner", None)
        if owner is not None and owner != threading.get_ident():
            del locks[name]
            spec = getattr(sys.modules.get(name), "__spec__", None)
            if getattr(spec, "_initializing", False):
                del sys.modules[name]


def _in_child() -> None:
    _drop_imports()
    for watching in _watching():
        watching.after_fork_in_child()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
