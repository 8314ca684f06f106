"""A Llama of 1.1 billion random weights through `torch.compile(backend="glasshouse")`.

    python benchmarks/cpu/llm.py [--layers 22] [--dtype bfloat16] [--systems eager,glasshouse]

Prefill of 256 tokens into a static cache of Hugging Face's, then one token after the other. Gives
tokens a second (best, median), what a step reads of the weights a second, and the peak of memory:
of the whole process (VmHWM, reset before the first call), Python and its imports included, also as
a multiple of the weights. Give one system alone to measure memory: a second one adds to what the
first left. `nothing` is Dynamo with a backend that computes nothing: what no backend can go below;
`taken` is `gh.compile(model, take_weights=True)` of a prefill without a cache, and comes last: the
model has no weights after it.
Tokens of all systems are compared.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.utils import _pytree as pytree
from transformers.initialization import no_init_weights

PROMPT, LENGTH, STEPS = 256, 512, 40


def _memory(field: str) -> float:
    """GB that this process has (VmRSS), or had at most (VmHWM); the kernel counts in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(x.split()[1]) for x in lines if x.startswith(field)) * 1024 / 1e9


def _nothing(module: Any, examples: Any) -> Callable[..., Any]:
    """A backend for Dynamo whose graphs give zeros."""
    output = next(n for n in module.graph.nodes if n.op == "output")
    fakes = [n.meta["example_value"] for n in pytree.tree_leaves(output.args[0])]
    kinds = [(tuple(map(int, f.shape)), f.dtype) for f in fakes]
    return lambda *_: [torch.zeros(shape, dtype=dtype) for shape, dtype in kinds]


def _model(layers: int, dtype: torch.dtype) -> Any:
    config = transformers.LlamaConfig(
        hidden_size=2048, num_hidden_layers=layers, num_attention_heads=32, num_key_value_heads=4,
        intermediate_size=5632, vocab_size=32000, max_position_embeddings=2048,
    )  # fmt: skip
    torch.manual_seed(0)
    torch.set_default_dtype(dtype)
    with no_init_weights():
        model = transformers.LlamaForCausalLM(config).eval().requires_grad_(False)
    torch.set_default_dtype(torch.float32)
    for weight in model.parameters():
        weight.uniform_(-0.03, 0.03) if weight.dim() > 1 else weight.fill_(1.0)
    return model


class Generation:
    """One system, with the cache that it fills."""

    def __init__(self, model: Any, call: Callable[..., Any]) -> None:
        self._model, self._call = model, call
        self._ids = torch.randint(3, 32000, (1, PROMPT), generator=torch.manual_seed(1))

    def prefill(self) -> torch.Tensor:
        self._cache = transformers.StaticCache(config=self._model.config, max_cache_len=LENGTH)
        self.place = PROMPT
        made = self._call(
            self._ids, past_key_values=self._cache, cache_position=torch.arange(PROMPT),
            use_cache=True, logits_to_keep=1,
        )  # fmt: skip
        return self._next(made)

    def step(self, token: torch.Tensor) -> torch.Tensor:
        made = self._call(
            token, past_key_values=self._cache, cache_position=torch.tensor([self.place]),
            use_cache=True,
        )  # fmt: skip
        self.place += 1
        return self._next(made)

    def _next(self, made: Any) -> torch.Tensor:
        token: torch.Tensor = made.logits[:, -1].argmax(-1, keepdim=True)
        return token


def _timed(call: Callable[[], Any], count: int) -> tuple[float, float]:
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times), sorted(times)[count // 2]


def _measure(
    system: str, model: Any, call: Callable[..., Any], read: float, held: float
) -> list[int]:
    run, before, begin = Generation(model, call), _memory("VmRSS"), time.perf_counter()
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    tokens = [run.prefill()]
    for _ in range(8):
        tokens.append(run.step(tokens[-1]))
    first = time.perf_counter() - begin
    filled = _timed(run.prefill, 5)
    steps = _timed(lambda: run.step(tokens[0]), STEPS)
    peak = _memory("VmHWM")
    print(
        f"{system}: prefill {PROMPT / filled[0]:.1f} tokens/s (median {PROMPT / filled[1]:.1f}), "
        f"decoding {1 / steps[0]:.2f} ({1 / steps[1]:.2f}) at {read / steps[0] / 1e9:.1f} GB/s; "
        f"first calls {first:.1f} s, peak {peak:.3f} GB over {before:.3f}, "
        f"{peak / held:.3f} of the weights",
        flush=True,
    )
    return [int(t) for t in tokens]


def _measure_taken(model: Any, held: float) -> None:
    import glasshouse as gh

    ids = torch.randint(3, 32000, (1, PROMPT), generator=torch.manual_seed(1))
    gc.collect()
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    module = gh.compile(model, ids, take_weights=True, use_cache=False, logits_to_keep=1)
    compiled = _memory("VmHWM")
    module(ids)
    filled = _timed(lambda: module(ids), 5)
    peak = _memory("VmHWM")
    print(
        f"taken: prefill {PROMPT / filled[0]:.1f} tokens/s (median {PROMPT / filled[1]:.1f}); "
        f"peak {peak:.3f} GB over {before:.3f} ({compiled:.3f} while compiling), "
        f"{peak / held:.4f} of the weights",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=22)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--systems", default="eager,glasshouse")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    with torch.no_grad():
        model = _model(given.layers, getattr(torch, given.dtype))
        held = sum(w.nbytes for w in model.parameters())
        read = held - model.model.embed_tokens.weight.nbytes
        print(f"weights {held / 1e9:.2f} GB, of which a step reads {read / 1e9:.2f}", flush=True)
        said: dict[str, list[int]] = {}
        for system in given.systems.split(","):
            if system == "taken":
                _measure_taken(model, held / 1e9)
                continue
            backend = _nothing if system == "nothing" else system
            call = model if system == "eager" else torch.compile(model, backend=backend)
            said[system] = _measure(system, model, call, read, held / 1e9)
    if len({tuple(tokens) for name, tokens in said.items() if name != "nothing"}) > 1:
        print(f"tokens differ: {said}")


if __name__ == "__main__":
    main()
