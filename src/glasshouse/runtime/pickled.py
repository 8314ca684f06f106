"""Pickling and copying of compiled modules, by way of their saved form.

So `copy.deepcopy`, `multiprocessing` and `ray.put` work; like a saved folder, a pickle is for the
same kind of processor, and holds native code: load those that you trust.
"""

from __future__ import annotations

import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glasshouse.runtime.module import Module

_NAME = "model"


def reduced(module: Module) -> tuple[object, ...]:
    """What `pickle` keeps of a module: the files of its folder."""
    with tempfile.TemporaryDirectory(prefix="glasshouse-") as folder:
        kept = module.save(Path(folder) / _NAME, _NAME)
        files = {
            path.relative_to(kept).as_posix(): path.read_bytes()
            for path in sorted(kept.rglob("*"))
            if path.is_file()
        }
    return restored, (files, module.num_runtimes, module.threads)


def restored(files: dict[str, bytes], num_runtimes: int, threads: int | None = None) -> Module:
    """The module of these files; they are kept in a folder until it goes."""
    from glasshouse.runtime.load import load  # it makes modules, which are pickled

    folder = tempfile.TemporaryDirectory(prefix="glasshouse-")
    root = Path(folder.name).resolve()
    for name, data in files.items():
        path = (root / name).resolve()
        if root not in path.parents:
            raise ValueError(f"a module's file outside of its folder: {name!r}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    module = load(root, num_runtimes, threads=threads)
    # What is mapped stays readable when its files are gone; where it does not, they wait.
    weakref.finalize(module, folder.cleanup)
    return module
