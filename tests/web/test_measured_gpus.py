"""GPUs that a driver measures, seen in a browser: the real reader on the stand-in driver."""

from __future__ import annotations

import re
import subprocess

from playwright.sync_api import Browser, expect

from fakegpu.driver import GPU_IS_LOST
from gpu_box import Box
from web.browser import Tabs
from web.page_home import PageHome


def test_the_axis_of_a_plot_counts_from_the_start_of_the_attempt(tabs: Tabs) -> None:
    home = tabs.page.home
    home.submit("sleep", "1000")
    home.until_pid(1)
    seen_ms = home.job(1)["started_at_ms"] + 600_000
    part = {
        "at_ms": [seen_ms, seen_ms + 60_000],
        "mem_mib": [1024, 2048],
        "use_percent": [10, 20],
    }
    history = {**part, "gpus": {"0": part, "<b>": part}}
    tab = tabs.open()
    tab.route("**/api/jobs/1/history", lambda route: route.fulfill(json=history))
    tab.goto(f"{tabs.page.url}/enter#{tabs.page.access.new_key()}")
    tab.wait_for_url(f"{tabs.page.url}/")
    tabs.go(tab, "#/job/1")
    words = tab.locator(".jobplot text").filter(has_text=re.compile("m .*s"))
    expect(words).to_have_text(["10m 00s", "10m 30s", "11m 00s"])
    expect(tab.locator(".jobplot path.memory-line.part")).to_have_count(2)
    expect(tab.locator(".jobplot .key")).to_contain_text("memory on GPU 0 <b>")
    expect(tab.locator(".jobplot .capacity")).to_have_count(1)


def test_cards_show_what_is_measured_and_who_is_on_a_gpu(box: Box, browser: Browser) -> None:
    page = PageHome(box)
    tabs = Tabs(browser, page)
    job = box.train("--peak", "6G", "--seconds", "2000", "--use", "70", name="train", mem_mib=8_000)
    box.until_gpu("0", ours_mib=6 * 1024)
    box.driver.set_reading(1, utilisation=83, temperature_c=71, power_w=212.5)
    tab = tabs.enter()
    first, second = tab.locator(".gpu").nth(0), tab.locator(".gpu").nth(1)
    expect(first.locator(".model")).to_have_text("NVIDIA Stand-In 24GB")
    expect(first.locator(".memory")).to_have_text(
        re.compile(r"6 GiB ours of 23\.5 GiB · 7\.8 GiB reserved")
    )
    expect(first.locator("li a")).to_have_text(f"{job} train")
    widths = "(bar) => [...bar.children].map((part) => parseFloat(part.style.width))"
    ours, others, reserved = first.locator(".membar").evaluate(widths)
    assert 20 < ours < 30 and others == 0 and 30 < reserved < 40
    expect(second.locator(".use")).to_have_text(re.compile("83 %71 °C"))
    expect(first.locator(".spark path.memory-line")).to_have_attribute("d", re.compile("M.*L"))
    tabs.go(tab, f"#/job/{job}")
    expect(tab.locator(".facts")).to_contain_text("Peak memory6 GiB")
    expect(tab.locator(".jobplot path.memory-line")).to_have_attribute("d", re.compile("M.*L"))
    tabs.go(tab, "#/")
    stranger = subprocess.Popen(["sleep", "1000"])
    try:
        box.driver.add_process(1, stranger.pid, 5_000)
        expect(second.locator(".badge")).to_have_text("others on it")
        expect(second.locator(".badge")).to_have_attribute("title", re.compile("sleep 1000"))
        expect(second.locator("li")).to_have_text(re.compile("^.+: sleep 1000.*GiB$"))
    finally:
        stranger.kill()
        stranger.wait()
    box.driver.fault(0, GPU_IS_LOST)
    expect(first.locator(".badge.bad")).to_have_text("lost")
    expect(tab.locator(".row", has_text="train").locator(".c-why")).to_have_text("gpu lost")
    tabs.close()
