"""A group with too many members to read says how many it holds and offers them as a list."""

from __future__ import annotations

from browser.recordings import broad


def test_a_group_too_large_to_read_is_a_list(viewer) -> None:
    v = viewer(broad(2500))
    v.see("many")
    v.pick("class:many")
    v.key("Enter")
    v.page.wait_for_selector(".large-group:has-text('2\u2009500 boxes')")
    assert v.page.locator(".large-group .row").count() < 80, "only rows in view exist"
    v.miss("Relu")
    v.key("ArrowDown", "ArrowDown")
    v.page.wait_for_selector(".large-group .row.chosen:has-text('branch_1')")
    v.page.wait_for_selector(".details:has-text('branch_1')")
    v.key("Escape")
    v.page.wait_for_selector(".large-group", state="hidden")


def test_what_is_found_in_a_large_group_is_shown_in_its_list(viewer) -> None:
    v = viewer(broad(2500))
    v.pick("name:branch_2222")
    v.page.wait_for_selector(".large-group .row.chosen:has-text('branch_2222')")
    v.page.wait_for_selector(".details:has-text('branch_2222')")


def test_a_large_group_unfolds_when_somebody_insists(viewer) -> None:
    v = viewer(broad(2500))
    v.pick("class:many")
    v.key("Enter")
    v.page.click("text=Unfold anyway")
    v.page.wait_for_selector(".large-group", state="hidden")
    v.pick("name:branch_77")
    v.see("Relu")
    assert v.page.is_hidden(".large-group")
