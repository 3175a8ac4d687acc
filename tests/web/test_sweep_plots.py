"""A sweep's pictures by metric: what is best, repeats, very many points, hostile names."""

from __future__ import annotations

import json
import re
import sqlite3
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from stoker.metrics.kept import Kept
from stoker_home import StokerHome
from waiting import eventually
from web.browser import Tabs

PROTO = "__proto__"
MARKUP = "<img src=x onerror=window.hit=1>"
LONG = "m" * 300


def point(number: int, params: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A point of the sweep `s`."""
    return {"gpus": 0, "group": "s", "params": params, "point": f"sweep:{number}", **fields}


def says(*lines: str) -> dict[str, Any]:
    return {"argv": ["printf", "%s\\n", *lines]}


def few(home: StokerHome) -> list[int]:
    """Six points, whose loss falls and rises again."""
    points = [(lr, act) for lr in (0.001, 0.1, 1.0) for act in ("relu", "gelu")]
    last = {0.001: 5.0, 0.1: 1.0, 1.0: 30.0}
    ids = home.submit_all(
        [
            point(number, {"lr": lr, "act": act},
                  **says(f"step 1 loss={2 + number / 10}", f"step 2 loss={last[lr]}"))
            for number, (lr, act) in enumerate(points)
        ]
    )  # fmt: skip
    home.until_final(*ids)
    home.stoker("results", "s")  # waits until all logs are read
    return ids


def unrun(home: StokerHome, points: list[dict[str, Any]], metrics: dict[str, list[float]]) -> None:
    """Points that need not run: what the reader would have found is put where it keeps it."""
    home.call("pause")
    ids = home.submit_all([point(number, params, argv=["true"])
                           for number, params in enumerate(points)])  # fmt: skip
    path = f"{home.home.root}/metrics.db"
    Kept(path).close()
    kept = sqlite3.connect(path, isolation_level=None)
    rows = [(job, 1, name, 0, 2, value, 2, value, 2, value + 1, 1)
            for name, values in metrics.items()
            for job, value in zip(ids, values, strict=True)]  # fmt: skip
    kept.execute("BEGIN")
    kept.executemany("INSERT INTO series VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    kept.execute("COMMIT")
    kept.close()


def shown(tab: Page, metric: str) -> None:
    tab.get_by_label("Shown").select_option(label=metric)


def importance(tab: Page) -> dict[str, str]:
    rows = tab.locator(".importance li").all()
    return {one.locator("bdi").inner_text(): one.locator(".num").inner_text() for one in rows}


def test_the_pictures_are_by_the_metric_that_is_chosen_and_mark_the_best(tabs: Tabs) -> None:
    ids = few(tabs.page.home)
    tab = tabs.enter("#/sweep/s")
    expect(tab.locator(".best-point")).to_have_text(
        f"★ Best: lr = 0.1, act = relu: min loss 1, job {ids[2]}"
    )
    assert tab.get_by_label("What is best").input_value() == "min"
    expect(tab.locator(".lines-across path")).to_have_count(6)
    expect(tab.locator(".lines-across path.best")).to_have_attribute("data-place", "2")
    expect(tab.locator(".scatter")).to_have_count(2)
    expect(tab.locator(".scatter circle.best")).to_have_count(2)
    expect(tab.locator(".scatter").first).to_contain_text("lr (log)")
    expect(tab.locator(".scatter").nth(1)).to_contain_text("gelu")
    expect(tab.locator(".heat td.best")).to_have_text("1")
    expect(tab.locator("tr.best td").nth(1)).to_have_text(str(ids[2]))
    expect(tab.locator(".points thead")).to_contain_text("min loss")
    assert importance(tab).keys() == {"lr", "act"}
    expect(tab.locator("section", has_text="Parameter importance")).to_contain_text(
        "Only 6 points: take it as a hint."
    )
    tab.get_by_label("Which value").select_option("last")
    tab.get_by_label("What is best").select_option("max")
    expect(tab.locator(".best-point")).to_contain_text(f"last loss 30, job {ids[4]}")
    expect(tab.locator(".points thead")).to_contain_text("last loss")
    tab.get_by_label("Colour", exact=True).select_option(label="mean last loss")
    expect(tab.locator(".heat")).to_contain_text("30")
    tab.locator("th button", has_text="last loss").click()
    expect(tab.locator(".points tbody tr").first).to_contain_text("30")
    shown(tab, "run time")
    expect(tab.locator(".best-point")).to_be_hidden()
    expect(tab.locator(".lines-across path.best")).to_have_count(0)
    expect(tab.get_by_label("What is best")).to_be_hidden()
    expect(tab.get_by_label("Colour", exact=True)).to_have_value("time")


def test_what_was_chosen_is_still_shown_when_one_comes_back(tabs: Tabs) -> None:
    few(tabs.page.home)
    tab = tabs.enter("#/sweep/s")
    tab.get_by_label("Which value").select_option("last")
    expect(tab.locator(".best-point")).to_contain_text("last loss 1")
    tabs.go(tab, "#/")
    tabs.go(tab, "#/sweep/s")
    expect(tab.locator(".best-point")).to_contain_text("last loss 1")


def test_a_dot_names_its_point_and_opens_its_job(tabs: Tabs) -> None:
    ids = few(tabs.page.home)
    tab = tabs.enter("#/sweep/s")
    tab.locator(".scatter circle.best").first.hover(force=True)
    expect(tab.locator("#tip")).to_contain_text(f"{ids[2]} succeeded")
    expect(tab.locator("#tip")).to_contain_text("lr = 0.1")
    expect(tab.locator("#tip")).to_contain_text("min loss: 1")
    tab.locator(".scatter circle.best").first.click(force=True)
    expect(tab.locator(".facts")).to_contain_text("Parameters")
    assert tab.url.endswith(f"#/job/{ids[2]}")


def test_repeats_are_one_point_as_for_the_command_or_each_run_by_itself(tabs: Tabs) -> None:
    home = tabs.page.home
    home.stoker("sweep", "x=1,2,3", "--repeat", "seed=2", "--name", "s", "--gpus", "0",
                "--", "echo loss={x}.{seed}")  # fmt: skip
    home.until_final(*range(1, 7))
    said = json.loads(home.stoker("results", "s", "--minimize", "loss", "--json"))["results"]
    tab = tabs.enter("#/sweep/s")
    expect(tab.locator(".points tbody tr")).to_have_count(3)
    expect(tab.locator(".points thead")).to_contain_text("Runs")
    best = tab.locator(".points tbody tr.best")
    mean, spread = said[0]["metrics"]["loss"]["best"], said[0]["metrics"]["loss"]["best_spread"]
    expect(best).to_contain_text(f"{mean:g} ±{spread:.2g}")
    expect(best.locator("a")).to_have_text(str(said[0]["id"]))
    expect(tab.locator(".lines-across path")).to_have_count(3)
    tab.get_by_label("each run by itself").check()
    expect(tab.locator(".points tbody tr")).to_have_count(6)
    expect(tab.locator(".points thead")).to_contain_text("seed")
    expect(tab.locator(".lines-across path")).to_have_count(6)


def test_metrics_of_jobs_that_run_are_shown_as_they_grow(tabs: Tabs) -> None:
    home = tabs.page.home
    go = home.work / "go"
    wait = f"while [ ! -e {go} ]; do sleep 0.1; done"
    home.submit_all(
        [
            point(x, {"x": x}, shell=f"echo step 1 loss=9; {wait}; echo step 2 loss={x}; sleep 600")
            for x in (1, 2)
        ]
    )
    tab = tabs.enter("#/sweep/s")
    expect(tab.locator(".best-point")).to_contain_text("min loss 9")
    go.touch()
    expect(tab.locator(".best-point")).to_contain_text("x = 1: min loss 1")


def test_of_very_many_lines_every_value_of_every_axis_keeps_one(tabs: Tabs) -> None:
    # Every second point has the other value: a plain step through them would meet only one.
    points = [{"many": number // 2, "two": number % 2, "word": f"w{number % 7}"}
              for number in range(4_000)]  # fmt: skip
    loss = [abs(number - 1777) / 1000 for number in range(4_000)]
    unrun(tabs.page.home, points, {"loss": loss})
    tab = tabs.enter("#/sweep/s")
    expect(tab.locator(".best-point")).to_contain_text("min loss 0")
    lines = tab.locator(".lines-across path")
    expect(lines).to_have_count(1_500)
    expect(tab.locator("section", has_text="Parallel coordinates").last).to_contain_text(
        "1,500 of 4,000 points are drawn"
    )
    drawn = {int(place) for place in tab.evaluate(
        "() => [...document.querySelectorAll('.lines-across path')].map((p) => p.dataset.place)"
    )}  # fmt: skip
    assert {place % 2 for place in drawn} == {0, 1}
    assert {place % 7 for place in drawn} == set(range(7))
    assert {1777, 3999} <= drawn, "the best and the worst stay"
    assert len({place // 80 for place in drawn}) == 50, "those that are left are spread evenly"
    assert tab.locator(".lines-across path.best").get_attribute("data-place") == "1777"


@pytest.mark.parametrize("total", [1501, 1502, 2997, 3000, 4096])
def test_thinning_loses_no_value_whatever_the_number_of_points(tabs: Tabs, total: int) -> None:
    tab = tabs.enter()
    kept = tab.evaluate(
        "async (total) => { const { thinned } = await import('/sweepdata.js');"
        " const axes = [2, 3, 7, 64, 100].map((size) => Array.from({ length: total },"
        "   (_, place) => (place % 11 === 10 ? null : (place % size) / (size - 1))));"
        " return thinned(total, axes, 1500, [5, total - 1]); }",
        total,
    )
    assert len(kept) == len(set(kept)) == 1500 and {5, total - 1} <= set(kept)
    for size in (2, 3, 7, 64, 100):
        there = {place % size for place in range(total) if place % 11 != 10}
        assert {place % size for place in kept if place % 11 != 10} == there


def test_ten_thousand_points_with_two_metrics_are_all_drawn(tabs: Tabs) -> None:
    points = [{"lr": 10 ** -(number % 977 / 200), "bs": 2 ** (number % 5), "act": f"a{number % 3}",
               "wd": number / 10_000} for number in range(10_000)]  # fmt: skip
    loss = [point["lr"] * 100 + number % 13 for number, point in enumerate(points)]
    unrun(tabs.page.home, points, {"loss": loss, "acc": [1 / (1 + value) for value in loss]})
    tab = tabs.enter()
    tabs.go(tab, "#/sweep/s")
    expect(tab.locator(".scatter")).to_have_count(4)
    expect(tab.locator(".best-point")).to_contain_text("min loss")
    dots = tab.locator(".scatter .dots").first.get_attribute("d")
    assert dots is not None and dots.count("h0") == 10_000
    shown(tab, "acc")
    expect(tab.locator("h2", has_text="max acc over each parameter")).to_be_visible()


def test_hostile_names_of_parameters_and_metrics_do_no_harm(tabs: Tabs) -> None:
    names = [PROTO, MARKUP, LONG, "constructor"]
    points = [
        {PROTO: n % 2, MARKUP: f"{MARKUP}{n % 3}", "constructor": n, LONG: LONG[n:]}
        for n in range(12)
    ]
    metrics = {name: [float(number) for number in range(12)] for name in names}
    unrun(tabs.page.home, points, metrics)
    tab = tabs.enter("#/sweep/s")
    for name in names:
        shown(tab, name)
        expect(tab.locator(".points thead")).to_contain_text(f"min {name}")
        expect(tab.locator(".best-point")).to_contain_text(f": min {name} 0,")
        expect(tab.locator(".scatter")).to_have_count(4)
        assert set(importance(tab)) == set(names)
    expect(tab.locator(".scatter").first).to_contain_text(PROTO)
    for name in (MARKUP, PROTO):
        tab.get_by_label("Across", exact=True).select_option(label=name)
        tab.get_by_label("Down", exact=True).select_option(label="constructor")
        expect(tab.locator(".heat td.best")).to_have_count(1)
    for dot in tab.locator(".scatter circle.best").all():
        dot.hover(force=True)
        expect(tab.locator("#tip")).to_contain_text(MARKUP)
    assert tab.evaluate("() => ({}).polluted === undefined && window.hit === undefined")
    assert tab.evaluate("() => Object.keys(Object.prototype).length") == 0
    assert tab.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    assert not [url for url in tabs.requests if re.search(r"/x$", url)]


def test_both_cards_name_the_same_job_as_the_best_of_repeats(tabs: Tabs) -> None:
    home = tabs.page.home
    losses = [(1, 0, 5), (1, 1, 6), (2, 0, 1), (2, 1, 99), (3, 0, 0), (3, 1, 0)]
    script = "; ".join(f"[ {{lr}}{{seed}} = {lr}{seed} ] && echo loss={loss}"
                       for lr, seed, loss in losses)  # fmt: skip
    home.stoker("sweep", "lr=1,2,3", "--repeat", "seed=2", "--name", "s", "--gpus", "0", "--",
                f"{script}; [ {{lr}}{{seed}} != 31 ]")  # fmt: skip
    home.until_final(1, 2, 3, 4, 5, 6)
    home.stoker("results", "s")
    tab = tabs.enter("#/sweep/s")
    expect(tab.locator(".best-point")).to_contain_text("job 1")
    expect(tab.locator(".best-point")).to_contain_text("lr = 1")
    expect(tab.locator(".curves .words")).to_contain_text("Best: job 1,")


def test_with_several_goals_all_points_of_the_front_are_marked(tabs: Tabs) -> None:
    home = tabs.page.home
    home.stoker("sweep", "lr=1,2,3", "--name", "s", "--gpus", "0", "--", "echo loss={lr}")
    home.until_final(1, 2, 3)
    home.stoker("results", "s")
    tab = tabs.enter()

    def of_a_search(route: Route) -> None:
        answer = route.fetch()
        goals = {"best": None, "front": [0, 2], "objectives": ["loss", "latency"]}
        route.fulfill(response=answer, json={**answer.json(), **goals})

    tab.route(re.compile("/api/sweep/results"), of_a_search)
    tabs.go(tab, "#/sweep/s")
    expect(tab.locator(".best-point")).to_have_text("★ Pareto front: 2 points of loss, latency")
    expect(tab.locator("tr.best")).to_have_count(2)
    expect(tab.locator("svg.scatter circle.best")).to_have_count(2)
    expect(tab.locator(".lines-across path.best")).to_have_count(2)
    expect(tab.locator(".curves .words")).to_contain_text("Pareto front: 2 points.")


def test_if_no_point_is_the_best_the_page_says_why(tabs: Tabs) -> None:
    home = tabs.page.home
    home.stoker("sweep", "lr=1,2", "--name", "s", "--gpus", "0", "--", "echo loss={lr}; exit 2")
    home.until_final(1, 2)
    home.stoker("results", "s")
    tab = tabs.enter("#/sweep/s")
    expect(tab.locator(".best-point")).to_contain_text("none is best: no point ended well")
    expect(tab.locator(".curves .words")).to_have_text("2 curves. ")


def test_the_page_says_what_a_search_does_and_when_it_has_ended(tabs: Tabs) -> None:
    home = tabs.page.home
    script = "until [ -e go ]; do sleep 0.1; done; echo loss={x}"
    words = ("--samples", "2", "--max-running", "1", "--gpus", "0", "--name", "looks")
    space = ("x=randint(1,9)", "--minimize", "loss", *words)
    home.stoker("sweep", *space, "--sampler", "random", "--", script)
    eventually(lambda: "trial 1 of 2" in home.stoker("why", "looks"), "one was chosen")
    tab = tabs.enter("#/sweep/looks")
    said = tab.locator(".search-words")
    expect(said).to_have_text("Search: trial 1 of 2, waits for a result", timeout=30_000)
    (home.work / "go").touch()
    home.stoker("wait", "--group", "looks")
    text = home.stoker("why", "looks").strip().removeprefix("search looks: ")
    assert text.endswith("ended: all trials were made")
    expect(said).to_have_text(f"Search: {text}", timeout=30_000)
