"""Figures are facts of the stage: the same folded, unfolded and with changes; like beside like."""

from __future__ import annotations

import pytest

from browser.kernels import LAYERS, SLOW, compiled

RUN = "class:Layer"


def facts(v) -> dict[str, str]:
    """The details' list of facts, once it is there."""
    v.page.wait_for_selector(".details dl.facts dt")
    names = v.page.locator(".details dl.facts").first.locator("dt").all_inner_texts()
    values = v.page.locator(".details dl.facts").first.locator("dd").all_inner_texts()
    return dict(zip(names, (t.replace("\u2009", " ") for t in values), strict=True))


def select_run(v) -> None:
    """The folded or open run of identical layers."""
    item = v.page.evaluate(
        """async () => {
          const e = window.glasshouse.engine;
          const rows = (await e.call("tree", {open: [], from: 0, count: 50})).rows;
          const inner = await e.call("tree", {open: rows.map(r => r.key), from: 0, count: 200});
          return inner.rows.find(r => / × /.test(r.title)).item;
        }"""
    )
    v.page.evaluate("i => window.glasshouse.select(i)", item)
    v.page.wait_for_selector(".details h2:has-text('×')")


def test_kernels_are_called_by_their_module(viewer) -> None:
    v = viewer(compiled(), size=(1600, 900))
    v.page.wait_for_selector(f".details .bar-row >> text=layer.{SLOW} up + gelu")
    assert "FusedMatmul" not in "".join(v.words())
    # A module with one op is that op: found by what the op is, and told with the kernel's code.
    v.search("op:FusedMatmul")
    v.page.wait_for_selector(f".palette-told:has-text('{LAYERS} of 19 nodes')")
    assert "group" not in v.text(".palette-told")
    v.key("Enter")
    v.page.wait_for_selector(".details h2:has-text('layer.0 up + gelu')")
    assert "void k0()" in v.text(".details")
    assert v.page.evaluate("() => window.glasshouse.selected") >= v.page.evaluate(
        "() => window.glasshouse.result.update.nodes"
    ), "the module's own box is gone to"


def test_a_rule_for_ops_paints_the_module_that_is_the_op(viewer) -> None:
    v = viewer(compiled(), size=(1600, 900))
    painted = v.page.evaluate(
        """async () => {
          const e = window.glasshouse.engine;
          const rule = {queries: [{type: "query", query: "op:LayerNorm"}], nodeType: "op_nodes",
                        styles: {node_bg_color: {id: "node_bg_color", value: "#ff00ff"}}};
          const r = await e.call("styles", {rules: [rule]});
          const nodes = window.glasshouse.result.update.nodes;
          return [...r.fill].filter((f, i) => f && i >= nodes).length;
        }"""
    )
    assert painted == LAYERS


def test_facts_belong_to_the_stage(viewer) -> None:
    v = viewer(compiled(), size=(1600, 900))
    whole = facts(v)
    assert whole["Ops"] == str(2 * LAYERS)
    assert whole["Nodes"] == str(3 * LAYERS + 1)
    assert whole["Edges"] == str(3 * LAYERS)
    assert whole["Time"] == "1.80 ms"
    # With changes on, what the pass removed is drawn and counted by nobody.
    v.key("\\")
    v.page.wait_for_selector("nav.passes button[aria-pressed=true]")
    v.see("−")
    assert facts(v) == whole
    v.page.wait_for_selector(f".counts:has-text('{3 * LAYERS + 1} nodes')")
    v.key("\\")
    v.page.wait_for_selector("nav.passes button[aria-pressed=false]")
    # An unfolded kernel is still one op with its own time.
    v.pick("op:FusedMatmul")
    inside = v.page.evaluate(
        """async () => {
          const g = window.glasshouse;
          const found = await g.engine.call("find", {text: "op:FusedMatmul", limit: 1});
          const d = await g.engine.call("group", {item: found.items[0]});
          await g.reveal(d.sole.item);
          await g.toggle(d.sole.item);
          g.select(-1);
          return g.result.nodes;
        }"""
    )
    assert inside == 3 * LAYERS + 1
    v.page.wait_for_selector(".details h2:has-text('small')")
    again = facts(v)
    for name in ("Ops", "Nodes", "Edges", "Parameters", "FLOPs", "Bytes written", "Time"):
        assert again[name] == whole[name], name


def test_what_was_not_measured_at_a_stage_says_so(viewer) -> None:
    v = viewer(compiled(), size=(1600, 900), stage=0, color="time")
    traced = facts(v)
    assert traced["Time"] == "not measured at this stage"
    assert traced["Ops"] == str(3 * LAYERS)
    assert "estimated" in traced["FLOPs"]
    assert "not measured at this stage" in v.text(".legend")


def test_a_broken_edge_is_counted_once_and_is_no_edge(viewer) -> None:
    from glasshouse.record import RecordingBuilder

    made = RecordingBuilder("broken")
    graph = made.graph("broken")
    graph.stage("traced")
    x = graph.node("Input", name="x", kind="source", outputs=["float32[4]"])
    graph.node("Add", kind="elementwise", inputs=[x, 77], outputs=["float32[4]"])
    v = viewer(made.finish(), size=(1600, 900))
    v.page.wait_for_selector(".counts:has-text('2 nodes · 1 edge')")
    assert facts(v)["Edges"] == "1 and 1 broken"


def test_a_run_tells_mean_range_and_each(viewer) -> None:
    v = viewer(compiled(), size=(1600, 900), color="time")
    v.key("c")
    v.see("encoder")
    select_run(v)
    v.page.wait_for_selector(".run-bars >> nth=0")
    told = v.text(".details").replace("\u2009", " ")
    assert "mean 300 µs" in told
    assert "150 µs to 1.05 ms" in told
    assert f"All {LAYERS} together" in told
    columns = v.page.locator(".run-bars").first.locator(".run-column")
    assert columns.count() == LAYERS
    heights = [columns.nth(i).locator(".run-bar").bounding_box()["height"] for i in range(LAYERS)]
    assert heights.index(max(heights)) == SLOW
    assert max(heights) > 4 * sorted(heights)[-2]
    columns.nth(SLOW).click()
    v.page.wait_for_selector(f".details h2:has-text('layer.{SLOW}')")


def test_an_outlier_is_seen_while_the_run_is_folded(viewer) -> None:
    v = viewer(compiled(), size=(1600, 900), color="time")
    bars = v.page.evaluate(
        """async () => {
          const g = window.glasshouse;
          await g.foldAll();
          const c = await g.engine.call("color", {name: "time"});
          return c.runs.map(([, each]) => [...each]);
        }"""
    )
    top = bars[0] if bars else []
    if not top:  # the run is inside of a folded group: unfold that one
        v.key("h")
        v.settle()
        top = v.page.evaluate(
            """async () => {
              const g = window.glasshouse, e = g.engine;
              const rows = (await e.call("tree", {open: [], from: 0, count: 9})).rows;
              await g.setFold(rows.find(r => r.key).item, 1);
              const c = await e.call("color", {name: "time"});
              return [...c.runs[0][1]];
            }"""
        )
    assert top.index(max(top)) == SLOW
    assert len(top) == LAYERS
    v.see("6 × 300")


def test_colours_scale_to_what_is_drawn(viewer) -> None:
    v = viewer(compiled(), size=(1600, 900), color="time")
    ticks = "() => document.querySelector('.legend .ticks').innerText.replaceAll('\\u2009', ' ')"
    v.key("e")
    v.see("layer.1")
    v.page.wait_for_function(f"() => ({ticks})().endsWith('1 ms')")
    v.key("c")
    v.miss("layer.1")
    v.page.wait_for_function(f"() => ({ticks})().endsWith('1.80 ms')")
    assert "scaled to what is drawn" in v.text(".legend")


def test_every_measure_scales_to_what_is_drawn(viewer) -> None:
    """Folded boxes are not all the darkest: the scale ends where the boxes in view do."""
    v = viewer(compiled(), size=(1600, 900))
    v.key("e")
    v.see("layer.1")
    for name, low, high in (
        ("time", 5e-5, 1e-3), ("error", 1e-7, LAYERS * 1e-7), ("limit", 0.02, 0.4),
        ("bytes", 1024, 1024),
    ):  # fmt: skip
        c = v.page.evaluate(
            """async name => { const e = window.glasshouse.engine;
                 const names = (await e.call("measures", null)).map(m => m.name);
                 const c = await e.call("color", {name});
                 return c ? {low: c.low, high: c.high, names} : {names}; }""",
            name,
        )
        assert (c.get("low"), c.get("high")) == (pytest.approx(low), pytest.approx(high)), (name, c)
    # A folded group's share is that of its kernels by their time, not the best or the mean of them.
    v.key("c")
    v.miss("layer.1")
    whole = v.page.evaluate(
        """async () => { const c = await window.glasshouse.engine.call("color", {name: "limit"});
                         return c.value[window.glasshouse.result.update.nodes]; }"""
    )
    assert whole == pytest.approx(2 * LAYERS * 2e-5 / 1.8e-3)
