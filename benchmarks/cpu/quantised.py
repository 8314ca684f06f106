"""Quantised ONNX models: ours in turns with ONNX Runtime and OpenVINO, and against exact numbers.

    python benchmarks/cpu/quantised.py [names...] [--folder DIR] [--seconds 3] [--threads 2]
    python benchmarks/cpu/quantised.py --threads 1 --processor-time      beside other work

Models are those of the table, or named ones of `image_models.py`, exported by PyTorch and quantised
by ONNX Runtime's own tool (QDQ, activations of uint8, weights of int8 by channel), and are kept in
the folder. A row gives the best and the median time of a call in milliseconds, and how many times
ours they are; `--check` adds how far results are from the reference's.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from image_models import MobileNetV2, ResNeXt, UNet
from workloads import WORKLOADS

import glasshouse as gh
from glasshouse.numpy_ref import run

Call = Callable[[], Any]
Arrays = dict[str, np.ndarray]
NAMES = ("mlp_1024x512", "resnet18", "bert")
_IMAGES = {"mobilenet_v2": (MobileNetV2, 224), "resnext50": (ResNeXt, 224), "unet": (UNet, 128)}
CALIBRATED_ON = 4


def built(name: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    if name in WORKLOADS:
        return WORKLOADS[name].build()
    torch.manual_seed(0)
    make, size = _IMAGES[name]
    return make().eval().requires_grad_(False), (torch.rand(1, 3, size, size),)


def inputs_of(name: str, seed: int = 0) -> Arrays:
    """Inputs like those of the table: normal numbers, images between 0 and 1, a mask as it is."""
    _, given = built(name)
    torch.manual_seed(seed)
    first = torch.rand_like(given[0]) if given[0].dim() == 4 else torch.randn_like(given[0])
    return {f"x{i}": x.numpy() for i, x in enumerate((first, *given[1:]))}


class _Samples:
    """What ONNX Runtime's tool reads ranges from."""

    def __init__(self, name: str) -> None:
        self.left: Iterator[Arrays] = (inputs_of(name, seed) for seed in range(CALIBRATED_ON))

    def get_next(self) -> Arrays | None:
        return next(self.left, None)


def made(name: str, folder: Path) -> Path:
    """The quantised model's file; made where there is none yet."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    path = folder / f"{name}.int8.onnx"
    if path.exists():
        return path
    model, given = built(name)
    plain, prepared = folder / f"{name}.onnx", folder / f"{name}.prepared.onnx"
    names = [f"x{i}" for i in range(len(given))]
    torch.onnx.export(
        model, given, plain, input_names=names, output_names=["y"], dynamo=True,
        external_data=False, verbose=False,
    )  # fmt: skip
    quant_pre_process(plain, prepared, skip_symbolic_shape=True)
    quantize_static(
        prepared, path, _Samples(name), quant_format=QuantFormat.QDQ, per_channel=True,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
    )  # fmt: skip
    return path


def onnxruntime(path: Path, given: Arrays, threads: int) -> Call:
    import onnxruntime as runtime

    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in given.items():
        binding.bind_cpu_input(name, array)
    binding.bind_output("y", "cpu")

    def call() -> Any:
        session.run_with_iobinding(binding)
        return binding.get_outputs()[0].numpy()

    return call


def openvino(path: Path, given: Arrays, threads: int) -> Call:
    import openvino as ov

    hints = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}
    core = ov.Core()
    request = core.compile_model(core.read_model(path), "CPU", hints).create_infer_request()
    for name, array in given.items():
        request.set_tensor(name, ov.Tensor(array, shared_memory=True))

    def call() -> Any:
        request.infer()
        return request.get_output_tensor(0).data

    return call


def glasshouse(path: Path, given: Arrays, threads: int) -> Call:
    module = gh.compile(str(path), *given.values(), threads=threads)
    result = np.empty(module.graph.outputs[0].type.shape, np.float32)

    def call() -> Any:
        module.run_with_tensors(tuple(given.values()), [result])
        return result

    return call


SYSTEMS = {"glasshouse": glasshouse, "onnxruntime": onnxruntime, "openvino": openvino}


def timed(
    calls: dict[str, Call], seconds: float, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Milliseconds of each call, in turns of a tenth of a second."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end:
        for name, call in calls.items():
            call()  # fetches what the others have driven out
            until = time.perf_counter() + 0.1
            while time.perf_counter() < until:
                begin = clock()
                call()
                times[name].append((clock() - begin) * 1e3)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--folder", type=Path, default=Path("build/quantised"))
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--systems", nargs="*", default=list(SYSTEMS))
    parser.add_argument("--processor-time", action="store_true", help="of all threads")
    parser.add_argument("--check", action="store_true", help="results against the reference's")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.names:
        path, given = made(name, args.folder), inputs_of(name)
        calls = {s: SYSTEMS[s](path, given, args.threads) for s in args.systems}
        clock = time.process_time if args.processor_time else time.perf_counter
        rows = {
            system: (min(times), statistics.median(times))
            for system, times in timed(calls, args.seconds, clock).items()
        }
        ours = rows[args.systems[0]]
        for system, (best, median) in rows.items():
            print(f"{name:14} {system:12} best {best:7.2f} ({best / ours[0]:4.2f})  median "
                  f"{median:7.2f} ({median / ours[1]:4.2f}) ms", flush=True)  # fmt: skip
        if args.check:
            exact = run(gh.trace(str(path), *given.values()), list(given.values()))[0]
            for system, call in calls.items():
                error = np.abs(np.asarray(call()) - exact).max() / np.abs(exact).max()
                print(f"{name:14} {system:12} off by {error:.1e} of the largest element")


if __name__ == "__main__":
    main()
