"""How `glasshouse bench` compares: all systems in turns in one run, medians side by side.

Short blocks in changing order meet the same noise. `benchmarks/cpu` measures more strictly, each
system in its own process.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any

from glasshouse.cli.count import at_least, positive
from glasshouse.model_argument import HELP as MODEL_HELP
from glasshouse.model_argument import Given

HELP = "time a compiled model against PyTorch and other peers that are installed"
Runs = dict[str, Callable[[], Any]]


def add_arguments(parser: ArgumentParser) -> None:
    """The model and how long to measure."""
    parser.add_argument("model", metavar="FILE", help=MODEL_HELP)
    parser.add_argument("--seconds", type=positive, default=2.0, help="of measuring a system (2)")
    parser.add_argument(
        "--rounds", type=at_least(1), default=8, help="turns that each system gets (8)"
    )
    parser.add_argument("--torch-compile", action="store_true", help="also torch.compile (slow)")


def run(args: Namespace) -> int:
    """Compile, check, measure, print."""
    import time

    from glasshouse.backend.cpu.threads import default_threads
    from glasshouse.cli.compare_outputs import outputs_of, relative_difference
    from glasshouse.cli.progress import Progress, say
    from glasshouse.model_argument import read_model, refuse_training
    from glasshouse.runtime.compiler import compile_optimized

    given = read_model(args.model)
    refuse_training(given, "bench compares models")
    progress = Progress()
    begin = time.perf_counter()
    try:
        module = compile_optimized(given.graph, "cpu", progress)
    finally:
        progress.end()
    say(f"compiled {given.name} in {time.perf_counter() - begin:.1f} s")
    systems: Runs = {"glasshouse": lambda: module(*given.inputs), **peers(given, args)}
    expected = outputs_of(systems["glasshouse"]())
    apart: dict[str, float] = {}
    for name, call in systems.items():
        say(f"warming up {name}")
        results = outputs_of(call())
        pairs = zip(results, expected, strict=True)
        apart[name] = max((relative_difference(a, b) for a, b in pairs), default=0.0)
    times = interleaved(systems, max(args.rounds, 1), args.seconds)
    print(f"{given.name}, {default_threads()} threads")
    print(table(times, apart))
    return 0


def peers(given: Given, args: Namespace) -> Runs:
    """Whoever else can run the model here."""
    from importlib.util import find_spec

    found: Runs = {}
    if hasattr(given.model, "state_dict") and type(given.model).__module__.split(".")[0] != (
        "glasshouse"
    ):
        import torch

        if isinstance(given.model, torch.nn.Module):
            found["pytorch eager"] = _inference(given.model, given)
            if args.torch_compile:
                found["torch.compile"] = _inference(torch.compile(given.model), given)
    if isinstance(given.model, str) and given.model.endswith(".onnx") and find_spec("onnxruntime"):
        found["onnxruntime"] = _onnxruntime(given.model, given.inputs)
    if not found:
        from glasshouse.numpy_ref.executor import run as run_reference
        from glasshouse.runtime.arrays import array_of

        arrays = [array_of(x) for x in given.inputs]
        found["numpy reference"] = lambda: run_reference(given.graph, arrays)
    return found


def _inference(model: Any, given: Given) -> Callable[[], Any]:
    import numpy as np
    import torch
    from torch.utils._pytree import tree_map

    args, keywords = tree_map(
        lambda x: torch.as_tensor(x) if isinstance(x, np.ndarray) else x,
        (given.args, given.keywords),
    )

    def call() -> Any:
        with torch.inference_mode():
            return model(*args, **keywords)

    return call


def _onnxruntime(path: str, inputs: tuple[Any, ...]) -> Callable[[], Any]:
    from importlib import import_module

    session = import_module("onnxruntime").InferenceSession(
        path, providers=["CPUExecutionProvider"]
    )
    fed = dict(zip((i.name for i in session.get_inputs()), inputs, strict=True))
    return lambda: session.run(None, fed)


def interleaved(systems: Runs, rounds: int, seconds: float) -> dict[str, list[float]]:
    """Milliseconds of single calls; every round gives each system a block, in another order."""
    import time

    times: dict[str, list[float]] = {name: [] for name in systems}
    names = list(systems)
    for number in range(rounds):
        for place in range(len(names)):
            name = names[(place + number) % len(names)]
            systems[name]()  # what the one before left in the caches is not this one's fault
            end = time.perf_counter() + seconds / rounds
            while True:
                begin = time.perf_counter()
                systems[name]()
                times[name].append((time.perf_counter() - begin) * 1e3)
                if time.perf_counter() >= end:
                    break
    return times


def table(times: dict[str, list[float]], apart: dict[str, float]) -> str:
    """Medians with their spread, and how many times as long as ours each takes."""
    import numpy as np

    ours = float(np.median(times["glasshouse"]))
    lines = [f"{'system':<17} {'median ms':>10} {'p10 .. p90':>21} {'/ ours':>7} {'apart':>9}"]
    for name, all_of in times.items():
        low, middle, high = (float(v) for v in np.percentile(all_of, (10, 50, 90)))
        spread = f"{low:.3f} .. {high:.3f}"
        ratio = middle / ours
        lines.append(f"{name:<17} {middle:10.3f} {spread:>21} {ratio:7.2f} {apart[name]:9.1e}")
    return "\n".join(lines)
