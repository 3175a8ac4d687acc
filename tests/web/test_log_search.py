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
