"""How a compiled model is saved: the folder that `runtime/saved.py` tells of, whole or not
at all."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from glasshouse import __version__
from glasshouse.backend.base import GeneratedSource, SavedModel
from glasshouse.backend.cache_folder import is_abandoned, partial_prefix
from glasshouse.errors import FormatError, Unsupported
from glasshouse.ir.graph import Node
from glasshouse.ir.sources import CONSTANT, VARIABLE
from glasshouse.lower.opaque import without_opaque
from glasshouse.lower.program import Fallback, Step
from glasshouse.record.container import write_atomic
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.graph_json import Json, graph_to_json, value_to_json
from glasshouse.runtime.late_array import LateArray
from glasshouse.runtime.module import Module
from glasshouse.runtime.recording import compilation_of
from glasshouse.runtime.saved import (
    FORMAT,
    VERSION,
    check_name,
    contract_digest,
    digest,
    source_texts,
    text_digest,
    weights_footer,
    weights_sums,
)  # fmt: skip
from glasshouse.runtime.signature_json import signature_to_json

ALIGN = 64
PAGE = 1 << 16  # the greatest page of any system that we run on
INSIDE_LIMIT = 2 << 30  # bytes of weights that are put into the library, unless asked otherwise


class _Weights:
    """The arrays of a graph, each once, and where in the file they begin."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.arrays: list[Array] = []
        self.rows: list[Json] = []
        self.bytes = 0
        self.offsets: dict[Node, int] = {}
        self._known: dict[tuple[int, tuple[int, ...]], int] = {}

    def keep(self, node: Node, given: Array | LateArray) -> int:
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

    def keep_forms(self) -> dict[int, tuple[int, int]]:
        """Constants as kernels of a device want them, behind all others: who loads them without
        Python has nobody to prepare them. By place: offset and bytes."""
        found: dict[int, tuple[int, int]] = {}
        for place in self.module.plan.packed.values():
            array = self.module.constant_at(place)
            self.arrays.append(array)
            self.rows.append([self.bytes, array.dtype.name, list(array.shape)])
            found[place] = self.bytes, array.nbytes
            self.bytes += -(-max(array.nbytes, 1) // ALIGN) * ALIGN
        return found

    def write(self, out: BinaryIO) -> None:
        base = out.tell()
        for (begin, _, _), array in zip(self.rows, self.arrays, strict=True):
            out.write(b"\0" * (base + begin - out.tell()))
            out.write(array.data if array.size else b"")
        out.write(b"\0" * (base + self.bytes - out.tell()))
        out.flush()
        sums = weights_sums(np.memmap(out.name, np.uint64, "r", base, (self.bytes // 8,)))
        out.write(weights_footer(base, self.bytes, sums))


def save(module: Module, folder: Path, name: str, weights_in: str = "auto") -> Path:
    """Write the folder; its module.json comes last, so a folder with one is whole."""
    check_name(name)
    if weights_in not in ("auto", "library", "file"):
        raise Unsupported(f"weights are saved in 'library' or 'file', not in {weights_in!r}")
    program, plan = module.program, module.plan
    if plan.unbounded or plan.workspaces:
        raise Unsupported(
            "a size without an upper bound, or with one that asks for more memory than there is, "
            "cannot be saved: its memory is planned when it is run",
            hint="give the symbol a (smaller) range, as in symbol('batch', 1, 64)",
        )
    # Who loads it has the driver, or the compiled code, and no libraries beside it.
    program = without_opaque(program, module.backend.target)
    plan = program.memory
    saved_source = module.source if program is module.program else module.backend.render(program)
    weights = _Weights(module)
    graph = graph_to_json(program.graph, weights.keep)
    forms = weights.keep_forms() if module.backend.elsewhere else {}
    weights.bytes = max(weights.bytes, ALIGN)  # an empty file cannot be mapped
    inside = weights_in == "library" or (weights_in == "auto" and weights.bytes < INSIDE_LIMIT)
    about: dict[str, Json] = {
        "format": FORMAT,
        "version": VERSION,
        "glasshouse": __version__,
        "name": name,
        "inputs": [[v.node.attrs["name"], str(v.type)] for v in program.graph.inputs],
        "outputs": [str(v.type) for v in program.graph.outputs],
        "weights": {"bytes": weights.bytes, "arrays": weights.rows},
        "signature": signature_to_json(module.signature),
        "symbols": [s.name for s in program.symbols],
        "graph": graph,
        "steps": [_step_to_json(s) for s in program.steps],
        "orders": [[value_to_json(v), list(o)] for v, o in program.orders.items()],
        "aliases": [[value_to_json(v), value_to_json(w)] for v, w in program.aliases.items()],
        "table": [[value_to_json(v), place] for v, place in plan.table.items()],
        "packed": [[value_to_json(p.source), place] for p, place in plan.packed.items()],
        "arena": [[value_to_json(v), begin] for v, begin in plan.arena.items()],
        "arena_bytes": plan.arena_bytes,
        "tensor_bytes": plan.tensor_bytes,
        "work_offset": plan.work_offset,
        "updates": [[u.variable.id, value_to_json(u.new), u.how.value] for u in plan.updates],
        "kept": [value_to_json(v) for v in plan.kept],
        "direct": plan.direct,
    }
    saved = SavedModel(weights.offsets, weights.bytes, inside, contract_digest(about), forms)
    interface = module.backend.interface(name, program, saved, saved_source)
    main = saved_source.main + interface.source
    source = replace(saved_source, main=main, soname=f"lib{name}.so")
    library = module.backend.build(source)
    with _staged(folder) as stage:
        kept = stage / f"lib{name}.so"
        code = -(-library.stat().st_size // PAGE) * PAGE
        with kept.open("wb") as out:
            with library.open("rb") as built:
                shutil.copyfileobj(built, out)
            out.write(b"\0" * (code - out.tell()))
            if inside:
                weights.write(out)
        held = kept if inside else stage / "weights.bin"
        begin = code if inside else 0
        if not inside:
            with held.open("wb") as out:
                weights.write(out)
        about["library"] = {
            "file": kept.name,
            "bytes": code,
            "sha256": digest(kept, 0, code),
            "target": module.backend.target.name,
            "needs": module.backend.needs(),
        }
        hashed = {"file": held.name, "begin": begin, "sha256": digest(held, begin, weights.bytes)}
        about["weights"].update(hashed)
        about["parts"] = _write_parts(
            module, saved_source, stage, {f"{name}.h": interface.header, **interface.files},
            interface.source, sum(a is not b for a, b in zip(program.steps, module.program.steps,
                                                             strict=True)),
        )  # fmt: skip
        about["sha256"] = text_digest(about)
        write_atomic(stage / "module.json", json.dumps(about, separators=(",", ":")).encode())
    return folder


def _write_parts(
    module: Module, source: GeneratedSource, folder: Path, texts: Mapping[str, str],
    interface: str, replaced: int,
) -> dict[str, str]:  # fmt: skip
    """What no run needs: headers, recording and sources, with the hash of each. `replaced`: steps
    that were calls of libraries."""
    limits = module.backend.limits(measure=False, threads=module.threads)
    told = compilation_of(module, module.base_recording, limits)
    if replaced:
        told.facts["saved"] = f"{replaced} calls of libraries are kernels of our own, without TF32"
    recording = told.finish()
    texts = {**texts, **source_texts(source, interface)}
    parts = {"recording.glass": recording.to_bytes()}
    parts |= {path: text.encode() for path, text in texts.items()}
    for part, data in parts.items():
        (folder / part).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / part, data)
    return {part: digest(folder / part) for part in parts}


@contextmanager
def _staged(folder: Path) -> Iterator[Path]:
    """A folder whose files are moved to `folder` once all are written, module.json last.

    So a save that fails (a full disk) leaves what was saved before, and one that is killed leaves
    that, the new one, or, within the moves, none. Files are exchanged, not overwritten: a process
    that has the old ones mapped keeps them.
    """
    stage: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob("partial-*"):
            if is_abandoned(left):
                shutil.rmtree(left, ignore_errors=True)
        stage = Path(tempfile.mkdtemp(prefix=partial_prefix(), dir=folder))
        yield stage
        files = sorted(p.relative_to(stage) for p in stage.rglob("*") if p.is_file())
        about = Path("module.json")
        (folder / about).unlink(missing_ok=True)
        if Path("weights.bin") not in files:
            (folder / "weights.bin").unlink(missing_ok=True)
        for file in sorted(files, key=lambda f: f == about):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            os.replace(stage / file, folder / file)
    except OSError as error:
        raise FormatError(f"{folder}: cannot be written ({error.strerror})") from None
    finally:
        if stage is not None:
            shutil.rmtree(stage, ignore_errors=True)


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
