"""Nodes that hold ops: a fused kernel unfolds in its place, with its code and figures beside it."""

from __future__ import annotations

from functools import cache

import numpy as np

import glasshouse as gh
from browser.recordings import rich
from glasshouse.nn.models.bert import Bert, BertConfig
from glasshouse.record import Recording
from glasshouse.show.subject import recording_of


def test_a_fused_kernel_unfolds_in_place(viewer) -> None:
    v = viewer(rich(), size=(1600, 900))
    v.pick("op:fusedmatmul in:block0")
    before = v.places("FusedMatmul")
    v.key("Enter")
    v.see("InnerGelu")
    v.see("InnerMatmul")
    assert "block1" in v.words(), "the graph around it is still there"
    assert v.words().count("FusedMatmul") == 2, "the sheet of one and the box of the other"
    moved = [abs(a[1] - b[1]) for a in before for b in v.places("FusedMatmul")]
    assert min(moved) < 30, "it stayed where it was"
    # What the kernel is stands beside its ops, and the ops can be asked, too.
    v.page.wait_for_selector(".details:has-text('void kernel_0')")
    v.page.wait_for_selector(".details:has-text('200\u2009µs')")
    v.pick("op:innergelu")
    v.page.wait_for_selector(".details:has-text('approximate')")
    v.page.wait_for_selector(".details:has-text('model.py:6')")
    v.page.wait_for_selector(".crumbs:has-text('FusedMatmul')")
    # Back by the same key on the sheet, and by undo.
    v.key("Backspace", "Enter")
    v.miss("InnerGelu")
    v.page.wait_for_selector(".details h2:has-text('FusedMatmul')")
    v.key("Control+z")
    v.see("InnerGelu")


def test_figures_of_a_kernel_stay_while_it_is_unfolded(viewer) -> None:
    v = viewer(rich(), size=(1600, 900), color="time")
    v.see("200\u2009µs")
    v.pick("op:fusedmatmul in:block0")
    v.page.click(".details button:has-text('Unfold inside')")
    v.see("InnerGelu")
    v.see("200\u2009µs")
    v.page.wait_for_selector(".legend:has-text('600\u2009µs in all')")
    v.page.click(".details button:has-text('Fold inside')")
    v.miss("InnerGelu")


def test_an_unfolded_kernel_is_part_of_a_link(viewer) -> None:
    v = viewer(rich(), size=(1600, 900))
    v.pick("op:fusedmatmul in:block1")
    v.key("Enter")
    v.see("InnerGelu")
    v.page.click("button[title=More]")
    v.page.click(".menu >> text=Copy link")
    v.page.wait_for_selector(".toast:has-text('link')")
    other = viewer(None, size=(1600, 900))
    other.goto(v.page.evaluate("() => location.href"))
    other.see("InnerGelu")


@cache
def optimised_bert() -> Recording:
    gh.manual_seed(0)
    small = BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=4, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=16,
    )  # fmt: skip
    graph = gh.trace(Bert(small), np.zeros((1, 8), np.int64))
    with gh.PassContext() as ctx:
        watched = ctx.record()
        gh.optimize(graph)
    return recording_of(watched)


def test_a_kernel_stands_where_its_weight_does(viewer) -> None:
    """The box of every product lies in the module that its weight is named after."""
    v = viewer(optimised_bert(), size=(1920, 1080))
    found = v.page.evaluate(
        """async () => {
          const { engine } = window.glasshouse, out = [];
          const { items } = await engine.call("find", {text: "op:FusedMatmul*", limit: 100});
          for (const item of items) {
            const d = item < window.glasshouse.result.update.nodes ? item
              : (await engine.call("group", {item})).sole.item;
            const node = await engine.call("node", {item: d});
            out.push([node.path.map(p => p.title), node.title, node.inputs.map(i => i.title)]);
          }
          return out;
        }"""
    )
    assert len(found) == 4 * 4 + 1
    for path, title, inputs in found:
        stands = ".".join(p for p in path if "×" not in p)
        weights = [i.removesuffix(".weight") for i in inputs if i.endswith(".weight")]
        assert all(w.endswith(stands) for w in weights), (stands, weights)
        assert weights or (title, path[-1]) == ("query + key + value", "self"), (path, title)


def test_kernels_of_identical_layers_unfold_together(viewer) -> None:
    v = viewer(optimised_bert(), size=(1920, 1080))
    v.see("layer × 4")
    v.pick("op:fusedattention*")
    v.key("Enter")
    v.see("Attention")
    v.see("Permute")
    v.see("layer × 4")


def test_a_decision_stands_on_the_edge_it_was_about(viewer) -> None:
    v = viewer(rich(), size=(1600, 900))
    v.pick("op:fusedmatmul in:block0")
    v.see("two anchors need their own loops")
    (note,) = v.places("two anchors need their own loops")
    fused, add = (min(v.places(w), key=lambda p: abs(p[1] - note[1])) for w in ("FusedM", "Add"))
    assert fused[1] < note[1] < add[1], "between the two that were not fused"
    assert "1.02\u2009kB" in v.text(".details"), "the figures that decided"
    v.key("Escape")
    v.miss("two anchors")


def test_figures_of_a_kernel_and_of_the_memory_plan(viewer) -> None:
    v = viewer(rich(), size=(1600, 900))
    v.page.wait_for_selector(".details:has-text('300\u2009B in one arena, 30\u2009% of')")
    v.pick("op:fusedmatmul in:block0")
    for shown in ("164\u2009MFLOP/s", "50\u2009%", "naive", "900\u2009µs", "void kernel_0"):
        v.page.wait_for_selector(f".details:has-text('{shown}')")
