"""Measures training loops of lazy tensors against the same step compiled as a whole, and eager.

Run: python benchmarks/lazy_loops.py [mlp] [resnet18] [--first]

The MLP is 256-512-10 at batch 128, ResNet-18 sees 2 pictures of 224 x 224. All loops stand in one
process and take turns of a few steps; a ratio is the median over the rounds, to the compiled step
(`gh.trace_training`) that had its turn in the same round. `same` gives the same tensors in every
step, `new` makes them anew from other arrays, as a data loader does. All begin with the same
weights; `loss` is how far the losses of the first steps lie apart, relative to eager's.

Below stands where a lazy step's time goes, in microseconds of wall time: `data` makes tensors from
arrays, `record` is the model and its loss, `find` is the optimiser's step without `call`, which is
the compiled step itself (data checked, loss made, kernels).

`--first` shows each of the first steps of a fresh loop instead, until they are compiled; the cache
of compiled kernels decides what that takes (XDG_CACHE_HOME=an empty folder: from nothing).
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch

import glasshouse as gh
import glasshouse.compat.jittor as jt
from glasshouse import nn
from glasshouse.nn import functional as F
from glasshouse.nn.models.resnet import resnet18
from glasshouse.tensor.execute import current_executor

Step = Callable[[], Any]  # one training step; gives its loss
Arrays = tuple[np.ndarray, np.ndarray]

TURN = 0.03
"""Seconds of one turn."""
POOL = 8
"""Batches that loops with new arrays go through."""
BEFORE, LONG_BEFORE = 2, 12
"""Steps that are not measured: of a loop that was met before, and of one that was not."""
FIRST = 4
"""Steps whose losses are compared."""


class Workload:
    """A model in three spellings, with its data and how many rounds it is worth."""

    def __init__(self, rounds: int, batches: list[Arrays]) -> None:
        self.rounds = rounds
        self.batches = batches

    def eager(self) -> torch.nn.Module:
        raise NotImplementedError

    def own(self) -> nn.Module:
        raise NotImplementedError

    def jittor(self) -> nn.Module:
        return self.own()


class TwoLayers(jt.Module):
    """The MLP as Jittor's users write it."""

    def __init__(self) -> None:
        self.layer1 = jt.nn.Linear(256, 512)
        self.relu = jt.nn.Relu()
        self.layer2 = jt.nn.Linear(512, 10)

    def execute(self, x: Any) -> Any:
        return self.layer2(self.relu(self.layer1(x)))


class Mlp(Workload):
    def __init__(self) -> None:
        super().__init__(40, _batches((128, 256), 10))

    def eager(self) -> torch.nn.Module:
        layers = torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)
        return torch.nn.Sequential(*layers)

    def own(self) -> nn.Module:
        return nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))

    def jittor(self) -> nn.Module:
        return TwoLayers()


class ResNet(Workload):
    def __init__(self) -> None:
        super().__init__(8, _batches((2, 3, 224, 224), 1000))

    def eager(self) -> torch.nn.Module:
        sys.path.append(str(Path(__file__).parent / "cpu"))
        from models import ResNet as OfPyTorch

        return OfPyTorch(18)

    def own(self) -> nn.Module:
        return resnet18()


WORKLOADS: dict[str, Callable[[], Workload]] = {"mlp": Mlp, "resnet18": ResNet}
RATES = {"SGD": 0.01, "Adam": 0.001}


def _batches(shape: tuple[int, ...], classes: int) -> list[Arrays]:
    rng = np.random.default_rng(0)
    return [
        (rng.standard_normal(shape, np.float32), rng.integers(0, classes, shape[:1]))
        for _ in range(POOL)
    ]


# --------------------------------------------------------------------------------------- the loops
def eager_loop(work: Workload, optimiser: str, fresh: bool, start: dict[str, Any]) -> Step:
    model = work.eager()
    model.load_state_dict(start)
    optim = getattr(torch.optim, optimiser)(model.parameters(), lr=RATES[optimiser])
    pool = cycle(work.batches)
    held = [torch.from_numpy(a) for a in work.batches[0]]

    def step() -> Any:
        x, y = (torch.tensor(a) for a in next(pool)) if fresh else held
        optim.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optim.step()
        return loss.detach()

    return step


def compiled_loop(work: Workload, optimiser: str, fresh: bool, start: dict[str, Any]) -> Step:
    model = work.eager()
    model.load_state_dict(start)
    optim = getattr(torch.optim, optimiser)(model.parameters(), lr=RATES[optimiser])
    x, y = (torch.from_numpy(a) for a in work.batches[0])
    graph = gh.trace_training(model, torch.nn.functional.cross_entropy, optim, x, y)
    module = gh.compile(graph, progress=False)
    pool = cycle(work.batches)
    held = work.batches[0]

    def step() -> Any:
        return module(*(next(pool) if fresh else held))

    return step


class LazyLoop:
    """A loop of lazy tensors; stages of a step can be clocked."""

    def __init__(
        self, work: Workload, optimiser: str, fresh: bool, start: dict[str, Any], way: str
    ) -> None:
        self.model = work.jittor() if way == "jittor" else work.own()
        if self.model.state_dict().keys() != start.keys():  # other names, in the same order
            start = dict(zip(self.model.state_dict(), start.values(), strict=True))
        self.model.load_state_dict(start)
        made = jt.optim if way == "jittor" else gh.optim
        self.optim = getattr(made, optimiser)(self.model.parameters(), lr=RATES[optimiser])
        self.loss = jt.nn.cross_entropy_loss if way == "jittor" else F.cross_entropy
        self.array = jt.array if way == "jittor" else gh.array
        self.fresh, self.apart = fresh, way == "backward"
        self.pool = cycle(work.batches)
        self.held = [self.array(a) for a in work.batches[0]]
        self.stages = {"data": 0.0, "record": 0.0, "step": 0.0}

    def __call__(self) -> Any:
        x, y = (self.array(a) for a in next(self.pool)) if self.fresh else self.held
        loss = self.loss(self.model(x), y)
        self._update(loss)
        return loss

    def clocked(self) -> None:
        """One step whose stages are added to `stages`."""
        now = time.perf_counter
        times = [now()]
        x, y = (self.array(a) for a in next(self.pool)) if self.fresh else self.held
        times.append(now())
        loss = self.loss(self.model(x), y)
        times.append(now())
        self._update(loss)
        times.append(now())
        for name, begin, end in zip(self.stages, times, times[1:], strict=False):
            self.stages[name] += end - begin

    def _update(self, loss: Any) -> None:
        if self.apart:
            self.optim.zero_grad()
            loss.backward()
            self.optim.step()
        else:
            self.optim.step(loss)


LOOPS: dict[str, Callable[..., Step]] = {
    "compiled": compiled_loop,
    "eager": eager_loop,
    **{
        way: lambda *given, way=way: LazyLoop(*given, way)  # type: ignore[misc]  # the default binds it
        for way in ("own", "backward", "jittor")
    },
}


# ------------------------------------------------------------------------------------- measurement
def warmed(loop: Step) -> list[float]:
    """The losses of the first steps; then all is compiled that will be."""
    losses = [float(loop()) for _ in range(FIRST)]
    if isinstance(loop, LazyLoop):
        settle = current_executor().settle  # type: ignore[attr-defined]  # a lazy one has it
        for _ in range(4):  # what is run until it has cost enough to be compiled
            begin = time.perf_counter()
            while time.perf_counter() < begin + 0.3:
                loop()
            settle()
    loop()
    return losses


def turn(loop: Step, steps: int) -> tuple[float, float]:
    """Seconds of a step: wall and processor, after some that fill caches."""
    for number in range(BEFORE + steps):  # at one line: from another one it is another loop
        if number == BEFORE:
            wall, spent = time.perf_counter(), time.process_time()
        loss = loop()
    float(loss)
    return (time.perf_counter() - wall) / steps, (time.process_time() - spent) / steps


def in_turns(loops: dict[str, Step], rounds: int) -> dict[str, list[tuple[float, float]]]:
    steps = {name: max(1, round(TURN / turn(loop, 2)[0])) for name, loop in loops.items()}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in loops}
    gc.collect()
    order = random.Random(0)
    for _ in range(rounds):
        for name in order.sample(list(loops), len(loops)):
            time.sleep(0.01)  # PyTorch's idle threads spin for a while, on the processors of others
            found[name].append(turn(loops[name], steps[name]))
    return found


class Calls:
    """Seconds inside the calls that run a compiled step of a loop."""

    def __init__(self, loop: LazyLoop) -> None:
        self.seconds = 0.0
        self.loop = loop

    def begin(self) -> None:
        self.bound = self.loop.optim._steps._bound  # None where steps are found by their keys
        kind = self.kind = type(current_executor())
        self.before = kind.run_compiled  # type: ignore[attr-defined]  # a lazy one has it
        kind.run_compiled = self._clocked(self.before)  # type: ignore[attr-defined]  # a lazy one has it
        if self.bound is not None:
            self.runs = self.bound._runs
            self.bound._runs = [self._clocked(run) for run in self.runs]

    def end(self) -> None:
        self.kind.run_compiled = self.before  # type: ignore[attr-defined]  # a lazy one has it
        if self.bound is not None:
            self.bound._runs = self.runs

    def _clocked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            begin = time.perf_counter()
            try:
                return function(*args)
            finally:
                self.seconds += time.perf_counter() - begin

        return run


def where(loop: LazyLoop, steps: int) -> dict[str, float]:
    """Microseconds of each stage of a lazy step."""
    calls = Calls(loop)
    for number in range(LONG_BEFORE + steps):
        if number == LONG_BEFORE:
            loop.stages = dict.fromkeys(loop.stages, 0.0)
            calls.begin()
        loop.clocked()
    calls.end()
    found = {name: seconds / steps * 1e6 for name, seconds in loop.stages.items()}
    call = calls.seconds / steps * 1e6
    return {"data": found["data"], "record": found["record"], "find": found["step"] - call,
            "call": call}  # fmt: skip


def measure(name: str) -> None:
    work = WORKLOADS[name]()
    torch.manual_seed(0)
    start = {k: v.numpy().copy() for k, v in work.eager().state_dict().items()}
    given = {k: torch.from_numpy(v) for k, v in start.items()}
    for optimiser in RATES:
        for fresh in (False, True):
            loops, apart = {}, {}
            for kind, make in LOOPS.items():
                weights = given if kind in ("compiled", "eager") else start
                loops[kind] = make(work, optimiser, fresh, weights)
                apart[kind] = warmed(loops[kind])
            found = in_turns(loops, work.rounds)
            print(f"{name} {optimiser} {'new' if fresh else 'same'}")
            print(f"  {'':<10}{'ms':>8}{'cpu ms':>8}{'/compiled':>11}{'/eager':>8}{'loss':>10}")
            for kind, times in found.items():
                ms, cpu = (statistics.median(t[i] for t in times) * 1e3 for i in (0, 1))
                over = [
                    statistics.median(t[0] / p[0] for t, p in zip(times, found[peer], strict=True))
                    for peer in ("compiled", "eager")
                ]
                far = max(abs(a / b - 1) for a, b in zip(apart[kind], apart["eager"], strict=True))
                print(f"  {kind:<10}{ms:8.3f}{cpu:8.3f}{over[0]:11.3f}{over[1]:8.3f}{far:10.1e}")
            for kind, loop in loops.items():
                if isinstance(loop, LazyLoop):
                    steps = max(3, round(0.3 / turn(loop, 2)[0]))
                    parts = where(loop, steps)
                    told = ", ".join(f"{part} {us:.0f}" for part, us in parts.items())
                    print(f"  {kind:<10}us: {told}")
            sys.stdout.flush()


def first(name: str) -> None:
    """The first steps of a fresh loop, beside eager's."""
    work = WORKLOADS[name]()
    torch.manual_seed(0)
    given = work.eager().state_dict()
    start = {k: v.numpy().copy() for k, v in given.items()}
    for kind in ("eager", "own"):
        begin = time.perf_counter()
        loop = LOOPS[kind](work, "SGD", True, given if kind == "eager" else start)
        print(f"{name} {kind}: made in {time.perf_counter() - begin:.2f} s")
        for text in _steps(loop, begin, 10 if kind == "eager" else 400):
            print(text, flush=True)


def _steps(loop: Step, begin: float, most: int) -> Iterator[str]:
    """Lines for steps, until 10 are alike: nothing is compiled any more."""
    alike, best = 0, float("inf")
    for number in range(most):
        before = time.perf_counter()
        float(loop())
        taken = time.perf_counter() - before
        best = min(best, taken)
        alike = alike + 1 if number and taken < 1.3 * best else 0
        if number < 5 or alike < 3:
            yield f"  {before - begin:7.2f} s: step {number} took {taken * 1e3:.1f} ms"
        executor = current_executor()
        busy = isinstance(loop, LazyLoop) and any(
            s.job is not None
            for s in executor._seen.values()  # type: ignore[attr-defined]  # a lazy one has it
        )
        if alike >= 10 and not busy:
            return


def main(*words: str) -> None:
    names = [w for w in words if not w.startswith("-")] or list(WORKLOADS)
    for name in names:
        (first if "--first" in words else measure)(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
