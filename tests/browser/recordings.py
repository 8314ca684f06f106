"""Recordings for the browser: one that says all a recording can, a hostile one, a large one."""

from __future__ import annotations

import json
from collections.abc import Sequence

from glasshouse.record import Recording, RecordingBuilder
from glasshouse.record.schema import (
    CandidateRow,
    DataRow,
    ErrorRow,
    KernelRow,
    RejectRow,
    RewriteRow,
    SummaryRow,
    Text,
    TimeRow,
)

SOURCE = """import glasshouse as gh

class Block(gh.nn.Module):
    def forward(self, x):
        y = self.linear(x)      # line 5
        y = gh.nn.gelu(y)       # line 6
        return x + y            # line 7
"""
HOSTILE = [
    "<script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "x" * 1_000_000,
    "\u202eright to left\u202c",
    "🙂 emoji \u0000 control \u0007",
    "javascript:alert(1)",
    "</script><style>*{display:none}</style>",
]


class Maker:
    """A recording of one stage, written as a list of ops that each give one tensor."""

    def __init__(self, title: str, type: str = "float32[8, 64]") -> None:
        self.made = RecordingBuilder(title)
        self.graph = self.made.graph(title)
        self.graph.stage("traced")
        self.type = type

    def op(
        self, op: str, name: str, *inputs: int, kind: str = "elementwise", path: Sequence[str] = ()
    ) -> int:
        groups = [self.graph.group_path("module", list(path))] if path else []
        return self.graph.node(
            op, name=name, kind=kind, inputs=list(inputs), outputs=[self.type], groups=groups
        )

    def finish(self) -> Recording:
        return self.made.finish()


def rich() -> Recording:
    """Two blocks, then fused: sources, kernels, times, errors, values, decisions, data, a rule."""
    made = RecordingBuilder("rich")
    made.facts["target"] = "cpu"
    made.facts["wall time"] = "0.001"
    made.facts["arena bytes"] = "300"
    made.facts["tensor bytes"] = "1000"
    made.source("demo/model.py", SOURCE)
    graph = made.graph("rich")
    graph.stage("traced")
    x = graph.node("Input", name="x", kind="source", outputs=["float32[4, 64]"])
    at = x
    blocks: list[dict[str, int]] = []
    for i in range(2):
        group = graph.group_path("module", ["net", f"block{i}"], ["Net", "Block"])
        inner = graph.group_path(
            "module", ["net", f"block{i}", "linear"], ["Net", "Block", "Linear"]
        )
        phase = graph.group_path("phase", ["forward"])
        weight = graph.node(
            "Constant", name=f"block{i}.linear.weight", kind="source",
            outputs=["float32[64, 64]"], groups=[inner, phase],
        )  # fmt: skip
        matmul = graph.node(
            "Matmul", kind="matmul", inputs=[at, weight], outputs=["float32[4, 64]"],
            attrs={"transpose_b": "True", "alpha": "1.5"}, groups=[inner, phase],
            file="demo/model.py", line=5, input_names=["x", "weight"],
            frames=["demo/run.py:3 main", "demo/model.py:5 forward"],
        )  # fmt: skip
        gelu = graph.node(
            "Gelu", kind="elementwise", inputs=[matmul], outputs=["float32[4, 64]"],
            groups=[group, phase], file="demo/model.py", line=6,
        )  # fmt: skip
        add = graph.node(
            "Add", kind="elementwise", inputs=[at, gelu], outputs=["float32[4, 64]"],
            groups=[group, phase], file="demo/model.py", line=7,
        )  # fmt: skip
        blocks.append({"matmul": matmul, "gelu": gelu, "add": add, "weight": weight, "in": at})
        at = add
    graph.set_io([x], [(at, 0)])
    body = made.graph("fused body", parent=0)
    body.stage("body")
    a = body.node("Input", kind="source", outputs=["float32[4, 64]"])
    w = body.node("Input", kind="source", outputs=["float32[64, 64]"])
    product = body.node("InnerMatmul", kind="matmul", inputs=[a, w], outputs=["float32[4, 64]"])
    inner = body.node(
        "InnerGelu", kind="elementwise", inputs=[product], outputs=["float32[4, 64]"],
        attrs={"approximate": "tanh"}, file="demo/model.py", line=6,
    )  # fmt: skip
    body.set_io([a, w], [(inner, 0)])

    stage = graph.stage(
        "FuseOperator", pass_name="FuseOperator", seconds=0.002,
        doc="Merge producers and consumers into one kernel.", options={"max_inputs": "8"},
    )  # fmt: skip
    fused = []
    for i, b in enumerate(blocks):
        inner = graph.group_path("module", ["net", f"block{i}"])
        made_node = graph.node(
            "FusedMatmul", kind="matmul", inputs=[b["in"], b["weight"]],
            outputs=["float32[4, 64]"], groups=[inner], pass_name="FuseOperator", rule="epilogue",
            replaces=[b["matmul"], b["gelu"]], bodies=[1], file="demo/model.py", line=5,
        )  # fmt: skip
        graph.end(b["matmul"])
        graph.end(b["gelu"])
        graph.node(
            "Add", id=b["add"], kind="elementwise", inputs=[b["in"], made_node],
            outputs=["float32[4, 64]"], groups=[inner], file="demo/model.py", line=7,
        )  # fmt: skip
        graph.add(
            RewriteRow(stage, "FuseOperator", "epilogue", "1 KB never reaches memory",
                       [b["matmul"], b["gelu"]], [made_node])
        )  # fmt: skip
        fused.append(made_node)
        add_measurements(graph, i, made_node, b, stage)
    graph.set_io([x], [(blocks[-1]["add"], 0)])
    rule = {
        "queries": [{"type": "regex", "queryRegex": "^Add$", "matchTypes": ["title"]}],
        "nodeType": "op_nodes",
        "styles": {"node_bg_color": {"id": "node_bg_color", "value": "#ff00ff"}},
    }
    made.style("rule", json.dumps(rule))
    return made.finish()


def add_measurements(graph, i, node, block, stage) -> None:
    """Kernel, candidates, time, error, values, a decision and data of one fused node."""
    code = f"// kernel {i}\nvoid kernel_{i}(const float* x) {{\n  // body\n}}\n"
    graph.add(
        KernelRow(i, f"kernel_{i}", node, [block["matmul"], block["gelu"]], "cpu", "tiled",
                  Text(code), bytes_read=2048, bytes_written=1024, flops=32768,
                  limit_seconds=1e-4 * (i + 1))
    )  # fmt: skip
    graph.add(CandidateRow(i, "tiled", 2e-4 * (i + 1), True))
    graph.add(CandidateRow(i, "naive", 9e-4, False, "slower"))
    graph.add(TimeRow("run 1", node, 2e-4 * (i + 1), kernel=i, spread=1e-6))
    graph.add(TimeRow("run 2", node, 3e-4, kernel=i))
    graph.add(ErrorRow(stage, node, 0, 1e-6, 2e-6, own=1e-7 * (i + 1), inherited=3e-7))
    graph.add(SummaryRow(node, 0, -1.5, 2.5, 0.125, 0.75, 0, 0, 12, Text("0.5, -1.5, 2.5")))
    graph.add(
        RejectRow(stage, "FuseOperator", "fuse", "two anchors need their own loops",
                  [node, block["add"]], json.dumps({"bytes": 1024}))
    )  # fmt: skip
    graph.add(DataRow("heat", node, 10.0 * (i + 1)))
    graph.add(DataRow("owner", node, float("nan"), f"team {i}"))


def hostile() -> Recording:
    """Names that would be run, or break the page, if they were taken for anything but text."""
    made = RecordingBuilder(HOSTILE[0])
    graph = made.graph(HOSTILE[1])
    graph.stage(HOSTILE[6])
    before: list[int] = []
    for i, name in enumerate(HOSTILE):
        group = graph.group_path("module", [HOSTILE[(i + 1) % len(HOSTILE)]], [HOSTILE[0]])
        before = [
            graph.node(
                name, name=name, kind="elementwise", inputs=before, outputs=[f"{name}[1]"],
                attrs={name: name}, groups=[group], file=name, line=1,
            )
        ]  # fmt: skip
    made.source(HOSTILE[0], HOSTILE[1])
    return made.finish()


def chain(nodes: int, layers: int) -> Recording:
    """A long model in nested layers, for search and lists."""
    made = RecordingBuilder("chain")
    graph = made.graph("chain")
    graph.stage("traced")
    ops = ["Matmul", "Add", "Relu", "Softmax"]
    kinds = ["matmul", "elementwise", "elementwise", "reduction"]
    at = graph.node("Input", name="x", kind="source", outputs=["float32[8]"])
    for i in range(nodes):
        layer = i * layers // nodes
        group = graph.group_path("module", ["layers", str(layer), f"part{i % 3}"])
        at = graph.node(
            ops[i % 4], name=f"layers.{layer}.op_{i}", kind=kinds[i % 4], inputs=[at],
            outputs=[f"float32[8, {i % 7}]"], attrs={"index": str(i)}, groups=[group],
            file="long.py", line=i + 1,
        )  # fmt: skip
    return made.finish()


def sibling() -> Recording:
    """The rich model's cousin: one op more, one changed; for comparing two graphs."""
    made = RecordingBuilder("sibling")
    graph = made.graph("sibling")
    graph.stage("traced")
    x = graph.node("Input", name="x", kind="source", outputs=["float32[4, 64]"])
    group = graph.group_path("module", ["net", "block0"])
    one = graph.node("Relu", name="act", inputs=[x], outputs=["float32[4, 64]"], groups=[group])
    graph.node("Tanh", name="extra", inputs=[one], outputs=["float32[4, 64]"], groups=[group])
    return made.finish()


def broad(nodes: int) -> Recording:
    """One group with more members than anybody can read side by side."""
    made = RecordingBuilder("broad")
    graph = made.graph("broad")
    graph.stage("traced")
    x = graph.node("Input", name="x", kind="source", outputs=["float32[8]"])
    group = graph.group_path("module", ["net", "many"], ["Net", "Many"])
    for i in range(nodes):
        graph.node(
            "Relu", name=f"branch_{i}", kind="elementwise", inputs=[x], outputs=["float32[8]"],
            groups=[group],
        )  # fmt: skip
    return made.finish()


def shared_mask(layers: int) -> Recording:
    """Identical layers that all read one mask."""
    made = RecordingBuilder("masked")
    graph = made.graph("masked")
    graph.stage("traced")
    wide = "float32[1, 4, 8, 8]"
    at = graph.node("Input", name="x", kind="source", outputs=[wide])
    mask = graph.node("Input", name="mask", kind="source", outputs=["float32[1, 1, 8, 8]"])
    for i in range(layers):
        path = ["encoder", "layer", str(i)]
        classes = ["Encoder", "ModuleList", "Layer"]
        for op, kind, inputs in (
            ("Matmul", "matmul", [at]), ("Add", "elementwise", [mask]),
            ("Softmax", "reduction", []), ("Gelu", "elementwise", []),
        ):  # fmt: skip
            part = "attention" if op != "Gelu" else "mlp"
            group = graph.group_path("module", [*path, part], [*classes, part.title()])
            at = graph.node(
                op, name=f"layers.{i}.{op.lower()}", kind=kind, outputs=[wide], groups=[group],
                inputs=inputs if op == "Matmul" else [at, *inputs],
            )  # fmt: skip
    return made.finish()
