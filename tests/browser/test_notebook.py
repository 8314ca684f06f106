"""Many views in one notebook: stored once, none makes the page jump, the wheel is the page's."""

from __future__ import annotations

from pathlib import Path

from browser.kernels import compiled
from glasshouse.show import notebook

HOLDS = "<div hidden data-glasshouse-bundle="


def page_of(outputs: list[str], path: Path) -> Path:
    cells = "".join(f"<p style='height:300px'>cell {i}</p>{o}" for i, o in enumerate(outputs))
    path.write_text(f"<!doctype html><title>n</title><body>{cells}</body>", encoding="utf-8")
    return path


def five(monkeypatch) -> list[str]:
    monkeypatch.setattr(notebook._Stored, "holder", {})
    recording = compiled()
    outputs = []
    for i in range(5):
        monkeypatch.setattr(notebook, "_cell_id", lambda i=i: f"cell-{i}")
        outputs.append(notebook.inline(recording, height=400))
    return outputs


def test_the_bundle_is_stored_once(monkeypatch) -> None:
    outputs = five(monkeypatch)
    assert [(HOLDS in o) for o in outputs] == [True, *[False] * 4]
    assert sum(len(o) for o in outputs) < 300_000
    # The cell that holds it holds it again when it runs again.
    monkeypatch.setattr(notebook, "_cell_id", lambda: "cell-0")
    assert HOLDS in notebook.inline(compiled())
    # A notebook that does not name its cells has whole outputs.
    monkeypatch.setattr(notebook, "_cell_id", lambda: "")
    assert HOLDS in notebook.inline(compiled())


def test_five_views_open_without_a_jump_and_leave_the_wheel(viewer, tmp_path, monkeypatch) -> None:
    path = page_of(five(monkeypatch), tmp_path / "notebook.html")
    v = viewer(None, size=(1100, 700))
    page = v.page
    page.goto(path.as_uri())
    for i in range(5):
        frame = page.frame_locator("iframe").nth(i)
        frame.locator("html[data-ready]").wait_for(state="attached", timeout=60000)
    assert page.evaluate("() => window.scrollY") == 0
    # Over a view, the wheel scrolls the page; once the view was clicked, it moves the graph.
    box = page.locator("iframe").first.bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 200)
    page.mouse.wheel(0, 40)
    page.wait_for_function("() => window.scrollY == 40")
    inside = page.locator("iframe").first.element_handle().content_frame()
    camera = "() => window.glasshouse.view.camera.y"
    page.mouse.click(box["x"] + 300, box["y"] + 160)
    before = inside.evaluate(camera)
    page.mouse.wheel(0, 40)
    inside.wait_for_function(f"y => ({camera})() != y", arg=before)
    assert page.evaluate("() => window.scrollY") == 40


def test_a_later_output_waits_for_the_one_that_holds_the_viewer(
    viewer, tmp_path, monkeypatch
) -> None:
    outputs = five(monkeypatch)
    path = page_of([outputs[1]], tmp_path / "alone.html")
    v = viewer(None, size=(1100, 700))
    v.page.goto(path.as_uri())
    assert "first Glasshouse output" in v.text("p[id$=told]")
    v.page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", outputs[0])
    frame = v.page.frame_locator("iframe").first
    frame.locator("html[data-ready]").wait_for(state="attached", timeout=60000)


RENDER = """outputs => {
  for (const html of outputs) {
    const box = document.createElement("div");
    document.body.append(box);
    box.innerHTML = html;
    for (const dead of box.querySelectorAll("script")) {
      const living = document.createElement("script");
      living.text = dead.innerText;
      box.append(living);
      living.remove();
    }
  }
}"""


def test_vs_code_renders_it_too(viewer, tmp_path, monkeypatch) -> None:
    """VS Code sets an output's text as HTML, runs copies of its scripts and removes these."""
    path = page_of([], tmp_path / "webview.html")
    v = viewer(None, size=(1100, 700))
    v.page.goto(path.as_uri())
    v.page.evaluate(RENDER, five(monkeypatch)[:2])
    for i in range(2):
        frame = v.page.frame_locator("iframe").nth(i)
        frame.locator("html[data-ready]").wait_for(state="attached", timeout=60000)
    assert not v.page.is_visible("text=first Glasshouse output")
