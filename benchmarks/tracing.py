"""What tracing costs: processor time against torch.export itself, and memory beyond the model's.

Run: python benchmarks/tracing.py [NAME...]

Times are processor seconds, the least of three, in turns. Memory is how much the peak of the
process grows while a model is traced that has 1 GB of weights, against exporting it alone: each in
a process of its own.
"""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import transformers as T

import glasshouse as gh

Case = tuple[torch.nn.Module, dict[str, Any]]


def tokens() -> dict[str, Any]:
    return {"input_ids": torch.randint(3, 99, (1, 64))}


def bert_base() -> Case:
    return T.BertModel(T.BertConfig()), {**tokens(), "attention_mask": torch.ones(1, 64).long()}


def gpt2_small() -> Case:
    return T.GPT2LMHeadModel(T.GPT2Config()), tokens()


def llama_24_layers() -> Case:
    config = T.LlamaConfig(
        vocab_size=1000, hidden_size=64, intermediate_size=128, num_hidden_layers=24,
        num_attention_heads=8, num_key_value_heads=4,
    )  # fmt: skip
    return T.LlamaForCausalLM(config), tokens()


def resnet18() -> Case:
    config = T.ResNetConfig(
        hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic"
    )
    return T.ResNetForImageClassification(config), {"pixel_values": torch.randn(1, 3, 224, 224)}


CASES: dict[str, Callable[[], Case]] = {
    f.__name__: f for f in (bert_base, gpt2_small, llama_24_layers, resnet18)
}


class Wide(torch.nn.Module):
    """1 GB of weights in 16 layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4096, 4096) for _ in range(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x).relu()
        return x


def ratio(name: str) -> str:
    model, inputs = CASES[name]()
    model.eval()
    graph = gh.trace(model, **inputs)  # also lets PyTorch know the classes of its results
    export, trace = [], []
    for _ in range(3):
        export.append(_seconds(lambda: torch.export.export(model, (), inputs, strict=False)))
        trace.append(_seconds(lambda: gh.trace(model, **inputs)))
    times = f"{min(export):7.2f} {min(trace):7.2f} {min(trace) / min(export):6.2f}"
    return f"{name:<16} {len(graph):6} {times}"


def _seconds(call: Callable[[], Any]) -> float:
    gc.collect()
    begin = time.process_time()
    call()
    return time.process_time() - begin


def peak(what: str) -> float:
    """MB by which the peak of this process grows."""
    small = torch.nn.Linear(2, 2)
    torch.export.export(small, (torch.ones(1, 2),))
    gh.trace(small, torch.ones(1, 2))
    model = Wide()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if what == "export":
        torch.export.export(model, (torch.ones(1, 4096),), strict=False)
    else:
        gh.trace(model, torch.ones(1, 4096))
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if names[:1] == ["--peak"]:
        print(peak(names[1]))
        return
    # First, while this process is small: its peak counts as the peak of those that it starts.
    for what in ("export", "trace"):
        command = [sys.executable, "-W", "ignore", __file__, "--peak", what]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        print(f"1 GB of weights, {what}: the peak grows by {float(told):.1f} MB", flush=True)
    print(f"{'model':<16} {'nodes':>6} {'export':>7} {'trace':>7} {'ratio':>6}")
    for name in names or CASES:
        print(ratio(name), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
