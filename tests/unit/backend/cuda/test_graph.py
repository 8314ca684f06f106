"""How a program reaches the CUDA driver, against a fake that records what it is told."""

from __future__ import annotations

import ctypes
import re
import zipfile
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from glasshouse.backend.cuda.device import Gpu
from glasshouse.backend.cuda.driver import Driver, KernelNode
from glasshouse.backend.cuda.executable import CudaExecutable
from glasshouse.backend.cuda.launch import CONTEXT
from glasshouse.backend.cuda.launch_times import step_times
from glasshouse.backend.cuda.plan import program_text
from glasshouse.backend.cuda.render import render
from glasshouse.backend.cuda.sizes import dim_json, dim_value
from glasshouse.backend.cuda.target import cuda_target
from glasshouse.errors import ExecutionError, TypeMismatch, Unsupported
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir.dim import dim_max, symbol
from glasshouse.ir.dtype import float16, float32
from glasshouse.lower.program import Program
from glasshouse.passes import PassContext
from glasshouse.passes.pipeline import optimize_program


class FakeFunction:
    """A function of the driver: notes its arguments, and writes a fresh handle where one goes."""

    def __init__(self, name: str, fake: FakeDriver) -> None:
        self.name, self.fake = name, fake
        self.argtypes: Any = None
        self.restype: Any = None

    def __call__(self, *arguments: Any) -> int:
        self.fake.calls.append((self.name, self._shown(arguments)))
        return self.fake.answer(self.name, arguments)

    def _shown(self, arguments: tuple[Any, ...]) -> Any:
        for argument in arguments:
            node = getattr(argument, "_obj", None)
            if isinstance(node, KernelNode):
                count = self.fake.counts[node.function]
                places = (ctypes.c_void_p * count).from_address(node.parameters)
                cells = [ctypes.c_uint64.from_address(p).value for p in places]
                context = (ctypes.c_uint64 * CONTEXT).from_address(places[0])
                self.fake.contexts.append(tuple(context))
                return node.function, tuple(node.grid), node.block[0], tuple(cells)
        return tuple(a for a in arguments if isinstance(a, (int, bytes)))


class FakeDriver:
    """`libcuda` as far as it is used; statuses can be set by name."""

    def __init__(self, capability: tuple[int, int] = (9, 0)) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.capability = capability
        self.statuses: dict[str, int] = {}
        self.counts: dict[int, int] = {}  # by handle of a function: its parameters
        self.by_name: dict[bytes, int] = {}
        self.contexts: list[tuple[int, ...]] = []  # of each node that is added or set
        self.downloads: Any = None  # what copies to the host bring
        self._next = 0x1000
        self._held: list[Any] = []

    def __getattr__(self, name: str) -> FakeFunction:
        if not name.startswith("cu") or name == "cuGetErrorString":
            raise AttributeError(name)
        made = FakeFunction(name, self)
        setattr(self, name, made)
        return made

    def answer(self, name: str, arguments: tuple[Any, ...]) -> int:
        if name in self.statuses:
            return self.statuses[name]
        out = getattr(arguments[0], "_obj", None) if arguments else None
        if name == "cuDeviceGetAttribute":
            out.value = {75: self.capability[0], 76: self.capability[1]}.get(arguments[1], 132)
        elif name == "cuMemHostAlloc":
            self._held.append(ctypes.create_string_buffer(arguments[1]))
            out.value = ctypes.addressof(self._held[-1])
        elif name == "cuMemcpyDtoHAsync_v2" and self.downloads is not None:
            ctypes.memmove(arguments[0], self.downloads.ctypes.data, arguments[2])
        elif name in ("cuDeviceGet", "cuDriverGetVersion"):
            out.value = 0
        elif out is not None and hasattr(out, "value"):
            self._next += 0x100
            out.value = self._next
            if name == "cuModuleGetFunction":
                self.counts[self._next] = self.by_name[arguments[2]]
        return 0

    def named(self, name: str) -> list[Any]:
        return [shown for called, shown in self.calls if called == name]


def chain(rows: Any = 8) -> Graph:
    """Two kernels that cannot be one: a product, and a softmax of it."""
    builder = GraphBuilder()
    x, w = builder.input(float32, (rows, 16)), builder.input(float32, (16, 32))
    return builder.finish(x.apply("matmul", w).apply("softmax"))


def built(graph: Graph, folder: Path, arch: str = "sm_90") -> tuple[Program, Path]:
    """A program's file without machine code: nothing here runs it."""
    ctx = PassContext(options={"resolve_variant": {"measure": "none"}})
    ctx.target = cuda_target(f"cuda:{arch}", arch)
    program = optimize_program(graph, ctx, over_graph=False)
    kernels = {k.name: render(k) for k in program.kernels}
    path = folder / "program.gpu"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("plan.json", program_text(program, kernels, arch))
        for name in kernels:
            out.writestr(f"{name}.cubin", b"code of " + name.encode())
    return program, path


def executable_of(path: Path, fake: FakeDriver, program: Program) -> CudaExecutable:
    for kernel in map(render, program.kernels):
        for launch in kernel.launches:
            found = re.search(rf"{launch.function}\((.*)\) {{", kernel.text)
            assert found is not None
            fake.by_name[launch.function.encode()] = len(found[1].split(", "))
    return CudaExecutable(path, lambda: Gpu(Driver(fake)))


def test_nodes_follow_one_another_with_the_pointers_of_the_plan(tmp_path: Path) -> None:
    fake = FakeDriver()
    program, path = built(chain(), tmp_path)
    run = executable_of(path, fake, program)
    table = array("Q", [0x10, 0x20, 0x30])
    sizes = (ctypes.c_int64 * 1)()
    at, where = table.buffer_info()[0], ctypes.addressof(sizes)
    assert run.run(at, 0x9000, where, 0, len(program.steps), 0) == 0
    nodes = fake.named("cuGraphAddKernelNode_v2")
    assert len(nodes) == len(program.steps) == 2
    product, softmax = nodes
    assert {0x10, 0x20} <= set(product[3])
    assert 0x30 in softmax[3]
    arena = 0x9000 + next(iter(program.memory.arena.values()))
    assert arena in product[3]
    assert arena in softmax[3]
    assert fake.named("cuGraphLaunch")
    names = [name for name, _ in fake.calls]
    assert names.index("cuGraphInstantiateWithFlags") < names.index("cuGraphLaunch")


def test_a_pointer_that_changes_sets_the_nodes_that_hold_it(tmp_path: Path) -> None:
    fake = FakeDriver()
    program, path = built(chain(), tmp_path)
    run = executable_of(path, fake, program)
    table = array("Q", [0x10, 0x20, 0x30])
    sizes = (ctypes.c_int64 * 1)()
    frame = run.frame(table.buffer_info()[0], 0x9000, ctypes.addressof(sizes), len(program.steps))
    run.call(frame)
    run.call(frame)
    assert len(fake.named("cuGraphCreate")) == 1, "nothing has changed"
    for table[2] in (0x40, 0x30, 0x40):
        run.call(frame)
    assert len(fake.named("cuGraphCreate")) == 2, "two sets of pointers take turns"
    assert not fake.named("cuGraphExecKernelNodeSetParams_v2")
    table[2] = 0x50
    run.call(frame)
    assert len(fake.named("cuGraphExecKernelNodeSetParams_v2")) == 1
    assert len(fake.named("cuGraphCreate")) == 2
    assert len(fake.named("cuGraphLaunch")) == 6


def test_maps_are_encoded_anew_for_another_pointer_alone(tmp_path: Path) -> None:
    builder = GraphBuilder()
    x, w = builder.input(float16, (256, 64)), builder.input(float16, (128, 64))
    fake = FakeDriver()
    program, path = built(builder.finish(x.apply("matmul", w, transpose_y=True)), tmp_path)
    run = executable_of(path, fake, program)
    table = array("Q", [0x100, 0x200, 0x300])
    sizes = (ctypes.c_int64 * 1)()
    frame = run.frame(table.buffer_info()[0], 0x9000, ctypes.addressof(sizes), len(program.steps))
    run.call(frame)
    assert len(fake.named("cuTensorMapEncodeTiled")) == 2
    run.call(frame)
    assert len(fake.named("cuTensorMapEncodeTiled")) == 2
    table[0] = 0x400
    run.call(frame)
    assert len(fake.named("cuTensorMapEncodeTiled")) == 3


def test_another_size_is_another_graph(tmp_path: Path) -> None:
    fake = FakeDriver()
    program, path = built(chain(symbol("rows", 1, 4096)), tmp_path)
    run = executable_of(path, fake, program)
    table = array("Q", [0x10, 0x20, 0x30])
    sizes = (ctypes.c_int64 * 1)(8)
    frame = run.frame(table.buffer_info()[0], 0x9000, ctypes.addressof(sizes), len(program.steps))
    run.call(frame)
    sizes[0] = 300
    run.call(frame)
    assert len(fake.named("cuGraphCreate")) == 2
    small, _, large, _ = fake.named("cuGraphAddKernelNode_v2")
    assert small[1][0] < large[1][0]


def test_times_are_noted_by_the_kernels_themselves(tmp_path: Path) -> None:
    fake = FakeDriver()
    program, path = built(chain(), tmp_path)
    run = executable_of(path, fake, program)
    table, times = array("Q", [0x10, 0x20, 0x30]), np.zeros(2)
    sizes = (ctypes.c_int64 * 1)()
    at, where = table.buffer_info()[0], ctypes.addressof(sizes)
    begins, ends = np.array([1000, 1900], np.uint64), np.array([1500, 4000], np.uint64)
    fake.downloads = np.stack([~begins, ends], 1)
    run.run(at, 0x9000, where, 0, len(program.steps), times.ctypes.data)
    np.testing.assert_allclose(times, [500e-9, 2100e-9])
    assert run.gaps() == {0: 0.0, 1: pytest.approx(400e-9)}
    assert fake.named("cuMemsetD8Async"), "what an earlier run noted is cleared"
    run.run(at, 0x9000, where, 0, len(program.steps), 0)
    contexts = fake.contexts  # of each node: faults, counters, step, times
    assert all(c[3] for c in contexts[:2])
    assert contexts[1][3] == contexts[0][3] + 16
    assert not any(c[3] for c in contexts[2:]), "nobody asks for times then"


def test_kernels_that_overlap_are_counted_once() -> None:
    begins, ends = np.array([10, 15, 0, 90]), np.array([40, 70, 0, 100])
    made = step_times([0, 1, 2, 3], begins, ends)
    assert {step: (t.kernels, t.gaps) for step, t in made.items()} == {
        0: (pytest.approx(30e-9), 0.0),
        1: (pytest.approx(30e-9), 0.0),
        3: (pytest.approx(10e-9), pytest.approx(20e-9)),
    }
    whole = step_times([0, 0], np.array([10, 50]), np.array([40, 70]))
    assert whole[0].kernels == pytest.approx(50e-9)
    assert whole[0].gaps == pytest.approx(10e-9)


def test_what_is_wrong_with_a_gpu_is_one_error(tmp_path: Path) -> None:
    program, path = built(chain(), tmp_path)
    table, sizes = array("Q", [1, 2, 3]), (ctypes.c_int64 * 1)()
    given = (table.buffer_info()[0], 0, ctypes.addressof(sizes), 0, 2, 0)
    with pytest.raises(Unsupported, match=r"compute capability 7\.5: kernels need 8\.0"):
        executable_of(path, FakeDriver((7, 5)), program).run(*given)
    with pytest.raises(Unsupported, match="compiled for sm_90, and  is sm_80"):
        executable_of(path, FakeDriver((8, 0)), program).run(*given)
    fake = FakeDriver()
    device = Gpu(Driver(fake))
    fake.statuses["cuMemAlloc_v2"] = 2
    with pytest.raises(ExecutionError, match=r"has no room for 1,024\.0 MB more"):
        device.allocate(1 << 30)
    fake = FakeDriver()
    fake.statuses["cuGraphLaunch"] = 700
    with pytest.raises(ExecutionError, match="refused cuGraphLaunch: status 700"):
        executable_of(path, fake, program).run(*given)


def test_sizes_survive_json() -> None:
    n, m = symbol("n"), symbol("m")
    for dim in (7, n * 3 + 1, (n + 31) // 32 * m, dim_max(n, m) % 5):
        known = {"n": 70, "m": 9}
        assert dim_value(dim_json(dim), known) == gh.ir.dim.evaluate(dim, known)


def test_what_cannot_be_compiled_for_is_said() -> None:
    with pytest.raises(Unsupported, match="sm_75 is too old"):
        gh.compile(chain(), target="cuda", arch="sm_75")
    with pytest.raises(Unsupported, match="no GPU architecture 'hopper'"):
        gh.compile(chain(), target="cuda", arch="hopper")
    with pytest.raises(TypeMismatch, match="the target is 'cpu'"):
        gh.compile(chain(), target="cpu", arch="sm_90")
    with pytest.raises(Unsupported, match="there is no target 'cpu:sm_90'"):
        gh.compile(chain(), target="cpu:sm_90")
