"""Options of a job over HTTP, as they are typed on the page: one table for all front ends."""

from __future__ import annotations

from stoker.api.job_options import JOB_OPTIONS
from web.page_home import PageHome


def test_the_page_is_told_of_every_option(shared_page: PageHome) -> None:
    table = shared_page.get("/api/options")
    told = {one["key"]: one for one in table["options"]}
    assert set(told) == {option.key for option in JOB_OPTIONS if option.fields}
    assert {one["group"] for one in told.values()} == set(table["groups"])
    assert told["mps"]["choices"] == ["yes", "no"] and told["hold"]["choices"] == ["yes"]


def test_what_was_typed_means_what_it_means_on_the_command_line(page: PageHome) -> None:
    typed = {"gpus": "0.5", "time_limit": "1h30m", "on": "1,2", "hold": "yes", "nice": "7"}
    order = {"jobs": [{"shell": "true"}, {"shell": "false", "priority": 3}], "options": typed}
    first, second = page.post("/api/jobs", order)["ids"]
    job = page.home.job(first)
    assert job["need"]["share"] == 0.5 and job["need"]["on"] == ["1", "2"]
    assert (job["time_limit_ms"], job["state"], job["priority"]) == (5_400_000, "held", 0)
    assert job["options"] == {"nice": 7}
    assert page.home.job(second)["priority"] == 3
    changes = {"gpus": "2", "time_limit": None, "name": "new", "nice": None}
    answer = page.post("/api/jobs/edit", {"ids": [first], "options": changes})
    assert answer == {"ids": [first], "left_out": {}}
    job = page.home.job(first)
    assert job["need"]["gpus"] == 2 and job["need"]["share"] is None
    assert (job["time_limit_ms"], job["name"], job["options"]) == (None, "new", {})
    sweep = {"space": ["a=1,2"], "command": "echo {a}", "options": {"mem": "2G", "hold": "yes"}}
    ids = page.post("/api/sweep", sweep)["ids"]
    assert [page.home.job(one)["need"]["mem_mib"] for one in ids] == [2048, 2048]


def test_what_can_not_be_understood_is_refused_with_the_name_of_its_option(
    shared_page: PageHome,
) -> None:
    def refused(path: str, **fields: object) -> str:
        reply = shared_page.ask("POST", path, body=fields)
        assert reply.status == 400
        return reply.message

    jobs = [{"shell": "true"}]
    assert refused("/api/jobs", jobs=jobs, options={"mem": "much"}).startswith("mem: ")
    unitless = {"jobs": jobs, "options": {"mem": "10"}}
    reply = shared_page.ask("POST", "/api/jobs", body=unitless)
    assert reply.json["error"]["hint"] == "10G or 10M?"
    assert "no option 'gpu'" in refused("/api/jobs", jobs=jobs, options={"gpu": "1"})
    assert refused("/api/jobs/edit", ids=[1], options={"gpus": None}) == "gpus can't be taken away"
