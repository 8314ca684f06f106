"""Memory for packed weights whose pages are mapped ahead, by a thread beside the compiler.

At the first write to a page the system finds one, clears it and maps it. 340 MB (BERT-base) take
0.03 s at best; on a virtual machine whose host takes free memory back they took 0.25 to 0.75 s,
with two threads as with one. Rendering and building take longer than that. Weights that kernels
read in place get none: of a Llama of 1.1 billion, 2.1 GB.
"""

from __future__ import annotations

import threading

import numpy as np

from glasshouse.backend.memory import aligned_bytes, release_pages
from glasshouse.lower.plan import upper_bytes
from glasshouse.lower.program import Packed, Program
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.shared_forms import shared_form

SMALLEST = 16 << 20  # bytes; less is quicker than starting a thread
_PIECE = 8 << 20  # bytes between two looks at whether to go on: 2 to 20 ms
_PAGE = 4096  # the smallest of any system that we run on


class Prefaulted:
    """A block of memory whose pages are mapped while its owner does something else."""

    def __init__(self, count: int) -> None:
        self.wanted = 0  # bytes that turned out to be needed
        self._block: Array | None = None
        self._ready = 0  # bytes from the beginning
        self._stop = False  # not an Event: a fork could leave its lock held
        self._thread = threading.Thread(target=self._get_ready, daemon=True)
        if count >= SMALLEST:
            self._block = aligned_bytes(count)
            self._thread.start()

    def _get_ready(self) -> None:
        block = self._block
        assert block is not None  # there before the thread
        while self._ready < block.size and not self._stop:
            begin, self._ready = self._ready, min(self._ready + _PIECE, block.size)
            block[begin : self._ready : _PAGE] = 0  # NumPy lets other threads run meanwhile

    def take(self, count: int) -> Array | None:
        """The block, if there is one, to write `count` bytes into; it can be taken once."""
        self.wanted = count
        self.close()
        block, self._block = self._block, None
        if block is not None and count < self._ready:
            release_pages(block[count : self._ready])
        return block

    @property
    def has_begun(self) -> bool:
        return self._block is not None

    def close(self) -> None:
        """End the work ahead of time."""
        self._stop = True
        if self._thread.is_alive():
            self._thread.join()


def prefaulted_for(program: Program, shares: bool = False) -> Prefaulted:
    """Memory for the forms in which kernels want constants; they are at least as large as these.

    What turns out to be too much is freed. With `shares`, forms that another module has need none.
    """
    forms = [p for p in program.memory.packed if not (shares and _is_shared(p))]
    return Prefaulted(sum(upper_bytes(p.source.type.numel * p.form.dtype.itemsize) for p in forms))


def _is_shared(packed: Packed) -> bool:
    data = packed.source.node.attrs.get("data")
    return isinstance(data, np.ndarray) and shared_form(data, packed.form) is not None
