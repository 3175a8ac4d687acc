"""The timeline in a real browser: true to scale, with what runs drawn to its expected end."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect

from waiting import eventually
from web.browser import Tabs


def bars(tab: Page) -> list[dict[str, Any]]:
    """Each bar that is drawn, with its lane's height and its place in px."""
    found: list[dict[str, Any]] = tab.evaluate(
        "() => [...document.querySelectorAll('.tbar')].map((bar) => {"
        " const at = bar.getBoundingClientRect();"
        " return { name: bar.textContent, row: bar.closest('.lane').ariaLabel,"
        " left: at.left, right: at.right, top: at.top, width: at.width,"
        " wanted: parseFloat(bar.style.width), rest: bar.classList.contains('rest') }; })"
    )
    return found


def test_bars_are_true_to_scale_and_short_jobs_are_counted_until_one_zooms_in(tabs: Tabs) -> None:
    home = tabs.page.home
    ids = home.submit_all([{"argv": ["true"], "name": f"quick-{n}", "gpus": 0} for n in range(40)])
    home.until_final(*ids)
    long = home.submit("sleep", "600", name="long", gpus=1)
    home.until_pid(long)
    tab = tabs.enter("#/timeline")
    many = tab.locator(".tcount:not(.example)")
    expect(many.first).to_be_visible()
    assert sum(int(words) for words in many.all_text_contents()) == 40
    assert {one["row"] for one in bars(tab)} == {"GPU 0"}, "no job of no time has a bar"
    many.first.hover()
    expect(tab.locator("#tip")).to_contain_text("succeeded")
    many.first.click()
    expect(tab.get_by_role("button", name="Follow now")).to_be_visible()
    drawn = tab.locator(".lane[aria-label='no GPU'] .tbar")
    for _ in range(12):
        if drawn.count():
            break
        tab.keyboard.press("+")
    assert drawn.count(), "near enough, they are drawn"
    for one in bars(tab):
        assert abs(one["width"] - one["wanted"]) < 0.6, one
    found = bars(tab)
    for one in found:
        over = [
            other
            for other in found
            if other is not one and (other["row"], other["top"]) == (one["row"], one["top"])
            and one["left"] < other["right"] - 0.6 and other["left"] < one["right"] - 0.6
        ]  # fmt: skip
        assert not over, (one, over)
    tab.keyboard.press("0")
    expect(tab.get_by_role("button", name="Follow now")).to_be_hidden()


def test_a_range_stays_as_it_says_and_what_runs_is_drawn_to_its_expected_end(tabs: Tabs) -> None:
    home = tabs.page.home
    home.submit("sleep", "600", name="limited", gpus=1, time_limit_ms=600_000)
    home.submit("sleep", "600", name="endless", gpus=1)
    home.submit("true", name="far", gpus=4, time_limit_ms=40 * 3_600_000)
    home.until_pid(2)
    tab = tabs.enter("#/timeline")
    rest = tab.locator(".tbar.rest")
    expect(rest).to_have_count(2)
    track = tab.locator(".track").first.bounding_box()
    assert track
    shares = []
    for words in ("1 h", "24 h", "15 min"):
        tab.get_by_role("button", name=words, exact=True).click()
        tab.wait_for_timeout(50)
        # It is drawn anew each moment.
        mark = eventually(lambda: tab.locator(".track .now").first.bounding_box())
        assert mark
        shares.append((mark["x"] - track["x"]) / track["width"])
    assert all(abs(share - 0.8) < 0.02 for share in shares), shares
    limited = tab.locator(".lane[aria-label='GPU 0'] .tbar.rest").bounding_box()
    endless = tab.locator(".lane[aria-label='GPU 1'] .tbar.rest").bounding_box()
    assert limited and endless
    hour = track["width"] * 0.8 * 4  # px of an hour at 15 min
    assert abs(limited["width"] - min(hour / 6, track["width"] * 0.2)) < 25
    assert abs(endless["x"] + endless["width"] - track["x"] - track["width"]) < 2
    tab.locator(".lane[aria-label='GPU 1'] .tbar.rest").hover()
    expect(tab.locator("#tip")).to_contain_text("it is not known when it ends")
    tab.locator(".lane[aria-label='GPU 0'] .tbar:not(.rest)").focus()
    expect(tab.locator("#tip")).to_contain_text("expected to end in")


def test_dragging_and_the_wheel_move_and_zoom_what_is_seen(tabs: Tabs) -> None:
    home = tabs.page.home
    home.submit("sleep", "600", name="long", gpus=1)
    home.until_pid(1)
    tab = tabs.enter("#/timeline")
    mark = tab.locator(".track .now").first
    before = mark.bounding_box()
    track = tab.locator(".track").nth(2).bounding_box()
    assert before and track
    x, y = track["x"] + track["width"] / 2, track["y"] + 5
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x - 200, y, steps=4)
    tab.mouse.up()
    after = mark.bounding_box()
    assert after and abs(before["x"] - 200 - after["x"]) < 8
    tab.keyboard.down("Control")
    tab.mouse.wheel(0, -90)
    tab.keyboard.up("Control")
    near = mark.bounding_box()
    assert near and near["x"] - after["x"] > 30, "it is farther from the middle now"
    tab.get_by_role("button", name="Follow now").click()
    again = mark.bounding_box()
    assert again and abs(again["x"] - before["x"]) < 8
    tab.wait_for_function("() => location.hash === '#/timeline'")
