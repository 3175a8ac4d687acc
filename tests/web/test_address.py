"""The address is the state of a view: back, a reload and a link that was sent lead there."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from web.browser import Tabs


def test_the_address_of_the_timeline_says_what_part_of_time_is_seen(tabs: Tabs) -> None:
    tabs.page.home.submit("sleep", "1000")
    tabs.page.home.until_pid(1)
    tab = tabs.enter("#/timeline")
    expect(tab.locator(".tbar").first).to_be_visible()
    tab.get_by_role("button", name="6 h").click()
    expect(tab).to_have_url(re.compile(r"#/timeline\?hours=6$"))
    tab.reload()
    expect(tab.get_by_role("button", name="6 h")).to_have_attribute("aria-pressed", "true")
    tab.get_by_role("button", name="Zoom in").click()
    expect(tab).to_have_url(re.compile(r"#/timeline\?hours=6&from=\d+&to=\d+$"))
    seen = tab.url
    tab.keyboard.press("1")
    expect(tab.locator(".list")).to_be_visible()
    tab.go_back()
    expect(tab).to_have_url(seen)
    expect(tab.get_by_role("button", name="Follow now")).to_be_visible()
    sent = tabs.open()
    sent.goto(seen)
    expect(sent.get_by_role("button", name="Follow now")).to_be_visible()
    expect(sent).to_have_url(seen)


def test_an_address_that_leads_nowhere_shows_the_page_and_a_way_back(tabs: Tabs) -> None:
    tab = tabs.enter()
    tab.goto(f"{tabs.page.url}/jobs/7")
    expect(tab.locator("main")).to_contain_text("There is nothing here.")
    tab.get_by_role("link", name="To the jobs").click()
    expect(tab.locator(".list")).to_contain_text("Nothing has been queued yet.")
    tab.get_by_label("Filter").fill("no such job")
    tab.get_by_role("button", name="Show all jobs").click()
    expect(tab.get_by_label("Filter")).to_have_value("")
    expect(tab).to_have_url(f"{tabs.page.url}/#/")
    tab.get_by_role("link", name="Submit a job").click()
    expect(tab.locator("h1")).to_have_text("Submit")
