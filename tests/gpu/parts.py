"""What users do with a GPU, each part a process of its own: torch.compile, training, Hugging Face
models, OpInfo, saved modules and C++, tutorials, compute-sanitizer.

Run: python tests/gpu/parts.py PART   prints a line for each check; `run.py` runs them all.
"""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "benchmarks")]

import numpy as np  # noqa: E402

FASTER = 1.15
"""How much faster than eager PyTorch the tutorial is to be."""
SHARES = 5
"""Processes that Hugging Face models are dealt to."""
OPINFO_SHARES = 60
"""Parts that PyTorch's ops are dealt to, of which two are run."""


def checked(title: str, check: Callable[[], str]) -> None:
    begin = time.perf_counter()
    try:
        said = check()
    except Exception as error:
        where = " | ".join(traceback.format_exc(limit=-4).split("\n")[1:])
        text = " ".join(str(error).split())[:400]
        print(f"FAILED {title}: {type(error).__name__}: {text} @ {where[:1500]}", flush=True)
        return
    print(f"ok     {title}: {said} ({time.perf_counter() - begin:.1f} s)", flush=True)


def error(ours: Any, theirs: Any) -> float:
    """The largest difference of all tensors, each relative to its largest element."""
    import torch
    from torch.utils import _pytree as pytree

    pairs = zip(pytree.tree_leaves(ours), pytree.tree_leaves(theirs), strict=True)
    worst = 0.0
    for mine, right in pairs:
        if not isinstance(right, torch.Tensor) or not right.numel():
            continue
        assert mine.device == right.device, f"{mine.device} instead of {right.device}"
        assert mine.dtype is right.dtype, f"{mine.dtype} instead of {right.dtype}"
        wide = right.double()
        scale = max(float(wide.abs().max()), 1e-6)
        worst = max(worst, float((mine.double() - wide).abs().max()) / scale)
    return worst


def registered() -> Any:
    """The backend by its name, also where the package is not installed."""
    import torch

    from glasshouse.frontend import dynamo

    if "glasshouse" not in torch._dynamo.list_backends():
        torch._dynamo.register_backend(dynamo.backend, name="glasshouse")
    return dynamo


def within(found: float, bound: float, more: str = "") -> str:
    if not found <= bound:  # NaN is no error below any bound
        raise AssertionError(f"error {found:.1e}, at most {bound:.0e} wanted{more}")
    return f"error {found:.1e}{more}"


def fallbacks(graphs: Any) -> str:
    from glasshouse.lower.program import Fallback

    steps = [s for g in graphs for s in g.runner.module.program.steps]
    fell = sorted({s.node.op.name for s in steps if isinstance(s, Fallback)})
    return f", {len(steps)} steps" + (f", through PyTorch: {', '.join(fell)}" if fell else "")


# ---------------------------------------------------------------------------------- torch.compile
def compile_() -> None:
    import torch
    from torch import nn

    from gpu.workloads import WORKLOADS

    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    dynamo = registered()

    def inference(name: str, dtype: Any, bound: float) -> str:
        torch._dynamo.reset()
        dynamo.reset()
        model, inputs = WORKLOADS[name].made(dtype)
        with torch.no_grad():
            run = torch.compile(model, backend="glasshouse", options={"executor": "compiled"})
            wanted = model.double()(*[x.double() for x in inputs]).to(dtype)
            model.to(dtype)
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            ours = run(*inputs)
            found = error(ours, wanted)
            again = run(*[x.clone() for x in inputs])
            assert torch.equal(ours, again), "two runs differ"
            first = next(model.parameters())
            first.mul_(0.5)
            changed = error(run(*inputs), model(*inputs))
        assert changed <= 4 * bound, f"after a weight has changed: {changed:.1e}"
        held = sum(g.runner.module._device.blocks.bytes for g in dynamo.compiled_graphs())
        weights = sum(p.nbytes for p in model.parameters())
        more = f", device memory of the module {held / 2**20:.1f} MB beside weights of "
        more += f"{weights / 2**20:.1f} MB ({before / 2**20:.1f} MB allocated by PyTorch)"
        return within(found, bound, fallbacks(dynamo.compiled_graphs()) + more)

    half, single = torch.float16, torch.float32
    for name, dtype, bound in (
        ("mlp b512 h1024", half, 5e-3), ("mlp b512 h1024", single, 1e-5),
        ("attn b1 s128 h768", half, 1e-2), ("resnet18 b1", half, 2e-2),
        ("resnet18 b1", single, 1e-4), ("bert-base b1 s128", half, 2e-2),
    ):  # fmt: skip
        kind = str(dtype).removeprefix("torch.")
        checked(f"torch.compile {name} {kind}", lambda a=(name, dtype, bound): inference(*a))

    def batches() -> str:
        torch._dynamo.reset()
        dynamo.reset()
        model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 8)).cuda()
        run = torch.compile(model, backend="glasshouse", dynamic=True)
        with torch.no_grad():
            found = max(error(run(x), model(x)) for x in
                        (torch.randn(n, 64, device="cuda") for n in (3, 17, 256, 5)))  # fmt: skip
        return within(found, 1e-4, f", {len(dynamo.compiled_graphs())} graphs")

    def from_the_host() -> str:
        torch._dynamo.reset()
        model = nn.Linear(16, 16).cuda()

        def whole(x: Any, scale: Any) -> Any:
            return (model(x.cuda()) * scale).cpu(), x + 1

        run = torch.compile(whole, backend="glasshouse", fullgraph=True)
        x, scale = torch.randn(4, 16), torch.tensor(2.5)
        with torch.no_grad():
            return within(error(run(x, scale), whole(x, scale)), 1e-4)

    checked("torch.compile dynamic batch", batches)
    checked("torch.compile input on the host", from_the_host)


# --------------------------------------------------------------------------------------- training
def training() -> None:
    import torch
    from torch import nn
    from torch.nn import functional as F

    import glasshouse as gh
    from cpu.models import ResNet

    dynamo = registered()
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False

    def steps(make: Any, batch: Any, bound: float, count: int = 3) -> str:
        torch._dynamo.reset()
        dynamo.reset()
        torch.manual_seed(0)
        first = make().cuda().train()
        second = copy.deepcopy(first)
        losses: list[list[float]] = []
        for model, compiled in ((first, False), (second, True)):
            run = torch.compile(model, backend="glasshouse", options={"executor": "compiled"})
            run = run if compiled else model
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
            losses.append([])
            for step in range(count):
                torch.manual_seed(step)
                loss = batch(run)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses[-1].append(float(loss))
        pairs = zip(second.parameters(), first.parameters(), strict=True)
        found = max(error(a, b) for a, b in pairs)
        shown = ", ".join(f"{x:.4f}" for x in losses[1])
        return within(found, bound, f", losses {shown}{fallbacks(dynamo.compiled_graphs())}")

    def images(run: Any) -> Any:
        x, y = torch.randn(8, 3, 64, 64, device="cuda"), torch.randint(0, 10, (8,), device="cuda")
        return F.cross_entropy(run(x)[:, :10], y)

    def gpt2() -> Any:
        import transformers as T

        config = T.GPT2Config(
            vocab_size=500, n_embd=96, n_layer=3, n_head=6, n_positions=64, resid_pdrop=0,
            embd_pdrop=0, attn_pdrop=0, use_cache=False,
        )  # fmt: skip
        return T.GPT2LMHeadModel(config)

    def text(run: Any) -> Any:
        ids = torch.randint(0, 500, (4, 48), device="cuda")
        return run(input_ids=ids, labels=ids).loss

    def mlp() -> Any:
        return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 10))

    def rows(run: Any) -> Any:
        x, y = torch.randn(32, 64, device="cuda"), torch.randint(0, 10, (32,), device="cuda")
        return F.cross_entropy(run(x), y)

    class Tagger(nn.Module):
        def __init__(self, layer: Any) -> None:
            super().__init__()
            self.layer, self.last = layer(64, 128, 2, bidirectional=True), nn.Linear(256, 10)

        def forward(self, x: Any) -> Any:
            return self.last(self.layer(x)[0])

    def tags(run: Any) -> Any:
        y = torch.randint(0, 10, (30, 8), device="cuda")
        return F.cross_entropy(
            run(torch.randn(30, 8, 64, device="cuda")).flatten(0, 1), y.flatten()
        )

    checked("train MLP", lambda: steps(mlp, rows, 1e-4))
    for layer in (nn.LSTM, nn.GRU, nn.RNN):
        checked(
            f"train {layer.__name__}", lambda kind=layer: steps(lambda: Tagger(kind), tags, 1e-3)
        )
    checked("train ResNet-18", lambda: steps(lambda: ResNet(18), images, 2e-3))
    checked("train GPT-2", lambda: steps(gpt2, text, 2e-3))

    def whole_step() -> str:
        """Forward, backward and optimiser as one module with variables."""
        torch.manual_seed(0)
        model = mlp().cuda()
        twin = copy.deepcopy(model)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        x, y = torch.randn(32, 64, device="cuda"), torch.randint(0, 10, (32,), device="cuda")
        graph = gh.trace_training(model, F.cross_entropy, optimizer, x, y)
        module = gh.compile(graph, target="cuda", progress=False)
        theirs = torch.optim.Adam(twin.parameters(), lr=1e-3)
        worst = 0.0
        for _ in range(4):
            loss = F.cross_entropy(twin(x), y)
            theirs.zero_grad()
            loss.backward()
            theirs.step()
            worst = max(worst, abs(float(module(x, y)) - float(loss)))
        held = module.held()
        for name, p in twin.named_parameters():
            worst = max(worst, float(np.abs(held[name] - p.detach().cpu().numpy()).max()))
        return within(worst, 1e-4)

    checked("train MLP as one module with Adam", whole_step)


# --------------------------------------------------------------------------- Hugging Face, OpInfo
HF = [
    "bert", "gpt2", "llama", "vit", "resnet", "roberta", "distilbert", "albert", "electra",
    "deberta", "deberta_v2", "mpnet", "xlnet", "squeezebert", "mobilebert",
    "convbert", "longformer", "big_bird", "fnet", "gpt_neox", "opt", "gptj", "bloom", "falcon",
    "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi", "phi3", "stablelm", "cohere", "olmo",
    "granite", "mixtral", "t5", "bart", "pegasus", "mbart", "marian", "blenderbot", "deit",
    "beit", "swin", "convnext", "convnextv2", "mobilenet_v1", "mobilenet_v2", "segformer",
    "dinov2", "poolformer", "regnet", "levit", "pvt", "clip", "siglip", "whisper", "wav2vec2",
    "hubert", "detr", "yolos",
]  # fmt: skip


def hf(share: int) -> None:
    import torch

    import glasshouse as gh
    from hf_models import CASES, build

    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    chosen = [n for n in HF if n in CASES]
    chosen += [n for n in CASES if n not in chosen]
    chosen = chosen[:62]  # some may not build with another version of transformers

    def one(name: str) -> str:
        from torch.utils import _pytree as pytree

        try:
            model, inputs = build(name)
        except Exception as problem:
            return f"not in this transformers ({type(problem).__name__})"
        model = model.cuda()
        inputs = pytree.tree_map(lambda t: t.cuda() if isinstance(t, torch.Tensor) else t, inputs)
        with torch.no_grad():
            wanted = copy.deepcopy(model)(**copy.deepcopy(inputs))
            module = gh.compile(model, **inputs, progress=False, tune=False)
            ours = module(**inputs)
        leaves = [[t for t in pytree.tree_leaves(out) if isinstance(t, torch.Tensor)]
                  for out in (ours, wanted)]  # fmt: skip
        if not hasattr(module, "program"):
            return within(error(*leaves), 2e-4, ", in parts")
        from glasshouse.lower.program import Fallback

        fell = sorted({s.node.op.name for s in module.program.steps if isinstance(s, Fallback)})
        more = f", {len(module.program.steps)} steps" + (
            f", without kernel: {fell}" if fell else ""
        )
        return within(error(*leaves), 2e-4, more)

    for name in chosen[share::SHARES]:
        checked(f"hf {name}", lambda name=name: one(name))


def opinfo(group: int) -> None:
    import unittest
    from types import ModuleType

    if "expecttest" not in sys.modules and find_spec("expecttest") is None:
        stub: Any = ModuleType("expecttest")  # PyTorch's table asks for its name alone
        stub.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stub
    import torch
    from torch.utils import _pytree as pytree

    import glasshouse as gh
    from opinfo.samples import samples_of
    from opinfo.suite import Applied, is_random, same
    from opinfo.table import load

    def one(name: str) -> str:
        applied = (Applied(name, sample) for sample in samples_of(name))
        op = next((a for a in applied if a.tensors and not is_random(a)), None)
        if op is None:
            return "random"
        given = [t.cuda() for t in op.tensors]
        with torch.no_grad():
            wanted = op.wanted_of(*[t.clone() for t in given])
        module = gh.compile(op, *given, progress=False, tune=False)
        ours = module(*[t.clone() for t in given])
        on_host = [[t.cpu() if isinstance(t, torch.Tensor) else t for t in pytree.tree_leaves(out)]
                   for out in (ours, wanted)]  # fmt: skip
        same(*on_host, "results")
        return "equal"

    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    table = load()
    loose = table.more["captured by running once"]
    fine = [n for n, (state, _) in table.states.items() if state == "ok" and n not in loose]
    names = [n for n in fine if zlib.crc32(n.encode()) % OPINFO_SHARES == group]
    assert names
    found: list[str] = []
    wrong = []
    for name in names:
        try:
            found.append(one(name))
        except Exception as problem:
            wrong.append(f"{name}: {type(problem).__name__} {' '.join(str(problem).split())[:160]}")
    state = "ok    " if not wrong else "FAILED"
    counts = (
        f"{found.count('equal')} of {len(names)} equal, {found.count('random')} only draw numbers"
    )
    print(f"{state} opinfo share {group}: {counts} {'; '.join(wrong)}", flush=True)


# ------------------------------------------------------------------------------ saved, tutorials
def saved() -> None:
    import torch

    import glasshouse as gh
    from cpu.models import ResNet

    def whole(make: Any, shape: tuple[int, ...], dtype: Any, bound: float) -> str:
        torch.manual_seed(0)
        model = make().cuda().to(dtype).eval()
        x = torch.randn(shape, device="cuda").to(dtype)
        with torch.no_grad():
            wanted = model.double()(x.double()).to(dtype)
            model = model.to(dtype)
        folder = Path(tempfile.mkdtemp())
        module = gh.compile(model, x, progress=False)
        module.save(folder / "saved", "net")
        again = gh.load(folder / "saved")
        # Not the live module's: that may call libraries, and round to TF32.
        loaded = again(x)
        within(error(loaded, wanted), bound, ", a loaded module")
        x.cpu().numpy().tofile(folder / "x.bin")
        shutil.copy(HERE / "saved.cpp", folder / "main.cpp")
        place = folder / "saved"
        subprocess.run(["g++", "-std=c++17", "-O1", str(folder / "main.cpp"), "-o",
                        str(folder / "app"), f"-I{place}", f"-L{place}", "-lnet",
                        f"-Wl,-rpath,{place}", "-ldl"], check=True)  # fmt: skip
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        done = subprocess.run([str(folder / "app"), str(folder)], check=False, env=clean,
                              capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        kind = np.float16 if dtype is torch.float16 else np.float32
        mine = torch.from_numpy(np.fromfile(folder / "y.bin", kind)).reshape(wanted.shape).cuda()
        assert torch.equal(mine, loaded), "a C++ program gives other results"
        size = sum(f.stat().st_size for f in place.rglob("*") if f.is_file())
        said = f", {size / 2**20:.1f} MB, C++: {done.stdout.strip()}"
        return within(error(mine, wanted), bound, said)

    def mlp() -> Any:
        return torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(),
                                   torch.nn.Linear(512, 64), torch.nn.Softmax(-1))  # fmt: skip

    checked("saved MLP float16, C++", lambda: whole(mlp, (64, 256), torch.float16, 1e-2))
    checked("saved ResNet-18 float32, C++",
            lambda: whole(lambda: ResNet(18), (1, 3, 224, 224), torch.float32, 1e-5))  # fmt: skip


def tutorials() -> None:
    import torch

    import glasshouse.compat.hidet as hidet
    from glasshouse.compat.aitemplate.compiler import compile_model
    from glasshouse.compat.aitemplate.frontend import Tensor
    from glasshouse.compat.aitemplate.testing import detect_target
    from glasshouse.compat.aitemplate.testing.benchmark_pt import benchmark_torch_function
    from glasshouse.numpy_ref import run

    sys.path.insert(0, str(HERE.parents[1] / "examples"))
    import aitemplate_mlp
    import attention

    def inference(batch: int = 1024, hidden: int = 512) -> str:
        torch.manual_seed(0)
        theirs = aitemplate_mlp.TorchMlp(hidden).cuda().half().eval()
        x = torch.randn(batch, hidden).cuda().half()
        ours = aitemplate_mlp.Mlp(hidden)
        ours.name_parameter_tensor()
        weights = {n.replace(".", "_"): p.detach() for n, p in theirs.named_parameters()}
        given = Tensor(shape=[batch, hidden], name="X", dtype="float16", is_input=True)
        result = ours(given)
        result._attrs["is_output"] = True
        result._attrs["name"] = "Y"
        with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
            target = detect_target()
            assert target.name() == "cuda"
            with compile_model(result, target, folder, "mlp", constants=weights) as model:
                y = torch.empty(batch, hidden).cuda().half()
                model.run_with_tensors({"X": x}, [y])
                found = error(y, theirs(x))
                turns = [
                    (
                        model.benchmark_with_tensors([x], [y], count=100)[0],
                        benchmark_torch_function(100, theirs, x),
                    )
                    for _ in range(5)
                ]
        mean, eager = (min(column) for column in zip(*turns, strict=True))
        said = f", {mean * 1e3:.1f} us a call, eager {eager * 1e3:.1f} us: {eager / mean:.2f} times"
        if eager < FASTER * mean:
            raise AssertionError(f"slower than {FASTER} times eager's speed{said}")
        return within(found, 5e-3, said)

    def flow_graph() -> str:
        layer = attention.SelfAttention()
        x = hidet.randn([1, 128, 768], device="cuda")
        mask = hidet.ones([1, 128], dtype="int32", device="cuda")
        graph = layer.flow_graph_for(inputs=[x, mask])
        with hidet.graph.PassContext():
            graph_opt = hidet.graph.optimize(graph)
        (wanted,) = run(graph, [x.numpy(), mask.numpy()])
        ours = graph_opt(x, mask)
        assert ours.device == graph_opt.device == "cuda"
        found = float(np.abs(ours.numpy() - wanted).max() / np.abs(wanted).max())
        weights = [torch.from_numpy(p.numpy().copy()).cuda() for p in layer.parameters()]
        given = [torch.from_numpy(t.numpy().copy()).cuda() for t in (x, mask)]

        def eager(x: Any, mask: Any) -> Any:
            q, k, v = (
                (x @ w + b).view(1, 128, 12, 64).transpose(1, 2)
                for w, b in zip(weights[::2], weights[1::2], strict=True)
            )
            scores = q @ k.transpose(-1, -2) / 8 + mask
            return (scores.softmax(-1) @ v).transpose(1, 2).reshape(1, 128, 768)

        with torch.inference_mode():
            assert error(torch.from_numpy(ours.numpy().copy()).cuda(), eager(*given)) < 1e-4
            theirs = benchmark_torch_function(100, eager, *given)
        mine = graph_opt.latency(number=100)
        said = (
            f", {mine * 1e3:.1f} us a run, eager {theirs * 1e3:.1f} us: {theirs / mine:.2f} times"
        )
        return within(found, 1e-4, said)

    checked("AITemplate's inference tutorial", inference)
    checked("flow-graph tutorial", flow_graph)


def other_products() -> None:
    import products
    import sequences
    import torch
    from torch import nn

    for title, function, inputs, bound in (*products.of_float64(), *products.of_groups()):
        checked(title, lambda f=function, x=inputs, b=bound: sequences.compared(f, x, b))
    bounds = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 1e-5}
    for dtype, bound in bounds.items():
        for activation in (nn.ReLU(), nn.GELU(approximate="tanh")):

            def library(
                dtype: Any = dtype, activation: Any = activation, most: float = bound
            ) -> str:
                made, wanted, said = products.by_library(activation, dtype)
                return within(error(made, wanted), most, f", {said}")

            checked(f"cuBLASLt {dtype} {activation}", library)
    for shape, columns, dtype, zero in (
        ((5, 33), 70, "uint8", 3), ((1024, 1024), 512, "uint8", 128), ((70, 160), 40, "int8", -5),
        ((2, 16, 9, 8), 40, "uint8", 0), ((8, 64, 28, 28), 64, "int8", 0),
    ):  # fmt: skip
        graph = products.quantised(shape, columns, dtype, zero)
        checked(f"int8 {shape} {dtype}", lambda graph=graph: products.as_on_the_host(graph))
    e4, e5 = torch.float8_e4m3fn, torch.float8_e5m2
    for kind in (e4, e5):
        checked(f"casts to {kind}", lambda kind=kind: products.bytes_of_float8(kind))
    for sizes, kinds, by_row in (
        ((64, 48, 32), (e4, e4), False), ((100, 160, 272), (e4, e5), True),
        ((1024, 4096, 1024), (e5, e4), True), ((2048, 2048, 4096), (e4, e4), False),
    ):  # fmt: skip

        def narrow(sizes: Any = sizes, kinds: Any = kinds, by_row: bool = by_row) -> str:
            made, wanted, theirs = products.of_float8(sizes, kinds, by_row)
            return within(error([made], [wanted]), 5e-3, f", PyTorch's {theirs:.1e}")

        checked(f"float8 {sizes} {kinds}", narrow)


def images() -> None:
    import convolutions

    for title, check in convolutions.checks():
        checked(title, check)


def in_sequence() -> None:
    import sequences
    import torch

    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    for cases in (sequences.orders, sequences.places, sequences.layers, sequences.transforms):
        for title, function, inputs, bound in cases():
            checked(title, lambda f=function, x=inputs, b=bound: sequences.compared(f, x, b))


# -------------------------------------------------------------------------------------- sanitizer
def kernels() -> None:
    """A share of all kernels, without PyTorch's: what compute-sanitizer looks at."""
    from run import on_gpu

    from cuda_samples import FEW, family_program
    from glasshouse.numpy_ref import run as reference
    from glasshouse.runtime.compiler import compile_graph
    from ops.harness import assert_close
    from primitive_models import gpt2, resnet_block

    for name in (
        "matmul", "attention", "norm", "reduce", "index", "pool", "conv", "softmax", "fourier",
    ):  # fmt: skip
        program, arrays, names = family_program(FEW[name])
        module = compile_graph(program.graph, on_gpu())
        made = module(*arrays)
        made = made if isinstance(made, tuple) else (made,)
        wanted = reference(program.graph, arrays)
        for (op, dtype, tol), mine, theirs, value in zip(
            names, made, wanted, program.graph.outputs, strict=True
        ):
            assert_close(mine, theirs, value.type.dtype.name, tol * 20, f"{op} {dtype}")
    import glasshouse as gh

    for make in (gpt2, resnet_block):
        graph = make()
        random = np.random.default_rng(0)
        arrays = [random.standard_normal(v.type.shape).astype(v.type.dtype.carrier)
                  if v.type.dtype.is_float else random.integers(0, 8, v.type.shape)
                  for v in graph.inputs]  # fmt: skip
        gh.compile(graph, target="cuda", progress=False)(*arrays)
    print("kernels ran", flush=True)


def sanitized(tool: str, part: str) -> subprocess.CompletedProcess[str]:
    """A part under a tool of compute-sanitizer."""
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    line = [program, "--tool", tool, "--error-exitcode", "9", sys.executable, __file__, part]
    return subprocess.run(line, check=False, capture_output=True, text=True)


def sanitizer(tool: str) -> None:
    def run() -> str:
        done = sanitized(tool, "kernels")
        said = [
            x for x in done.stdout.splitlines() if "ERROR SUMMARY" in x or "RACECHECK SUMMARY" in x
        ]
        if done.returncode or "kernels ran" not in done.stdout:
            raise AssertionError(
                f"exit {done.returncode}: {done.stdout[-1500:]} {done.stderr[-800:]}"
            )
        return said[-1].strip("= ") if said else "no summary"

    checked(f"compute-sanitizer {tool}", run)


# ------------------------------------------------------------------------------------------- ops
OPS, ALONE_OPS = "ops ", "samples of "


def ops(name: str) -> None:
    """All samples of a family of ops; of a fault compute-sanitizer tells in which kernel it is."""
    from run import families, family

    from glasshouse.errors import ExecutionError

    def run() -> str:
        try:
            return family(families()[name])
        except ExecutionError as error:
            if "illegal" not in str(error):
                raise
            found = sanitized("memcheck", f"{ALONE_OPS}{name}").stdout.splitlines()
            where = " | ".join(x.strip("= ") for x in found if x.startswith("========="))
            raise AssertionError(f"a fault: {where}") from error

    checked(f"{OPS}{name}", run)


def samples_of(name: str) -> None:
    from run import families, family

    print(family(families()[name]))


ALONE = ("tutorials",)
"""Parts that are held to times: nothing runs beside them."""
PARTS: dict[str, Callable[[], None]] = {
    "compile": compile_, "training": training, "saved": saved, "tutorials": tutorials,
    "products": other_products, "sequences": in_sequence, "images": images,
    **{f"hf{i}": lambda i=i: hf(i) for i in range(SHARES)},
    "opinfo0": lambda: opinfo(0), "opinfo1": lambda: opinfo(1),
    "memcheck": lambda: sanitizer("memcheck"), "racecheck": lambda: sanitizer("racecheck"),
}  # fmt: skip

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    part = sys.argv[1]
    if part.startswith(OPS):
        ops(part.removeprefix(OPS))
    elif part.startswith(ALONE_OPS):
        samples_of(part.removeprefix(ALONE_OPS))
    else:
        kernels() if part == "kernels" else PARTS[part]()
