"""Two files side by side: their last stages, named by file, matched, each difference gone to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from browser.kernels import compiled
from glasshouse.record import Recording, RecordingBuilder


def exported(title: str, dialect: str, extra: bool) -> Recording:
    """One model as two exporters write it: other names, other ops, types left out by one."""
    torch = dialect == "torch"
    made = RecordingBuilder(title)
    graph = made.graph("main")
    graph.stage("exported")
    x = graph.node("Input", name="x" if torch else "input.1", kind="source", outputs=["float32[8]"])
    at = x
    for i in range(3):
        path = ["layer", str(i)] if torch else ["layer", f"layer.{i}"]
        group = graph.group_path("module", [*path, "fc"])
        outer = graph.group_path("module", path)
        shapes = ["float32[8]"] if torch else [""]
        at = graph.node(
            "aten.linear.default" if torch else "Gemm", name=f"linear_{i}" if torch else f"/l{i}",
            kind="matmul", inputs=[at], outputs=shapes, groups=[group],
        )  # fmt: skip
        at = graph.node(
            "aten.relu.default" if torch else "Relu", name=f"relu_{i}" if torch else f"/r{i}",
            kind="elementwise", inputs=[at], outputs=shapes, groups=[outer],
        )  # fmt: skip
    if extra:
        at = graph.node("aten.tanh.default", name="tanh", kind="elementwise", inputs=[at])
    graph.set_io([x], [(at, 0)])
    return made.finish()


def bars(v) -> str:
    return "\n".join(v.page.locator(".pane-bar").all_inner_texts())


def test_two_exports_of_one_model(viewer) -> None:
    both = [exported("net.pt2", "torch", True), exported("net.onnx", "onnx", False)]
    v = viewer(both, size=(1700, 900), compare=True)
    v.page.wait_for_selector(".pane-bar:has-text('1 only left · 0 only right · 1 changed')")
    chosen = v.page.locator(".pane-bar select").evaluate_all(
        "all => all.map(s => s.selectedOptions[0].text)"
    )
    assert chosen == ["net.pt2: main", "net.onnx: main"]
    # What is gone and what reads something else now are in the list, and walking goes there.
    v.page.click(".pane-bar button:has-text('List')")
    assert v.page.locator(".difference").count() == 2
    v.page.click(".pane-bar button[title='Next difference']")
    v.page.wait_for_selector(".difference[aria-current=true]:has-text('tanh')")
    v.page.wait_for_selector(".pane-bar >> text=1 of 2")
    assert v.page.evaluate("() => window.glasshouse.selected") >= 0


def test_names_that_exporters_number_do_not_mislead(viewer) -> None:
    """One activation becomes another: "relu" of the second file is "relu_1" of the first."""

    def net(*activations: str) -> Recording:
        made = RecordingBuilder("net")
        graph = made.graph("main")
        graph.stage("exported")
        at = graph.node("Input", name="x", kind="source", outputs=["float32[8]"])
        start, seen = at, dict.fromkeys(activations, 0)
        for i, op in enumerate(activations):
            for module, name in ((2 * i, f"linear_{i}"), (2 * i + 1, f"{op}_{seen[op]}")):
                at = graph.node(
                    name.split("_")[0], name=name, kind="elementwise", inputs=[at],
                    outputs=["float32[8]"], groups=[graph.group_path("module", [str(module)])],
                )  # fmt: skip
            seen[op] += 1
        graph.set_io([start], [(at, 0)])
        return made.finish()

    v = viewer([net("relu", "relu"), net("silu", "relu")], size=(1700, 900), compare=True)
    v.page.wait_for_selector(".pane-bar:has-text('0 only left · 0 only right · 1 changed')")
    v.page.click(".pane-bar button:has-text('List')")
    assert "op" in v.text(".difference")


def test_the_command_compares_two_files(viewer, tmp_path: Path) -> None:
    files = tmp_path / "before.glass", tmp_path / "after.glass"
    for path, dialect in zip(files, ("torch", "onnx"), strict=True):
        exported(path.name, dialect, dialect == "torch").save(path)
    command = [sys.executable, "-m", "glasshouse", "view", "--compare", "--no-browser"]
    with subprocess.Popen([*command, *map(str, files)], stdout=subprocess.PIPE, text=True) as run:
        try:
            link = run.stdout.readline().strip()
            v = viewer(None, size=(1700, 900), offline=False, url=link)
            v.page.wait_for_selector(".pane-bar:has-text('1 only left · 0 only right')")
            assert "before.glass" in bars(v)
            assert "after.glass" in bars(v)
        finally:
            run.terminate()


def test_last_stages_of_two_compilations(viewer) -> None:
    v = viewer([compiled(), compiled()], size=(1700, 900), compare=True, stage=0)
    v.page.wait_for_selector(".pane-bar:has-text('0 only left · 0 only right · 0 changed')")
    stages = v.page.locator(".pane-bar select").evaluate_all(
        "all => all.map(s => s.selectedOptions[0].text)"
    )
    assert [s for s in stages if s == "FuseOperator"] == ["FuseOperator"] * 2, stages
    assert v.page.locator(".difference").count() == 0
