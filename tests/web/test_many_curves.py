"""A sweep of ten thousand points: the server thins its curves, and the page stays quick."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from stoker.metrics.attempt import Reading
from stoker.metrics.kept import Kept
from stoker.metrics.spec import Spec
from stoker_home import StokerHome
from web.browser import Tabs
from web.page_home import PageHome

MANY = 10_000
LOGS = 100


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageHome]:
    """The page of a home with a sweep of many points, all of which have metrics."""
    home = StokerHome(tmp_path_factory.mktemp("large"))
    try:
        home.start(gpus="0-3:24G")
        home.call("pause")
        points = [
            {"argv": ["true"], "group": "big", "params": {"lr": n}, "point": f"sweep:{n}"}
            for n in range(MANY)
        ]
        ids = home.submit_all(points)
        for number in range(LOGS):
            lines = [f"step {n} loss={number + 1 + 9 / n:.5f} acc={number}" for n in range(1, 501)]
            (home.work / f"{number}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
        kept = Kept(os.path.join(home.home.root, "metrics.db"))
        whole = [Reading(Spec(0, 1, log=str(home.work / f"{n}.log"))) for n in range(LOGS)]
        for reading in whole:
            while reading.read(1 << 20, ended=True):
                pass
        for at in range(0, MANY, LOGS):
            some = []
            for job, reading in zip(ids[at : at + LOGS], whole, strict=True):
                one = Reading(Spec(job, 1, log=reading.spec.log))
                one.sources = reading.sources
                for source in one.sources.values():
                    source.metrics.changed.update(source.metrics.by_name)
                some.append(one)
            kept.store(some)
        kept.close()
        yield PageHome(home)
        assert "Traceback" not in home.log_text()
    finally:
        home.clean_up()


def test_the_first_question_about_a_large_sweep_is_answered(large: PageHome) -> None:
    assert len(large.home.call("searches", name="big")["points"]) == MANY


def test_of_very_many_curves_the_best_and_some_of_the_rest_are_sent(large: PageHome) -> None:
    reply = large.ask("GET", "/api/sweep/curves?name=big")
    found = reply.json
    assert (found["metric"], found["total"], found["unread"]) == ("loss", MANY, 0)
    assert len(found["curves"]) == 200
    lowest = [curve["min"] for curve in found["curves"]]
    assert lowest == sorted(lowest) and lowest[0] < 1.1 and lowest[-1] > LOGS
    assert max(len(curve["points"]) for curve in found["curves"]) <= 152
    assert len(reply.body) < 1_000_000


def test_the_page_says_how_many_of_the_curves_are_seen(browser: Browser, large: PageHome) -> None:
    tabs = Tabs(browser, large)
    tab = tabs.enter("#/sweep/big")
    expect(tab.locator(".curves .words")).to_have_text(
        "200 of 10,000 curves: the best 100 and a spread of the rest. "
        "Best: job 1, last 1.018 at step 500, lowest 1.018 at step 500."
    )
    over = tab.locator(".curves .u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    assert box is not None
    # Pointing at other curves does not draw all of them again.
    tab.evaluate(
        "() => { const all = CanvasRenderingContext2D.prototype; const stroke = all.stroke;"
        " window.strokes = 0;"
        " all.stroke = function (...words) { window.strokes += 1; return stroke.apply(this, words);"
        " }; }"
    )
    named = set()
    for part in (0.2, 0.4, 0.6, 0.8):
        tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + part * box["height"])
        expect(tab.locator("#tip")).to_contain_text("lr = ")
        named.add(tab.locator("#tip b").text_content())
    assert len(named) == 4
    assert tab.evaluate("window.strokes") <= 12
    tabs.close()
