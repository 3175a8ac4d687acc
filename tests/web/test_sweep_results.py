"""What the HTTP api says of a sweep's results is what `stoker results` says."""

from __future__ import annotations

import gzip
import json
from typing import Any
from urllib.parse import urlencode

from stoker.web.bodies import SweepResultsQuestion
from stoker.web.sweep_results import answer
from web.page_home import PageHome

NUMBERS = {(0.1, 0): [5.0, 3.0], (0.1, 1): [6.0, 4.0], (0.01, 0): [9.0, 2.0], (0.01, 1): [7.0, 8.0]}


def printed(values: list[Any], name: str = "loss") -> str:
    return "; ".join(f"echo step {step} {name}={value}" for step, value in enumerate(values))


def sweep_of_repeats(page: PageHome) -> list[int]:
    """Two learning rates, each with two seeds, of which one run fails."""
    home = page.home
    script = home.work / "train.sh"
    lines = [
        f"[ $1,$2 = {lr},{seed} ] && {{ {printed(values)}; }}" for (lr, seed), values in
        NUMBERS.items()
    ]  # fmt: skip
    script.write_text("\n".join([*lines, "[ $1,$2 != 0.01,1 ]"]), encoding="utf-8")
    home.stoker("sweep", "lr=0.1,0.01", "--repeat", "seed=2", "--name", "s", "--gpus", "0",
                "--", "sh", "train.sh", "{lr}", "{seed}")  # fmt: skip
    home.until_final(1, 2, 3, 4)
    home.stoker("results", "s")  # waits until all logs are read
    return [1, 2, 3, 4]


def asked(page: PageHome, **question: Any) -> Any:
    return page.get(f"/api/sweep/results?{urlencode(question)}")


def column(answer: Any, metric: str, part: str) -> Any:
    return next(one for one in answer["metrics"] if one["name"] == metric)[part]


def test_repeats_are_put_together_as_by_the_command(page: PageHome) -> None:
    sweep_of_repeats(page)
    said = json.loads(page.home.stoker("results", "s", "--minimize", "loss", "--json"))
    rows = sorted(said["results"], key=lambda row: min(row["ids"]))
    answer = asked(page, name="s", metric="loss")
    assert answer["repeat"] == said["repeat"] == "seed"
    assert answer["varied"] == said["varied"] == ["lr"]
    columns = answer["columns"]
    assert columns["id"] == [row["id"] for row in rows]
    assert columns["runs"] == [2, 2] and columns["ended"] == [2, 2]
    assert columns["state"] == [row["state"] for row in rows]
    assert columns["succeeded"] == [2, 1]
    for part, key in (("last", "last"), ("last_spread", "last_spread"), ("min", "best"),
                      ("min_spread", "best_spread")):  # fmt: skip
        assert column(answer, "loss", part) == [row["metrics"]["loss"][key] for row in rows], part
    assert column(answer, "loss", "max") == [5.5, 8.5]
    assert rows[answer["best"]]["best"] is True
    assert answer["params"] == [{"name": "lr", "values": [0.1, 0.01], "absent": []}]


def test_each_run_is_a_row_if_that_is_wanted_and_the_best_is_by_what_is_asked(
    page: PageHome,
) -> None:
    sweep_of_repeats(page)
    answer = asked(page, name="s", metric="loss", single="true")
    assert answer["columns"]["id"] == [1, 2, 3, 4]
    assert answer["columns"]["exit_code"] == [0, 0, 0, 1]
    assert answer["varied"] == ["lr", "seed"] and answer["best"] == 2
    assert "last_spread" not in answer["metrics"][0]
    highest = asked(page, name="s", metric="loss", goal="max", single="true")
    assert highest["best"] == 2, "9 is the highest value of all"
    last = asked(page, name="s", metric="loss", goal="max", single="true", value="last")
    assert last["best"] == 1, "the run with a higher one has failed"
    assert last["judged_by"] == 4 and last["rough"] is True
    assert {one["name"] for one in last["importance"]} == {"lr", "seed"}
    by_time = asked(page, name="s", all="false")
    assert by_time["best"] is by_time["metric"] is None and by_time["metrics"] == [
        {"name": "loss", "goal": "min"}
    ]


def test_what_has_not_changed_is_not_sent_again(page: PageHome) -> None:
    sweep_of_repeats(page)
    first = asked(page, name="s", metric="loss")
    again = asked(page, name="s", metric="loss", known=first["version"])
    assert again["version"] == first["version"] and again["changed"] is False
    assert again["columns"] == {} and again["params"] == again["metrics"] == []
    other = asked(page, name="s", metric="loss", goal="max", known=first["version"])
    assert other["changed"] is True and other["columns"]["id"]


def test_values_that_are_no_numbers_are_text_and_nan_is_never_best(page: PageHome) -> None:
    home = page.home
    said: list[list[Any]] = [["nan"], ["inf"], [3]]
    for number, values in enumerate(said, 1):
        point = {"group": "odd", "params": {"x": number}, "point": f"sweep:{number}"}
        home.submit_all([{"shell": printed(values, "acc"), "gpus": 0, **point}])
    home.until_final(1, 2, 3)
    home.stoker("results", "odd")
    answer = asked(page, name="odd", metric="acc", goal="min")
    assert column(answer, "acc", "last") == ["nan", "inf", 3]
    assert column(answer, "acc", "min") == [None, "inf", 3]
    assert answer["best"] == 2 and answer["judged_by"] == 2
    assert asked(page, name="odd", metric="acc", goal="max")["best"] == 2, "inf is not, either"


def ended(page: PageHome, *scripts: str) -> None:
    """A sweep whose points ran these."""
    ids = page.home.submit_all(
        [{"shell": script, "gpus": 0, "group": "s", "params": {"x": x}, "point": f"sweep:{x}"}
         for x, script in enumerate(scripts)]
    )  # fmt: skip
    page.home.until_final(*ids)
    page.home.stoker("results", "s")


def test_a_failed_point_is_never_the_best_of_results_and_curves(page: PageHome) -> None:
    ended(page, "echo loss=1; exit 2", "echo loss=3", "echo loss=2", "echo loss=-inf")
    answer = asked(page, name="s", metric="loss")
    curves = page.get("/api/sweep/curves?name=s")
    assert answer["best"] == 2 and answer["front"] == [2] and answer["so_far"] is False
    assert curves["best"] == 3 and [one["job"] for one in curves["curves"]] == [3, 2, 4, 1]
    compared = page.get("/api/compare?id=1&id=2")
    assert compared["best"] == 2


def test_if_all_points_failed_none_is_the_best_and_that_is_said(page: PageHome) -> None:
    ended(page, "echo loss=1; exit 2", "echo loss=nan")
    answer = asked(page, name="s", metric="loss")
    assert answer["best"] is None and answer["front"] == []
    assert answer["why_no_best"] == "none is best: no point ended well with a finite value of loss"
    assert page.get("/api/sweep/curves?name=s")["best"] is None


def test_a_metric_that_is_not_there_is_answered_with_those_that_are(page: PageHome) -> None:
    sweep_of_repeats(page)
    reply = page.ask("GET", "/api/sweep/results?name=s&metric=los")
    assert reply.status == 404 and "no metric is called 'los'" in reply.message
    assert "did you mean loss?" in reply.json["error"]["hint"]
    assert page.ask("GET", "/api/sweep/results?name=none").status == 404


def test_large_answers_are_compressed_for_those_who_take_it(page: PageHome) -> None:
    page.home.call("pause")
    page.home.submit_all([{"argv": ["true"], "group": "big", "params": {"x": number},
                           "point": f"sweep:{number}", "gpus": 0}
                          for number in range(7_000)])  # fmt: skip
    path = "/api/sweep/results?name=big"
    plain = page.ask("GET", path)
    packed = page.ask("GET", path, headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers and len(plain.body) > 256 * 1024
    assert packed.headers["content-encoding"] == "gzip" and packed.headers["vary"]
    assert json.loads(gzip.decompress(packed.body)) == plain.json
    for path in ("/log.js", "/style.css"):
        plain, packed = (
            page.ask("GET", path),
            page.ask("GET", path, headers={"accept-encoding": "gzip"}),
        )
        assert gzip.decompress(packed.body) == plain.body and 2 * len(packed.body) < len(plain.body)
    small = page.ask("GET", "/api/me", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in small.headers


def test_without_a_metric_the_likely_one_is_chosen_if_that_is_wanted(page: PageHome) -> None:
    ids = page.home.submit_all(
        [
            {"shell": f"{printed([x], 'acc')}; {printed([x], 'val_loss')}", "gpus": 0,
             "group": "s", "params": {"x": x}, "point": f"sweep:{x}"}
            for x in (1, 2, 3)
        ]
    )  # fmt: skip
    page.home.until_final(*ids)
    page.home.stoker("results", "s")
    answer = asked(page, name="s", likely="true")
    curves = page.get("/api/sweep/curves?name=s")
    assert (answer["metric"], answer["goal"]) == (curves["metric"], curves["goal"])
    assert (answer["metric"], answer["goal"]) == ("val_loss", "min") and answer["best"] == 0
    assert asked(page, name="s")["metric"] is None


def test_of_several_goals_of_a_search_the_front_is_told_and_no_best() -> None:
    names = ("loss", "latency")
    values = [(1, 9), (2, 5), (3, 6), (9, 1), (0, 0)]
    states = ["succeeded"] * 4 + ["failed"]
    ids = list(range(1, 6))
    columns = {"id": ids, "state": states, "started_at_ms": [0] * 5, "ended_at_ms": [1] * 5,
               "gpus": [[]] * 5, "exit_code": [0] * 5, "signal": [None] * 5}  # fmt: skip
    progress = {"trials": 5, "samples": 9, "best": [[0, 1, 9], [1, 2, 5]], "failed": 1}
    search = {"objectives": [[name, "min"] for name in names], "state": "running",
              "progress": progress}  # fmt: skip
    found = {"total": 5, "counts": {}, "columns": columns, "params": {"x": ids}, "absent": {},
             "repeat": None, "search": search}  # fmt: skip
    rows = [
        {"job": job, "attempt": 1, "name": name, "count": 1, "last": value, "last_step": 0,
         "min": value, "min_step": 0, "max": value, "max_step": 0}
        for job, both in zip(ids, values, strict=True)
        for name, value in zip(names, both, strict=True)
    ]  # fmt: skip

    def said(**question: Any) -> Any:
        return answer(found, {"rows": rows, "unread": 0}, SweepResultsQuestion("s", **question))

    front = said(likely=True)
    assert (front["metric"], front["best"], front["front"]) == ("loss", None, [0, 1, 3])
    assert front["objectives"] == ["loss", "latency"]
    assert front["search"] == "trial 5 of 9, 2 on the Pareto front, 1 failed, goes on"
    assert front["searching"]
    assert said(metric="latency")["objectives"] == ["latency", "loss"]
    highest = said(metric="loss", goal="max")
    assert (highest["best"], highest["front"]) == (3, [3]), "that is not what was searched for"
    assert said(metric="loss", value="last")["best"] == 0
