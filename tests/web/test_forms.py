"""Forms tell what is wrong at its field, in the words of the page."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from web.browser import Tabs


def wrong(tab: Page) -> Locator:
    """What is said at a field."""
    return tab.locator(".field .error")


def test_each_error_is_told_at_its_field_and_in_the_words_of_the_page(tabs: Tabs) -> None:
    tabs.expects_refusals = True
    tab = tabs.enter("#/submit")
    queue = tab.get_by_role("button", name="Queue the job")
    queue.click()
    expect(wrong(tab)).to_have_text("There is no command. Write one, e.g. python train.py.")
    expect(tab.get_by_label("Command")).to_be_focused()
    tab.get_by_label("Command").fill("true")
    cases = (
        ("gpus", "99", "The job needs 99 GPUs, but there are only 4. Ask for fewer"),
        ("after", "7,8", "There is no job 7 to wait for."),
        ("signal", "USR1@2m", "“Signal” needs a time limit. Add “Time limit” or “Slice”."),
        ("cwd", "/nowhere/at/all", "Create it, or name another with “Directory”."),
        ("requeue_on", "x", "'x' is not a whole number. Write an exit code from 1 to 255."),
    )
    for name, text, said in cases:
        field = tab.locator(f"form [name={name}]")
        field.evaluate("(input, text) => { input.value = text; }", text)  # though it is folded
        queue.click()
        expect(wrong(tab)).to_contain_text(said)
        expect(wrong(tab)).to_be_visible()
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_be_focused()
        expect(tab.locator(f".field:has([name={name}]) .error")).to_have_count(1)
        field.fill("")
    queue.click()
    expect(tab.locator(".done")).to_contain_text("Queued as job 1.")
    expect(wrong(tab)).to_have_count(0)
    tabs.go(tab, "#/submit/sweep")
    tab.get_by_label("Parameters, one a line").fill("lr=1,2")
    tab.get_by_label("Command").fill("echo {lr}")
    for label, text, said in (
        ("Samples", "0", "“0” is not a number of points."),
        ("Only where", "lr <", "“Only where” 'lr <' can't be understood."),
    ):
        tab.get_by_label(label).fill(text)
        tab.get_by_role("button", name="Queue the sweep").click()
        expect(wrong(tab)).to_contain_text(said)
        tab.get_by_label(label).fill("")
    tabs.go(tab, "#/job/77")
    expect(tab.locator(".empty")).to_have_text("There is no job 77. All jobs")
    tabs.go(tab, "#/nowhere")
    expect(tab.locator("main")).to_contain_text("There is nothing here.")
    expect(tab.locator("main")).to_be_focused()
    tab.locator("a.skip").press("Enter")
    expect(tab.locator("main h1")).to_have_text("There is nothing here.")


def test_options_that_few_jobs_need_are_folded_and_open_where_they_are_used(tabs: Tabs) -> None:
    home = tabs.page.home
    job = home.submit("true", hold=True, slice_ms=3_600_000, retries=2)
    tab = tabs.enter("#/submit")
    expect(tab.get_by_label("Time limit")).to_be_visible()
    expect(tab.get_by_label("Slice")).to_be_hidden()
    expect(tab.get_by_label("Executor")).to_be_hidden()
    tabs.go(tab, f"#/submit/job?clone={job}")
    expect(tab.get_by_label("Slice")).to_have_value("3600s")
    expect(tab.get_by_label("Slice")).to_be_visible()
    tabs.go(tab, f"#/job/{job}")
    tab.get_by_role("button", name="Edit").click()
    expect(tab.locator("dialog").get_by_label("Slice")).to_be_visible()
    expect(tab.locator("dialog").get_by_label("Thread percentage")).to_be_hidden()
