"""Whole compiled programs for sanitizers: named models and random graphs, checked as they run.

    python tests/sanitized_programs.py mlp bert random:0:20

Started by the tests with a sanitizer preloaded (see `environment` in test_whole_programs.py). An
arena hides what kernels do to each other's values, so here every value lies by itself: nothing
shares memory, and all between values is poisoned.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import glasshouse as gh
from generators import case_of
from glasshouse import nn, optim
from glasshouse.backend.cpu.backend import CpuBackend
from glasshouse.backend.cpu.threads import set_threads
from glasshouse.errors import ExecutionError
from glasshouse.ir import GraphBuilder
from glasshouse.ir.dtype import as_dtype
from glasshouse.ir.graph import Graph
from glasshouse.lower.plan import MemoryPlan, upper_bytes
from glasshouse.lower.program import Program
from glasshouse.nn import models
from glasshouse.numpy_ref import run
from glasshouse.passes import optimize, plan_memory
from glasshouse.runtime import compiler, constants

Array = np.ndarray[Any, Any]
GAP = 4096
"""Poisoned bytes between values: more than a kernel that runs astray by a row would skip."""

_libc = ctypes.CDLL(None)


plan_as_usual = plan_memory.plan_memory
laid_out: list[MemoryPlan] = []


def exact_bytes(count: int) -> Array:
    """Zeroed, aligned bytes that end where the block ends, so that one byte more is seen."""
    size = max(count, 1)
    block = ctypes.c_void_p()
    assert (
        _libc.posix_memalign(ctypes.byref(block), ctypes.c_size_t(64), ctypes.c_size_t(size)) == 0
    )
    assert block.value is not None
    data = (ctypes.c_uint8 * size).from_address(block.value)
    ctypes.memset(data, 0, size)
    return np.frombuffer(data, np.uint8)


def spread_layout(program: Program, **options: Any) -> MemoryPlan:
    """The usual layout, but no value lies where another did, and there are gaps."""
    layout = plan_as_usual(program, **options)
    top = GAP
    for value in layout.arena:
        layout.arena[value] = top
        top += -(-upper_bytes(value.type.nbytes) // 64) * 64 + GAP
    work = layout.arena_bytes - layout.work_offset - 64
    layout.work_offset = top
    layout.arena_bytes = top + work
    laid_out.append(layout)
    return layout


def poisoned_arena(count: int) -> Array:
    """The arena of the program that was laid out last: poisoned outside of the values in it."""
    arena = exact_bytes(count)
    poison = getattr(_libc, "__asan_poison_memory_region", None)
    if poison is None or not laid_out:
        return arena
    layout, begin, free = laid_out[-1], arena.ctypes.data, 0
    taken = sorted((at, upper_bytes(v.type.nbytes)) for v, at in layout.arena.items())
    for at, size in [*taken, (layout.work_offset, 0)]:
        poison(ctypes.c_void_p(begin + free), ctypes.c_size_t(at - free))
        free = at + size
    return arena


def guard() -> None:
    """Let everything that is compiled from here on be laid out so."""
    plan_memory.plan_memory = spread_layout
    CpuBackend.memory = lambda backend, count: poisoned_arena(count)
    constants.aligned_bytes = exact_bytes


def check(
    graph: Graph, inputs: Sequence[Array], expected: Graph | None = None, share: float = 1e-3
) -> None:
    """Compile and run; results differ from the reference's by at most a share of the largest."""
    compiled = compiler.compile_graph(graph)
    state: dict[str, Array] = {}
    for _ in range(2 if graph.updates else 1):
        wanted = run(expected or graph, inputs, variables=state)
        outputs = compiled(*inputs)
        many = outputs if isinstance(outputs, tuple) else (outputs,)
        for ours, right in zip(many, wanted, strict=True):
            finite = np.isfinite(np.asarray(right, np.float64))
            scale = float(np.max(np.abs(right), where=finite, initial=1.0))
            np.testing.assert_allclose(ours, right, rtol=2e-3, atol=share * scale)


def of_model(model: Any, *inputs: Array, specs: Sequence[Any] = ()) -> None:
    graph = gh.trace(model, *(specs or [gh.array(a) for a in inputs]))
    check(optimize(graph), inputs, graph)


def training(model: Any, *inputs: Array) -> None:
    """Forward, backward and update as one program."""
    optimizer = optim.SGD(model.named_parameters(), 0.01, momentum=0.9)

    def step(*args: gh.Tensor) -> gh.Tensor:
        out = model(*args)
        loss = (out[0] if isinstance(out, tuple) else out).square().mean()
        optimizer.step(loss)
        return loss

    of_model(step, *inputs)


rng = np.random.default_rng(0)


def floats(*shape: int) -> Array:
    return rng.standard_normal(shape, "f")


def tokens(*shape: int) -> Array:
    return rng.integers(0, 50, shape)


def mlp() -> Any:
    return nn.Sequential(nn.Linear(33, 70), nn.GELU(), nn.Linear(70, 33), nn.LayerNorm(33))


def bert() -> Any:
    config = models.BertConfig(
        vocab_size=50, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=100, dropout=0.0,
    )  # fmt: skip
    return models.Bert(config)


def gpt2() -> Any:
    config = models.GPT2Config(50, n_positions=40, n_embd=48, n_layer=2, n_head=4, dropout=0.0)
    return models.GPT2(config)


def attention(x: Any, mask: Any) -> Any:
    heads = x.reshape(2, 37, 3, 20).permute(0, 2, 1, 3)
    scores = (heads @ heads.permute(0, 1, 3, 2)) * 0.2 + mask
    return (scores.softmax(-1) @ heads).permute(0, 2, 1, 3).reshape(2, 37, 60)


def quantised() -> None:
    """Convolutions and a product of 8-bit integers, signed and unsigned, around zero points."""
    b = GraphBuilder()

    def through_bytes(x: Any, dtype: str, zero: int) -> Any:
        scale, point = b.constant(np.float32(0.1)), b.constant(np.array(zero, dtype))
        stored = x.apply("quantize", scale, point, dtype=as_dtype(dtype))
        return stored.apply("dequantize", scale, point)

    def weights(*shape: int) -> Any:
        data = b.weight(rng.integers(-127, 128, shape).astype(np.int8), "int8")
        zero = b.constant(np.array(0, np.int8))
        return data.apply("dequantize", b.constant(np.float32(0.002)), zero)

    image = through_bytes(b.input("float32", (3, 6, 7, 11)), "int8", 5)
    hidden = image.apply("conv", weights(20, 6, 3, 3), padding=(1, 1, 1, 1)).apply("relu")
    each = {"padding": (1, 2, 1, 2), "dilation": (1, 2), "groups": 20}
    hidden = through_bytes(hidden, "uint8", 3).apply("conv", weights(20, 1, 3, 3), **each)
    flat = through_bytes(hidden.apply("reshape", shape=(3, 20 * 77)), "uint8", 9)
    graph = b.finish(flat.apply("matmul", weights(20 * 77, 33)))
    check(optimize(graph), [floats(3, 6, 7, 11)], graph, 0.05)  # bytes may differ by a step


def images() -> None:
    """Pools into uneven parts, sizes that change, places of maxima, in three axes too."""
    b = GraphBuilder()
    x = b.input("float32", (3, 6, 7, 11))
    parts = x.apply("adaptive_max_pool", size=(3, 5)) + x.apply("adaptive_avg_pool", size=(3, 5))
    larger = parts.apply("resize", size=(8, 9), mode="cubic")
    places = larger.apply("max_pool_indices", kernel=(3, 3), padding=(1, 1, 1, 1))
    deep = x.apply("reshape", shape=(1, 3, 6, 7, 11))
    means = deep.apply("avg_pool", kernel=(2, 3, 2), padding=(1, 1, 0, 0, 1, 1))
    filters = b.weight(floats(4, 3, 2, 3, 3), "float32")
    conv = deep.apply("conv", filters, padding=(1, 0, 1, 0, 1, 1), stride=(1, 2, 1))
    graph = b.finish(larger, places, means, conv, larger.apply("resize_grad", size=(3, 5)))
    check(optimize(graph), [floats(3, 6, 7, 11)], graph)


def small_module() -> tuple[Any, Array, Array]:
    """A compiled module with packed weights, an input, and what it gives for that."""
    x = floats(37, 33)
    made = compiler.compile_graph(optimize(gh.trace(mlp(), gh.array(x))))
    return made, x, made(x)


def resized() -> None:
    """Threads run while the pool's number of threads changes, and roundings with it."""
    made, x, expected = small_module()
    wrong: list[int] = []

    def call() -> None:
        wrong.extend(i for i in range(50) if not np.allclose(made(x), expected, atol=1e-5))

    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    for count in (1, 3, 2, 4) * 5:
        set_threads(count)
    for caller in callers:
        caller.join()
    assert not wrong


def callers() -> None:
    """Two callers at once: each with memory of its own, one after the other, in other modules."""
    x = floats(600, 33)
    graph = optimize(gh.trace(mlp(), gh.array(x)))
    both, one, other = (compiler.compile_graph(graph, num_runtimes=n) for n in (2, 1, 1))
    expected = one(x)
    wrong: list[int] = []

    def call(module: Any) -> None:
        wrong.extend(i for i in range(30) if not np.array_equal(module(x), expected))

    for pair in ((both, both), (one, one), (one, other)):
        started = [threading.Thread(target=call, args=(module,)) for module in pair]
        for caller in started:
            caller.start()
        for caller in started:
            caller.join()
    assert not wrong


def background() -> None:
    """A thread compiles what lazy tensors repeat, and loads it beside kernels that run."""
    made, given, expected = small_module()
    x = floats(300, 70)
    for turn in range(400):
        out = (gh.array(x) * 2.0).relu().sum(1).numpy()
        np.testing.assert_allclose(out, np.maximum(x * 2, 0).sum(1), rtol=1e-4)
        if turn % 10 == 0:
            np.testing.assert_allclose(made(given), expected, atol=1e-5)


def in_child(work: Callable[[], None]) -> None:
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, "the child failed"


def forked() -> None:
    """Children of a process whose pool is busy run, resize and fork again."""
    made, x, expected = small_module()
    ended = threading.Event()

    def check() -> None:
        np.testing.assert_array_equal(made(x), expected)
        set_threads(3)
        np.testing.assert_allclose(made(x), expected, atol=1e-5)

    def call() -> None:
        while not ended.is_set():
            made(x)

    caller = threading.Thread(target=call)
    caller.start()
    try:
        for _ in range(5):
            in_child(check)
        in_child(lambda: in_child(check))
    finally:
        ended.set()
        caller.join()


def saved() -> None:
    """The C interface: made, run, forked, ended; weights that changed are refused."""
    made, x, expected = small_module()
    with tempfile.TemporaryDirectory() as folder:
        made.save(folder, weights="file")
        library = ctypes.CDLL(f"{folder}/libmodel.so")
        library.model_create.restype = ctypes.c_void_p

        def run() -> None:
            out = exact_bytes(expected.nbytes).view(np.float32).reshape(expected.shape)
            given, taken = ((ctypes.c_void_p * 1)(a.ctypes.data) for a in (x, out))
            assert library.model_run(model, given, taken, None) == 0
            np.testing.assert_allclose(out, expected, atol=1e-5)  # other threads, other sums

        model = ctypes.c_void_p(library.model_create(folder.encode(), 2))
        other = ctypes.c_void_p(library.model_create(folder.encode(), 2))
        run()
        in_child(run)
        library.model_destroy(other)
        in_child(run)
        library.model_destroy(model)
        with open(f"{folder}/weights.bin", "r+b") as weights:
            weights.write(b"?")
        assert not library.model_create(folder.encode(), 2)


def faults() -> None:
    """Integers at their limits are divided; zeros and indices from nowhere end a call, no more."""
    for dtype in ("int8", "int32", "int64"):
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        numbers = np.array([least, least, most, most, 7, -7, 0, least], dtype)
        by = np.array([-1, most, -1, least, -2, 2, 5, 1], dtype)
        builder = GraphBuilder()
        x, y = builder.input(dtype, (8,)), builder.input(dtype, (8,))
        place, table = builder.input("int64", (8,)), builder.input("float32", (9, 5))
        wide = place.apply("reshape", shape=(8, 1)).apply("expand", shape=(8, 5))
        rows = table.apply("take", place, axis=0)
        spread = table.apply("scatter", wide, rows, axis=0, mode="add")
        graph = builder.finish(x // y, x % y, rows * 2.0, spread)
        module = compiler.compile_graph(graph)
        good = [numbers, by, np.array([0, 8, -9, 3, 3, 3, -1, 1]), floats(9, 5)]
        wanted = run(graph, good)
        for number, (place_of, value) in enumerate(
            [(1, 0), (2, 9), (2, -10), (2, 2**62), (2, -(2**63)), (1, 0)]
        ):
            bad = [a.copy() for a in good]
            bad[place_of][number] = value
            try:
                module(*bad)
            except ExecutionError:
                pass
            else:
                raise AssertionError(f"{value} was not refused")
            for ours, right in zip(module(*good), wanted, strict=True):
                np.testing.assert_allclose(ours, right, rtol=1e-4, atol=1e-5)


def astray() -> None:
    """A program that writes behind one of its values: what the sanitizer must see."""
    planned = plan_memory.plan_memory

    def narrow(program: Program, **options: Any) -> MemoryPlan:
        layout = planned(program, **options)
        for value in layout.arena:
            layout.arena[value] += 64
        laid_out.append(replace(layout, arena={v: at - 64 for v, at in layout.arena.items()}))
        return layout

    plan_memory.plan_memory = narrow
    of_model(mlp(), floats(37, 33))


BATCH, LENGTH = gh.symbol("batch", 1, 9), gh.symbol("length", 1, 33)
PROGRAMS: dict[str, Callable[[], None]] = {
    "mlp": lambda: of_model(mlp(), floats(37, 33)),
    "mlp-one-row": lambda: of_model(mlp(), floats(1, 33)),
    "mlp-any-batch": lambda: of_model(mlp(), floats(5, 33), specs=[gh.spec((BATCH, 33))]),
    "mlp-training": lambda: training(mlp(), floats(37, 33)),
    "attention": lambda: of_model(attention, floats(2, 37, 60), floats(2, 1, 37, 37)),
    "bert": lambda: of_model(bert().eval(), tokens(2, 19), np.ones((2, 19), np.int64)),
    "bert-any-size": lambda: of_model(
        bert().eval(), tokens(3, 7), np.ones((3, 7), np.int64),
        specs=[gh.spec((BATCH, LENGTH), "int64")] * 2,
    ),
    "bert-training": lambda: training(bert(), tokens(2, 19), np.ones((2, 19), np.int64)),
    "astray": astray,
    "background": background,
    "callers": callers,
    "faults": faults,
    "forked": forked,
    "resized": resized,
    "saved": saved,
    "quantised": quantised,
    "images": images,
    "mlp-large": lambda: of_model(mlp(), floats(600, 33)),
    "gpt2": lambda: of_model(gpt2().eval(), tokens(2, 33)),
    "gpt2-training": lambda: training(gpt2(), tokens(2, 33)),
    "resnet18": lambda: of_model(models.resnet18(num_classes=10).eval(), floats(1, 3, 40, 40)),
    "resnet18-training": lambda: training(models.resnet18(num_classes=10), floats(2, 3, 40, 40)),
}  # fmt: skip


def random_graphs(first: int, count: int) -> None:
    """Graphs over the registry: half as built, half optimised, some with a symbolic size."""
    for seed in range(first, first + count):
        case = case_of(seed, 25, "float32", symbolic=seed % 4 == 3)
        graph = optimize(case.graph) if seed % 2 else case.graph
        try:
            check(graph, case.inputs, case.graph)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)  # the compiler need not run under the sanitizer too
    guard()
    for name in sys.argv[1:]:
        if name.startswith("random:"):
            random_graphs(*(int(n) for n in name.split(":")[1:]))
        else:
            PROGRAMS[name]()
        print("clean", name, flush=True)
