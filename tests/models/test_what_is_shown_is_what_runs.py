"""What the recording says of a compiled model is what its executable is given and does.

Everything is compiled but not built: in place of the library stands one that keeps the pointers
that it is called with. They, the dispatcher's code and the code of kernels are held against the
recording: variant, layout, views, new values of variables, slot, offset and size of every buffer.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn, optim
from glasshouse.backend.cpu.backend import CpuBackend
from glasshouse.ir import GraphBuilder
from glasshouse.ir.dtype import as_dtype
from glasshouse.ir.graph import Graph
from glasshouse.nn import models
from glasshouse.passes import PIPELINE, PassContext
from glasshouse.record.reader import Recording
from glasshouse.record.schema import BufferRow, CandidateRow, KernelRow, NodeRow
from glasshouse.runtime import compiler
from glasshouse.runtime.module import Module
from glasshouse.runtime.recording import compilation_of

RNG = np.random.default_rng(0)


# -------------------------------------------------------------------------------------- models
def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def mlp() -> Graph:
    model = nn.Sequential(nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 8))
    return gh.trace(model, gh.spec((3, 24)))


def attention() -> Graph:
    def model(q: Any, k: Any, v: Any) -> Any:
        heads = [x.reshape(2, 7, 4, 8).permute(0, 2, 1, 3) for x in (q, k, v)]
        scores = (heads[0] @ heads[1].permute(0, 1, 3, 2) * 0.35).softmax(-1)
        return (scores @ heads[2]).permute(0, 2, 1, 3).reshape(2, 7, 32)

    return gh.trace(model, *[gh.spec((2, 7, 32))] * 3)


def resnet() -> Graph:
    return gh.trace(models.resnet18(num_classes=10).eval(), gh.spec((1, 3, 40, 40)))


def resnet_training() -> Graph:
    model = models.resnet18(num_classes=10)
    optimizer = optim.SGD(model.named_parameters(), 0.01, momentum=0.9)

    def step(x: gh.Tensor) -> gh.Tensor:
        loss = model(x).square().mean()
        optimizer.step(loss)
        return loss

    return gh.trace(step, floats(2, 3, 40, 40))


def bert() -> Graph:
    config = models.BertConfig(50, 32, 2, 4, 64, 16)
    return gh.trace(models.Bert(config).eval(), np.ones((2, 9), np.int64))


def gpt2() -> Graph:
    config = models.GPT2Config(50, 16, 32, 2, 4)
    return gh.trace(models.GPT2(config).eval(), np.ones((1, 9), np.int64))


def int8() -> Graph:
    b = GraphBuilder()
    scale, zero = b.constant(np.float32(0.05)), b.constant(np.array(0, np.int8))

    def stored(x: Any) -> Any:
        return x.apply("quantize", scale, zero, dtype=as_dtype("int8")).apply(
            "dequantize", scale, zero
        )

    x = stored(b.input("float32", (4, 32)))
    for size in (48, 16):
        data = b.weight(RNG.integers(-127, 128, (x.shape[-1], size)).astype(np.int8), "int8")
        x = stored(x.apply("matmul", data.apply("dequantize", scale, zero)).apply("relu"))
    return b.finish(x)


def shapes() -> Graph:
    """A weight that is computed, and reshapes that end where kernels begin."""
    b = GraphBuilder()
    w = b.weight(floats(24, 6)).apply("softmax")
    x = b.input("float32", (4, 24)).apply("sort", axis=1)
    y = (x if isinstance(x, tuple) else (x,))[0].apply("reshape", shape=(96,))
    z = y.apply("cumsum", axis=0).apply("reshape", shape=(4, 24)).apply("matmul", w)
    return b.finish(z)


MODELS: dict[str, Callable[[], Graph]] = {
    "mlp": mlp, "attention": attention, "resnet18": resnet, "resnet18-training": resnet_training,
    "bert": bert, "gpt2": gpt2, "int8": int8, "shapes": shapes,
}  # fmt: skip


@cache
def graph_of(name: str) -> Graph:
    gh.manual_seed(0)
    return MODELS[name]()


# ------------------------------------------------------------------------------------ execution
class Seen:
    """An executable that computes nothing and keeps what it was given."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.tables: list[list[int]] = []
        self.arenas: list[int] = []
        self.call: Callable[[Any], int] = self._call

    def frame(self, table: int, arena: int, sizes: int, steps: int) -> Any:
        return table, arena, steps

    def _call(self, frame: Any) -> int:
        return self.run(frame[0], frame[1], 0, 0, frame[2], 0)

    def run(self, table: int, arena: int, sizes: int, begin: int, end: int, times: int) -> int:
        self.tables.append(list((ctypes.c_uint64 * self.places).from_address(table)))
        self.arenas.append(arena)
        return 0

    def prepared_bytes(self, place: int) -> int:
        return 64

    def prepare(self, table: int) -> None:
        pass


class Unbuilt(CpuBackend):
    """The CPU backend up to its rendered code."""

    def __init__(self) -> None:
        self.loaded = Seen(0)

    def build(self, source: Any, progress: Any = None) -> Path:
        return Path("not built")

    def load(self, library: Path, needs: Any = None, threads: int | None = None) -> Seen:
        return self.loaded


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Module]:
    def compile_(name: str, ctx: PassContext | None = None) -> Module:
        backend = Unbuilt()
        monkeypatch.setattr(compiler, "backend_named", lambda name: backend)
        with ctx or PassContext():
            module = gh.compile(graph_of(name), tune=False)
        backend.loaded.places = max(module.plan.table_size, 1)
        return module

    return compile_


def inputs_of(module: Module) -> list[Any]:
    types = [v.type for v in module.graph.inputs]
    return [np.ones(t.shape, t.dtype.storage) for t in types]


# ---------------------------------------------------------------------------------- comparison
_CASE = re.compile(r"case (\d+): (\w+)\((.*)\); break;")
_POINTER = re.compile(r"(?:\([^()]*\*\))?(?:table\[(\d+)\]|\(arena \+ (\d+)\))")
_SPELLED = {
    "winograd2": r"conv2d_winograd<gh::DotF32, 2,", "winograd4": r"conv2d_winograd<gh::DotF32, 4,",
    "direct": "kDirect", "im2col": "kIm2col", "by_shape": r"conv2d(_as)?<", "int8": "TilesI8|i8_",
}  # fmt: skip


def dispatched(main: str) -> dict[int, tuple[str, list[tuple[int, int]]]]:
    """By step: the function that is called, and its pointers as (slot, -1) or (-1, offset)."""
    out = {}
    for number, symbol, arguments in _CASE.findall(main):
        pointers = [(int(slot or -1), int(at or -1)) for slot, at in _POINTER.findall(arguments)]
        out[int(number)] = symbol, pointers
    return out


def where(row: BufferRow) -> tuple[int, int]:
    return (row.slot, -1) if row.slot >= 0 else (-1, int(row.offset))


def differences(recording: Recording, main: str) -> Iterator[str]:
    """What the recording says otherwise than the dispatcher and the code of its kernels."""
    graph = recording.graphs[0]
    last = graph.stage(len(graph.info.stages) - 1)
    nodes: dict[int, NodeRow] = {n.id: n for n in last.nodes}
    rows = [r for r in graph.table(BufferRow) if r.place != "prepared"]
    place = {(r.node, r.port): where(r) for r in rows}
    prepared = {(r.node, r.port): r.slot for r in graph.table(BufferRow) if r.place == "prepared"}
    calls = dispatched(main)
    kernels = [k for k in graph.table(KernelRow) if k.target == "cpu"]
    if {k.id for k in kernels} != set(calls):
        yield "other steps are recorded than dispatched"
    for kernel in kernels:
        symbol, pointers = calls[kernel.id]
        if f"{symbol}(" not in kernel.code:
            yield f"step {kernel.id} calls {symbol}, recorded is other code"
        spelled = _SPELLED.get(kernel.variant)
        if spelled and not re.search(spelled, kernel.code):
            yield f"step {kernel.id} is recorded as {kernel.variant}, which its code is not"
        node = nodes[kernel.node]
        outputs = [place[node.id, port] for port in range(len(node.outputs))]
        if pointers[len(pointers) - len(outputs) :] != outputs:
            yield f"step {kernel.id} writes {pointers}, recorded {outputs}"
        reads = list(zip(node.input_nodes, node.input_ports, strict=True))
        may = {place[r] for r in reads} | {(s, -1) for r, s in prepared.items() if r in reads}
        for pointer in pointers[: len(pointers) - len(outputs)]:
            if pointer not in may:
                yield f"step {kernel.id} reads {pointer}, recorded {sorted(may)}"


@pytest.mark.parametrize("name", MODELS)
def test_the_recording_is_what_the_executable_is_given(
    name: str, compiled: Callable[..., Module]
) -> None:
    module = compiled(name)
    recording = compilation_of(module, module.base_recording).finish()
    main = module.source.main
    assert not list(differences(recording, main))
    graph = recording.graphs[0]
    rows = list(graph.table(BufferRow))
    given = inputs_of(module)
    results = [np.empty(v.type.shape, v.type.dtype.storage) for v in module.graph.outputs]
    module.run_with_tensors(given, results)
    module.run_with_tensors(given, results)
    seen = module.backend.loaded
    first, second = seen.tables[-2:]
    assert int(recording.header.facts["arena bytes"]) == module._workspaces[0].arena.size
    assert set(seen.arenas) == {module._workspaces[0].arena.ctypes.data}
    slots = {(r.node, r.port): r for r in rows if r.slot >= 0 and r.place != "prepared"}
    for value, array in zip([*module.graph.inputs, *module.graph.outputs], [*given, *results],
                            strict=True):  # fmt: skip
        assert first[slots[value.node.id, value.index].slot] == array.ctypes.data
    data = {n.id: n.attrs["data"] for n in module.graph.nodes if n.attrs.get("data") is not None}
    for row in rows:
        if row.place == "constant":
            held = ctypes.string_at(first[row.slot], int(row.bytes))
            assert held == np.ascontiguousarray(data[row.node]).tobytes()
        if row.how == "in place":
            assert first[row.slot] == first[slots[row.of_node, row.of_port].slot]
        elif row.how == "by turns":
            variable = next(n for n, v in module.graph.updates.items() if v.node.id == row.node)
            old = slots[variable.id, 0].slot
            assert (first[row.slot], first[old]) == (second[old], second[row.slot])
    views = {(r.node, r.port): r for r in rows if r.how == "view"}
    assert {(v.node.id, v.index) for v in module.program.aliases} == set(views)


def test_a_training_step_writes_its_variables_in_place(compiled: Callable[..., Module]) -> None:
    module = compiled("resnet18-training")
    recording = compilation_of(module, module.base_recording).finish()
    rows = recording.graphs[0].table(BufferRow)
    assert sum(r.how == "in place" for r in rows) > 60
    assert any(r.layout == [0, 2, 3, 1] for r in rows)


@pytest.mark.parametrize("change", ["arena", "table", "kernel", "variant", "row"])
def test_a_difference_on_either_side_is_found(change: str, compiled: Callable[..., Module]) -> None:
    module = compiled("resnet18")
    builder = compilation_of(module, module.base_recording)
    main = module.source.main
    if change == "arena":
        main = re.sub(r"arena \+ (\d+)", lambda m: f"arena + {int(m[1]) + 64}", main)
    elif change == "table":
        main = re.sub(r"table\[(\d+)\]", lambda m: f"table[{int(m[1]) + 1}]", main)
    elif change == "kernel":
        main = re.sub(r"case 3: \w+\(", "case 3: another_kernel(", main)
    recording = builder.finish()
    if change in ("variant", "row"):
        graph = recording.graphs[0]
        table = graph.table(KernelRow if change == "variant" else BufferRow)
        rows = list(table)
        at = next(i for i, r in enumerate(rows) if change == "row" or r.variant == "winograd2")
        field = {"variant": "winograd4"} if change == "variant" else {"slot": rows[at].slot + 1}
        rows[at] = replace(rows[at], **field)
        real = graph.table
        graph.table = lambda kind: rows if kind is type(rows[0]) else real(kind)
        main = module.source.main
    assert list(differences(recording, main))


def test_every_candidate_is_recorded_and_one_of_them_is_taken(
    compiled: Callable[..., Module],
) -> None:
    module = compiled("resnet18")
    graph = compilation_of(module, module.base_recording).finish().graphs[0]
    kernels = {k.id: k for k in graph.table(KernelRow)}
    candidates: dict[int, list[CandidateRow]] = {}
    for row in graph.table(CandidateRow):
        candidates.setdefault(row.kernel, []).append(row)
    assert len(candidates) > 10
    for kernel, rows in candidates.items():
        if "conv" not in kernels[kernel].name:
            continue  # the ways of a product are no variants of its routine
        (taken,) = [r for r in rows if r.chosen]
        assert taken.variant == kernels[kernel].variant
        assert taken.why
        assert len(rows) > 1


# --------------------------------------------------------------------------------- left out
TRIED = ("mlp", "shapes", "attention", "gpt2", "bert", "int8", "resnet18", "resnet18-training")
_NEED_OPTIONS = {"auto_mix_precision": {"precision": "bfloat16"}}


@pytest.mark.parametrize("left_out", PIPELINE)
def test_leaving_a_pass_out_changes_the_program(
    left_out: str, compiled: Callable[..., Module]
) -> None:
    def text(name: str, skip: bool) -> tuple[object, ...]:
        ctx = PassContext(precision=_NEED_OPTIONS.get(left_out, {}).get("precision"))
        if left_out == "resolve_variant":
            ctx.options["resolve_variant"] = {"prefer": ("im2col",)}
        if skip:
            ctx.skip(left_out)
        module = compiled(name, ctx)
        hows = [u.how for u in module.plan.updates]
        return module.source.main, dict(module.source.kernels), hows, module.plan.arena_bytes

    assert any(text(name, False) != text(name, True) for name in TRIED)
