"""Orders about many jobs at once: ranges, all that match a filter, a whole sweep."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from waiting import eventually
from web.browser import Tabs


def box(tab: Page, name: str) -> Locator:
    return tab.locator(".row:not([hidden])", has_text=name).locator("input")


def counts(tabs: Tabs) -> dict[str, int]:
    found = tabs.page.home.call("status", limit=1)["counts"]
    return {state: number for state, number in found.items() if number}


# The places that rows have in the page, and how far down each is seen, in the order of the page.
ROWS = """() => [...document.querySelectorAll('.rows .row:not([hidden])')].map((row) =>
  [Number(row.getAttribute('aria-rowindex')), row.getBoundingClientRect().top])"""


def test_what_is_ordered_of_all_that_match_is_done_to_these_and_no_others(tabs: Tabs) -> None:
    tabs.expects_refusals = True
    home = tabs.page.home
    home.call("pause")
    other = home.submit("true", name="other", group="small")
    home.submit_all(
        [{"argv": ["true"], "name": f"n{n:04}", "group": "big", "hold": True} for n in range(1200)]
    )
    tab = tabs.enter("#/?text=group:big")
    expect(tab.locator(".size")).to_have_text("1,200 jobs")
    chosen = tab.locator(".chosen")
    tab.get_by_label("Choose all that match").check()
    expect(chosen).to_contain_text("All 1,200 jobs that match")
    expect(tab.locator(".row:not([hidden]) .c-pick input").nth(3)).to_be_checked()
    expect(tab).to_have_url(re.compile("chosen=all"))
    tab.reload()
    expect(chosen).to_contain_text("All 1,200 jobs that match")
    chosen.get_by_role("button", name="Priority…").click()
    tab.locator("dialog input").fill("7")
    tab.locator("dialog").get_by_role("button", name="Set").click()
    expect(tab.locator("dialog")).to_have_count(0)
    expect(chosen).to_be_hidden()
    expect(tab.locator(".row:not([hidden]) .c-prio").nth(5)).to_have_text("7")
    assert home.job(other)["priority"] == 0
    tab.locator(".row:not([hidden]) .c-pick input").nth(2).check()
    chosen.get_by_role("button", name="All 1,200 that match").click()
    expect(chosen).to_contain_text("All 1,200 jobs that match")
    chosen.get_by_role("button", name="Hold").click()
    expect(tab.locator(".now > .error")).to_contain_text("None of these jobs is in a state for")
    chosen.get_by_role("button", name="Release").click()
    expect(tab.locator(".total[data-state=waiting] b")).to_have_text("1,201")
    expect(chosen).to_be_hidden()
    tab.get_by_label("Choose all that match").check()
    chosen.get_by_role("button", name="Hold").click()
    expect(tab.locator(".total[data-state=held] b")).to_have_text("1,200")
    assert counts(tabs) == {"waiting": 1, "held": 1200}
    expect(chosen).to_be_hidden()
    tab.get_by_label("Choose all that match").check()
    chosen.get_by_role("button", name="Cancel").click()
    dialog = tab.locator("dialog")
    expect(dialog).to_contain_text("Cancel 1,200 jobs?None of them has started.")
    dialog.get_by_role("button", name="Cancel them").click()
    expect(tab.locator(".total[data-state=cancelled] b")).to_have_text("1,200")
    assert counts(tabs) == {"waiting": 1, "cancelled": 1200}
    tab.get_by_label("Filter").fill("group:big n000")
    expect(tab.locator(".size")).to_have_text("10 jobs")
    tab.get_by_label("Choose all that match").check()
    expect(chosen).to_contain_text("10 jobs chosen")
    box(tab, "n0003").uncheck()
    expect(chosen).to_contain_text("9 jobs chosen")
    chosen.get_by_role("button", name="Retry").click()
    expect(tab.locator(".total[data-state=waiting] b")).to_have_text("10")
    assert home.job(other + 4)["state"] == "cancelled"
    tab.get_by_label("Filter").fill("group:big")
    expect(tab.locator(".size")).to_have_text("1,200 jobs")
    tab.get_by_label("Choose all that match").check()
    expect(chosen).to_contain_text("All 1,200 jobs that match")
    chosen.get_by_role("button", name="Retry").click()
    expect(dialog).to_contain_text("Retry 1,191 jobs?")
    dialog.get_by_role("button", name="Retry them").click()
    expect(tab.locator(".total[data-state=waiting] b")).to_have_text("1,201")
    assert counts(tabs) == {"waiting": 1201}


def test_ranges_are_chosen_by_shift_with_mouse_and_keys(tabs: Tabs) -> None:
    home = tabs.page.home
    home.call("pause")
    home.submit_all([{"argv": ["true"], "name": f"n{n:04}"} for n in range(300)])
    tab = tabs.enter()
    expect(tab.locator(".size")).to_have_text("300 jobs")
    chosen = tab.locator(".chosen")
    box(tab, "n0002").click()
    tab.evaluate("() => scrollTo(0, document.body.scrollHeight)")
    expect(tab.locator(".row:not([hidden])", has_text="n0299")).to_be_visible()
    box(tab, "n0297").click(modifiers=["Shift"])
    expect(chosen).to_contain_text("296 jobs chosen")
    eventually(
        lambda: (rows := tab.evaluate(ROWS)) == sorted(rows), "the page's order is what one sees"
    )
    rows = tab.evaluate(ROWS)
    assert len(rows) > 10 and rows[-1][0] == 301
    assert [top for _, top in rows] == sorted(top for _, top in rows)
    box(tab, "n0290").click()
    box(tab, "n0281").click(modifiers=["Shift"])
    expect(chosen).to_contain_text("286 jobs chosen")
    expect(box(tab, "n0285")).not_to_be_checked()
    tab.locator(".row:not([hidden])", has_text="n0295").locator(".c-state").click()
    expect(tab.locator("h1 bdi")).to_have_text("n0295")
    tab.go_back()
    expect(tab.locator(".row:not([hidden])", has_text="n0298")).to_be_in_viewport()
    expect(chosen).to_contain_text("286 jobs chosen")
    chosen.get_by_role("button", name="None").click()
    tab.evaluate("() => scrollTo(0, 0)")
    tab.locator("body").press("j")
    for key in ("Shift+ArrowDown", "Shift+J"):
        tab.keyboard.press(key)
    expect(chosen).to_contain_text("3 jobs chosen")
    for key in ("j", "j", "Shift+Space"):
        tab.keyboard.press(key)
    expect(chosen).to_contain_text("5 jobs chosen")
    kept = tab.url
    assert kept.endswith("chosen=1-5")
    tab.reload()
    expect(chosen).to_contain_text("5 jobs chosen")
    expect(box(tab, "n0004")).to_be_checked()


def test_a_wrong_word_of_the_filter_is_told_with_the_right_one(tabs: Tabs) -> None:
    tabs.expects_refusals = True
    tabs.page.home.submit("true", name="one", hold=True)
    tab = tabs.enter()
    tab.get_by_label("Filter").fill("stat:held")
    expect(tab.locator(".list .empty")).to_contain_text("did you mean state:")
    expect(tab.locator(".rows .row:not([hidden])")).to_have_count(0)
    tab.get_by_label("Filter").fill("state:held")
    expect(tab.locator(".size")).to_have_text("1 job")


def test_a_sweep_is_retried_cancelled_and_given_more_points(tabs: Tabs) -> None:
    home = tabs.page.home
    sweep = {
        "space": ["lr=0,3,4"],
        "command": "test 1 -gt {lr}",
        "name": "s",
        "options": {"gpus": 0},
    }
    ids = tabs.page.post("/api/sweep", sweep)["ids"]
    home.until_final(*ids)
    other = home.submit("false", gpus=0, group="t")
    home.until_final(other)
    tab = tabs.enter("#/sweep/s")
    expect(tab.get_by_role("button", name="Cancel the rest")).to_be_hidden()
    home.call("pause")
    tab.get_by_role("button", name="Retry failed").click()
    expect(tab.get_by_role("button", name="Retry failed")).to_be_hidden()
    assert counts(tabs) == {"succeeded": 1, "failed": 1, "waiting": 2}
    tab.get_by_role("button", name="Hold").click()
    expect(tab.get_by_role("button", name="Hold")).to_be_hidden()
    assert counts(tabs) == {"succeeded": 1, "failed": 1, "held": 2}
    tab.get_by_role("button", name="Release").click()
    expect(tab.get_by_role("button", name="Release")).to_be_hidden()
    assert counts(tabs) == {"succeeded": 1, "failed": 1, "waiting": 2}
    tab.get_by_role("button", name="Cancel the rest").click()
    expect(tab.locator("dialog h2")).to_have_text("Cancel 2 jobs?")
    tab.locator("dialog").get_by_role("button", name="Cancel them").click()
    expect(tab.get_by_role("button", name="Cancel the rest")).to_be_hidden()
    tab.get_by_role("link", name="Add points").click()
    space = tab.get_by_label("Parameters, one a line")
    expect(space).to_have_value("lr=0,3,4")
    expect(tab.get_by_label("Command")).to_have_value("test 1 -gt {lr}")
    space.fill("lr=0,5")
    tab.get_by_role("button", name="Queue the sweep").click()
    expect(tab.locator(".done")).to_have_text(
        "2 points: 1 queued, 1 succeeded before. To the sweep"
    )
    assert home.job(other + 1)["params"] == {"lr": 5}
    assert home.job(other + 1)["group"] == "s"
