"""Axe finds nothing, walking is told, buttons have names, trees tell their state."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser.kernels import compiled
from browser.recordings import rich

AXE = Path(__file__).parents[2] / "viewer" / "node_modules" / "axe-core" / "axe.min.js"
# What a page of panels is held to: WCAG 2.2 AA and axe's good practice.
RUN = """async (rules) => {
  const found = await axe.run(document, {resultTypes: ["violations"],
    runOnly: rules ?? ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa", "best-practice"]});
  return found.violations.map(v => `${v.id}: ${v.help}: ` +
    v.nodes.slice(0, 4).map(n => n.html.slice(0, 140)).join(" || "));
}"""


def violations(v, rules: list[str] | None = None) -> list[str]:
    if not AXE.is_file():
        pytest.fail("axe-core is not installed; run: make viewer")
    if not v.page.evaluate("() => 'axe' in window"):
        v.page.evaluate(AXE.read_text(encoding="utf-8"))
    return v.page.evaluate(RUN, rules)


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing(viewer, dark: bool) -> None:
    rules = ["color-contrast"] if dark else None  # a theme changes nothing but colours
    v = viewer(compiled(), size=(1600, 900), dark=dark, color="time")
    v.pick("op:FusedMatmul")
    v.key("k")
    v.page.wait_for_selector("table.kernels tbody tr")
    assert violations(v, rules) == []
    for part in ("Time by module", "Memory"):
        v.page.click(f".drawer [role=tab]:has-text('{part}')")
        v.settle()
        assert violations(v, rules) == [], part
    v.search("gelu")
    v.page.wait_for_selector(".palette .hit")
    assert violations(v, rules) == []


def test_axe_finds_nothing_in_what_a_recording_can_say(viewer) -> None:
    v = viewer(rich(), size=(1600, 900))
    v.pick("op:fusedmatmul")
    v.page.wait_for_selector(".details >> text=made by FuseOperator")
    assert violations(v) == []


def test_axe_finds_nothing_at_the_start(viewer) -> None:
    v = viewer(compiled(), size=(390, 720))
    assert violations(v) == []


def test_walking_is_told(viewer) -> None:
    v = viewer(compiled(), size=(1600, 900), stage=0)
    v.pick("op:Matmul in:layer.0")
    region = v.page.locator("[aria-live=polite].live")
    v.page.wait_for_function("() => document.querySelector('.live').textContent.includes('up')")
    v.page.evaluate("() => document.querySelector('.graph-canvas').focus()")
    before = region.inner_text()
    v.key("ArrowDown")
    v.page.wait_for_function("t => document.querySelector('.live').textContent != t", arg=before)
    told = region.inner_text()
    assert "in layer" in told or "layer" in told, told


def test_every_button_has_a_name_and_trees_tell_whether_they_are_open(viewer) -> None:
    v = viewer(compiled(), size=(1700, 900))
    v.page.wait_for_selector("[role=treeitem]")
    unnamed = v.page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, [role=button]")]
          .filter(e => !e.hidden)
          .filter(e => !(e.textContent.trim() || e.ariaLabel || e.title || e.labels?.length))
          .map(e => e.outerHTML.slice(0, 120))"""
    )
    assert unnamed == []
    states = v.page.locator("[role=treeitem]").evaluate_all(
        "all => all.map(e => [e.getAttribute('aria-level'), e.getAttribute('aria-expanded')])"
    )
    assert all(level for level, _ in states)
    assert {"false"} <= {open for _, open in states if open}
    group = v.page.locator("[role=treeitem][aria-expanded=false]").first
    group.locator(".twist, button").first.click()
    v.page.wait_for_selector("[role=treeitem][aria-expanded=true]")
