"""How a saved model comes back: every part checked, weights mapped from their file."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from glasshouse.backend.base import Backend, backend_named
from glasshouse.errors import FormatError, GlasshouseError
from glasshouse.ir.dim import symbols_of
from glasshouse.ir.graph import Graph, Value
from glasshouse.lower.kernel.kernel import Kernel
from glasshouse.lower.kernel.statement import Form
from glasshouse.lower.plan import Arrival, MemoryPlan, Update
from glasshouse.lower.program import Call, Fallback, Packed, Program, Step
from glasshouse.record.reader import Recording
from glasshouse.runtime.graph_json import Json, graph_from_json, value_from_json
from glasshouse.runtime.mapped import MappedWeights
from glasshouse.runtime.module import Module
from glasshouse.runtime.saved import (
    FOOTER,
    FORMAT,
    VERSION,
    contract_digest,
    digest,
    read_sources,
    text_digest,
)  # fmt: skip
from glasshouse.runtime.signature_json import signature_from_json

_AGAIN = "copy the folder again from where it was saved, or save the model again"
_UNVERIFIED = "load(folder, verify=False) takes parts that no run needs as they are"


def load(
    folder: str | os.PathLike[str],
    num_runtimes: int = 1,
    verify: bool = True,
    threads: int | None = None,
) -> Module:
    """The module that was saved in a folder; no compiler and no model code is needed.

    Without `verify`, weights and what no run needs are taken as they are; all else is checked.
    """
    folder = Path(folder)
    about = read_about(folder)
    try:
        backend = backend_named(about["library"]["target"])
        library = _checked_library(folder, about, backend)
        weights = _mapped(folder, about["weights"])
        if verify:
            _check_parts(folder, about)
        graph = graph_from_json(about["graph"], weights.array)
        ends = len(graph.inputs), len(graph.outputs)
        graph.signature = signature_from_json(about["signature"], *ends)
        program = replace(_program(graph, about), plan=_plan(graph, about))
        source = read_sources(folder / "source")
        needs = about["library"]["needs"]
    except GlasshouseError:
        raise
    except Exception as error:  # whatever it was made to say
        raise FormatError(f"{folder / 'module.json'}: damaged ({error!r})") from None
    module = Module(
        program, backend, library, source, needs, num_runtimes, mapped=weights, threads=threads
    )
    recording = folder / "recording.glass"
    module.base_recording = Recording.open(recording) if recording.exists() else None
    return module


def read_about(folder: Path) -> dict[str, Any]:
    """What module.json tells, once it is known to be as it was saved."""
    path = folder / "module.json"
    try:
        about = json.loads(path.read_bytes())
    except OSError as error:
        raise FormatError(
            f"{folder}: no saved model there ({error.strerror})",
            hint="module.save(folder) or `glasshouse compile FILE -o DIR` write one",
        ) from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not JSON ({error})") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise FormatError(f"{path}: not a saved model of Glasshouse")
    if about.get("version") != VERSION:
        raise FormatError(
            f"{path}: version {about.get('version')}, this Glasshouse reads {VERSION}",
            hint="compile and save the model again",
        )
    if text_digest(about) != about.get("sha256"):
        raise FormatError(f"{path}: damaged: it is not as it was saved", hint=_AGAIN)
    return about


def check_saved(folder: Path) -> None:
    """See that a folder holds a saved model, whole; no weight is read, and no library loaded."""
    about = read_about(folder)
    _same_library(folder, about)
    _mapped(folder, about["weights"])


def _same_library(folder: Path, about: Json) -> Path:
    library = about["library"]
    path = folder / Path(library["file"]).name
    if _digest(path, 0, library["bytes"]) != library["sha256"]:
        raise FormatError(f"{path}: not the library that was saved", hint=_AGAIN)
    return path.resolve()


def _checked_library(folder: Path, about: Json, backend: Backend) -> Path:
    """The library, once it is known to be the one of this module.json; no kernel has run."""
    library = about["library"]
    path = _same_library(folder, about)
    if backend.contract(path, library["needs"]) != contract_digest(about):
        raise FormatError(
            f"{folder / 'module.json'}: not what {path.name} was built for", hint=_AGAIN
        )
    return path


def _check_parts(folder: Path, about: Json) -> None:
    """Weights, and the parts that are there: sources may have been left out."""
    weights = about["weights"]
    path = folder / Path(weights["file"]).name
    if _digest(path, weights["begin"], weights["bytes"]) != weights["sha256"]:
        raise FormatError(f"{path}: not the weights that were saved", hint=_AGAIN)
    for name, saved in about["parts"].items():
        part = folder / name
        if not part.resolve().is_relative_to(folder.resolve()):
            raise FormatError(f"{folder / 'module.json'}: {name!r} is no part of the folder")
        if part.exists() and _digest(part) != saved:
            raise FormatError(f"{part}: not as it was saved", hint=_UNVERIFIED)


def _digest(path: Path, begin: int = 0, count: int | None = None) -> str:
    try:
        return digest(path, begin, count)
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror})") from None


def _mapped(folder: Path, about: Json) -> MappedWeights:
    begin, count = about["begin"], about["bytes"]
    end = begin + count + FOOTER.size
    return MappedWeights(folder / Path(about["file"]).name, begin, count, end, about["arrays"])


def _program(graph: Graph, about: Json) -> Program:
    steps: list[Step] = []
    for given in about["steps"]:
        node = graph.node(given["node"])
        if "fallback" in given:
            steps.append(Fallback(node, given["fallback"]))
            continue
        kernel = Kernel(given["kernel"], (), (), tuple(given["ops"]), given["variant"])
        flops, read, written = given["cost"]
        steps.append(Call(kernel, node, (), (), flops, read, written))
    found = {
        name: symbol
        for value in graph.inputs
        for dim in value.type.shape
        for name, symbol in symbols_of(dim).items()
    }
    orders = {value_from_json(graph, v): tuple(order) for v, order in about["orders"]}
    aliases = {value_from_json(graph, v): value_from_json(graph, w) for v, w in about["aliases"]}
    return Program(graph, steps, tuple(found[n] for n in about["symbols"]), orders, aliases)


def _plan(graph: Graph, about: Json) -> MemoryPlan:
    """Packed weights are told apart by their place: what made them is inside the library."""
    return MemoryPlan(
        {value_from_json(graph, v): place for v, place in about["table"]},
        {_packed(value_from_json(graph, v), p): p for v, p in about["packed"]},
        {value_from_json(graph, v): begin for v, begin in about["arena"]},
        about["arena_bytes"],
        about["tensor_bytes"],
        about["work_offset"],
        updates=[
            Update(graph.node(variable), value_from_json(graph, new), Arrival(how))
            for variable, new, how in about["updates"]
        ],
        kept=[value_from_json(graph, v) for v in about["kept"]],
        direct=[bool(d) for d in about["direct"]],
    )


def _packed(source: Value, place: int) -> Packed:
    return Packed(source, Form("", str(place), source.type.dtype, (), True))
