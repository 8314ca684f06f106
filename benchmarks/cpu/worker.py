"""What a measured process does: builds one system for one workload, then runs on request.

Requests and answers are lines of JSON, over pipes whose numbers are given on the command line.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peak import peak_mb
from systems import SYSTEMS, THREADS, Compiled
from workloads import STEPS_CHECKED, WORKLOADS

MOST_SAMPLES = 4000  # of a block; more would make answers long and medians no better


def as_array(result: Any) -> Any:
    if isinstance(result, torch.Tensor):
        return result.detach().double().numpy()
    return np.asarray(result, np.float64)


def build(system: str, workload: str, reference: Path) -> tuple[Any, dict[str, Any]]:
    """The call to time, how long it took to get its first result, and how far off it is.

    Compared with float64 are the output, or the losses of the first steps.
    """
    work = WORKLOADS[workload]
    model, inputs = work.build()
    count = STEPS_CHECKED if work.training else 1
    if system == "reference":
        given = tuple(x.double() if x.is_floating_point() else x for x in inputs)
        exact = replace(work, allowed=False)
        call = SYSTEMS["eager"].build(exact, model.double(), given, Path())
        np.save(reference, np.stack([as_array(call()) for _ in range(count)]))
        return None, {}
    begin = time.perf_counter()
    call = SYSTEMS[system].build(work, model, inputs, Path(os.environ["TMPDIR"]))
    first = as_array(call())
    seconds = time.perf_counter() - begin
    wanted = np.load(reference)
    got = np.stack([first, *(as_array(call()) for _ in range(count - 1))]).reshape(wanted.shape)
    error = float(np.abs(got - wanted).max() / np.abs(wanted).max())
    end = time.perf_counter() + 0.5
    for _ in range(3):
        call()
    while time.perf_counter() < end:
        call()
    return call, {"compile_s": seconds, "error": error}


def block(call: Any, seconds: float, processor: bool) -> dict[str, Any]:
    """Times of single calls for about `seconds`, at least three, and the CPU time used."""
    clock = time.process_time if processor else time.perf_counter
    samples: list[float] = []
    used, end = time.process_time(), clock() + seconds
    while len(samples) < 3 or clock() < end:
        begin = clock()
        call()
        samples.append((clock() - begin) * 1e3)
    step = len(samples) // MOST_SAMPLES + 1
    return {"ms": samples[::step], "cpu_s": time.process_time() - used}


def memory(call: Any) -> dict[str, Any]:
    """The peak until now; of our modules also that of a program which only loads and runs them."""
    answer: dict[str, Any] = {"peak_mb": peak_mb()}
    if isinstance(call, Compiled):
        answer["deployed_mb"] = call.deployed_mb(Path(os.environ["TMPDIR"]) / "saved")
    return answer


def main() -> None:
    system, workload, reference, read, write = sys.argv[1:]
    torch.set_num_threads(THREADS)
    call: Any = None
    with os.fdopen(int(read)) as requests, os.fdopen(int(write), "w", buffering=1) as answers:
        for line in requests:
            request = json.loads(line)
            try:
                with torch.inference_mode(not WORKLOADS[workload].training):
                    if request["do"] == "build":
                        call, answer = build(system, workload, Path(reference))
                    elif request["do"] == "block":
                        answer = block(call, request["seconds"], request["processor"])
                    else:
                        answer = memory(call)
            except Exception:
                answer = {"failed": traceback.format_exc(limit=-2)}
            answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
