"""Finding things: the palette's language, jumping, walking, tracing, in small and large graphs."""

from __future__ import annotations

from browser.recordings import chain, rich

CASES = [
    ("gelu", "2 of 9 nodes"),
    ("/^ge.u$/", "2 of 9 nodes"),
    ("op:matmul", "2 of 9 nodes"),
    ("alpha:1.5", "2 of 9 nodes"),
    ("attr:transpose_b=true", "2 of 9 nodes"),
    ("shape:64,64", "2 of 9 nodes"),
    ("shape:f32[*,64]", "9 of 9 nodes"),
    ("model.py:6", "2 of 9 nodes"),
    ("file:model.py:5-6", "4 of 9 nodes"),
    ("in:block1 -op:constant", "3 of 9 nodes"),
    ("class:linear", "2 groups"),
    ("op:gelu | op:add", "4 of 9 nodes"),
    ("bytes>1kB", "6 of 9 nodes"),
    ("block0", "1 of 9 nodes, 1 group"),
    ("is:constant", "2 of 9 nodes"),
    ("is:output", "1 output"),
    ("nothing_like_this", "No node matches “nothing_like_this”"),
    ("/(/", "regular expression"),
    ("is:purple", "is not known"),
]


def test_the_language_of_the_palette(viewer) -> None:
    v = viewer(rich(), stage=0)
    v.page.keyboard.press("/")
    assert "regular expression" in v.text(".palette-help")
    for query, told in CASES:
        v.page.fill(".palette-input", query)
        v.page.wait_for_selector(f".palette-told:has-text('{told}')", timeout=5000)
    v.page.fill(".palette-input", "time>250us")
    v.page.wait_for_selector(".palette-told:has-text('Time is not measured at this stage')")
    v.key("Escape", "]")
    v.page.wait_for_selector(".stage-tab[aria-selected=true]:has-text('FuseOperator')")
    for query, told in (("time>250us", "1 of"), ("error>1.5e-7", "1 of"), ("heat<15", "1 of"),
                        ("kernel:kernel_1", "1 of"), ("pass:fuse", "2 of"),
                        ("is:removed", "4 of")):  # fmt: skip
        v.search(query)
        v.page.wait_for_selector(f".palette-told:has-text('{told}')", timeout=5000)


def test_hits_are_lit_and_jumped_to(viewer) -> None:
    v = viewer(rich(), stage=0)
    v.search("op:gelu")
    v.page.wait_for_selector(".palette-told:has-text('2 of')")
    assert v.page.locator(".hit").count() == 2
    assert "block0" in v.text(".hit >> nth=0")
    v.key("Enter")
    v.page.wait_for_selector(".details h2:has-text('Gelu')")
    v.page.wait_for_selector(".crumbs:has-text('block0')")
    v.key("Enter")
    v.page.wait_for_selector(".crumbs:has-text('block1')")
    v.key("Escape")
    assert not v.page.is_visible(".palette")


def test_thousands_of_hits_are_a_list_of_those_in_view(viewer) -> None:
    v = viewer(chain(20_000, 100))
    v.search("op:softmax")
    v.page.wait_for_selector(".palette-told:has-text('5\u2009000 of')", timeout=20000)
    # The page is never blocked: rows that are not in view do not exist.
    assert v.page.locator(".hit").count() < 60
    v.search("name:op_19999")
    v.page.wait_for_selector(".palette-told:has-text('1 of')", timeout=20000)
    v.key("Enter")
    v.page.wait_for_selector(".crumbs:has-text('layers')", timeout=20000)
    v.page.wait_for_selector(".details:has-text('layers.99.op_19999')", timeout=20000)


def test_arrows_walk_the_graph(viewer) -> None:
    v = viewer(rich(), stage=0)
    v.key("e")
    v.see("Gelu")
    v.pick("op:gelu in:block0")
    for arrow, title in (("ArrowUp", "Matmul"), ("ArrowDown", "Gelu"), ("ArrowDown", "Add")):
        v.key(arrow)
        v.page.wait_for_selector(f".details h2:has-text('{title}')")
    v.key("Backspace")
    v.page.wait_for_selector(".details h2:has-text('block0')")
    v.key("Escape")
    v.page.wait_for_selector(".details h2:has-text('rich')")


def test_folding_by_key_and_by_mouse(viewer) -> None:
    v = viewer(chain(12, 2))
    v.key("c")
    v.see("layers")
    folded = len(v.words())
    v.key("e")
    v.see("part0")
    assert len(v.words()) > folded
    v.key("Control+z")
    v.miss("part0")
    v.key("Control+Shift+z")
    v.see("part0")
    v.key("g")
    v.miss("part0")
    v.see("Softmax")
    v.key("h")
    v.see("layers")


def test_double_click_unfolds(viewer) -> None:
    v = viewer(rich())
    v.key("c")
    v.see("net")
    v.miss("FusedMatmul")
    spot = v.page.evaluate(
        """() => {
          const view = window.glasshouse.view, p = view.scene.root;
          const r = document.querySelector(".graph-canvas").getBoundingClientRect();
          for (let i = 0; i < p.count; i++) {
            const at = view.scene.place(p.batch.item[p.first + i]);
            if (view.scene.title(p, i).includes("net")) return [
              r.x + view.camera.x + (at.x + at.w / 2) * view.camera.scale,
              r.y + view.camera.y + (at.y + at.h / 2) * view.camera.scale];
          }
        }"""
    )
    v.page.mouse.dblclick(*spot)
    v.see("block1")


def test_trace_upstream_and_downstream(viewer) -> None:
    v = viewer(rich(), stage=0)
    v.pick("op:gelu in:block0")
    v.key("u")
    v.page.wait_for_selector(".toast:has-text('3 nodes upstream')")
    v.key("d")
    v.page.wait_for_selector(".toast:has-text('4 nodes downstream')")
    v.key("Escape")
    v.page.wait_for_selector(".toast", state="hidden")
    v.page.wait_for_selector(".details h2:has-text('Gelu')")


def test_keys_are_listed(viewer) -> None:
    v = viewer(rich())
    v.key("?")
    v.page.wait_for_selector("dialog[open]")
    shown = v.text("dialog")
    for word in ("search", "upstream", "previous and next pass", "unfold all", "two panes"):
        assert word in shown
    v.key("Escape")
    v.page.wait_for_selector("dialog[open]", state="detached")
