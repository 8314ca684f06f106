"""Decides what a saved model is: a folder that runs without a compiler, and without Python.

    libNAME.so       the kernels, and the functions of NAME.h; behind them constants and variables
    NAME.h           the C interface
    weights.bin      constants and variables, where they are not in the library
    module.json      the compiled graph, its steps, and where every value lies
    recording.glass  how it came to be: stages, rewrites, kernels
    source/          the generated C++, for reading

Weights stand behind the last byte that the loader of the system looks at, begin at a page, and are
mapped into memory from there (or from their file): saving 500 MB is one copy, loading none. Linking
them in (`.incbin`) was rejected: it writes everything three times, and ends at 2 GB.

Nothing in it is executed but the library, so load folders that you trust.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from glasshouse import __version__
from glasshouse.backend.cpu.build import build
from glasshouse.backend.cpu.emit import Layout, Source
from glasshouse.backend.cpu.headers import headers_hash
from glasshouse.backend.cpu.toolchain import toolchain
from glasshouse.errors import FormatError, GlasshouseError, Unsupported
from glasshouse.ir.dim import symbols_of
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.sources import CONSTANT, VARIABLE
from glasshouse.lower.program import Call, Fallback, Kernel, Packed, Program, Step
from glasshouse.record.container import write_atomic
from glasshouse.record.reader import Recording
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.c_api import FOOTER, c_header, c_source, check_name, weights_footer
from glasshouse.runtime.graph_json import (
    Json,
    graph_from_json,
    graph_to_json,
    value_from_json,
    value_to_json,
)
from glasshouse.runtime.module import Module
from glasshouse.runtime.recording import compilation_of

FORMAT = "glasshouse-module"
VERSION = 2
ALIGN = 64
PAGE = 1 << 16  # the greatest page of any system that we run on
INSIDE_LIMIT = 2 << 30  # bytes of weights that are put into the library, unless asked otherwise
_FEATURES = ("avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512_bf16", "avx512_vnni")


class _Weights:
    """The arrays of a graph, each once, and where in the file they begin."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.arrays: list[Array] = []
        self.rows: list[Json] = []
        self.bytes = 0
        self.offsets: dict[Node, int] = {}
        self._known: dict[tuple[int, tuple[int, ...]], int] = {}

    def keep(self, node: Node, given: Array) -> int:
        held = node in self.module.graph and node.op in (CONSTANT, VARIABLE)
        array = self.module.source_array(node) if held else np.ascontiguousarray(given)
        key = (array.ctypes.data, array.shape)
        if key not in self._known or node.op is VARIABLE:
            self._known[key] = len(self.arrays)
            self.arrays.append(array)
            self.rows.append([self.bytes, array.dtype.name, list(array.shape)])
            self.bytes += -(-max(array.nbytes, 1) // ALIGN) * ALIGN
        number = self._known[key]
        if held:
            self.offsets[node] = self.rows[number][0]
        return number

    def write(self, out: BinaryIO) -> None:
        base = out.tell()
        for (begin, _, _), array in zip(self.rows, self.arrays, strict=True):
            out.write(b"\0" * (base + begin - out.tell()))
            out.write(array.data if array.size else b"")
        out.write(b"\0" * (base + self.bytes - out.tell()))


def save(module: Module, folder: Path, name: str, weights_in: str = "auto") -> Path:
    """Write the folder; its module.json comes last, so a folder with one is whole."""
    check_name(name)
    if weights_in not in ("auto", "library", "file"):
        raise Unsupported(f"weights are saved in 'library' or 'file', not in {weights_in!r}")
    program, layout = module.program, module.layout
    if layout.unbounded or layout.workspaces:
        raise Unsupported(
            "a size without an upper bound cannot be saved: its memory is planned when it is run",
            hint="give the symbol a range, as in symbol('batch', 1, 64)",
        )
    weights = _Weights(module)
    graph = graph_to_json(program.graph, weights.keep)
    weights.bytes = max(weights.bytes, ALIGN)  # an empty file cannot be mapped
    inside = weights_in == "library" or (weights_in == "auto" and weights.bytes < INSIDE_LIMIT)
    text = c_source(name, program, layout, weights.offsets, weights.bytes, inside)
    library = build(replace(module.source, main=module.source.main + text))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "module.json").unlink(missing_ok=True)
    kept = folder / f"lib{name}.so"
    code = -(-library.stat().st_size // PAGE) * PAGE
    with _replacing(kept) as out:
        with library.open("rb") as built:
            shutil.copyfileobj(built, out)
        out.write(b"\0" * (code - out.tell()))
        if inside:
            weights.write(out)
            out.write(weights_footer(code, weights.bytes))
    if inside:
        (folder / "weights.bin").unlink(missing_ok=True)
    else:
        with _replacing(folder / "weights.bin") as out:
            weights.write(out)
    write_atomic(folder / f"{name}.h", c_header(name).encode())
    recording = compilation_of(module, module.base_recording).finish()
    write_atomic(folder / "recording.glass", recording.to_bytes())
    (folder / "source").mkdir(exist_ok=True)
    for kernel, lines in {**module.source.kernels, "main": module.source.main}.items():
        write_atomic(folder / "source" / f"{kernel}.cpp", lines.encode())
    about = {
        "format": FORMAT,
        "version": VERSION,
        "glasshouse": __version__,
        "name": name,
        "inputs": [[v.node.attrs["name"], str(v.type)] for v in program.graph.inputs],
        "outputs": [str(v.type) for v in program.graph.outputs],
        "library": {
            "file": kept.name,
            "bytes": code,
            "sha256": _digest(kept, code),
            "headers": headers_hash(),
            "processor": _features() if toolchain().march != "plain" else [],
        },
        "weights": {
            "bytes": weights.bytes,
            "arrays": weights.rows,
            "file": kept.name if inside else "weights.bin",
            "begin": code if inside else 0,
        },
        "symbols": [s.name for s in program.symbols],
        "graph": graph,
        "steps": [_step_to_json(s) for s in program.steps],
        "orders": [[value_to_json(v), list(o)] for v, o in program.orders.items()],
        "aliases": [[value_to_json(v), value_to_json(w)] for v, w in program.aliases.items()],
        "table": [[value_to_json(v), place] for v, place in layout.table.items()],
        "packed": [[value_to_json(p.source), place] for p, place in layout.packed.items()],
        "arena": [[value_to_json(v), begin] for v, begin in layout.arena.items()],
        "arena_bytes": layout.arena_bytes,
        "tensor_bytes": layout.tensor_bytes,
        "work_offset": layout.work_offset,
    }
    write_atomic(folder / "module.json", json.dumps(about, separators=(",", ":")).encode())
    return folder


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Renamed, not overwritten: a process that has the old file mapped keeps it."""
    partial = path.with_name(f"partial-{os.getpid()}")
    try:
        with partial.open("wb") as out:
            yield out
        os.replace(partial, path)
    except OSError as error:
        raise FormatError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        partial.unlink(missing_ok=True)


def _digest(path: Path, count: int) -> str:
    with path.open("rb") as data:
        return hashlib.sha256(data.read(count)).hexdigest()


def load(folder: str | os.PathLike[str], num_runtimes: int = 1) -> Module:
    """The module that was saved in a folder; no compiler and no model code is needed."""
    folder = Path(folder)
    about = _read_about(folder)
    try:
        library = _checked_library(folder, about["library"])
        fetch = _mapped_arrays(folder, about["weights"])
        graph = graph_from_json(about["graph"], fetch)
        program, layout = _program(graph, about), _layout(graph, about)
        source = _sources(folder / "source")
        headers = about["library"]["headers"]
    except GlasshouseError:
        raise
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise FormatError(f"{folder / 'module.json'}: damaged ({error!r})") from None
    module = Module(program, layout, library, source, headers, num_runtimes)
    module.base_recording = Recording.open(folder / "recording.glass")
    return module


def _read_about(folder: Path) -> dict[str, Any]:
    path = folder / "module.json"
    try:
        about = json.loads(path.read_bytes())
    except OSError as error:
        raise FormatError(
            f"{folder}: no saved model there ({error.strerror})",
            hint="module.save(folder) or `glasshouse compile FILE -o DIR` write one",
        ) from None
    except ValueError as error:
        raise FormatError(f"{path}: not JSON ({error})") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise FormatError(f"{path}: not a saved model of Glasshouse")
    if about.get("version") != VERSION:
        raise FormatError(
            f"{path}: version {about.get('version')}, this Glasshouse reads {VERSION}",
            hint="compile and save the model again",
        )
    return about


def _checked_library(folder: Path, about: Json) -> Path:
    path = folder / Path(about["file"]).name
    try:
        digest = _digest(path, about["bytes"])
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from None
    if digest != about["sha256"]:
        raise FormatError(f"{path}: not the library that was saved", hint="save the model again")
    lacking = set(about["processor"]) - set(_features())
    if lacking:
        names = ", ".join(sorted(lacking))
        raise FormatError(
            f"{path}: built for a processor with {names}, which this one lacks",
            hint="compile on this machine",
        )
    return path.resolve()


def _mapped_arrays(folder: Path, about: Json) -> Any:
    path, begin = folder / Path(about["file"]).name, about["begin"]
    try:
        if path.stat().st_size != begin + about["bytes"] + (FOOTER.size if begin else 0):
            raise FormatError(f"{path}: not the weights that were saved: another size")
        data = np.memmap(path, np.uint8, "r", begin, (about["bytes"],))
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from None

    def fetch(number: int) -> Array:
        at, dtype, shape = about["arrays"][number]
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(data, np.dtype(dtype), count, at).reshape(shape)

    return fetch


def _step_to_json(step: Step) -> Json:
    if isinstance(step, Fallback):
        return {"node": step.node.id, "fallback": step.why}
    return {
        "node": step.node.id,
        "kernel": step.kernel.name,
        "ops": list(step.kernel.ops),
        "variant": step.kernel.variant,
        "cost": [float(step.flops), float(step.bytes_read), float(step.bytes_written)],
    }


def _program(graph: Graph, about: Json) -> Program:
    steps: list[Step] = []
    for given in about["steps"]:
        node = graph.node(given["node"])
        if "fallback" in given:
            steps.append(Fallback(node, given["fallback"]))
            continue
        kernel = Kernel(given["kernel"], "", tuple(given["ops"]), given["variant"])
        flops, read, written = given["cost"]
        steps.append(Call(kernel, node, (), (), 0, flops, read, written))
    found = {
        name: symbol
        for value in graph.inputs
        for dim in value.type.shape
        for name, symbol in symbols_of(dim).items()
    }
    orders = {value_from_json(graph, v): tuple(order) for v, order in about["orders"]}
    aliases = {value_from_json(graph, v): value_from_json(graph, w) for v, w in about["aliases"]}
    return Program(graph, steps, tuple(found[n] for n in about["symbols"]), orders, aliases)


def _layout(graph: Graph, about: Json) -> Layout:
    """Packed weights are told apart by their place: what made them is inside the library."""
    return Layout(
        {value_from_json(graph, v): place for v, place in about["table"]},
        {Packed(value_from_json(graph, v), "", str(p)): p for v, p in about["packed"]},
        {value_from_json(graph, v): begin for v, begin in about["arena"]},
        about["arena_bytes"],
        about["tensor_bytes"],
        about["work_offset"],
    )


def _sources(folder: Path) -> Source:
    texts = {path.stem: path.read_text() for path in sorted(folder.glob("*.cpp"))}
    main = texts.pop("main", "")
    return Source(texts, main)


def _features() -> list[str]:
    """Which of the instruction sets that kernels may use this processor has."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return []
    flags = next((x for x in text.splitlines() if x.startswith("flags")), "").split()
    return [f for f in _FEATURES if f in flags]
