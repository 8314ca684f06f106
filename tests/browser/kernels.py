"""A compiled model in small: equal layers, one of them slow, with kernels, times and passes."""

from __future__ import annotations

from glasshouse.record import Recording, RecordingBuilder
from glasshouse.record.schema import BufferRow, ErrorRow, KernelRow, RewriteRow, Text, TimeRow

WIDE = "float32[4, 64]"
LAYERS = 6
SLOW = 4
"""The layer whose second kernel takes ten times as long as its equals."""


def compiled(name: str = "small") -> Recording:
    """Six layers of two linears and a norm: traced, one idle pass, then fused into kernels."""
    made = RecordingBuilder(name)
    made.facts["wall seconds"] = "0.004"
    graph = made.graph(name)
    graph.stage("traced")
    x = graph.node("Input", name="x", kind="source", outputs=[WIDE])
    at, traced = x, []
    for i in range(LAYERS):
        one = _traced_layer(graph, i, at)
        traced.append({**one, "in": at})
        at = one["norm"]
    graph.set_io([x], [(at, 0)])
    graph.stage("Nothing", pass_name="Nothing", doc="Finds nothing to do.")
    graph.set_io([x], [(at, 0)])
    body = made.graph("body", parent=0)
    body.stage("body")
    a = body.node("Input", kind="source", outputs=[WIDE])
    w = body.node("Input", kind="source", outputs=["float32[64, 64]"])
    product = body.node("Matmul", kind="matmul", inputs=[a, w], outputs=[WIDE])
    gelu = body.node("Gelu", kind="elementwise", inputs=[product], outputs=[WIDE])
    body.set_io([a, w], [(gelu, 0)])
    stage = graph.stage("FuseOperator", pass_name="FuseOperator", doc="Merge into kernels.")
    number = 0
    for i, b in enumerate(traced):
        inside = graph.group_path("module", ["encoder", "layer", str(i), "up"])
        fused = graph.node(
            "FusedMatmul*", name="up + gelu", kind="matmul", inputs=[b["in"], b["weight"]],
            outputs=[WIDE], groups=[inside], pass_name="FuseOperator", rule="fuse", bodies=[1],
            replaces=[b["up"], b["gelu"]], file="demo/model.py", line=5,
        )  # fmt: skip
        for key in ("up", "gelu"):
            graph.end(b[key])
        ends = graph.group_path("module", ["encoder", "layer", str(i), "norm"])
        graph.node(
            "LayerNorm", id=b["norm"], kind="norm", inputs=[fused], outputs=[WIDE], groups=[ends]
        )
        graph.add(
            RewriteRow(stage, "FuseOperator", "fuse", "fewer bytes", [b["up"], b["gelu"]], [fused])
        )
        for node, title, seconds in (
            (fused, f"layer.{i} up + gelu", 1e-3 if i == SLOW else 1e-4),
            (b["norm"], f"layer.{i} norm", 5e-5),
        ):
            graph.add(
                KernelRow(number, f"k{number}_code", node, [node], "cpu", "tiled",
                          Text(f"void k{number}() {{}}\n"), bytes_read=2048, bytes_written=1024,
                          flops=32768, limit_seconds=2e-5, title=title)
            )  # fmt: skip
            graph.add(TimeRow("profile", node, seconds, kernel=number))
            graph.add(ErrorRow(stage, node, 0, 1e-6, 1e-6, own=1e-7 * (i + 1), inherited=1e-7))
            graph.add(
                BufferRow(node, 0, "arena", offset=1024.0 * (number % 2), bytes=1024.0,
                          first=number, last=min(number + 1, 2 * LAYERS - 1))
            )  # fmt: skip
            number += 1
    graph.set_io([x], [(traced[-1]["norm"], 0)])
    return made.finish()


def _traced_layer(graph, i: int, at: int) -> dict[str, int]:
    def group(name: str, cls: str) -> int:
        path = ["encoder", "layer", str(i), name]
        return graph.group_path("module", path, ["Encoder", "ModuleList", "Layer", cls])

    up, act, norm = group("up", "Linear"), group("act", "GELU"), group("norm", "LayerNorm")
    weight = graph.node(
        "Constant", name=f"encoder.layer.{i}.up.weight", kind="source", groups=[up],
        outputs=["float32[64, 64]"],
    )  # fmt: skip
    product = graph.node(
        "Matmul", name=f"linear_{i}", kind="matmul", inputs=[at, weight], outputs=[WIDE],
        groups=[up], file="demo/model.py", line=5, attrs={"transpose_b": "True"},
    )  # fmt: skip
    gelu = graph.node("Gelu", kind="elementwise", inputs=[product], outputs=[WIDE], groups=[act])
    last = graph.node("LayerNorm", kind="norm", inputs=[gelu], outputs=[WIDE], groups=[norm])
    return {"weight": weight, "up": product, "gelu": gelu, "norm": last}
