"""Search in the log of a job, in a real browser."""

from __future__ import annotations

from playwright.sync_api import expect

from web.browser import Tabs


def test_every_hit_is_found_also_where_colours_are_between_its_letters(tabs: Tabs) -> None:
    home = tabs.page.home
    shell = "for i in $(seq 1500); do printf 'lo\\033[31mss\\033[0m %d\\n' $i; done"
    job = home.submit_all([{"shell": shell, "gpus": 0}])[0]
    home.until_final(job)
    tab = tabs.enter(f"#/job/{job}")
    expect(tab.locator(".line").last).to_have_text("loss 1500")
    seek = tab.get_by_label("Search in the log")
    seek.fill("loss")
    seek.press("Enter")
    expect(tab.locator(".found")).to_have_text("1,500 of 1,500")
    expect(tab.locator(".line.hit")).to_have_text("loss 1500")
    tab.get_by_role("button", name="Next match").click()
    expect(tab.locator(".found")).to_have_text("1 of 1,500")
    expect(tab.locator(".line.hit")).to_have_text("loss 1")
    seek.fill("[31m")
    seek.press("Enter")
    expect(tab.locator(".found")).to_have_text("not found")
    tab.get_by_label("only matches").check()
    seek.fill("loss 149")
    seek.press("Enter")
    found = tab.locator(".matches .line")
    expect(found).to_have_count(11)
    expect(found.nth(3).locator(".n")).to_have_attribute("data-n", "1492")
    found.nth(3).locator(".n").click()
    expect(tab.locator(".line.target")).to_have_text("loss 1492")
    expect(tab.get_by_label("follow")).not_to_be_checked()
    address = tab.evaluate("() => location.hash")
    assert address.startswith(f"#/job/{job}?log=1."), address
    tab.reload()
    expect(tab.locator(".line.target")).to_have_text("loss 1492")
    expect(tab.locator(".line.target")).to_be_in_viewport()
    expect(tab.locator(".line.target .n")).to_have_attribute("data-n", "1492")
    tab.locator(".track-of-log").click(position={"x": 5, "y": 3})
    expect(tab.get_by_text("loss 7", exact=True)).to_be_in_viewport()


def test_bars_that_move_the_cursor_up_are_shown_once_while_the_log_is_followed(
    tabs: Tabs,
) -> None:
    home = tabs.page.home
    go = home.work / "go"
    draw = "printf '\\r\\033[2K\\033[1A\\033[2Ka %d%%\\nb \\033[38;5;226m%d%%\\033[0m' $i $i"
    bars = "for i in $(seq 50); do " + draw + "; sleep 0.02; done"
    wait = f"while [ ! -e {go} ]; do sleep 0.05; done"
    shell = f"echo begin; printf 'a 0%%\\nb 0%%'; {bars}; {wait}; printf '\\nend\\n'"
    [job] = home.submit_all([{"shell": shell, "gpus": 0}])
    tab = tabs.enter(f"#/job/{job}")
    lines = tab.locator(".log .line")
    expect(lines).to_have_text(["begin", "a 50%", "b 50%"])
    expect(tab.get_by_label("follow")).to_be_checked()
    yellow = lines.nth(2).locator("span").evaluate("(one) => getComputedStyle(one).color")
    assert yellow != "rgb(255, 255, 0)", "yellow can't be read on white"
    go.touch()
    expect(lines).to_have_text(["begin", "a 50%", "b 50%", "end"])
    expect(tab.get_by_label("follow")).not_to_be_checked()
