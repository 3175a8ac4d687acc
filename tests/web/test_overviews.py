"""Groups, usage, failures by message, logs side by side, saved views: in a real browser."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from web.browser import Tabs


def test_groups_usage_failures_and_logs_side_by_side(tabs: Tabs) -> None:
    home = tabs.page.home
    oom = "echo first; echo RuntimeError: CUDA out of memory at {n} >&2; exit 1"
    jobs = [{"shell": oom.format(n=n), "group": "oom", "gpus": 1} for n in (17, 4711)]
    first, second = home.submit_all(jobs)
    home.until_final(first, second)
    waiting = home.submit_all([{"argv": ["sleep", "600"], "group": "<b>many", "gpus": 1}] * 3)
    tab = tabs.enter("#/failures")
    failure = tab.locator(".failure")
    expect(failure).to_have_count(1)
    expect(failure.locator(".many")).to_have_text("2×")
    expect(failure.locator("code")).to_have_text(re.compile("out of memory at (17|4711)"))
    failure.get_by_text("Logs side by side").click()
    expect(tab.locator(".sidelog")).to_have_count(2)
    for pane in tab.locator(".sidelog").all():
        expect(pane.locator(".line")).to_have_count(2)
        expect(pane.locator(".state")).to_contain_text("failed, out of memory")
    tab.keyboard.press("6")
    row = tab.locator("table.groups tbody tr", has_text="<b>many")
    expect(row.locator("td").nth(1)).to_have_text("3")
    row.locator(".limit").fill("2")
    row.locator(".limit").press("Enter")
    expect(tab.get_by_role("status").filter(has_text="At most 2 jobs")).to_be_visible()
    row.get_by_role("button", name="Pause").click()
    expect(row.locator(".badge")).to_have_text("paused")
    groups = {one["group"]: one for one in home.call("groups")["groups"]}
    assert groups["<b>many"]["max_running"] == 2 and groups["<b>many"]["paused"]
    row.get_by_role("button", name="Cancel").click()
    tab.locator("dialog").get_by_role("button", name="Cancel them").click()
    home.until_final(*waiting)
    failed = tab.locator("table.groups tbody tr", has_text="oom")
    failed.get_by_role("button", name="Retry failed").click()
    expect(tab.get_by_text("Queued again: 2 jobs.")).to_be_visible()
    home.until_final(first, second)
    tab.keyboard.press("7")
    expect(tab.locator(".figures")).to_contain_text("7attempts ended")
    expect(tab.locator(".usage .key .of-capacity")).to_have_text("all of 4 GPUs")
    expect(tab.locator("rect[data-state=failed]")).to_have_count(1)
    expect(tab.locator("rect[data-state=cancelled]")).to_have_count(1)
    tab.get_by_role("button", name="30 days").click()
    expect(tab.locator(".figures")).to_contain_text("7attempts ended")
    tab.get_by_role("button", name="Saved views").click()
    tab.get_by_label("Name of this view").fill("this month")
    tab.get_by_role("button", name="Save this view").click()
    tab.get_by_role("button", name="Close").click()
    tab.keyboard.press("1")
    expect(tab.locator(".size")).to_have_text("5 jobs")
    tab.get_by_role("button", name="Saved views").click()
    tab.get_by_role("link", name="this month").click()
    expect(tab.get_by_role("button", name="30 days")).to_have_attribute("aria-pressed", "true")
