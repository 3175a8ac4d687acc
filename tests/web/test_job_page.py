"""The view of one job: its numbers, why it failed, the jobs around it, all that can be edited."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from web.browser import Tabs


def test_a_job_shows_its_exit_code_the_failing_line_and_the_jobs_around_it(tabs: Tabs) -> None:
    home = tabs.page.home
    script = "echo fine; echo 'RuntimeError: no luck' >&2; echo bye; exit 3"
    [failing] = home.submit_all(
        [{"shell": script, "name": "prep", "gpus": 0, "err": str(home.work / "errors")}]
    )
    home.until_final(failing)
    first = home.submit("sleep", "600", name="first", gpus=1, time_limit_ms=3_600_000)
    waiting = home.submit("true", name="train", after=[str(first)], priority=2)
    last = home.submit("true", name="plot", after_any=[str(waiting)])
    tab = tabs.enter(f"#/job/{failing}")
    expect(tab.locator(".vitals")).to_contain_text("Exit code3")
    assert home.job(failing)["exit_code"] == 3
    complaint = tab.locator(".complaint")
    expect(complaint).to_have_text("RuntimeError: no luck")
    complaint.click()
    expect(tab.locator(".line.hit")).to_have_text("RuntimeError: no luck")
    tabs.go(tab, f"#/job/{first}")
    expect(tab.locator(".vitals")).to_contain_text(re.compile(r"Elapsed\d+sTime leftat most 59m"))
    tabs.go(tab, f"#/job/{waiting}")
    expect(tab.get_by_role("heading", name="GPU memory and use")).to_be_hidden()
    boxes = tab.locator(".related .box bdi")
    expect(boxes).to_have_text(["first", "train", "plot"])
    expect(tab.locator(".related path.any")).to_have_count(1)
    tab.get_by_role("button", name="Edit").click()
    dialog = tab.locator("dialog")
    dialog.get_by_label("Command").fill("echo another")
    dialog.get_by_label("Priority").fill("5")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    expect(tab.locator("pre.command")).to_have_text("echo another")
    job = home.job(waiting)
    assert (job["command"], job["priority"], job["after"]) == ("echo another", 5, [first])
    tab.locator(".related a", has_text="plot").click()
    expect(tab.locator("h1 bdi")).to_have_text("plot")
    expect(boxes).to_have_text(["first", "train", "plot"])
    home.stoker("cancel", str(first))
    expect(tab.locator(f".related [href='#/job/{waiting}']")).to_have_attribute(
        "data-state", "skipped"
    )
    assert home.until_final(last)[0]["state"] == "succeeded"
