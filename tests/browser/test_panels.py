"""What panels tell: details of all a recording says, outline, passes, colours, styles."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np

import glasshouse as gh
from browser.recordings import chain, rich
from glasshouse import nn


def test_details_of_a_node(viewer) -> None:
    v = viewer(rich(), size=(1920, 1080))
    v.pick("op:fusedmatmul")
    v.page.wait_for_selector(".details >> text=made by FuseOperator")
    v.page.wait_for_selector(".details .code-line:has-text('self.linear')")
    shown = v.text(".details")
    for part in (
        "FusedMatmul", "made by FuseOperator",           # what it is
        "block0.linear.weight", "f32[64,64]",            # inputs
        "demo/model.py:5", "y = self.linear(x)",         # source text, with its line
        "kernel_0", "tiled", "naive",                    # kernel and what else was tried
        "void kernel_0(const float* x)",                 # generated code
        "1 KB never reaches memory",                     # the rewrite that made it, and why
        "two anchors need their own loops", "1.02",      # what was decided against, with numbers
        "200\u2009µs", "run 2",                          # times
        "1.00e-7", "3.00e-7",                            # own and inherited error
        "0.125", "0.5, -1.5, 2.5",                       # values
        "heat", "10", "team 0",                          # free data
        "50\u2009%",                                     # share of the machine's limit
    ):  # fmt: skip
        assert part in shown, part
    assert "here" in (v.page.get_attribute(".code-line:has-text('self.linear')", "class") or "")
    # An input is a link to what makes it; a node of an earlier stage is a link to that stage.
    v.page.click(".details .port button:has-text('block0.linear.weight')")
    v.page.wait_for_selector(".details h2:has-text('block0.linear.weight')")
    v.pick("op:fusedmatmul")
    v.page.click(".details .refs button:has-text('Gelu')")
    v.page.wait_for_selector(".stage-tab[aria-selected=true]:has-text('traced')")
    v.page.wait_for_selector(".details h2:has-text('Gelu')")


def test_one_number_of_nodes_wherever_it_is_told(viewer) -> None:
    """Outputs of the graph are drawn beside its nodes and counted by none."""
    v = viewer(rich(), stage=0, size=(1600, 900))
    v.page.wait_for_selector(".counts:has-text('9 nodes · 10 edges')")
    v.page.wait_for_selector(".details dl.facts:has-text('Nodes9Edges10')")
    v.page.wait_for_selector(".stage-tab[aria-selected=true][title$='9 nodes']")
    v.search("is:source")
    v.page.wait_for_selector(".palette-told:has-text('of 9 nodes')")


def test_inside_of_a_fused_node_and_way_back(viewer) -> None:
    v = viewer(rich())
    v.pick("op:fusedmatmul")
    v.page.click("text=Open alone")
    v.see("InnerGelu")
    v.page.click(".crumbs .crumb:has-text('rich')")
    v.see("FusedMatmul")
    v.miss("InnerGelu")


def test_details_of_a_group_and_breadcrumbs(viewer) -> None:
    v = viewer(rich())
    v.pick("op:fusedmatmul")
    v.page.click(".crumbs .crumb:has-text('block0')")
    v.page.wait_for_selector(".details h2:has-text('block0')")
    shown = v.text(".details")
    assert "Block" in shown
    assert "Ops\n2" in shown
    v.page.click(".crumbs .crumb >> nth=0")
    v.page.wait_for_selector(".details h2:has-text('rich')")


def test_outline_by_mouse_and_keyboard(viewer) -> None:
    v = viewer(chain(3000, 30), size=(1600, 900))
    v.page.wait_for_selector(".outline .row")
    rows = v.page.locator(".outline .row")
    v.page.wait_for_selector(".outline .row[aria-level='2']")
    assert 10 < rows.count() < 200, "only rows in view exist"
    v.page.click(".outline .row:has-text('layers') >> nth=0 >> .twist")
    v.page.wait_for_selector(".outline .row[aria-level='2']", state="detached")
    v.page.click(".outline .row:has-text('layers') >> nth=0 >> .twist")
    v.page.wait_for_selector(".outline .row[aria-level='2']")
    v.page.focus(".outline .list")
    v.key("ArrowDown", "ArrowDown")
    v.page.wait_for_selector(".outline .row.chosen")
    chosen = v.text(".outline .row.chosen .row-title")
    v.page.wait_for_selector(f".crumb.here:has-text('{chosen.split(' ')[0]}')")
    # The outline follows a selection made elsewhere, through folds.
    v.pick("name:op_2995")
    chosen_row = v.page.locator(".outline .row.chosen")
    v._until(lambda: chosen_row.count() == 1 and chosen_row.is_visible(), "the outline lost it")


def test_passes_are_stepped_through_with_marks(viewer) -> None:
    v = viewer(rich())
    strip = v.text(".stages")
    assert "+2" in strip
    assert "−4" in strip
    assert "~2" in strip
    v.miss("+ Fused")
    v.key("[")
    v.page.wait_for_selector(".stage-tab[aria-selected=true]:has-text('traced')")
    v.see("Gelu")
    v.miss("FusedMatmul")
    v.key("]")
    v.page.wait_for_selector(".stage-tab[aria-selected=true]:has-text('FuseOperator')")
    v.see("+ Fused")
    v.see("− Gelu")
    v.see("~ Add")
    assert "2 added, 4 removed, 2 changed" in v.text(".passes")
    v.page.click(".passes button:has-text('Changes')")
    v.miss("− Gelu")
    v.see("FusedMatmul")


def test_selection_is_followed_through_passes(viewer) -> None:
    v = viewer(rich(), size=(1920, 1080))
    v.key("[")
    v.page.wait_for_selector(".stage-tab[aria-selected=true]:has-text('traced')")
    v.pick("op:gelu")
    v.key("]")
    v.page.wait_for_selector(".details h2:has-text('FusedMatmul'), .details h2:has-text('Gelu')")
    v.page.wait_for_selector(".stage-tab[aria-selected=true]:has-text('FuseOperator')")


def select(v, label: str, value: str) -> None:
    v.page.select_option(f"select[aria-label='{label}']", value)


def test_colour_by_time_error_bytes_and_data(viewer) -> None:
    v = viewer(rich())
    v.miss("200\u2009µs")
    for name, figure, legend in (
        ("time", "200\u2009µs", "600\u2009µs in all"),
        ("error", "1.0e-7", "largest 2.0e-7"),
        ("bytes", "1.02\u2009kB", "in all"),
        ("data:heat", "10", "heat"),
        ("data:owner", "team 1", "team 0"),
    ):
        select(v, "Colour by", name)
        v.page.wait_for_selector(f".legend:has-text('{legend}')")
        v.see(figure)
    v.page.click(".legend button")
    v.page.wait_for_selector(".legend", state="hidden")
    v.miss("team 1")


def pixel(v, word: str) -> tuple[int, int, int]:
    """The colour on screen just above a drawn word, read off a screenshot."""
    v.settle()
    at = v.page.evaluate(
        """(word) => {
          const svg = window.glasshouse.view.toSvg(false);
          const tree = new DOMParser().parseFromString(svg, "image/svg+xml");
          const t = [...tree.querySelectorAll("text")].find(t => t.textContent.includes(word));
          const r = document.querySelector(".graph-canvas").getBoundingClientRect();
          const at = (name) => Number(t.getAttribute(name));
          return t ? [r.x + at("x") + 4, r.y + at("y") - 9] : null;
        }""",
        word,
    )  # fmt: skip
    assert at, f"{word} is not drawn"
    shot = v.page.screenshot(clip={"x": at[0], "y": at[1], "width": 1, "height": 1})
    return tuple(decode(v, shot))


def decode(v, png: bytes) -> list[int]:
    """The first pixel of a PNG, by a page of its own: the viewer's allows no foreign script."""

    helper = v.page.context.new_page()
    try:
        return helper.evaluate(
            """async (data) => {
              const image = new Image();
              image.src = "data:image/png;base64," + data;
              await image.decode();
              const c = document.createElement("canvas");
              const ctx = c.getContext("2d");
              ctx.drawImage(image, 0, 0);
              return [...ctx.getImageData(0, 0, 1, 1).data].slice(0, 3);
            }""",
            base64.b64encode(png).decode(),
        )
    finally:
        helper.close()


def test_style_rules_of_the_file_and_of_ones_own(viewer, tmp_path: Path) -> None:
    v = viewer(rich())
    v.see("Add")
    v.page.wait_for_timeout(50)
    assert pixel(v, "Add") == (255, 0, 255), "the rule in the file colours Add"
    v.page.click(".side-tabs button:has-text('Styles')")
    v.page.wait_for_selector(".rules li")
    assert "2 boxes" in v.text(".rules")
    v.page.click("text=Add rule")
    v.page.fill(".rules li:last-child input[type=text]", "op:fusedmatmul")
    v.page.fill(".rules li:last-child input[aria-label=Fill]", "#00ff00")
    v.page.wait_for_selector(".rules li:last-child:has-text('2 boxes')")
    assert pixel(v, "FusedMatmul") == (0, 255, 0)
    v.page.fill(".rules li:last-child input[type=text]", "/(/")
    v.page.wait_for_selector(".rules li:last-child .trouble")
    v.page.fill(".rules li:last-child input[type=text]", "op:fusedmatmul")
    with v.page.expect_download() as download:
        v.page.click(".styles button:has-text('Export')")
    rules = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    assert [r["queries"][0]["type"] for r in rules] == ["regex", "query"]
    # Removed, then imported again from the exported file.
    v.page.click(".rules li:last-child button[title='Remove this rule']")
    v.page.wait_for_selector(".rules li >> nth=1", state="detached")
    assert pixel(v, "FusedMatmul") != (0, 255, 0)
    kept = tmp_path / "my.rules.json"
    kept.write_text(json.dumps(rules[1:]), encoding="utf-8")
    v.page.set_input_files(".styles input[type=file]", str(kept))
    v.page.wait_for_selector(".rules li >> nth=1")
    v.page.wait_for_selector(".rules li:last-child:has-text('2 boxes')")
    assert pixel(v, "FusedMatmul") == (0, 255, 0)


def test_grouping_can_be_switched(viewer) -> None:
    v = viewer(rich())
    v.key("[")
    v.page.wait_for_selector(".stage-tab[aria-selected=true]:has-text('traced')")
    v.see("block0")
    select(v, "Group by", "phase")
    v.see("forward")
    v.miss("block0")


def test_panels_are_reachable_and_named(viewer) -> None:
    """What a screen reader needs: roles and names of panels, lists and controls."""
    v = viewer(rich(), size=(1920, 1080))
    v.page.wait_for_selector("[role=tree][aria-label=Outline] [role=treeitem]")
    for selector in (
        "[role=region][aria-label=Details]",
        "nav[aria-label=Passes] [role=tab][aria-selected=true]",
        "[role=application][aria-label=Graph]", "select[aria-label='Group by']",
        "select[aria-label='Colour by']",
    ):  # fmt: skip
        assert v.page.query_selector(selector), selector
    nameless = v.page.evaluate(
        """() => [...document.querySelectorAll("button")].filter(b => b.offsetParent !== null
             && !(b.textContent.trim() || b.title || b.getAttribute("aria-label"))).length"""
    )
    assert nameless == 0
    # Everything in the toolbar can be walked to with the keyboard, and the focus is visible.
    v.page.evaluate("() => document.activeElement.blur()")
    seen = set()
    for _ in range(14):
        v.key("Tab")
        seen.add(
            v.page.evaluate(
                "() => document.activeElement.title || document.activeElement.ariaLabel"
            )
        )
        outline = v.page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
    assert {"Search (/)", "More", "Keys (?)"} <= seen


class _LongNames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        for name in ("first", "second"):
            setattr(self, f"the_{name}_projection_of_the_multi_scale_pyramid", nn.Linear(16, 16))

    def forward(self, x):
        for _, layer in self.named_children():
            x = gh.relu(layer(x))
        return x


def test_long_names_of_slow_kernels_are_shown_whole(viewer) -> None:
    x = np.zeros((4, 16), np.float32)
    module = gh.compile(_LongNames(), x, target="interp", progress=False)
    v = viewer(module.recording(x, count=1), size=(1440, 900))
    v.page.wait_for_selector(".bar-row.tall .link")
    links = v.page.eval_on_selector_all(
        ".bar-row.tall .link", "all => all.map(e => [e.innerText, e.scrollWidth > e.clientWidth])"
    )
    for name in ("first", "second"):
        whole = f"the_{name}_projection_of_the_multi_scale_pyramid"
        assert [whole in text for text, _ in links].count(True) == 1, links
    assert not any(cut for _, cut in links)
