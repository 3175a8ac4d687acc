"""The page under bad conditions: hostile text, long lists, huge logs, lost daemons, odd screens."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from stoker_home import StokerHome, is_running
from waiting import eventually
from web.browser import Tabs
from web.page_home import PageHome
from web.test_page_life import free_port

HOSTILE = "<img src=x onerror=window.hit=1>"
VIEWS = ("#/", "#/timeline", "#/sweeps", "#/submit", "#/submit/lines", "#/submit/sweep",
         "#/disk", "#/job/1", "#/sweep/s", "#/groups", "#/usage", "#/failures", "#/logs/1,2",
         "#/compare/3,4", "#/nowhere", "#/sweep/%E0%A4%A")  # fmt: skip
# What one came for is seen without scrolling.
IN_SIGHT = {
    "#/submit": "button.main",
    "#/groups": ".groups .buttons button",
    "#/usage": "nav a[aria-current]",
}


# At 2,400 pixels a second, in steps of a frame: how many rows were blank, and how many there were.
SCROLLED_FAST = """async () => {
  scrollTo(0, 0);
  await new Promise((done) => setTimeout(done, 300));
  let [blank, all] = [0, 0];
  for (let frame = 0; frame < 120; frame += 1) {
    scrollBy(0, 40);
    await new Promise((done) => requestAnimationFrame(done));
    const rows = [...document.querySelectorAll('.rows .row:not([hidden])')].filter((row) => {
      const box = row.getBoundingClientRect();
      return box.bottom > 0 && box.top < innerHeight;
    });
    all += rows.length;
    blank += rows.filter((row) => row.dataset.empty === 'yes').length;
  }
  return [blank, all];
}"""


AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")


def a_bit_of_everything(home: StokerHome) -> None:
    """Jobs of many kinds, with long names and an error or two."""
    point: dict[str, Any] = {"gpus": 0, "group": "s"}
    home.submit_all(
        [
            {"shell": "echo $STOKER_JOB_ID; exit 3", "name": "fails", "gpus": 0},
            {"argv": ["sleep", "600"], "name": "a-rather-long-name-" * 8, "gpus": 2},
            *(
                {**point, "argv": ["true"], "params": {"lr": lr, "act": act},
                 "point": f"sweep:{lr}{act}", "name": f"lr={lr},act={act}"}
                for lr in (0.1, 0.01) for act in ("relu", "gelu")
            ),
            {"argv": ["true", "x" * 500], "gpus": 4},
        ]
    )  # fmt: skip
    eventually(lambda: home.call("status")["counts"]["succeeded"] == 4, "the points have run")


def test_hostile_text_is_shown_as_text_in_every_view(tabs: Tabs) -> None:
    home = tabs.page.home
    params = {HOSTILE: HOSTILE, "b": '"><script>window.hit=1</script>'}
    link = "\\033]8;;javascript:window.hit=1\\033\\\\link\\033[31mred\\033[0m\\n"
    shell = f"echo '{HOSTILE}'; printf '{link}'"
    jobs: list[dict[str, Any]] = [
        {"shell": shell, "name": HOSTILE, "group": HOSTILE, "gpus": 0, "params": params,
         "point": "sweep:1"},
        {"shell": shell, "name": HOSTILE + "2", "group": HOSTILE, "gpus": 0,
         "params": {**params, HOSTILE: "other", "b": 2}, "point": "sweep:2"},
        {"argv": [HOSTILE, "javascript:window.hit=1"], "name": HOSTILE, "gpus": 0},
        {"shell": "sleep 600", "name": HOSTILE, "gpus": 1},
    ]  # fmt: skip
    home.submit_all(jobs, user=HOSTILE)
    home.until_final(1, 2, 3)
    home.call("gpu_add", gpus=["9"])
    tab = tabs.enter()
    expect(tab.locator(".rows .title").first).to_have_text(HOSTILE)
    expect(tab.locator(".gpu li a").first).to_have_text(f"4 {HOSTILE}")
    expect(tab.locator(".gpu .owner").first).to_have_text(HOSTILE)
    tabs.go(tab, "#/job/1")
    expect(tab.locator("h1 bdi")).to_have_text(HOSTILE)
    expect(tab.locator("pre.command")).to_have_text(shell)
    expect(tab.locator(".line").first).to_have_text(HOSTILE)
    expect(tab.locator(".line").nth(1)).to_have_text("linkred")
    expect(tab.locator(".line .a-f1")).to_have_text("red")
    assert tab.locator(".log a:not(.n), .log img, .log script").count() == 0
    tabs.go(tab, "#/job/3")
    expect(tab.locator(".jobhead .why")).to_contain_text("could not start")
    tabs.go(tab, "#/timeline")
    expect(tab.locator(".tcount:not(.example)")).not_to_have_count(0)
    tab.locator(".tbar").first.hover()
    expect(tab.locator("#tip")).to_contain_text("<img")
    tabs.go(tab, "#/sweeps")
    tab.locator("tbody a").click()
    expect(tab.locator("h1")).to_have_text(HOSTILE)
    expect(tab.locator("th button", has_text="<img")).to_have_count(1)
    expect(tab.locator(".heat")).to_contain_text("<img")
    tab.locator(".lines-across path").first.hover(force=True)
    tabs.expects_refusals = True
    tabs.go(tab, "#/submit/sweep")
    tab.get_by_label("Parameters, one a line").fill(f"x='{HOSTILE}',2")
    tab.get_by_label("Command").fill("echo {x}")
    expect(tab.locator(".preview")).to_contain_text(HOSTILE)
    tabs.go(tab, "#/submit")
    tab.get_by_label("Command").fill("true")
    tab.get_by_label("Directory").fill(f"/{HOSTILE}")
    tab.get_by_role("button", name="Queue the job").click()
    expect(tab.locator(".field .error")).to_contain_text("<img")
    tabs.go(tab, f"#/sweep/{HOSTILE}x")
    expect(tab.locator(".empty")).to_contain_text("<img")
    assert tab.evaluate("() => window.hit") is None
    assert not [url for url in tabs.requests if url.endswith("/x")]


def test_ten_thousand_jobs_are_gone_through_without_lag(tabs: Tabs) -> None:
    home = tabs.page.home
    home.call("pause")
    home.submit_all([{"argv": ["true"], "name": f"n{n:05}"} for n in range(10_000)])
    tab = tabs.enter()
    expect(tab.locator(".size")).to_have_text("10,000 jobs")
    expect(tab.locator(".rows .title").first).to_have_text("n00000")
    assert tab.locator(".rows .row").count() < 120, "only what is seen is there"
    tab.evaluate("() => scrollTo(0, document.body.scrollHeight)")
    expect(tab.locator(".row:not([hidden])", has_text="n09999")).to_be_visible()
    assert tab.locator(".rows .row").count() < 160
    cold = tabs.open()
    tools = tabs.context.new_cdp_session(cold)
    tools.send("Network.clearBrowserCache")
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    cold.goto(f"{tabs.page.url}/")
    expect(cold.locator(".rows .title").first).to_have_text("n00000")
    metrics = {one["name"]: one["value"] for one in tools.send("Performance.getMetrics")["metrics"]}
    assert metrics["TaskDuration"] < 0.8, "processor time until the first rows of a cold tab"
    cold.close()
    blank, seen_rows = tab.evaluate(SCROLLED_FAST)
    assert seen_rows > 500 and blank < 0.1 * seen_rows, f"{blank} of {seen_rows} rows were blank"
    for part in (0.5, 0.25, 0.75, 0.1):
        tab.evaluate("(part) => scrollTo(0, document.body.scrollHeight * part)", part)
    seen = "() => [...document.querySelectorAll('.rows .row:not([hidden])')].filter((row) =>"
    seen += " row.dataset.empty !== 'yes').length > 15"
    tab.wait_for_function(seen)
    # However far one goes, a window is drawn and not the way there.
    most = tab.evaluate(
        "() => { let most = 0; for (let i = 0; i < 30; i += 1) { scrollTo(0, i * 4000);"
        " dispatchEvent(new Event('scroll'));"
        " most = Math.max(most, document.querySelectorAll('.rows .row').length); } return most; }"
    )
    assert 15 < most < 160
    tab.get_by_label("Filter").fill("n07777")
    expect(tab.locator(".size")).to_have_text("1 job")
    windows = [url for url in tabs.requests if "/api/jobs?" in url]
    limits = [int(re.findall(r"limit=(\d+)", url)[0]) for url in windows]
    assert max(limits) <= 600, "never all at once"


@pytest.fixture
def big_log(page: PageHome) -> Path:
    """The log of job 1: 40 MB, with a needle at its start and colours at its end."""
    log = page.home.work / "big.log"
    page.home.submit("true", gpus=0, out=str(log))
    page.home.until_final(1)
    with log.open("wb") as file:
        file.write(b"the needle is here\n")
        line = b"%09d " + b"." * 90 + b"\n"
        for start in range(0, 400_000, 4000):
            file.write(b"".join(line % n for n in range(start, start + 4000)))
        file.write(b"\rprogress 1 %\rprogress 50 %\rprogress 100 %\n")
        file.write(b"\x1b[1;32mgreen\x1b[0m plain \x1b[38;2;1;2;3mrgb\x1b[0m\x1b[2K\x07\n")
        file.write(b"the end without a newline")
    return log


def test_of_a_huge_log_only_what_is_looked_at_is_loaded(tabs: Tabs, big_log: Path) -> None:
    sizes: list[int] = []

    def note(response: Response) -> None:
        if "/log" in response.url:
            sizes.append(int(response.headers.get("content-length", 0)))

    tabs.context.on("response", note)
    tab = tabs.enter("#/job/1")
    lines = tab.locator(".log .line")
    expect(lines.last).to_have_text("the end without a newline")
    expect(lines.nth(-3)).to_have_text("progress 100 %")
    expect(lines.nth(-2)).to_have_text("green plain rgb")
    expect(lines.nth(-2).locator(".a-bold.a-f2")).to_have_text("green")
    rgb = tab.locator(".line span", has_text="rgb")
    assert rgb.evaluate("(e) => getComputedStyle(e).color") == "rgb(1, 2, 3)"
    tab.locator(".log").evaluate("(box) => { box.scrollTop = 0; }")
    eventually_more = "() => document.querySelectorAll('.log .line').length > 1000"
    tab.wait_for_function(eventually_more)
    first = lines.first.text_content()
    assert first and first[:9].isdigit(), "whole lines only"
    tab.get_by_role("button", name="Start").click()
    expect(lines.first).to_have_text("the needle is here")
    tab.get_by_role("button", name="End").click()
    expect(lines.last).to_have_text("the end without a newline")
    tab.get_by_label("Search in the log").fill("NEEDLE")
    tab.keyboard.press("Enter")
    expect(tab.locator(".found")).to_have_text("1 of 1")
    expect(tab.locator(".line.hit")).to_have_text("the needle is here")
    expect(tab.locator(".line.hit")).to_be_in_viewport()
    tab.get_by_label("Search in the log").fill("no such text")
    tab.keyboard.press("Enter")
    expect(tab.locator(".found")).to_have_text("not found")
    assert sum(sizes) < 3_000_000, "of forty megabytes"
    assert tab.locator(".log .line").count() <= 3100
    with tab.expect_download() as coming:
        tab.get_by_role("button", name="Download").click()
    assert coming.value.suggested_filename == "stoker-job-1.log"
    assert Path(coming.value.path()).stat().st_size == big_log.stat().st_size


def test_lines_that_are_added_are_followed_and_an_emptied_log_begins_anew(
    tabs: Tabs, big_log: Path
) -> None:
    tab = tabs.enter("#/job/1")
    lines = tab.locator(".log .line")
    expect(lines.last).to_have_text("the end without a newline")
    follow = tab.get_by_label("follow")
    expect(follow).not_to_be_checked()
    follow.check()
    with big_log.open("ab") as file:
        file.write(b" yet\nand another line\n")
    expect(lines.last).to_have_text("and another line")
    expect(lines.nth(-2)).to_have_text("the end without a newline yet")
    big_log.write_bytes(b"anew\n")
    expect(lines.last).to_have_text("anew")
    expect(lines).to_have_count(1)


def test_a_lost_daemon_is_shown_and_the_page_heals_by_itself(home: StokerHome,
                                                             browser: Browser) -> None:  # fmt: skip
    home.start(gpus="0-3")
    page = PageHome(home, port=free_port())
    tabs = Tabs(browser, page)
    tabs.expects_refusals = True
    first, second = tabs.enter(), tabs.open()
    second.goto(f"{page.url}/#/timeline")
    expect(second.locator("#link")).to_have_text("live")
    home.stoker("daemon", "stop")
    for tab in (first, second):
        expect(tab.locator("#link")).to_have_text("connection lost")
        expect(tab.locator("#notice")).to_contain_text("tried again by itself")
    home.start()
    home.submit("true", name="after the break", gpus=0)
    for tab in (first, second):
        expect(tab.locator("#link")).to_have_text("live")
        expect(tab.locator("#notice")).to_be_hidden()
    expect(first.locator(".row", has_text="after the break")).to_be_visible()
    expect(second.locator(".tcount:not(.example)")).to_have_text("1")
    job = home.submit("sleep", "1000")
    pid = home.until_pid(job)
    home.kill_daemon()
    for tab in (first, second):
        expect(tab.locator("#link")).to_have_text("connection lost")
        expect(tab.locator("#notice")).to_contain_text("run `stoker daemon start`")
    home.stoker("daemon", "start")
    for tab in (first, second):
        expect(tab.locator("#link")).to_have_text("live")
        expect(tab.locator("#notice")).to_be_hidden()
    assert is_running(pid), "as the page said"
    tabs.close()


def test_ten_tabs_share_one_feed(tabs: Tabs) -> None:
    first = tabs.enter()
    others = [tabs.open() for _ in range(9)]
    for tab in others:
        tab.goto(f"{tabs.page.url}/")
    for tab in others:
        expect(tab.locator("#link")).to_have_text("live")
        expect(tab.locator(".gpu")).to_have_count(4)
    tabs.page.home.submit("true", name="everywhere", gpus=0)
    for tab in (first, *others):
        expect(tab.locator(".row", has_text="everywhere")).to_be_visible()
    assert len([url for url in tabs.requests if url.endswith("/api/events")]) == 1
    first.close()
    tabs.page.home.submit("true", name="without the first", gpus=0)
    for tab in others:
        expect(tab.locator(".row", has_text="without the first")).to_be_visible()


def test_the_page_does_not_jump_while_jobs_come_and_go(tabs: Tabs) -> None:
    tab = tabs.enter()
    home = tabs.page.home
    expect(tab.locator(".gpu")).to_have_count(4)
    tab.evaluate(
        "() => { window.shifts = 0; new PerformanceObserver((list) => {"
        " for (const entry of list.getEntries()) window.shifts += entry.value;"
        " }).observe({ type: 'layout-shift', buffered: false }); }"
    )
    ids = home.submit_all([{"argv": ["sleep", "0.2"], "name": f"j{n}"} for n in range(12)])
    home.until_final(*ids)
    expect(tab.locator(".total[data-state=succeeded] b")).to_have_text("12")
    assert tab.evaluate("() => window.shifts") < 0.1
    tools = tabs.context.new_cdp_session(tab)
    held = []
    for _ in range(4):  # The first two fill what is kept, and what is kept is bounded.
        ids = home.submit_all([{"argv": ["true"], "gpus": 0} for _ in range(150)])
        home.until_final(*ids)
        expect(tab.locator(f".row:not([hidden]) a[href='#/job/{ids[-1]}']")).to_have_count(1)
        tools.send("HeapProfiler.collectGarbage")
        used = tools.send("Runtime.getHeapUsage")["usedSize"]
        held.append((used, tools.send("Memory.getDOMCounters")["nodes"]))
    assert held[3][0] - held[1][0] < 2**20, "memory is flat while jobs come and go"
    assert held[3][1] - held[1][1] < 500, "and so is what the page is made of"


@pytest.mark.parametrize(("width", "height"), [(360, 740), (3840, 2160)], ids=["360 px", "4K"])
def test_every_view_fits_the_screen(
    page: PageHome, browser: Browser, width: int, height: int
) -> None:
    a_bit_of_everything(page.home)
    scheme = "light" if width < 1000 else "dark"
    tabs = Tabs(browser, page, viewport={"width": width, "height": height}, color_scheme=scheme)
    tab = tabs.enter()
    tab.evaluate(AXE)
    wrong: dict[str, str] = {}
    for view in VIEWS:
        tabs.go(tab, view)
        expect(tab.locator("main > *").first).to_be_visible()
        expect(tab.locator("main h1")).to_have_count(1)
        wide = tab.evaluate("() => document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{view} is {wide} px too wide"
        if view in IN_SIGHT:
            expect(tab.locator(IN_SIGHT[view]).first).to_be_in_viewport(ratio=0.98)
        size = tab.evaluate("() => parseFloat(getComputedStyle(document.documentElement).fontSize)")
        assert size >= (14 if width < 1000 else 20)
        found = tab.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
        wrong |= {f"{view}: {one['id']}": one["nodes"][0]["html"] for one in found["violations"]}
    assert wrong == {}, "axe has nothing to say of any view"
    tabs.close()


def colours(tab: Page) -> tuple[str, str]:
    found = tab.evaluate(
        "() => [getComputedStyle(document.documentElement).backgroundColor,"
        " getComputedStyle(document.documentElement).color]"
    )
    return (found[0], found[1])


def brightness(colour: str) -> float:
    return sum(int(part) for part in re.findall(r"\d+", colour)[:3]) / 3


def test_dark_and_light_follow_the_system_or_the_user(page: PageHome, browser: Browser) -> None:
    for scheme in ("dark", "light"):
        tabs = Tabs(browser, page, color_scheme=scheme)
        tab = tabs.enter()
        back, text = map(brightness, colours(tab))
        assert (back < 60 < 180 < text) if scheme == "dark" else (text < 60 < 180 < back)
        tab.locator("#theme").click()
        assert brightness(colours(tab)[0]) > 180, "light was chosen"
        tab.locator("#theme").click()
        assert brightness(colours(tab)[0]) < 60, "dark was chosen"
        tab.reload()
        expect(tab.locator("#link")).to_have_text("live")
        assert brightness(colours(tab)[0]) < 60, "and kept"
        tabs.close()


def test_everything_is_done_by_keys(tabs: Tabs) -> None:
    home = tabs.page.home
    home.call("pause")
    for name in ("one", "two", "three"):
        home.submit("true", name=name)
    tab = tabs.enter()
    expect(tab.locator(".rows .row:not([hidden])")).to_have_count(3)
    press = tab.keyboard.press
    press("?")
    expect(tab.locator("dialog h2")).to_have_text("Keys")
    press("Escape")
    expect(tab.locator("dialog")).to_have_count(0)
    press("j")
    press("j")
    current = tab.locator(".row[data-current=yes]")
    expect(current).to_contain_text("two")
    press("h")
    expect(tab.locator(".row", has_text="two").locator(".c-state")).to_have_text("held")
    expect(current).to_contain_text("two")  # though it has moved to the end
    press("ArrowUp")
    press("ArrowUp")
    expect(current).to_contain_text("one")
    press("+")
    expect(tab.locator(".row", has_text="one").locator(".c-prio")).to_have_text("-1")
    press(" ")
    expect(tab.locator(".chosen")).to_contain_text("1 job chosen")
    tab.get_by_role("button", name="None").focus()
    press("Enter")  # what has the focus, not the job
    expect(tab.locator(".chosen")).to_be_hidden()
    press("c")
    expect(tab.locator("dialog")).to_contain_text("Cancel job 1?")
    press("Enter")
    expect(tab.locator(".row", has_text="one").locator(".c-state")).to_have_text("cancelled")
    press("/")
    tab.keyboard.type("three")
    press("Escape")
    press("j")  # though the list that was asked for has not come
    press("Enter")
    expect(tab.locator("h1 bdi")).to_have_text("three")
    press("Escape")
    expect(tab.locator(".list")).to_be_visible()
    for key, title in (("2", "Timeline"), ("3", "Sweeps"), ("4", "Submit")):
        press(key)
        expect(tab.locator("h1")).to_have_text(title)
        press("Escape")
        press("1")


def test_a_browser_that_was_not_let_in_is_told_what_to_do(tabs: Tabs) -> None:
    tabs.expects_refusals = True
    tab = tabs.open()
    tab.goto(f"{tabs.page.url}/")
    expect(tab.locator("body")).to_contain_text("Run stoker web in a terminal")
    tab.get_by_role("link", name="enter with a token").click()
    tab.locator("#secret").fill("nonsense")
    tab.get_by_role("button", name="Enter").click()
    expect(tab.locator("#say")).to_contain_text("`stoker web` prints another")
    tab.locator("#secret").fill(tabs.page.token)
    tab.get_by_role("button", name="Enter").click()
    expect(tab.locator("#link")).to_have_text("live")
    key = tabs.page.access.new_key()
    tab.goto(f"{tabs.page.url}/enter#{key}")
    tab.wait_for_url(f"{tabs.page.url}/")
    assert key not in tab.evaluate("() => JSON.stringify([location.href, history.length])")
    tabs.page.access.revoke_all()
    expect_lost = tab.locator("#notice")
    tab.reload()
    expect(tab.locator("body")).to_contain_text("has not been let in")
    assert expect_lost.count() == 0
    kept = json.loads(tab.evaluate("() => JSON.stringify(document.cookie)"))
    assert kept == "", "no script sees the cookie"
