"""What a worker is asked to do, as plain data: plan a model, measure a problem, build a model.

A plan traces a model and tells which of its problems have several variants. A measurement times the
variants of one problem. A build compiles a model; what was measured decides its variants. Results
are files of the cache, and of the store behind it; a note of what came out is one, too, so that a
task that was done once is not done again, whoever asks.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any

from glasshouse import __version__
from glasshouse.backend.base import backend_named
from glasshouse.backend.cache import hash_text, write_whole
from glasshouse.backend.cache_folder import made_cache_folder
from glasshouse.backend.store import fetch, publish, store_url
from glasshouse.lower.choice import Choice, Problem, by_estimate
from glasshouse.model_argument import is_function, read_model
from glasshouse.passes import PassContext
from glasshouse.passes.pipeline import optimize_program
from glasshouse.passes.resolve_variant import resolved
from glasshouse.passes.tune import WORTH, Tuner
from glasshouse.runtime.compiler import compile_optimized

Result = dict[str, Any]
PLAN, MEASURE, BUILD = "plan", "measure", "build"
AT_ONCE = 32
"""Requests to the store that the driver has under way: 1,600 notes a second at 20 ms each."""


@dataclass(frozen=True)
class Task:
    """`hardware` names the kind of machine that must do it; "" is any."""

    kind: str
    hardware: str
    model: str = ""
    content: str = ""  # of the model's file: another content is another task
    precision: str = ""
    tune: bool | None = None  # which problems count, as in `glasshouse.compile`
    problem: str = ""  # JSON: a problem and the names of its variants

    @property
    def alone(self) -> bool:
        """Whether nothing else may run on its machine."""
        return self.kind == MEASURE

    @property
    def key(self) -> str:
        return hash_text(f"{__version__} {json.dumps(asdict(self))}")

    @property
    def name(self) -> str:
        """What it is, for people."""
        what = json.loads(self.problem)["key"] if self.problem else self.model
        return f"{self.kind} {what}"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Task:
        return Task(**json.loads(text))


def content_of(model: str) -> str:
    """A hash of the file that a model argument names."""
    path = model.rpartition(":")[0] if is_function(model) else model
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def hardware(target: str = "cpu") -> str:
    """A name for machines on which code and measurements of this one hold."""
    return hash_text(backend_named(target).identity)[:12]


def note_of(task: Task) -> Result | None:
    """What came of a task that was done before; None if it must be done."""
    path = _note(task)
    if not path.exists() and not fetch(path):
        return None
    try:
        found = dict(json.loads(path.read_text()))
        files = [path.with_name(str(name)) for name in found["files"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    there = all(file.exists() or fetch(file) for file in files)
    return found if there else None


def notes_of(tasks: Sequence[Task]) -> list[Result | None]:
    """`note_of` each: asked for at the same time, as a store may take 20 ms to answer."""
    if len(tasks) == 1 or store_url() is None:
        return [note_of(task) for task in tasks]
    with ThreadPoolExecutor(min(len(tasks), AT_ONCE)) as pool:
        return list(pool.map(note_of, tasks))


def run(task: Task) -> Result:
    """Do a task here and leave a note of it."""
    result = note_of(task)
    if result is None:
        before = os.times()
        result = _DOING[task.kind](task)
        spent = sum(os.times()[:4]) - sum(before[:4])  # its compilers' too
        result |= {"kind": task.kind, "processor_seconds": round(spent, 3)}
    if result.get("busy"):
        return result
    note = _note(task)
    write_whole(note, json.dumps(result))
    # What this machine's cache had before there was a store is in none: put it there now.
    for path in (*(note.with_name(name) for name in result["files"]), note):
        publish(path)
    return result


def _note(task: Task) -> Path:
    return made_cache_folder() / f"task-{task.key}.json"


# ------------------------------------------------------------------------------------- the kinds
def _plan(task: Task) -> Result:
    graph = read_model(task.model).graph
    ctx = PassContext(precision=task.precision or None)
    ctx.skip("resolve_variant")
    found: dict[str, dict[str, Any]] = {}
    worth = {None: WORTH, True: 0.0, False: inf}[task.tune]

    def noted(problem: Problem, names: Sequence[str], usual: str) -> Choice:
        if problem.op == "conv" and len(names) > 1 and problem.operations >= worth:
            found[problem.key] = {"key": problem.key, "names": list(names), "usual": usual,
                                  "problem": asdict(problem)}  # fmt: skip
        return by_estimate(problem, names, usual)

    resolved(optimize_program(graph, ctx), noted, ctx.target)
    return {"nodes": len(graph), "files": [], "problems": [json.dumps(p) for p in found.values()]}


def _measure(task: Task) -> Result:
    given = json.loads(task.problem)
    problem = Problem(**{**given["problem"], "numbers": tuple(given["problem"]["numbers"])})
    tuner = Tuner(backend_named("cpu"), every=True)
    choice = tuner(problem, given["names"], given["usual"])
    measured = {c.name: c.seconds for c in choice.candidates if c.seconds}
    return {
        "taken": choice.name, "measured": measured, "busy": not measured,
        "files": [tuner.file(problem).name],
    }  # fmt: skip


def _build(task: Task) -> Result:
    graph = read_model(task.model).graph
    module = compile_optimized(graph, tune=task.tune, precision=task.precision or None)
    return {
        "nodes": len(graph), "kernels": len(module.program.kernels),
        "files": [module.library_path.name],
    }  # fmt: skip


_DOING: Mapping[str, Any] = {PLAN: _plan, MEASURE: _measure, BUILD: _build}
