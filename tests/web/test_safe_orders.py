"""Orders on the page mean the jobs that one sees, as they are; what ends work is asked about."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from web.browser import Tabs


def states_of(tabs: Tabs, *names: str) -> list[str]:
    found = {job["name"]: job["state"] for job in tabs.page.home.jobs().values()}
    return [found[name] for name in names]


def state(tab: Page, name: str) -> Locator:
    return tab.locator(".row", has_text=name).locator(".c-state")


def test_a_job_that_was_ticked_while_held_is_asked_about_once_it_runs(tabs: Tabs) -> None:
    home = tabs.page.home
    home.submit("sleep", "1000", name="ticked", hold=True)
    tab = tabs.enter()
    tab.locator(".row", has_text="ticked").locator("input").check()
    tab.locator(".filter").fill("not in the list")
    expect(tab.locator(".size")).to_have_text("0 jobs")
    home.stoker("release", "1")
    home.until_pid(1)
    tab.locator(".chosen >> text=Cancel").click()
    dialog = tab.locator("dialog")
    expect(dialog.locator("h2")).to_have_text("Stop job 1?")
    dialog.get_by_role("button", name="Back").click()
    expect(dialog).to_have_count(0)
    assert states_of(tabs, "ticked") == ["running"]
    expect(tab.locator(".chosen [data-order=hold]")).to_be_disabled()
    tab.locator(".chosen >> text=Cancel").click()
    dialog.get_by_role("button", name="Stop").click()
    home.until_final(1)


def test_a_job_that_starts_while_one_is_asked_about_it_is_left_alone(tabs: Tabs) -> None:
    tabs.expects_refusals = True
    home = tabs.page.home
    home.submit("sleep", "1000", name="late", hold=True)
    home.submit("true", name="other", hold=True)
    tab = tabs.enter()
    for name in ("late", "other"):
        tab.locator(".row", has_text=name).locator("input").check()
    tab.locator(".chosen >> text=Cancel").click()
    dialog = tab.locator("dialog")
    expect(dialog).to_contain_text("Cancel 2 jobs?")
    expect(dialog).to_contain_text("None of them has started.")
    home.stoker("release", "1")
    home.until_pid(1)
    dialog.get_by_role("button", name="Cancel them").click()
    expect(tab.locator(".now > .error")).to_contain_text(
        "Meanwhile 1 job has started or ended, and is left alone."
    )
    expect(state(tab, "other")).to_have_text("cancelled")
    assert states_of(tabs, "late", "other") == ["running", "cancelled"]
    tabs.go(tab, "#/job/1")
    tab.get_by_role("button", name="Put back").click()
    expect(dialog.locator("h2")).to_have_text("Put back job 1?")
    tab.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert home.job(1)["attempt"] == 1


def test_the_keys_stay_with_their_job_when_it_moves_in_the_list(tabs: Tabs) -> None:
    home = tabs.page.home
    for name in ("first", "second", "third"):
        home.submit("sleep", "1000", name=name, hold=True)
    tab = tabs.enter()
    expect(tab.locator(".rows .row:not([hidden])")).to_have_count(3)
    press = tab.keyboard.press
    press("j")
    press("j")
    current = tab.locator(".row[data-current=yes]")
    expect(current).to_contain_text("second")
    expect(current).to_have_attribute("aria-current", "true")
    expect(current).to_have_attribute("aria-rowindex", "3")
    expect(tab.locator("[aria-current=true][role=row]")).to_have_count(1)
    expect(tab.locator(".list [role=status]")).to_have_text("2 second, held")
    home.stoker("release", "1-2")
    home.until_pid(2)
    expect(state(tab, "second")).to_have_text("running")
    home.stoker("cancel", "1")
    expect(state(tab, "first")).to_have_text("cancelled")
    expect(current).to_contain_text("second")
    press("c")
    dialog = tab.locator("dialog")
    expect(dialog.locator("h2")).to_have_text("Stop job 2?")
    press("Escape")
    expect(dialog).to_have_count(0)
    press("j")
    expect(current).to_contain_text("third")
    press("c")
    expect(dialog).to_contain_text("Cancel job 3?third. It has not started.")
    dialog.get_by_role("button", name="Cancel it").click()
    expect(state(tab, "third")).to_have_text("cancelled")
    assert states_of(tabs, "first", "second", "third") == ["cancelled", "running", "cancelled"]


def test_a_job_that_leaves_the_list_takes_the_keys_with_it(tabs: Tabs) -> None:
    home = tabs.page.home
    for name in ("first", "second"):
        home.submit("sleep", "1000", name=name, hold=True)
    tab = tabs.enter()
    with tab.expect_response("**/api/jobs?states=*"):
        tab.get_by_role("button", name="Waiting").click()
    expect(tab.locator(".rows .row:not([hidden]):not([data-empty=yes])")).to_have_count(2)
    tab.locator("body").press("j")
    current = tab.locator(".row[data-current=yes]:not([hidden])")
    expect(current).to_contain_text("first")
    home.stoker("release", "1")
    home.until_pid(1)
    expect(tab.locator(".size")).to_have_text("1 job")
    tab.keyboard.press("c")
    expect(tab.locator("dialog")).to_have_count(0)
    expect(current).to_have_count(0)
    tab.keyboard.press("j")
    expect(current).to_contain_text("second")
