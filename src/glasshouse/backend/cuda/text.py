"""The text of one kernel's file as it is rendered: functions, each of lines with their ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from glasshouse.backend.cuda.launch import Launch
from glasshouse.backend.cuda.tensor_map import TensorMap, map_json
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.ir.dim import Dim, bounds, evaluate, product
from glasshouse.lower.kernel.kernel import OPERAND, OUTPUT, Kernel
from glasshouse.lower.kernel.queries import simple, symbols_of_kernel
from glasshouse.lower.kernel.statement import Fold
from glasshouse.lower.symbols import symbol_name
from glasshouse.lower.workspace import places

MOST_POSITIONS = (1 << 31) - (1 << 13)
"""That are counted in 32 bits: a step further, of 1024 threads with eight elements each, does not
wrap around."""
SMALL_CONSTANT = 32 << 10
"""Bytes of a constant (a bias, the scales of a norm) up to which it is asked for before a kernel
may begin."""


class CudaText(KernelText):
    """Collects functions; all of a kernel take the same parameters."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.indent = ""
        self.launches: list[Launch] = []
        self.symbols = tuple(s.name for s in symbols_of_kernel(kernel))
        words = kernel.name.split("_", 1)[-1]
        self._word = "".join(c if c.isalnum() else "_" for c in words)
        self._parameters = self._signature()
        self._places = places(kernel)
        folds = (s for s in simple(kernel.body) if isinstance(s, Fold))
        counted = [b.size for b in kernel.buffers]
        counted += [product(tuple(loop.extent for loop in fold.loops)) for fold in folds]
        few = all(bounds(size)[1] <= MOST_POSITIONS for size in counted)
        self.index = "int" if few else "int64_t"
        """The type of positions: 64 bits where a buffer has more elements, or a fold more terms
        (of an outer product, say, which is nowhere in memory), than 32 bits count."""

    def _signature(self) -> str:
        kernel = self.kernel
        out = [f"const {C_TYPE[b.dtype]}* {b.name}" for b in kernel.with_role(OPERAND)]
        out += [f"const {C_TYPE[f.dtype]}* packed{i}" for i, f in enumerate(kernel.forms)]
        out += [f"{C_TYPE[b.dtype]}* {b.name}" for b in kernel.with_role(OUTPUT)]
        self._arguments = [text.rsplit(" ", 1)[-1] for text in out]
        out += [f"int64_t {symbol_name(name)}" for name in self.symbols]
        return ", ".join(["gh::Context ctx", "char* work", *out])

    def _lies(self, buffer: str) -> tuple[int, Dim]:
        """The argument behind which a buffer lies, 0 for the workspace, and how far."""
        if buffer in self._arguments:
            return 1 + self._arguments.index(buffer), 0
        return 0, next(offset for piece, _, offset in self._places if piece == buffer)

    def _small_constants(self) -> list[tuple[str, int]]:
        """Constants that all of a kernel's blocks read, with their bytes; not those of which only
        another form is there."""
        changed = {form.buffer for form in self.kernel.forms}
        sizes = [
            (b.name, b.size * b.dtype.itemsize)
            for b in self.kernel.with_role(OPERAND)
            if b.constant and isinstance(b.size, int) and b.name not in changed
        ]
        return [(name, count) for name, count in sizes if 16 <= count <= SMALL_CONSTANT]

    @contextmanager
    def function(
        self,
        grid: tuple[Dim, Dim, Dim],
        threads: int,
        shared: int = 0,
        counters: Dim = 0,
        beside: int = 0,
        cluster: tuple[int, int] = (1, 1),
        maps: Sequence[TensorMap] = (),
        waits: bool = True,
    ) -> Iterator[None]:
        """One function; what stands between is its body. `beside`: blocks that a multiprocessor
        holds at least, which bounds the registers of a thread; `cluster`: neighbours along both
        axes of the grid that reach each other's shared memory; `maps` are `map0`, `map1` in it;
        not `waits`: what stands in it waits for earlier kernels itself."""
        name = f"{self._word}_{len(self.launches)}"
        known = tuple(map_json(x, *self._lies(x.buffer)) for x in maps)
        self.launches.append(Launch(name, grid, threads, shared, counters, cluster, known))
        most = f"{threads}, {beside}" if beside else str(threads)
        near = f" __cluster_dims__({cluster[0]}, {cluster[1]}, 1)" if cluster != (1, 1) else ""
        self.add(f'extern "C" __global__ void{near} __launch_bounds__({most})')
        given = [f"const __grid_constant__ gh::TensorMap map{i}" for i in range(len(maps))]
        with self.block(f"{name}({', '.join([self._parameters, *given])}) {{", "}"):
            for piece, dtype, offset in self._places:
                ctype = "char" if dtype is None else C_TYPE[dtype]
                self.add(f"{ctype}* {piece} = ({ctype}*)(work + {size_text(offset)});")
            self.add("const gh::Ending ending_(ctx);")
            self.add("gh::let_next_begin();")
            for name, count in self._small_constants():
                self.add(f"gh::prefetch_constant({name}, {count});")
            if waits:
                self.add("gh::wait_for_earlier(ctx);")
            yield
        self.add("")

    @contextmanager
    def called(self, described: Mapping[str, Any]) -> Iterator[None]:
        """A call of a library; what stands between says what it computes. It cannot note times
        itself, so a kernel does it before and behind it, in the graphs of profiles alone."""
        with self.function((1, 1, 1), 32):
            yield
        clock = replace(self.launches.pop(), clock=True)
        self.launches += [clock, Launch("", (1, 1, 1), 1, library=described), clock]

    def place_of(self, buffer: str) -> tuple[int, int]:
        """The argument behind which a buffer lies, counted from the workspace on, and how many
        bytes behind it."""
        number, offset = self._lies(buffer)
        return number, evaluate(offset, {})

    def number_of(self, buffer: str) -> int:
        """Which argument a buffer is, counted from the workspace on."""
        number, offset = self._lies(buffer)
        assert number > 0 == offset, "a buffer of its own"
        return number

    def offset_of(self, scratch: str) -> int:
        """Where in the workspace a piece of it lies."""
        return evaluate(self._lies(scratch)[1], {})
