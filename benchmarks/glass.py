"""How far the figures of a recording and the limits of a diff can be trusted, on this machine.

Run: python benchmarks/glass.py [limits] [account] [recording]     all three without an argument

limits      `diff --runs 60 --max-slower 5%`: how often it fails on two builds of one model (200
            tries), and how often it finds a model that does a tenth more work (20 tries);
            `limits=20`: so many tries of the first, for a busy machine
account     models of the CPU table: kernels, copies and the call, over the wall time, and what the
            clock between kernels costs
recording   what recording the passes costs of compiling, and the page of BERT-base
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import glasshouse as gh
from glasshouse import nn
from glasshouse.checking.slower import in_turns
from glasshouse.nn import models
from glasshouse.passes import PassContext
from glasshouse.passes.pipeline import optimize_program
from glasshouse.runtime.account import measure_account
from glasshouse.runtime.compiler import compile_optimized

LIMIT, PAIRS = 1.05, 60
LAYERS, TRIES_OF_ONE = 40, 20


# --------------------------------------------------------------------------------------- limits
def chain(layers: int) -> Callable[[], Any]:
    """Equal layers that take 2 to 3 ms together, so that calling them does not count."""
    gh.manual_seed(0)
    x = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float32)
    graph = gh.trace(nn.Sequential(*[nn.Linear(256, 256) for _ in range(layers)]), x)
    module = compile_optimized(graph, "cpu", tune=False)
    return partial(module.run_flat, module.arguments([x]))


def limits(tries: int = 200) -> None:
    """A tenth more work: 44 layers instead of 40. Programs are built anew every 20 tries."""
    wrong, found, pairs = 0, 0, []
    for number in range(tries):
        if number % TRIES_OF_ONE == 0:
            one, twin = chain(LAYERS), chain(LAYERS)
        made = in_turns(one, twin, PAIRS, LIMIT)
        wrong += made.deciding.low > LIMIT
        pairs.append(made.wall.pairs)
    print(f"identical programs: past 5 % in {wrong} of {tries}, {np.mean(pairs):.0f} pairs a try")
    more, pairs, clocks = chain(LAYERS + LAYERS // 10), [], 0
    for _ in range(20):
        made = in_turns(one, more, PAIRS, LIMIT)
        found += made.deciding.low > LIMIT
        clocks += made.deciding is made.processor
        pairs.append(made.wall.pairs)
    print(
        f"a tenth more work:  past 5 % in {found} of 20 ({clocks} by the processor's clock), "
        f"{np.mean(pairs):.0f} pairs a try; last: {made}"
    )


# -------------------------------------------------------------------------------------- account
def account() -> None:
    sys.path.insert(0, str(Path(__file__).parent / "cpu"))
    import torch
    from workloads import WORKLOADS

    slower = []
    for work in WORKLOADS.values():
        model, inputs = work.build()
        if work.training:
            sgd = torch.optim.SGD(model.parameters(), lr=1e-3)
            module = gh.compile(gh.trace_training(model, work.loss, sgd, *inputs))
        else:
            module = gh.compile(model, *inputs, precision="bfloat16" if work.allowed else None)
        few = measure_account(module, inputs, 3)
        found = measure_account(module, inputs, int(np.clip(2.0 / np.median(few.wall), 11, 400)))
        wall = float(found.middle(found.wall))
        parts = [found.middle(found.steps).sum(), found.middle(found.copies)]
        parts.append(found.middle(found.calls))
        kernels, copies, calling = (float(p) / wall for p in parts)
        slower.append(float(np.median(found.wall / found.plain)) - 1)
        print(
            f"{work.name:22} wall {wall * 1e3:8.3f} ms: kernels {kernels:6.1%}, "
            f"copies {copies:5.1%}, calling {calling * wall * 1e6:6.1f} us ({calling:5.1%}), "
            f"together {kernels + copies + calling:.1%}; with a clock {slower[-1]:+.1%}",
            flush=True,
        )
    print(f"a clock makes a call slower by {np.median(slower):+.1%}, at most {max(slower):+.1%}")


# ------------------------------------------------------------------------------------ recording
def recording() -> None:
    gh.manual_seed(0)
    config = models.BertConfig(vocab_size=2000)
    words = np.random.default_rng(0).integers(1, 2000, (1, 128))
    graph = gh.trace(models.Bert(config).eval(), words)
    options = {"resolve_variant": {"measure": "none"}}
    plain, recorded = [], []
    for _ in range(7):
        for times, record in ((plain, False), (recorded, True)):
            context = PassContext(options=options)
            if record:
                context.record()
            begin = time.process_time()
            optimize_program(graph, context)
            times.append(time.process_time() - begin)
    with tempfile.TemporaryDirectory() as cache:
        before, os.environ["GLASSHOUSE_CACHE"] = os.environ.get("GLASSHOUSE_CACHE"), cache
        begin = time.perf_counter()
        module = compile_optimized(graph, "cpu", tune=False)
        took = time.perf_counter() - begin
        if before is None:
            del os.environ["GLASSHOUSE_CACHE"]
        else:
            os.environ["GLASSHOUSE_CACHE"] = before
    more = float(np.median(recorded) - np.median(plain))
    print(
        f"BERT-base, passes: {np.median(plain):.3f} s of processor time, recorded {more:+.3f} s; "
        f"compiling takes {took:.2f} s, of which recording is {more / took:.1%}"
    )
    page = gh.plot_graph(module.recording(words, count=3), Path(tempfile.mkdtemp(), "bert.html"))
    print(f"BERT-base, page: {page.stat().st_size / 1e6:.2f} MB")


PARTS: dict[str, Callable[..., None]] = {
    "limits": limits,
    "account": account,
    "recording": recording,
}

if __name__ == "__main__":
    for asked in sys.argv[1:] or PARTS:
        name, _, tries = asked.partition("=")
        PARTS[name](*([int(tries)] if tries else []))
