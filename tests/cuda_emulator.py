"""Runs the CUDA C++ of a program without a GPU: compiled by the host's compiler behind `emulate.h`.

Blocks run one after the other, the threads of a block as fibres, tensor cores as plain sums.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glasshouse.backend.cache_folder import made_cache_folder
from glasshouse.backend.claim import claimed
from glasshouse.backend.cuda.forms import prepared
from glasshouse.backend.cuda.launch import CudaKernel
from glasshouse.backend.cuda.render import render
from glasshouse.backend.cuda.sizes import dim_value
from glasshouse.backend.memory import aligned_bytes
from glasshouse.errors import ExecutionError
from glasshouse.ir.dim import evaluate
from glasshouse.ir.dtype import from_storage, to_storage
from glasshouse.ir.graph import Value
from glasshouse.ir.op import Kind
from glasshouse.ir.sources import INPUT
from glasshouse.lower.program import Call, Program
from glasshouse.numpy_ref.executor import bind_sizes, resolve, run_node

INCLUDE = Path(__file__).parents[1] / "src/glasshouse/backend/cuda/include"
EMULATOR = Path(__file__).parent / "fake_cuda"
INCLUDES = '#include "emulate.h"\n#include "glasshouse/kernels.cuh"\n'
_FLAGS = ["-std=c++17", "-w", "-fPIC", "-fno-strict-aliasing"]


class _Context(ctypes.Structure):
    _fields_ = (
        ("bad", ctypes.c_void_p), ("counters", ctypes.c_void_p), ("step", ctypes.c_int64),
        ("times", ctypes.c_void_p),
    )  # fmt: skip


class _Map(ctypes.Structure):
    """What `emulate.h` takes for a tensor map."""

    _fields_ = (
        ("at", ctypes.c_void_p), ("sizes", ctypes.c_int64 * 5), ("steps", ctypes.c_int64 * 4),
        ("box", ctypes.c_int32 * 5), ("window", ctypes.c_int32 * 6), ("unused", ctypes.c_int32),
    )  # fmt: skip


def _mapped(described: Mapping[str, Any], address: int, sizes: Mapping[str, int]) -> _Map:
    made = _Map(at=address + dim_value(described["offset"], sizes))
    for to, name in ((made.sizes, "sizes"), (made.steps, "steps")):
        for i, dim in enumerate(described[name]):
            to[i] = dim_value(dim, sizes)
    box = (64, *described["box"])
    made.box[:] = *box, *[1] * (5 - len(box))
    made.window[:] = [n for pair in described["window"] or [[0, 0]] * 3 for n in pair]
    return made


def host_text(kernels: Sequence[CudaKernel]) -> str:
    """All kernels as one C++ file, with a function that runs a launch of each."""
    parts = []
    for kernel in kernels:
        text = "\n".join(x for x in kernel.text.splitlines() if not x.startswith("#include"))
        for number, launch in enumerate(kernel.launches):
            own = f"{kernel.name}__{number}"
            text = text.replace(f"{launch.function}(gh::Context", f"{own}(gh::Context")
            found = re.search(rf"{own}\((.*)\) {{", text)
            assert found is not None
            types = [p.rsplit(" ", 1)[0] for p in found[1].split(", ")]
            given = ", ".join(f"*({t}*)a[{i}]" for i, t in enumerate(types))
            text += (
                f'\nextern "C" void run_{own}(unsigned x, unsigned y, unsigned z, void** a) {{\n'
                f"  gh_emu::run(dim3{{x, y, z}}, {launch.threads}, [=] {{ {own}({given}); }}, "
                f"{launch.cluster[0]}, {launch.cluster[1]});\n"
                "}\n"
            )
        parts.append(text)
    return "\n".join(parts)


def compiled(text: str, name: str, *flags: str, kind: str = "so") -> Path:
    """A library of C++ text, or headers that are read once (`kind="h.gch"`), kept in the cache."""
    key = hashlib.sha256(f"{text}{flags}".encode()).hexdigest()[:24]
    made = made_cache_folder() / f"fake-{name}-{key}.{kind}"
    with claimed(made):
        if not made.exists():
            half = made.with_name(f"{made.name}.half")
            source = made.with_suffix("" if kind == "h.gch" else ".cpp")
            source.write_text(text)
            how = ["-x", "c++-header"] if kind == "h.gch" else ["-shared"]
            line = ["g++", *_FLAGS, *flags, *how, str(source), "-o", str(half)]
            done = subprocess.run(line, check=False, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[:4000]
            half.rename(made)
    return made


def stamped_includes() -> str:
    """The headers by name, and what they are: a library is kept under its text alone."""
    files = (EMULATOR / "emulate.h", *sorted((INCLUDE / "glasshouse").iterdir()))
    headers = "".join(p.read_text() for p in files)
    return f"// {hashlib.sha256(headers.encode()).hexdigest()}\n{INCLUDES}"


def compiled_kernels(body: str, name: str, *options: str) -> Path:
    """A library of kernels behind the headers, which are parsed once for all."""
    flags = (*options, f"-I{INCLUDE}", f"-I{EMULATOR}")
    header = compiled(stamped_includes(), "headers", *flags, kind="h.gch")
    return compiled(body, name, *flags, "-include", str(header)[: -len(".gch")])


def run_emulated(
    program: Program, inputs: Sequence[np.ndarray], fall_back: bool = True
) -> list[np.ndarray]:
    """The outputs of a program, as the reference executor gives them."""
    graph = program.graph
    sizes = bind_sizes([v.type for v in graph.inputs], inputs)
    kernels = {k.name: render(k) for k in program.kernels}
    text = host_text(list(kernels.values()))
    # What a kernel defines before the headers counts where all do: they are one file here.
    half = kernels and all("#define GH_HALF_RESULTS 1" in k.text for k in kernels.values())
    options = ("-O0", "-DGH_HALF_RESULTS=1") if half else ("-O0",)
    library = ctypes.CDLL(str(compiled_kernels(text, "kernels", *options)))
    memory: dict[Value, np.ndarray] = {}

    def room(count: int, dtype: np.dtype) -> np.ndarray:
        return aligned_bytes(count * dtype.itemsize)[: count * dtype.itemsize].view(dtype)

    def keep(value: Value, array: np.ndarray) -> None:
        order = program.orders.get(value)
        lies = array if order is None else array.transpose(order)
        stored = np.ascontiguousarray(to_storage(lies, value.type.dtype)).reshape(-1)
        memory[value] = room(stored.size, stored.dtype)
        memory[value][:] = stored

    def read(value: Value) -> np.ndarray:
        flat = memory[program.buffer_of(value)]
        order = program.orders.get(value)
        shape = [int(resolve(d, sizes)) for d in value.type.shape]
        lies = flat.reshape(shape if order is None else [shape[a] for a in order])
        usual = lies if order is None else lies.transpose(np.argsort(order))
        return from_storage(usual, value.type.dtype)

    for value, given in zip(graph.inputs, inputs, strict=True):
        keep(value, np.asarray(given))
    for node in graph.nodes:
        if node.op.kind is Kind.SOURCE and node.op is not INPUT:
            data = np.ascontiguousarray(node.attrs["data"]).reshape(-1)
            memory[node.output] = room(data.size, data.dtype)
            memory[node.output][:] = data
    bad = np.zeros(1, np.int32)
    for number, step in enumerate(program.steps):
        if not isinstance(step, Call):
            assert fall_back, f"{step.node}: {step.why}"
            made = run_node(step.node, [read(v) for v in step.node.inputs], sizes)
            for value, array in zip(step.node.outputs, made, strict=True):
                keep(value, array)
            continue
        kernel = kernels[step.kernel.name]
        for value in step.outputs:
            count = int(resolve(value.type.numel, sizes))
            memory[value] = room(count, value.type.dtype.storage)
            memory[value].view(np.uint8)[:] = 0xA5  # what is not written is noticed
        work = aligned_bytes(evaluate(step.kernel.workspace, sizes) + 64)
        work[:] = 0xA5
        packed = [prepared(p.form, memory[program.buffer_of(p.source)]) for p in step.packed]
        pointers = [memory[program.buffer_of(v)].ctypes.data + at for v, at in step.starts()]
        pointers += [p.ctypes.data for p in packed]
        pointers += [memory[v].ctypes.data for v in step.outputs]
        for at, launch in enumerate(kernel.launches):
            counters = np.zeros(max(evaluate(launch.counters, sizes), 1), np.uint32)
            context = _Context(bad.ctypes.data, counters.ctypes.data, number)
            cells: list[object] = [context, ctypes.c_void_p(work.ctypes.data)]
            cells += [ctypes.c_void_p(p) for p in pointers]
            cells += [ctypes.c_int64(sizes[name]) for name in kernel.symbols]
            cells += [
                _mapped(m, [work.ctypes.data, *pointers][m["argument"]], sizes) for m in launch.maps
            ]
            args = (ctypes.c_void_p * len(cells))(*[ctypes.addressof(c) for c in cells])
            grid = [ctypes.c_uint(evaluate(d, sizes)) for d in launch.grid]
            getattr(library, f"run_{kernel.name}__{at}")(*grid, args)
            assert not counters.any(), "counters are 0 between launches"
    if bad[0]:
        raise ExecutionError("an index is out of bounds", str(bad[0]))
    return [
        read(v)
        if program.buffer_of(v) in memory
        else np.zeros([int(resolve(d, sizes)) for d in v.type.shape], v.type.dtype.carrier)
        for v in graph.outputs
    ]
