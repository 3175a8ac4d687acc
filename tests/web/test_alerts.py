"""What the page says to those who do not look at it: counts in its title, and notifications."""

from __future__ import annotations

from playwright.sync_api import expect

from waiting import eventually
from web.browser import Tabs

# Instead of the browser's own, which nobody sees here: it keeps what it was asked.
_NOTIFICATIONS = """
window.asked = 0; window.told = [];
window.Notification = class {
  static permission = "default";
  static async requestPermission() { window.asked += 1; return (this.permission = "granted"); }
  constructor(title, options) { window.told.push(options.body); }
  close() {}
};
"""


def test_the_title_counts_what_runs_and_waits(tabs: Tabs) -> None:
    tab = tabs.enter()
    expect(tab).to_have_title("Stoker")
    home = tabs.page.home
    flag = home.work / "go"
    home.submit_all([{"shell": f"until [ -e {flag} ]; do sleep 0.05; done", "gpus": 4}])
    last = home.submit("true")
    expect(tab).to_have_title("1 running · 1 waiting · Stoker")
    tabs.go(tab, f"#/job/{last}")
    expect(tab).to_have_title(f"1 running · 1 waiting · {last} · Stoker")
    flag.touch()
    expect(tab).to_have_title(f"{last} · Stoker")


def test_notifications_are_asked_for_on_a_click_and_tell_of_ends_that_were_not_seen(
    tabs: Tabs,
) -> None:
    tabs.context.add_init_script(_NOTIFICATIONS)
    tab = tabs.enter()
    home = tabs.page.home
    bell = tab.locator("#alerts")
    expect(bell).to_have_attribute("aria-pressed", "false")
    assert tab.evaluate("window.asked") == 0, "it is not asked for at once"
    assert (bell.text_content() or "").strip() == "", "it is drawn: few fonts have a bell"
    expect(bell.locator(".struck")).to_be_visible()
    bell.click()
    expect(bell).to_have_attribute("aria-pressed", "true")
    expect(bell.locator(".struck")).to_be_hidden()
    assert tab.evaluate("window.asked") == 1
    tab.evaluate("document.hasFocus = () => true")
    home.until_final(home.submit("true"))
    expect(tab.locator(".total[data-state=succeeded] b")).to_have_text("1")
    tab.evaluate("document.hasFocus = () => false")
    home.until_final(home.submit("false"))
    eventually(lambda: tab.evaluate("window.told.length") > 0, "it is told")
    assert tab.evaluate("window.told") == ["1 failed"], "what was seen is not told"
    bell.click()
    expect(bell).to_have_attribute("aria-pressed", "false")
    home.until_final(home.submit("true"))
    expect(tab.locator(".total[data-state=succeeded] b")).to_have_text("2")
    assert tab.evaluate("window.told.length") == 1, "nothing is told that is not wanted"
