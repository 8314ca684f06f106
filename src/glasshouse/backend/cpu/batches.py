"""Which kernels are compiled together, and finds those that an earlier build compiled.

Reading the headers costs 1 s a file (0.1 s once `parsed_headers.py` has read them), a kernel 0.1 to
1 s. So kernels that the cache lacks are compiled a few at a time, in as many files as there are
processors. A small file for each kernel names the object that holds it, and the headers apart that
the object is made of; kernels are weak symbols named after their content, so objects of different
programs can be linked together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from glasshouse.backend.cache import hash_text, write_whole
from glasshouse.backend.cpu.cache import compile_into
from glasshouse.backend.cpu.headers import are_current, versions_apart
from glasshouse.backend.cpu.recipe import Recipe
from glasshouse.backend.cpu.spawn import compilers_at_once
from glasshouse.backend.cpu.toolchain import Toolchain
from glasshouse.backend.sealed import have
from glasshouse.backend.store import fetch, publish

_LONGEST = 4.0  # a batch that takes longer is cut, because the last one to end is waited for


@dataclass
class Batch:
    """Kernels of one file, by key."""

    level: str
    texts: dict[str, str] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    cost: float = 0.0

    @property
    def name(self) -> str:
        more = f" and {len(self.names) - 1} more" if len(self.names) > 1 else ""
        return f"{self.names[0]}{more}"


def find_objects(folder: Path, keys: Mapping[str, str]) -> dict[str, Path]:
    """Objects that hold kernels already, by the kernel's key; not damaged ones, nor those with
    others in them that are made of headers which have changed since."""
    found: dict[str, Path] = {}
    whole: dict[Path, bool] = {}
    for key in keys.values():
        note = folder / f"{key}.in"
        if not note.exists() and not fetch(note):
            continue
        try:
            made, *versions = note.read_text().split() or [""]
        except (OSError, UnicodeDecodeError):
            continue
        if not are_current(versions):
            continue
        path = folder / f"{made}.o"
        if path not in whole:
            whole[path] = have(path)
        if whole[path]:
            found[key] = path
    return found


def make_batches(
    kernels: Mapping[str, str], keys: Mapping[str, str], recipes: Mapping[str, Recipe]
) -> list[Batch]:
    """Kernels dealt out so that batches take about equally long, the longest first."""
    levels: dict[str, list[str]] = {}
    for name in kernels:
        level = recipes[name].level
        levels.setdefault(level, []).append(name)
    out: list[Batch] = []
    for level, names in levels.items():
        units = _units(names, recipes)
        total = sum(cost for cost, _ in units)
        spread = min(math.ceil(total), compilers_at_once() // len(levels))
        count = min(max(spread, math.ceil(total / _LONGEST), 1), len(units))
        batches = [Batch(level) for _ in range(count)]
        for cost, together in sorted(units, key=lambda unit: -unit[0]):
            least = min(batches, key=lambda b: b.cost)
            least.texts.update((keys[name], kernels[name]) for name in together)
            least.names += together
            least.cost += cost
        out += batches
    return sorted(out, key=lambda b: -b.cost)


def _units(names: list[str], recipes: Mapping[str, Recipe]) -> list[tuple[float, list[str]]]:
    """What goes into one file together, with its cost: kernels that share templates (ten gradients
    of weights took 10 s of a processor in six files, 2.5 s in one), and each other by itself."""
    sharing: dict[tuple[str, ...], list[str]] = {}
    units: list[tuple[float, list[str]]] = []
    for name in names:
        if recipes[name].shared_seconds:
            sharing.setdefault(recipes[name].headers, []).append(name)
        else:
            units.append((recipes[name].seconds, [name]))
    for members in sharing.values():
        once = max(recipes[name].shared_seconds for name in members)
        own = sum(recipes[name].seconds for name in members)
        files = math.ceil(own / max(_LONGEST - once, once))
        units += [
            (once + sum(recipes[name].seconds for name in members[i::files]), members[i::files])
            for i in range(files)
        ]
    return units


def compile_batch(tools: Toolchain, folder: Path, batch: Batch) -> Path:
    """The object of a batch; afterwards each of its kernels can be found."""
    key = hash_text(" ".join(batch.texts))
    target, text = folder / f"{key}.o", "".join(batch.texts.values())
    versions = versions_apart(text)
    compile_text(tools, target, text, batch.name, batch.level)
    for kernel in batch.texts:
        note = folder / f"{kernel}.in"
        write_whole(note, " ".join((key, *versions)))
        publish(note)
    return target


def compile_text(tools: Toolchain, target: Path, text: str, name: str, level: str = "-O2") -> None:
    """Compile a file whose text stays beside the object, for people and for error messages."""
    if have(target):
        return
    source = target.with_suffix(".cpp")
    write_whole(source, text)
    # The level stands in front, so that one among the flags of the user's choice wins.
    compile_into(target, [*tools.command, level, *tools.flags, "-c", str(source)], name)
