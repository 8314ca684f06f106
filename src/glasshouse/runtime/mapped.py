"""How saved weights are read: mapped, and kept in memory only where kernels read them.

Kernels read most weights in their packed form alone. Once that stands, the pages of what it was
packed from go back to the system, weight by weight: a loaded BERT-base holds 340 MB of weights at
any time, not 680. Whoever asks for them later, as `save` does, finds them in the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glasshouse.backend.memory import release_pages
from glasshouse.errors import FormatError
from glasshouse.runtime.arrays import Array


class MappedWeights:
    """The arrays of a file, or of its part that begins at `begin`, each read when it is used.

    `rows` tell where each array begins, its element type and its shape.
    """

    def __init__(
        self, path: Path, begin: int, count: int, end: int, rows: Sequence[Sequence[Any]]
    ) -> None:
        """`end` is where the file must end: another one is not what was saved."""
        try:
            if path.stat().st_size != end:
                raise FormatError(f"{path}: not the weights that were saved: another size")
            self._bytes = np.memmap(path, np.uint8, "r", begin, (count,))
        except OSError as error:
            raise FormatError(f"{path}: cannot be read ({error.strerror})") from None
        self._rows = rows

    def array(self, number: int) -> Array:
        at, dtype, shape = self._rows[number]
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self._bytes, np.dtype(dtype), count, at).reshape(shape)

    def release(self, array: Array) -> None:
        """Keep an array out of memory until it is read again; one of somebody else's stays."""
        begin = self._bytes.ctypes.data
        if begin <= array.ctypes.data and array.ctypes.data + array.nbytes <= begin + self.nbytes:
            release_pages(array)

    def release_all(self) -> None:
        release_pages(self._bytes)

    @property
    def nbytes(self) -> int:
        return self._bytes.nbytes
