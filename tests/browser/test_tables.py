"""Tables and charts: kernels sorted and filtered, time by module, memory over steps, values."""

from __future__ import annotations

from browser.kernels import LAYERS, SLOW, compiled
from browser.recordings import Maker, rich
from glasshouse.record.schema import TimeRow


def opened(viewer):
    v = viewer(compiled(), size=(1600, 900))
    v.page.click("button:has-text('Tables')")
    v.page.wait_for_selector("table.kernels tbody tr")
    return v


def first(v, column: int = 1) -> str:
    return v.text(f"table.kernels tbody tr:first-child > :nth-child({column})")


def test_kernels_in_a_table_linked_both_ways(viewer) -> None:
    v = opened(viewer)
    assert v.page.locator("table.kernels tbody tr").count() == 2 * LAYERS
    row = v.text("table.kernels tbody tr:first-child").replace("\u2009", " ")
    for part in (f"layer.{SLOW} up + gelu", "encoder", "1 ms", "56 %", "2.0 %", "5.0e-7", "32.8k"):
        assert part in row, (part, row)
    v.page.click("table.kernels th button:has-text('Error')")
    assert f"layer.{LAYERS - 1}" in first(v)
    v.page.click("table.kernels th button:has-text('Error')")
    assert "layer.0" in first(v)
    v.page.fill(".filter", "layer.2")
    rows = "document.querySelectorAll('table.kernels tbody tr').length"
    v.page.wait_for_function(f"() => {rows} == 2")
    v.page.click("table.kernels tbody tr:has-text('up + gelu') button")
    v.page.wait_for_selector(".details h2:has-text('layer.2 up + gelu')")
    v.page.fill(".filter", "")
    v.pick("op:LayerNorm in:layer.3")
    v.page.wait_for_selector("table.kernels tr[aria-current=true]:has-text('layer.3 norm')")


def test_time_by_module_as_an_icicle(viewer) -> None:
    v = opened(viewer)
    v.page.click(".drawer [role=tab]:has-text('Time by module')")
    v.page.wait_for_selector(".icicle-bar")
    wide = v.page.locator(f".icicle-bar[title^='layer.{SLOW}:']").first
    whole = v.page.locator(".icicle-bar").first.bounding_box()["width"]
    assert abs(wide.bounding_box()["width"] / whole - 1.05 / 1.8) < 0.02
    wide.click()
    v.page.wait_for_selector(f".details h2:has-text('layer.{SLOW}')")


def test_memory_over_steps(viewer) -> None:
    v = opened(viewer)
    v.page.click(".drawer [role=tab]:has-text('Memory')")
    v.page.wait_for_selector("svg.memory rect")
    assert v.page.locator("svg.memory rect").count() == 2 * LAYERS
    told = v.text(".drawer-part:not([hidden]) [role=status]").replace("\u2009", " ")
    assert "12 tensors in an arena of 2.05 kB over 12 steps" in told
    v.page.locator("svg.memory rect[aria-label^='layer.1 norm']").click()
    v.page.wait_for_selector(".details h2:has-text('layer.1 norm')")


def test_memory_stays_while_a_kernel_is_unfolded_and_so_does_what_is_selected(viewer) -> None:
    v = opened(viewer)
    v.page.click(".drawer [role=tab]:has-text('Memory')")
    v.page.wait_for_selector("svg.memory rect")
    v.page.click(".details .link:has-text('layer.4 up + gelu')")
    v.page.wait_for_selector(".details h2:has-text('layer.4 up + gelu')")
    v.page.click(".details button:has-text('Unfold inside')")
    v.see("Matmul")
    v.page.wait_for_selector(".details button:has-text('Fold inside')")
    assert v.page.locator("svg.memory rect").count() == 2 * LAYERS
    assert v.page.locator("svg.memory rect.chosen[aria-label^='layer.4 up']").count() == 1
    # Views number what they show anew: all unfolded, flat, another stage, back again.
    v.page.click(".toolbar button:has-text('Unfold all')")
    v.page.wait_for_selector(".details button:has-text('Unfold inside')")
    for press in ("g", "Control+z", "Control+z"):
        v.key(press)
        v.settle()
        v.page.wait_for_selector(".details h2:has-text('layer.4 up + gelu')")


WIDER = """() => [...document.querySelectorAll(".icicle-bar")].map((b) =>
  b.offsetWidth - (parseFloat(b.style.width) / 100) * b.parentElement.clientWidth)"""


def test_a_narrow_bar_of_the_icicle_does_not_cover_its_neighbour(viewer) -> None:
    m = Maker("times")
    at = m.op("Input", "x", kind="source")
    for i, seconds in enumerate((1.0, 1e-3, 1e-3)):
        at = m.op("Relu", f"r{i}", at)
        m.graph.add(TimeRow("run", at, seconds))
    v = viewer(m.finish(), size=(1600, 900))
    v.key("k")
    v.page.click(".drawer [role=tab]:has-text('Time by module')")
    v.page.wait_for_selector(".icicle-bar")
    assert max(v.page.evaluate(WIDER)) <= 1


def test_values_with_a_histogram(viewer) -> None:
    from glasshouse.record import RecordingBuilder
    from glasshouse.record.schema import SummaryRow, Text

    made = RecordingBuilder("values")
    graph = made.graph("values")
    graph.stage("traced")
    weight = graph.node("Constant", name="w", kind="source", outputs=["float32[4]"])
    graph.node("Relu", kind="elementwise", inputs=[weight], outputs=["float32[4]"])
    row = SummaryRow(weight, 0, -1.5, 2.5, 0.5, 1, 3, 0, 2, Text("1, 2"), histogram=[1, 4, 2])
    graph.add(row)
    v = viewer(made.finish(), size=(1600, 900))
    v.pick("name:w")
    v.page.wait_for_selector(".histogram[aria-label='Histogram from -1.5 to 2.5']")
    assert v.page.locator(".histogram span").count() == 3
    assert "nans\n3" in v.text(".details dl:has-text('nans')")


def test_a_file_without_figures_has_tables_too(viewer) -> None:
    v = viewer(rich(), stage=0, size=(1600, 900))
    v.key("k")
    v.page.wait_for_selector("table.kernels tbody tr")
    assert "time not measured at this stage" in v.text(".drawer-bar [role=status]")
