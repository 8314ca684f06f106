"""How a run of passes is configured: which ones, options, precision, target, watchers.

with PassContext() as ctx:
    ctx.profile_pass_instrument(print_stdout=True)
    ctx.options["fuse_operator"] = {"max_inputs": 8}
    graph = optimize(graph)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any

from glasshouse.backend.base import Progress, target_named
from glasshouse.errors import GlasshouseError, PassError, nearest
from glasshouse.ir.dtype import as_dtype, bfloat16, float16, float32
from glasshouse.ir.graph import Graph
from glasshouse.lower.target import Target
from glasshouse.passes.auto_mix_precision import ROUNDED
from glasshouse.passes.base import (
    PASSES,
    PIPELINE,
    Pass,
    ProgramPass,
    pass_class,
    pass_named,
    place,
)

if TYPE_CHECKING:
    from glasshouse.passes.instrument import Instrument
    from glasshouse.passes.instruments.check_numerics import CheckNumerics
    from glasshouse.passes.instruments.profile_pass import ProfilePass
    from glasshouse.passes.instruments.record import Record
    from glasshouse.passes.instruments.save_graph import SaveGraph

_SHORT = {
    "bf16": bfloat16, "f16": float16, "fp16": float16, "half": float16, "f32": float32,
    "fp32": float32,
}  # fmt: skip
_STACK: ContextVar[tuple[PassContext, ...]] = ContextVar("glasshouse_pass_contexts", default=())


class PassContext:
    """Configuration and instruments of `optimize`; as a `with` block, for the calls inside it."""

    def __init__(
        self,
        passes: Sequence[Pass | str] | None = None,
        *,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        precision: object = None,
        target: Target | str = "cpu",
        instruments: Sequence[Instrument] = (),
    ) -> None:
        self._passes: list[Pass | str] | None = None if passes is None else list(passes)
        self.options: dict[str, dict[str, Any]] = {k: dict(v) for k, v in (options or {}).items()}
        self.target = target_named(target)
        self.instruments: list[Instrument] = list(instruments)
        self.results: dict[str, Any] = {}
        self.progress: Progress | None = None  # called while something takes long
        self.precision = "float32"
        self.is_precision_given = False
        if precision is not None:
            self.set_precision(precision)

    # ------------------------------------------------------------------------------- current one
    @staticmethod
    def current() -> PassContext | None:
        """The context of the innermost `with` block."""
        stack = _STACK.get()
        return stack[-1] if stack else None

    def __enter__(self) -> PassContext:
        _STACK.set((*_STACK.get(), self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _STACK.set(tuple(c for c in _STACK.get() if c is not self))

    # ----------------------------------------------------------------------------- configuration
    def set_precision(self, dtype: object) -> PassContext:
        """The element type in which contractions may compute: float32, float16 or bfloat16; or
        "tf32", with which matrix products and convolutions of float32 on a GPU round to ten binary
        digits first ("tf32_products", "tf32_convolutions": these alone).

        "bf16", "f16" and "fp16" are understood too.
        """
        self.is_precision_given = True
        if isinstance(dtype, str) and dtype in ROUNDED:
            self.precision = dtype
            return self
        given = _SHORT.get(dtype) if isinstance(dtype, str) else None
        if given is None:
            with suppress(GlasshouseError):
                given = as_dtype(dtype)
        if given not in (float32, float16, bfloat16):
            raise PassError(
                "precision must be float32, tf32 (or tf32_products, tf32_convolutions), float16 or "
                f"bfloat16, not {given or repr(dtype)}",
                hint="quantised models bring their whole numbers with them",
            )
        self.precision = given.name
        return self

    def insert(
        self, pass_: Pass | str, *, after: str | None = None, before: str | None = None
    ) -> None:
        """Place a pass in this context's pipeline."""
        entries = self._entries()
        names = [e if isinstance(e, str) else e.name for e in entries]
        place(names, "\0", after=after, before=before)
        entries.insert(names.index("\0"), pass_)
        self._passes = entries

    def skip(self, *names: str) -> None:
        """Leave passes out of this context's pipeline."""
        entries = self._entries()
        have = {e if isinstance(e, str) else e.name for e in entries}
        for name in names:
            if name not in have:
                raise PassError(
                    f"there is no pass {name!r} to leave out", hint=nearest(name, sorted(have))
                )
        self._passes = [e for e in entries if (e if isinstance(e, str) else e.name) not in names]

    def pipeline(self) -> list[Pass]:
        """The passes that will run, configured."""
        unknown = set(self.options) - set(PASSES)
        if unknown:
            first = min(unknown)
            raise PassError(
                f"options for unknown passes: {', '.join(sorted(unknown))}",
                hint=nearest(first, sorted(PASSES)),
            )
        return [self._configured(e) if isinstance(e, str) else e for e in self._entries()]

    def graph_passes(self) -> list[Pass]:
        """Those that work on graphs: they run first, in their order."""
        return [p for p in self.pipeline() if not isinstance(p, ProgramPass)]

    def program_passes(self) -> list[ProgramPass]:
        """Those that decide how a graph is computed: before and after it is lowered."""
        return [p for p in self.pipeline() if isinstance(p, ProgramPass)]

    def _entries(self) -> list[Pass | str]:
        return list(PIPELINE) if self._passes is None else list(self._passes)

    def _configured(self, name: str) -> Pass:
        plain = pass_class(name)
        fields = plain.__dataclass_fields__
        given: dict[str, Any] = {}
        if "target" in fields:
            given["target"] = self.target
        if "precision" in fields:
            given["precision"] = self.precision
        return pass_named(name, {**given, **self.options.get(plain.name, {})})

    # ------------------------------------------------------------------------------- instruments
    def add(self, instrument: Instrument) -> Instrument:
        """Let an instrument watch."""
        self.instruments.append(instrument)
        return instrument

    def profile_pass_instrument(
        self, print_stdout: bool = True, log_file: str | os.PathLike[str] | None = None
    ) -> ProfilePass:
        """Print start and time of each pass."""
        from glasshouse.passes.instruments.profile_pass import ProfilePass

        out = ProfilePass(print_stdout, log_file)
        self.instruments.append(out)
        return out

    def save_graph_instrument(self, out_dir: str | os.PathLike[str]) -> SaveGraph:
        """Write each intermediate graph as text and as JSON: `1_FoldConstantPass.json`, ..."""
        from glasshouse.passes.instruments.save_graph import SaveGraph

        out = SaveGraph(out_dir)
        self.instruments.append(out)
        return out

    def check_numerics_instrument(
        self,
        inputs: Sequence[Any] | Callable[[Graph], Sequence[Any]] | None = None,
        tolerance: float | None = None,
        raise_error: bool = True,
    ) -> CheckNumerics:
        """Compare with the reference executor after every pass; name what breaks the tolerance."""
        from glasshouse.passes.instruments.check_numerics import CheckNumerics

        out = CheckNumerics(inputs, tolerance, raise_error)
        self.instruments.append(out)
        return out

    def record(self, path: str | os.PathLike[str] | None = None, sources: bool = True) -> Record:
        """Write the recording to `path` at the end; without a path it is kept as `.recording`.

        With `sources`, it holds the text of the Python files that nodes come from.
        """
        from glasshouse.passes.instruments.record import Record

        out = Record(path, sources)
        self.instruments.append(out)
        return out
