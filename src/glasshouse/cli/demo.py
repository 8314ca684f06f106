"""What a newcomer sees first: a model, its graph, which line became what.

NumPy is enough for the graph and the reference run; the rest appears where there is what it needs:
a C++ compiler for kernels and the page, PyTorch for the comparison with it.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from glasshouse.cli.count import at_least

if TYPE_CHECKING:
    import numpy as np

    from glasshouse.ir.graph import Graph

HELP = "trace, run, compile, check and time an example model; write demo.html"


def add_arguments(parser: ArgumentParser) -> None:
    """Sizes of the example."""
    parser.add_argument(
        "--length", type=at_least(1), default=128, help="positions in the sequence (128)"
    )
    parser.add_argument(
        "--hidden", type=at_least(1), default=768, help="size of each position (768)"
    )
    parser.add_argument("--heads", type=at_least(1), default=12, help="attention heads (12)")
    parser.add_argument(
        "--batch", type=at_least(0), default=1024, help="of the PyTorch MLP; 0: none (1024)"
    )
    parser.add_argument(
        "--image",
        type=at_least(0),
        default=224,
        help="size for the PyTorch ResNet-18; 0: none (224)",
    )
    parser.add_argument(
        "--layers",
        type=at_least(0),
        default=12,
        help="of the BERT that the page shows; 0: none (12)",
    )
    parser.add_argument("-o", "--output", default="demo.html", help="the page (demo.html)")


def run(args: Namespace) -> int:
    """Trace, print, run, compare; compile, compare, show where the time goes."""
    import numpy as np

    from glasshouse.errors import ShapeError
    from glasshouse.nn.models.self_attention import SelfAttention
    from glasshouse.numpy_ref.executor import run as run_reference
    from glasshouse.tensor.random import manual_seed
    from glasshouse.tensor.trace import trace

    if min(args.length, args.hidden, args.heads) < 1 or args.hidden % args.heads:
        raise ShapeError(
            f"--hidden {args.hidden} cannot be split into --heads {args.heads} "
            f"over --length {args.length}",
            hint="give positive sizes, and a hidden size that is a multiple of the heads",
        )
    manual_seed(0)
    model = SelfAttention(args.hidden, args.heads)
    random = np.random.default_rng(0)
    x = random.standard_normal((1, args.length, args.hidden), dtype=np.float32)
    # The last quarter of the sequence is padding that nothing may look at.
    mask = np.zeros((1, 1, 1, args.length), dtype=np.float32)
    mask[..., args.length - args.length // 4 :] = -1e4

    print("The model:\n")
    print(model)
    graph = trace(model, x, mask)
    print("\nIts graph:\n")
    print(graph)
    print("\nWhich line became which nodes:\n")
    print_sources(graph)
    (result,) = run_reference(graph, [x, mask])
    exact = by_hand(model, x, mask)
    error = float(np.max(np.abs(result - exact)))
    print(f"\nRun on the reference executor: {result.dtype}{list(result.shape)}")
    print(f"  first values  {', '.join(f'{v:.5f}' for v in result.ravel()[:4])}")
    print(f"  largest difference from the same formula in float64 NumPy  {error:.1e}")
    if not error < 1e-4:
        print("  that is too much: the graph does not compute what the model says")
        return 1
    return _compile(graph, x, mask, exact, args)


def _compile(graph: Graph, x: Any, mask: Any, exact: Any, args: Namespace) -> int:
    from importlib.util import find_spec

    import numpy as np

    from glasshouse.cli import demo_compiled

    module = demo_compiled.compiled(graph, [x, mask])
    if module is None:
        return 0
    error = float(np.max(np.abs(module(x, mask) - exact)))
    print(f"  largest difference from float64 NumPy  {error:.1e}")
    if not error < demo_compiled.TOLERANCE:
        print("  that is too much: the kernels do not compute what the graph says")
        return 1
    recording = module.recording(x, mask, count=50)
    demo_compiled.show_kernels(recording)
    right = True
    if find_spec("torch") is not None:
        from glasshouse.cli import demo_torch

        right = args.batch < 1 or demo_torch.mlp_right(args.batch)
        right = (args.image < 1 or demo_torch.resnet_right(args.image)) and right
    else:
        print("\nPyTorch is not installed: nothing to compare with (pip install torch)")
    if args.layers > 0:
        from glasshouse.cli.demo_bert import bert_recording

        hidden = args.hidden if args.hidden % 64 else min(args.hidden, 384)
        recording = bert_recording(args.layers, hidden, args.length) or recording
    demo_compiled.write_page(recording, args.output)
    return 0 if right else 1


def print_sources(graph: Graph) -> None:
    """The lines of the model in the order in which they were met, each with the nodes it became."""
    from linecache import getline

    from glasshouse.ir.op import Kind
    from glasshouse.ir.printer import value_names

    names = value_names(graph)
    made: dict[tuple[str, int], dict[str, list[str]]] = {}
    for node in graph.nodes:
        source = node.origin.source
        if node.op.kind is not Kind.SOURCE and source.frames:
            line = made.setdefault((source.frames[-1].file, source.frames[-1].line), {})
            line.setdefault(source.path, []).append(f"{names[node.outputs[0]]} {node.op.label}")
    for (file, number), nodes in made.items():
        print(f"  {os.path.basename(file)}:{number}  {getline(file, number).strip()}")
        for path, texts in nodes.items():
            print(f"      -> {', '.join(texts)}{f'  (in {path})' if path else ''}")


def by_hand(model: Any, x: np.ndarray[Any, Any], mask: np.ndarray[Any, Any]) -> Any:
    """Self-attention written down in NumPy and float64, independent of graphs and ops."""
    import numpy as np

    def project(layer: Any) -> Any:
        weight, bias = (p.numpy().astype(np.float64) for p in (layer.weight, layer.bias))
        y = x.astype(np.float64) @ weight.T + bias
        return y.reshape(1, x.shape[1], model.heads, model.head_size).swapaxes(1, 2)

    query, key, value = project(model.query), project(model.key), project(model.value)
    scores = query @ key.swapaxes(2, 3) / np.sqrt(model.head_size) + mask
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return (weights @ value).swapaxes(1, 2).reshape(x.shape)
