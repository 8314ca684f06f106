"""The graphs of the gallery: models, training, traces and files as people open them.

Each function gives one recording; sizes are small where width changes no node. `FLAT` ones have
no modules: what the viewer knows of them is operators and edges.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from graphs import transformer

import glasshouse as gh
from glasshouse import formats
from glasshouse.nn.models import (
    GPT2,
    Bert,
    BertConfig,
    GPT2Config,
    Llama,
    LlamaConfig,
    ViT,
    ViTConfig,
    resnet18,
    resnet50,
)  # fmt: skip
from glasshouse.nn.models.self_attention import SelfAttention
from glasshouse.record import Recording, RecordingBuilder
from glasshouse.show.subject import recording_of

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "tests" / "data"


def _traced(model: Any, *inputs: Any) -> Recording:
    model.eval()
    return recording_of(gh.trace(model, *inputs))


def _floats(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


def _exported(model: Any, *inputs: Any, **named: Any) -> Recording:
    import torch

    program = torch.export.export(model.eval(), inputs, named)
    return recording_of(gh.trace(program))


def mlp() -> Recording:
    """Three layers and a skip connection around the middle one."""
    nn = gh.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2, self.fc3 = (
                nn.Linear(64, 128),
                nn.Linear(128, 128),
                nn.Linear(128, 10),
            )

        def forward(self, x: Any) -> Any:
            x = nn.functional.relu(self.fc1(x))
            x = x + nn.functional.relu(self.fc2(x))
            return self.fc3(x)

    return _traced(Net(), _floats(32, 64))


def attention() -> Recording:
    """Self-attention with a mask: query, key and value side by side."""
    return _traced(SelfAttention(96, 4), _floats(1, 16, 96), _floats(1, 1, 1, 16))


def resnet(make: Callable[[], Any]) -> Recording:
    """ResNet in evaluation."""
    return _traced(make(), _floats(1, 3, 64, 64))


def _bert(layers: int) -> Any:
    return Bert(
        BertConfig(
            vocab_size=100, hidden_size=48, intermediate_size=96, num_hidden_layers=layers,
            num_attention_heads=4,
        )
    )  # fmt: skip


def bert() -> Recording:
    """BERT with twelve layers, traced."""
    return _traced(_bert(12), np.zeros((1, 16), np.int64), np.ones((1, 16), np.int64))


def bert_compiled() -> Recording:
    """BERT with twelve layers after all passes: fused kernels."""
    model = _bert(12)
    model.eval()
    graph = gh.trace(model, np.zeros((1, 16), np.int64), np.ones((1, 16), np.int64))
    with gh.PassContext() as context:
        record = context.record()
        gh.optimize(graph)
    assert record.recording is not None
    return record.recording


def gpt2() -> Recording:
    """GPT-2 with twelve blocks."""
    config = GPT2Config(vocab_size=100, n_positions=32, n_embd=48, n_layer=12, n_head=4)
    return _traced(GPT2(config), np.zeros((1, 16), np.int64))


def llama() -> Recording:
    """Llama: rotary positions, gate and up, root-mean-square norms."""
    config = LlamaConfig(
        vocab_size=100, hidden_size=48, intermediate_size=96, num_hidden_layers=8,
        num_attention_heads=4, num_key_value_heads=2,
    )  # fmt: skip
    return _traced(Llama(config), np.zeros((1, 16), np.int64))


def vit() -> Recording:
    """A vision transformer."""
    config = ViTConfig(
        image_size=32, patch_size=8, hidden_dim=48, mlp_dim=96, num_layers=6, num_heads=4
    )
    return _traced(ViT(config), _floats(1, 3, 32, 32))


def t5() -> Recording:
    """T5: encoder and decoder with cross attention."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=4, num_heads=4, use_cache=False
    )
    # Two tensors: one that is given twice is one input of the exported program.
    ids, target = (torch.zeros(1, 8, dtype=torch.long) for _ in range(2))
    model = T5ForConditionalGeneration(config)
    return _exported(model, input_ids=ids, decoder_input_ids=target, use_cache=False)


def unet() -> Recording:
    """U-Net: four levels down, four up, a skip connection at each."""
    import torch
    from torch import nn

    class Double(nn.Sequential):
        def __init__(self, a: int, b: int) -> None:
            first = nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU()
            super().__init__(*first, nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU())

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            wide = [8, 16, 32, 64]
            self.down = nn.ModuleList(Double(a, b) for a, b in zip([3, *wide], wide, strict=False))
            self.pool = nn.MaxPool2d(2)
            self.middle = Double(64, 128)
            self.rise = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in wide[::-1])
            self.up = nn.ModuleList(Double(2 * w, w) for w in wide[::-1])
            self.head = nn.Conv2d(8, 2, 1)

        def forward(self, x: Any) -> Any:
            kept = []
            for block in self.down:
                x = block(x)
                kept.append(x)
                x = self.pool(x)
            x = self.middle(x)
            for rise, block, skip in zip(self.rise, self.up, kept[::-1], strict=True):
                x = block(torch.cat([skip, rise(x)], 1))
            return self.head(x)

    return _exported(UNet(), torch.zeros(1, 3, 64, 64))


def inception() -> Recording:
    """Blocks of four arms that are joined again."""
    import torch
    from torch import nn

    class Mixed(nn.Module):
        def __init__(self, a: int) -> None:
            super().__init__()
            conv = partial(nn.Conv2d, padding="same")
            self.one = conv(a, 8, 1)
            self.three = nn.Sequential(conv(a, 8, 1), nn.ReLU(), conv(8, 8, 3))
            self.five = nn.Sequential(
                conv(a, 8, 1), nn.ReLU(), conv(8, 8, 3), nn.ReLU(), conv(8, 8, 3)
            )
            self.pool = nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(a, 8, 1))

        def forward(self, x: Any) -> Any:
            return torch.relu(
                torch.cat([self.one(x), self.three(x), self.five(x), self.pool(x)], 1)
            )

    return _exported(
        nn.Sequential(*[Mixed(3 if i == 0 else 32) for i in range(4)]), torch.zeros(1, 3, 32, 32)
    )


def moe() -> Recording:
    """Two layers of a mixture of eight experts behind a gate."""
    import torch
    from torch import nn

    class Expert(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.up, self.down = nn.Linear(16, 32), nn.Linear(16, 32), nn.Linear(32, 16)

        def forward(self, x: Any) -> Any:
            return self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.router = nn.LayerNorm(16), nn.Linear(16, 8)
            self.experts = nn.ModuleList(Expert() for _ in range(8))

        def forward(self, x: Any) -> Any:
            y = self.norm(x)
            weights = torch.softmax(self.router(y), -1)
            return x + sum(e(y) * weights[..., i : i + 1] for i, e in enumerate(self.experts))

    return _exported(nn.Sequential(Layer(), Layer()), torch.zeros(4, 16))


def lstm() -> Recording:
    """An LSTM cell over six steps: the gates side by side."""
    import torch
    from torch import nn

    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.x, self.h = nn.Linear(8, 64), nn.Linear(16, 64)

        def forward(self, x: Any, h: Any, c: Any) -> Any:
            i, f, g, o = (self.x(x) + self.h(h)).chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            return torch.sigmoid(o) * torch.tanh(c), c

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = Cell(), nn.Linear(16, 2)

        def forward(self, x: Any, h: Any, c: Any) -> Any:
            for t in range(6):
                h, c = self.cell(x[:, t], h, c)
            return self.head(h)

    return _exported(Net(), torch.zeros(1, 6, 8), torch.zeros(1, 16), torch.zeros(1, 16))


def training(steps: int) -> Recording:
    """Steps of AdamW on a small network, as one graph: forward, backward, update."""
    from glasshouse import nn, optim

    gh.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)
    )
    optimizer = optim.AdamW(model.named_parameters(), lr=0.02)

    def run(x: Any, target: Any) -> Any:
        losses = []
        for _ in range(steps):
            losses.append(nn.functional.cross_entropy(model(x), target))
            optimizer.step(losses[-1])
        return losses

    return recording_of(gh.trace(run, _floats(8, 16), np.zeros(8, np.int64)))


def flat(make: Callable[[], Recording]) -> Recording:
    """A model as an ONNX file without module names: nothing but operators and edges."""
    import onnx

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        formats.write(make(), path)
        model = onnx.load(str(path), load_external_data=False)
        names: dict[str, str] = {}
        short = lambda name: names.setdefault(name, f"t{len(names)}") if name else ""  # noqa: E731
        graph = model.graph
        for node in graph.node:
            node.name = ""
            node.input[:] = [short(n) for n in node.input]
            node.output[:] = [short(n) for n in node.output]
            del node.metadata_props[:]
        for value in [*graph.input, *graph.output, *graph.value_info, *graph.initializer]:
            value.name = short(value.name)
        del graph.metadata_props[:]
        del model.metadata_props[:]
        path.write_bytes(model.SerializeToString())
        return formats.read(path)


def jittor_resnet() -> Recording:
    """A trace of ResNet-18 as Jittor writes it, made by the example script."""
    with tempfile.TemporaryDirectory() as folder:
        script = ROOT / "examples" / "trace_training.py"
        subprocess.run(
            [sys.executable, str(script), folder, "32"], check=True, stdout=subprocess.DEVNULL
        )
        return formats.read(Path(folder, "resnet.pkl"))


def read(name: str) -> Recording:
    """A file that lies among the tests."""
    return formats.read(DATA / name)


def hidet_bert() -> Recording:
    """BERT as Hidet dumps it: operators in a row, no modules."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "graph.json")
        formats.write(bert(), path, format="hidet")
        return formats.read(path)


def layers(count: int) -> Recording:
    """A long transformer with one mask for all layers."""
    return transformer(count, True)


def experts(count: int) -> Recording:
    """One router and very many experts: wider than high."""
    made = RecordingBuilder("experts")
    graph = made.graph("experts")
    graph.stage("traced")
    x = graph.node("Input", name="x", kind="source", outputs=["float32[8, 64]"])
    router = graph.node(
        "Router",
        kind="matmul",
        inputs=[x],
        outputs=["float32[8, 64]"],
        groups=[graph.group_path("module", ["moe", "router"])],
    )
    outs = []
    for i in range(count):
        group = graph.group_path(
            "module", ["moe", "experts", f"{i}"], ["Moe", "List", f"Expert{i % 2}"]
        )
        up = graph.node(
            "Linear", kind="matmul", inputs=[router], outputs=["float32[8, 256]"], groups=[group]
        )
        outs.append(
            graph.node(
                "Gelu" if i % 2 else "Silu",
                kind="elementwise",
                inputs=[up],
                outputs=["float32[8, 256]"],
                groups=[group],
            )
        )
    graph.node(
        "Combine",
        kind="reduction",
        inputs=outs,
        outputs=["float32[8, 64]"],
        groups=[graph.group_path("module", ["moe"])],
    )
    return made.finish()


GALLERY: dict[str, Callable[[], Recording]] = {
    "mlp": mlp,
    "attention": attention,
    "resnet18": partial(resnet, resnet18),
    "resnet50": partial(resnet, resnet50),
    "unet": unet,
    "inception": inception,
    "bert": bert,
    "bert-compiled": bert_compiled,
    "gpt2": gpt2,
    "llama": llama,
    "vit": vit,
    "t5": t5,
    "moe": moe,
    "experts": partial(experts, 24),
    "lstm": lstm,
    "training-step": partial(training, 1),
    "training-3-steps": partial(training, 3),
    "jittor-train": partial(read, "jittor/simple_model_train.pkl"),
    "jittor-resnet": jittor_resnet,
    "hidet-attention": partial(read, "hidet/2_SubgraphRewritePass.json"),
    "hidet-bert": hidet_bert,
    "onnx-resnet50-flat": lambda: flat(partial(resnet, resnet50)),
    "executorch-xnnpack": partial(read, "executorch/xnnpack.pte"),
    "mlir": partial(read, "mlir/pretty.mlir"),
    "transformer-2000": partial(layers, 2000),
}
