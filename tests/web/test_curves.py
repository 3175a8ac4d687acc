"""Curves of metrics in a real browser: of a job, of a sweep, of runs that are compared."""

from __future__ import annotations

import json
import re
from typing import Any

from playwright.sync_api import Locator, Page, expect

from stoker_home import StokerHome
from waiting import eventually
from web.browser import Tabs

# A loss that falls the faster the larger lr is, by step.
TRAIN = """
import sys
settings = dict(word.lstrip("-").split("=") for word in sys.argv[1:])
lr = float(settings["lr"])
for step in range(1, 21):
    print(f"step {step} loss={(1 - lr) ** step:.5f} acc={1 - (1 - lr) ** step:.5f}")
"""


def trained(home: StokerHome, *lines: str, **fields: Any) -> int:
    """A job that has printed these lines."""
    text = "\n".join(lines)
    job = home.submit("printf", "%s\n", text, gpus=0, **fields)
    home.until_final(job)
    return job


def swept(home: StokerHome, *space: str, name: str = "s") -> list[int]:
    """The jobs of a sweep that has ended."""
    (home.work / "train.py").write_text(TRAIN, encoding="utf-8")
    words = [f"--{name}={{{name}}}" for name in (one.split("=")[0] for one in space)]
    train = ("python3", "train.py", *words)
    home.stoker("sweep", *space, "--name", name, "--gpus", "0", "--", *train)
    home.stoker("wait", "--group", name)
    return sorted(point["id"] for point in home.call("sweep_points", sweep=name)["points"])


def inked(chart: Locator) -> int:
    """How many pixels of a chart's canvas are not empty, beyond its axes."""
    found: int = chart.locator("canvas:not(.hotline)").evaluate(
        "(it) => { const all = it.getContext('2d').getImageData(0, 0, it.width, it.height).data;"
        " let many = 0; for (let i = 3; i < all.length; i += 4) if (all[i] > 180) many += 1;"
        " return many; }"
    )
    return found


def hover(tab: Page, chart: Locator, across: float, down: float) -> None:
    """Point at a place of a chart, in parts of its width and height."""
    chart.locator(".u-over").scroll_into_view_if_needed()
    box = chart.locator(".u-over").bounding_box()
    assert box is not None
    tab.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])


def test_the_curves_of_a_job_are_drawn_and_say_step_and_value(tabs: Tabs) -> None:
    job = trained(tabs.page.home, *[f"step {n} loss={1 / n:.4f} acc={n}" for n in range(1, 31)])
    tab = tabs.enter(f"#/job/{job}")
    panels = tab.locator(".panel")
    expect(panels).to_have_count(2)
    expect(panels.first.locator("h3")).to_have_text("loss")
    loss = tab.locator(".panel", has_text="loss")
    expect(loss.locator(".words")).to_have_text("last 0.0333 at step 30, lowest 0.0333 at step 30")
    eventually(lambda: inked(loss) > 300, "a line is seen")
    expect(loss.locator(".canvas")).to_have_attribute(
        "aria-label", "Curve of loss by step: last 0.0333 at step 30, lowest 0.0333 at step 30"
    )
    hover(tab, loss, 0.0, 0.1)
    expect(tab.locator("#tip")).to_have_text("step 1loss 1")
    hover(tab, loss, 1 / 29, 0.5)
    expect(tab.locator("#tip")).to_have_text("step 2loss 0.5")
    tab.mouse.move(5, 5)
    expect(tab.locator("#tip")).to_be_hidden()
    loss.locator(".canvas").focus()
    for _ in range(3):
        tab.keyboard.press("ArrowRight")
    expect(tab.locator("#tip")).to_have_text("step 3loss 0.3333")
    tab.get_by_role("button", name="acc").click()
    expect(panels).to_have_count(1)
    tab.get_by_role("button", name="acc").click()
    expect(panels).to_have_count(2)


def test_dragging_zooms_and_a_double_click_shows_all_again(tabs: Tabs) -> None:
    job = trained(tabs.page.home, *[f"step {n} loss={n % 7}" for n in range(100)])
    tab = tabs.enter(f"#/job/{job}")
    chart = tab.locator(".panel")
    out = chart.get_by_role("button", name="Zoom out")
    expect(out).to_be_hidden()
    for by_button in (False, True):
        hover(tab, chart, 0.5, 0.5)
        tab.mouse.down()
        hover(tab, chart, 0.75, 0.6)
        tab.mouse.up()
        expect(out).to_be_visible()
        hover(tab, chart, 0.001, 0.5)
        expect(tab.locator("#tip b")).to_have_text(re.compile(r"step (49|50)"))
        if by_button:
            out.click()
        else:
            chart.locator(".u-over").dblclick()
        expect(out).to_be_hidden()
        hover(tab, chart, 0.001, 0.5)
        expect(tab.locator("#tip b")).to_have_text("step 0")


def test_new_values_appear_while_a_job_runs_and_the_zoom_stays(tabs: Tabs) -> None:
    home = tabs.page.home
    lines = home.work / "lines"
    lines.write_text("".join(f"step {n} loss={n}\n" for n in range(10)), encoding="utf-8")
    job = home.submit("tail", "-n", "+1", "-f", str(lines), gpus=0)
    home.until_state(job, "running")
    tab = tabs.enter(f"#/job/{job}")
    words = tab.locator(".panel .words")
    expect(words).to_contain_text("last 9 at step 9")
    chart = tab.locator(".panel")
    hover(tab, chart, 0.5, 0.5)
    tab.mouse.down()
    hover(tab, chart, 0.9, 0.6)
    tab.mouse.up()
    with lines.open("a", encoding="utf-8") as file:
        file.write("step 10 loss=77\n")
    expect(words).to_contain_text("last 77 at step 10")
    expect(chart.get_by_role("button", name="Zoom out")).to_be_visible()
    home.call("cancel", select={"ids": [str(job)]})


def test_a_job_without_metrics_has_no_chart(tabs: Tabs) -> None:
    job = trained(tabs.page.home, "nothing to see")
    tab = tabs.enter()
    with tab.expect_response(re.compile(r"/metrics\?attempt=1")) as answer:
        tabs.go(tab, f"#/job/{job}")
    assert answer.value.json()["curves"] == []
    expect(tab.locator(".log")).to_contain_text("nothing to see")
    expect(tab.locator(".curves")).to_be_hidden()
    expect(tab.locator("canvas")).to_have_count(0)


def test_attempts_are_told_apart(tabs: Tabs) -> None:
    home = tabs.page.home
    said = "for n in 1 2 3 4; do echo step $n loss=$((n * STOKER_ATTEMPT)); done; exit 1"
    job = home.submit("sh", "-c", said, gpus=0)
    home.until_final(job)
    home.call("retry", select={"ids": [str(job)]})
    eventually(lambda: len(home.job(job)["attempts"]) == 2, "it is tried again")
    home.until_final(job)
    tab = tabs.enter(f"#/job/{job}")
    expect(tab.locator(".curves .key span")).to_have_text([" attempt 2", " attempt 1"])
    chart = tab.locator(".panel")
    expect(chart.locator(".words")).to_contain_text("last 8 at step 4")
    hover(tab, chart, 0.99, 0.02)
    expect(tab.locator("#tip")).to_have_text("step 4loss 8attempt 2")
    hover(tab, chart, 0.99, 0.55)
    expect(tab.locator("#tip")).to_have_text("step 4loss 4attempt 1")


def test_values_that_are_not_finite_are_gaps_and_are_counted(tabs: Tabs) -> None:
    values = ("1", "nan", "3", "inf", "-inf", "2")
    others = ("step 1 bad=nan", "step 1 one=5", "step 1 vast=1e308", "step 2 vast=-1e308")
    lines = [f"step {n} loss={one}" for n, one in enumerate(values)]
    job = trained(tabs.page.home, *lines, *others)
    tab = tabs.enter(f"#/job/{job}")
    expect(tab.locator(".panel")).to_have_count(4)
    loss = tab.locator(".panel", has_text="loss")
    expect(loss.locator(".words")).to_contain_text("3 values not finite")
    tab.get_by_label("logarithmic").check()
    hover(tab, loss, 1 / 5, 0.5)
    expect(tab.locator("#tip")).to_have_text("step 1loss nan")
    tab.get_by_label("logarithmic").uncheck()
    hover(tab, loss, 3 / 5, 0.5)
    expect(tab.locator("#tip")).to_have_text("step 3loss inf")
    hover(tab, loss, 2 / 5, 0.5)
    expect(tab.locator("#tip")).to_have_text("step 2loss 3")
    dot, over = (loss.locator(one).bounding_box() for one in (".hotdot", ".u-over"))
    assert dot is not None and over is not None
    assert dot["y"] - over["y"] < over["height"] / 4, "the highest finite value is at the top"
    expect(tab.locator(".panel", has_text="bad").locator(".words")).to_contain_text("last nan")
    eventually(lambda: inked(tab.locator(".panel", has_text="one")) > 20, "one point is a dot")


def test_the_names_of_metrics_are_only_text(tabs: Tabs) -> None:
    home = tabs.page.home
    names = ["__proto__", "constructor", "<img src=x onerror=alert(1)>", "</option><script>",
             "אב_loss", "'\"`${1}", "a" * 90]  # fmt: skip
    reported = dict.fromkeys(names, 1.5)
    # Characters that steer a terminal or turn the direction of text are no part of a name.
    hidden = {"\x1b[31mred": 1, "\u202egnp": 1, "a\u2066b": 1, "line\nbreak": 1}
    lines = "\n".join(json.dumps({"step": n, "metrics": reported | hidden}) for n in range(3))
    job = home.submit("sh", "-c", f"cat > $STOKER_METRICS <<'E'\n{lines}\nE", gpus=0,
                      group="s", params={"__proto__": "<b>", "x": 1}, point="sweep:1")  # fmt: skip
    home.until_final(job)
    tab = tabs.enter(f"#/job/{job}")
    buttons = tab.locator(".names button")
    expect(buttons).to_have_count(len(names))
    assert set(buttons.all_text_contents()) == set(names)
    for name in names:
        button = tab.locator(".names").get_by_text(name, exact=True)
        if button.locator("..").get_attribute("aria-pressed") == "false":
            button.click()
    expect(tab.locator(".panel")).to_have_count(len(names))
    hover(tab, tab.locator(".panel", has_text="onerror"), 0.5, 0.5)
    expect(tab.locator("#tip")).to_contain_text("<img src=x onerror=alert(1)>")
    tabs.go(tab, "#/sweep/s")
    options = tab.get_by_label("Metric", exact=True)
    expect(options.locator("option")).to_have_count(len(names))
    for name in names:
        options.select_option(name)
        expect(tab.locator(".curves .canvas")).to_have_attribute(
            "aria-label", re.compile(re.escape(f"Curves of {name} by step."))
        )
    tabs.go(tab, f"#/compare/{job}")
    expect(tab.locator(".compared")).to_contain_text("<b>")
    expect(tab.locator("img:not(.brand img), script:not([src])")).to_have_count(0)


def test_the_curves_of_a_sweep_lie_over_each_other_and_name_their_points(tabs: Tabs) -> None:
    ids = swept(tabs.page.home, "lr=0.3,0.1,0.01")
    tab = tabs.enter("#/sweep/s")
    card = tab.locator(".curves")
    expect(card.get_by_label("Metric", exact=True)).to_have_value("loss")
    card.get_by_label("Metric", exact=True).select_option("acc")
    expect(card.get_by_label("Which is best")).to_have_value("max")
    card.get_by_label("Metric", exact=True).select_option("loss")
    expect(card.get_by_label("Which is best")).to_have_value("min")
    expect(card.locator(".words")).to_have_text(
        f"3 curves. Best: job {ids[0]}, last 0.0008 at step 20, lowest 0.0008 at step 20."
    )
    hover(tab, card, 0.5, 0.14)
    expect(tab.locator("#tip")).to_contain_text("lr = 0.01")
    expect(tab.locator("#tip")).to_contain_text(f"{ids[2]} succeeded")
    expect(tab.locator("#tip")).to_contain_text("best 0.81791 at step 20")
    card.get_by_label("Which is best").select_option("max")
    expect(card.locator(".words")).to_contain_text(f"Best: job {ids[2]}")


def test_chosen_runs_are_compared_and_the_address_keeps_the_choice(tabs: Tabs) -> None:
    ids = swept(tabs.page.home, "lr=0.3,0.1,0.01", "bs=8")
    tab = tabs.enter("#/sweep/s")
    tab.get_by_label(f"Compare job {ids[0]}").check()
    tab.get_by_label(f"Compare job {ids[2]}").check()
    expect(tab.locator(".chosen b")).to_have_text("2 runs chosen")
    tab.get_by_role("link", name="Compare").click()
    expect(tab.locator("h1")).to_have_text("Comparison of 2 runs")
    rows = tab.locator(".compared tbody tr")
    expect(rows).to_have_count(2)
    tab.get_by_label("Metric", exact=True).select_option("acc")
    expect(tab.locator(".compared thead th")).to_have_text(
        ["Line", "Id", "State", "Job", "lr", "last acc", "highest", "Ran"]
    )
    tab.get_by_label("Metric", exact=True).select_option("loss")
    expect(rows.nth(1)).to_contain_text("0.81791 at step 20")
    expect(rows.nth(0)).to_contain_text("0.0008 at step 20, the best")
    address = f"#/compare/{ids[0]},{ids[2]}?metric=loss"
    assert tab.url.endswith(address)
    tab.reload()
    expect(tab.get_by_label("Metric", exact=True)).to_have_value("loss")
    hover(tab, tab.locator(".curves"), 0.5, 0.14)
    expect(tab.locator("#tip")).to_contain_text("lr = 0.01")
    tabs.go(tab, "#/")
    for job in ids[:2]:
        tab.locator(f".row:has(a[href='#/job/{job}']) input").check()
    tab.locator(".chosen").get_by_role("link", name="Compare").click()
    expect(rows).to_have_count(2)
    tabs.expects_refusals = True
    tabs.go(tab, "#/compare/1,99")
    expect(tab.locator(".error")).to_contain_text("There is no job 99")


def test_jobs_of_no_sweep_are_compared_by_the_options_of_their_commands(tabs: Tabs) -> None:
    home = tabs.page.home
    words = ("sh", "-c", "echo loss=1", "--deep")
    ids = [home.submit(*words, f"--lr={lr}", gpus=0) for lr in (0.1, 0.2)]
    home.until_final(*ids)
    found = tabs.page.get(f"/api/compare?id={ids[0]}&id={ids[1]}&metric=loss")
    assert found["varied"] == ["lr"]
    params = [run["params"] for run in found["runs"]]
    assert params == [{"lr": 0.1, "deep": True}, {"lr": 0.2, "deep": True}]
    assert (found["metric"], found["goal"], found["total"]) == ("loss", "min", 2)
    tab = tabs.enter(f"#/compare/{ids[0]},{ids[1]}")
    expect(tab.locator(".compared tbody")).to_contain_text("0.2")


def drawn(chart: Locator) -> str:
    """What is to be seen on a chart's canvas."""
    found: str = chart.locator("canvas:not(.hotline)").evaluate("(it) => it.toDataURL()")
    return found


def test_another_goal_is_drawn_while_the_chart_is_zoomed(tabs: Tabs) -> None:
    swept(tabs.page.home, "lr=0.1,0.5")
    tab = tabs.enter("#/sweep/s")
    chart = tab.locator(".curves")
    expect(chart.locator(".words")).to_contain_text("Best: job 2,")
    hover(tab, chart, 0.2, 0.5)
    tab.mouse.down()
    hover(tab, chart, 0.6, 0.5)
    tab.mouse.up()
    expect(chart.get_by_role("button", name="Zoom out")).to_be_visible()
    tab.mouse.move(0, 0)
    expect(chart.locator(".hotline")).to_be_hidden()
    before = drawn(chart)
    chart.get_by_label("Which is best").select_option("max")
    expect(chart.locator(".words")).to_contain_text("Best: job 1,")
    eventually(lambda: drawn(chart) != before, "the other curve is thick")
    expect(chart.get_by_role("button", name="Zoom out")).to_be_visible()
