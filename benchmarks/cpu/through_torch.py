"""What `torch.compile(backend="glasshouse")` adds to `gh.compile`, and training through it.

    python benchmarks/cpu/through_torch.py [names...] [--seconds 2] [--threads 2]

Systems are timed in turns; a row gives the best time of a call in milliseconds. `floor` is
`torch.compile(backend="eager")`: Dynamo's guards around PyTorch's own kernels.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import glasshouse as gh
from models import Bert, Gpt2, ResNet, SelfAttention, TwoLayers

Call = Callable[[], Any]


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(2048, 5632), nn.GELU(), nn.Linear(5632, 2048))


def _mask() -> torch.Tensor:
    return torch.zeros(1, 1, 1, 128)


INFERENCE: dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]] = {
    "mlp 2048-5632-2048 b1": lambda: (_mlp(), (torch.randn(1, 2048),)),
    "attention": lambda: (SelfAttention(), (torch.randn(1, 128, 768), _mask())),
    "resnet18": lambda: (ResNet(18), (torch.rand(1, 3, 224, 224),)),
    "bert": lambda: (Bert(), (torch.randn(1, 128, 768), _mask())),
    "gpt2": lambda: (Gpt2(), (torch.randint(0, 50257, (1, 256)),)),
    "two layers": lambda: (TwoLayers(), (torch.rand(10, 1),)),
}


def _cnn() -> nn.Module:
    layers: list[nn.Module] = []
    for inside, outside in ((3, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(inside, outside, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 64, 10))


class _Language(nn.Module):
    """GPT-2 of 6 layers, 384 wide, as Hugging Face has it."""

    def __init__(self) -> None:
        super().__init__()
        import transformers

        config = transformers.GPT2Config(
            n_layer=6, n_embd=384, n_head=6, vocab_size=5000, n_positions=128,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
        )  # fmt: skip
        self.model = transformers.GPT2LMHeadModel(config)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(ids).logits
        return logits.flatten(0, 1)


TRAINING: dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]] = {
    "gpt2 of 6 layers, training": lambda: (
        _Language(), (torch.randint(0, 5000, (4, 128)), torch.randint(0, 5000, (512,))),
    ),
    "cnn b32 64x64, training": lambda: (
        _cnn(), (torch.rand(32, 3, 64, 64), torch.randint(0, 10, (32,))),
    ),
    "mlp b256, training": lambda: (
        nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                      nn.Linear(512, 10)),
        (torch.randn(256, 256), torch.randint(0, 10, (256,))),
    ),
}  # fmt: skip


def _inference(name: str) -> dict[str, Call]:
    torch.manual_seed(0)
    model, inputs = INFERENCE[name]()
    model = model.eval().requires_grad_(False)
    module = gh.compile(model, *inputs)
    ours = torch.compile(model, backend="glasshouse", options={"executor": "compiled"})
    floor = torch.compile(model, backend="eager")
    calls = {"eager": model, "gh.compile": module, "torch.compile": ours, "floor": floor}
    torch.testing.assert_close(ours(*inputs), model(*inputs), rtol=1e-3, atol=1e-3)
    return {k: (lambda f=f: f(*inputs)) for k, f in calls.items()}


def _training(name: str) -> dict[str, Call]:
    calls: dict[str, Call] = {}
    losses: dict[str, float] = {}
    for system in ("eager", "torch.compile"):
        torch.manual_seed(0)
        model, (x, target) = TRAINING[name]()
        run = model if system == "eager" else torch.compile(model, backend="glasshouse")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

        def step(
            run: Any = run, optimizer: Any = optimizer, x: Any = x, target: Any = target
        ) -> float:
            optimizer.zero_grad()
            loss = F.cross_entropy(run(x), target)
            loss.backward()
            optimizer.step()
            return float(loss.detach())

        for _ in range(3):
            losses[system] = step()
        calls[system] = step
    assert abs(losses["eager"] - losses["torch.compile"]) < 1e-3 * abs(losses["eager"]), losses
    return calls


def _times(calls: dict[str, Call], seconds: float) -> dict[str, float]:
    """The best time of each, in milliseconds, in turns."""
    counts: dict[str, int] = {}
    for name, call in calls.items():
        for _ in range(3):
            begin = time.perf_counter()
            call()
            once = time.perf_counter() - begin
        counts[name] = max(1, min(2000, int(0.02 / once)))
    best = dict.fromkeys(calls, float("inf"))
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end:
        for name, call in calls.items():
            begin = time.perf_counter()
            for _ in range(counts[name]):
                call()
            best[name] = min(best[name], (time.perf_counter() - begin) / counts[name] * 1e3)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    for name in [n for n in (*INFERENCE, *TRAINING) if not given.names or n in given.names]:
        if name in INFERENCE:
            with torch.no_grad():
                best = _times(_inference(name), given.seconds)
            beside = f"torch.compile / gh.compile {best['torch.compile'] / best['gh.compile']:.3f}"
        else:
            best = _times(_training(name), given.seconds)
            beside = f"eager / torch.compile {best['eager'] / best['torch.compile']:.2f}"
        shown = ", ".join(f"{k} {t:.4g}" for k, t in best.items())
        print(f"{name}: {shown} ms; {beside}", flush=True)


if __name__ == "__main__":
    main()
