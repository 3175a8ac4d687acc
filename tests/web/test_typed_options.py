"""Options of a job over HTTP, as they are typed on the page: one table for all front ends."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from outside import Train
from stoker.api.job_options import BY_KEY, JOB_OPTIONS, options_in
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
    assert answer == {"ids": [first], "left_out": {}, "warnings": []}
    job = page.home.job(first)
    assert job["need"]["gpus"] == 2 and job["need"]["share"] is None
    assert (job["time_limit_ms"], job["name"], job["options"]) == (None, "new", {})
    sweep = {"space": ["a=1,2"], "command": "echo {a}", "options": {"mem": "2G", "hold": "yes"}}
    ids = page.post("/api/sweep", sweep)["ids"]
    assert [page.home.job(one)["need"]["mem_mib"] for one in ids] == [2048, 2048]


def test_jobs_that_share_an_output_file_are_told_of_in_the_answer(page: PageHome) -> None:
    options, cwd = {"out": "shared.txt", "hold": "yes"}, str(page.home.work)
    path = page.home.work / "shared.txt"
    order = {"jobs": [{"shell": "true"}, {"shell": "true"}], "options": options, "cwd": cwd}
    answer = page.post("/api/jobs", order)
    first, second = answer["ids"]
    assert answer["warnings"] == [f"jobs {first} and {second} both write to {path}"]
    other = {"jobs": [{"shell": "true"}], "options": {"hold": "yes"}, "cwd": cwd}
    answer = page.post("/api/jobs", other)
    [third] = answer["ids"]
    assert answer["warnings"] == []
    answer = page.post("/api/jobs/edit", {"ids": [third], "options": {"err": str(path)}})
    told = f"job {second} has not ended, and writes to {path} as well"
    assert answer == {"ids": [third], "left_out": {}, "warnings": [told]}


def test_what_can_not_be_understood_is_refused_with_the_name_of_its_option(
    shared_page: PageHome,
) -> None:
    def refused(path: str, **fields: object) -> str:
        reply = shared_page.ask("POST", path, body=fields)
        assert reply.status == 400
        return reply.message

    jobs = [{"shell": "true"}]
    assert refused("/api/jobs", jobs=jobs, options={"mem": "much"}).startswith("mem: ")
    for key, value, hint in (("mem", "10", "10G or 10M?"), ("time_limit", 2, "2m or 2h?")):
        unitless = {"jobs": jobs, "options": {key: value}}
        reply = shared_page.ask("POST", "/api/jobs", body=unitless)
        assert reply.status == 400 and reply.json["error"]["hint"] == hint
    assert "no option 'gpu'" in refused("/api/jobs", jobs=jobs, options={"gpu": "1"})
    assert refused("/api/jobs/edit", ids=[1], options={"gpus": None}) == "gpus can't be taken away"


def test_options_are_numbers_flags_and_lists_too_as_in_python(page: PageHome) -> None:
    said = {"gpus": 0.5, "time_limit": "90s", "on": [1, 2], "hold": True, "env": {"A": 1}}
    [job_id] = page.post("/api/jobs", {"jobs": [{"shell": "true"}], "options": said})["ids"]
    job = page.home.job(job_id)
    assert job["need"]["share"] == 0.5 and job["need"]["on"] == ["1", "2"]
    assert (job["time_limit_ms"], job["state"]) == (90_000, "held")
    changes = {"priority": 7, "gpus": 2}
    answer = page.post("/api/jobs/edit", {"ids": [job_id], "options": changes})
    assert answer == {"ids": [job_id], "left_out": {}, "warnings": []}
    assert page.home.job(job_id)["priority"] == 7


def test_a_value_of_the_wrong_kind_is_refused_with_the_name_of_its_option(
    shared_page: PageHome,
) -> None:
    for key, value in (("env", 5), ("after", 1.5), ("slurm", 7), ("mem", [{}]), ("gpus", True)):
        body = {"jobs": [{"shell": "true"}], "options": {key: value}}
        reply = shared_page.ask("POST", "/api/jobs", body=body)
        assert reply.status == 400 and reply.message.startswith(f"{key}: "), (key, reply.message)


def test_what_is_refused_names_options_as_http_has_them(shared_page: PageHome) -> None:
    jobs = [{"shell": "true"}]
    for options in ({"gpus": 0, "mem": "8G"}, {"signal": "USR1@2m"}, {"mem_margin": "10%"}):
        reply = shared_page.ask("POST", "/api/jobs", body={"jobs": jobs, "options": options})
        error = reply.json["error"]
        assert reply.status == 400 and "--" not in f"{error['message']} {error['hint']}"


def test_the_document_has_the_options_of_the_table(shared_page: PageHome) -> None:
    schemas = shared_page.get("/api/openapi.json")["components"]["schemas"]
    for body, front_end in (
        ("SubmitRequest", ""),
        ("SweepRequest", "sweep"),
        ("EditRequest", "edit"),
    ):
        told = schemas[body]["properties"]["options"]
        assert set(told["properties"]) == {option.key for option in options_in(front_end)}
        assert told["additionalProperties"] is False
    of_job = schemas["SubmitRequest"]["properties"]["options"]["properties"]
    assert "boolean" in of_job["hold"]["type"] and "number" in of_job["gpus"]["type"]
    assert of_job["time_limit"]["description"] == BY_KEY["time_limit"].help
    for key in ("cwd", "out", "err", "metrics_from", "hook"):
        assert of_job[key]["type"] == ["string", "null"]
        refused = {"jobs": [{"shell": "true"}], "options": {key: 5}}
        assert shared_page.ask("POST", "/api/jobs", body=refused).status == 400


def test_orders_over_http_are_narrowed_by_state(page: PageHome) -> None:
    held = page.home.submit("true", group="g", hold=True)
    running = page.home.submit("sleep", "600", group="g", gpus=0)
    page.home.until_state(running, "running")
    chosen = {"group": "g", "states": ["held"]}
    change = {**chosen, "options": {"priority": 3}}
    assert page.post("/api/jobs/edit", change) == {"ids": [held], "left_out": {}, "warnings": []}
    assert page.post("/api/jobs/cancel", chosen)["ids"] == [held]
    assert page.home.job(running)["state"] == "running"
    retried = page.post("/api/jobs/retry", {"group": "g", "states": ["cancelled"]})
    assert (retried["ids"], retried["counts"]) == ([held], {"cancelled": 1})
    reply = page.ask("POST", "/api/jobs/cancel", body={"all": True, "states": ["hold"]})
    assert reply.status == 400 and "there is no state 'hold'" in reply.message


def test_a_call_whose_files_are_gone_is_not_retried_over_http_either(page: PageHome) -> None:
    worker = "/nowhere/stoker/library/worker.py"
    job = {"argv": [sys.executable, worker, "--call", "/nowhere/1.call", "train"], "gpus": 0}
    [job_id] = page.post("/api/jobs", {"jobs": [job]})["ids"]
    page.home.until_final(job_id)
    reply = page.ask("POST", "/api/jobs/retry", body={"ids": [job_id]})
    assert reply.status == 409 and "but its code was deleted" in reply.message


def test_code_is_frozen_for_jobs_and_sweeps_over_http(page: PageHome) -> None:
    code = page.home.work / "code.sh"
    code.write_text("echo old\n")
    page.home.call("pause")
    where = {"cwd": str(page.home.work), "options": {"freeze": "yes", "gpus": "0"}}
    ids = page.post("/api/jobs", {"jobs": [{"shell": "sh ./code.sh"}], **where})["ids"]
    sweep = {"space": ["a=1,2"], "command": "sh ./code.sh {a}", **where}
    ids += page.post("/api/sweep", sweep)["ids"]
    code.write_text("echo new\n")
    page.home.call("resume")
    for job_id in ids:
        page.home.until_final(job_id)
        assert page.home.log_of(job_id) == "old\n"
        assert page.home.job(job_id)["options"]["freeze"] == str(page.home.work)


def test_the_commit_of_the_directory_is_recorded_and_shown(page: PageHome) -> None:
    root = page.home.work / "code"
    root.mkdir()
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        names = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *names, *words], cwd=root, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, check=True, capture_output=True)
    commit = head.stdout.decode().strip()
    [job_id] = page.post("/api/jobs", {"jobs": [{"shell": "true"}], "cwd": str(root)})["ids"]
    sweep = {"space": ["a=1,2"], "command": "echo {a}", "cwd": str(root)}
    ids = page.post("/api/sweep", sweep)["ids"]
    for one in (job_id, *ids):
        assert page.get(f"/api/jobs/{one}")["job"]["git"]["commit"] == commit


def test_jobs_and_sweeps_have_the_defaults_of_the_project_of_their_directory(
    page: PageHome,
) -> None:
    root = page.home.work / "of-a-project"
    (root / "below").mkdir(parents=True)
    text = 'time-limit = "3h"\nmem = "2G"\nhold = true\nname = "{project}"\n[env]\nA = "1"\n'
    (root / "stoker.toml").write_text(text)
    other = page.home.work / "of-none"
    other.mkdir()
    jobs = [
        {"shell": "true"},
        {"shell": "true", "cwd": str(other), "hold": True},
        {"shell": "true", "gpus": 0, "time_limit_ms": 60_000, "env": {"B": "2"}},
    ]
    order = {"jobs": jobs, "cwd": str(root / "below"), "options": {"retries": 3}}
    first, second, third = map(page.home.job, page.post("/api/jobs", order)["ids"])
    assert (first["time_limit_ms"], first["need"]["mem_mib"], first["state"]) == (
        10_800_000, 2048, "held",
    )  # fmt: skip
    assert (first["name"], first["cwd"], first["retries"]) == (
        "of-a-project", str(root / "below"), 3,
    )  # fmt: skip
    assert (second["time_limit_ms"], second["name"], second["cwd"]) == (None, None, str(other))
    assert (third["time_limit_ms"], third["need"]["mem_mib"]) == (60_000, None)
    order = {"jobs": [{"shell": "true"}], "cwd": str(root), "options": {"hold": False, "gpus": 0}}
    [free] = page.post("/api/jobs", order)["ids"]
    page.home.until_final(free)
    sweep: dict[str, Any] = {"space": ["a=1,2"], "command": "echo {a}", "cwd": str(root)}
    ids = page.post("/api/sweep", sweep)["ids"]
    assert {page.home.job(one)["time_limit_ms"] for one in ids} == {10_800_000}
    undone = {"time_limit": "none", "mem": "none"}
    ids = page.post("/api/jobs", order | {"options": undone})["ids"]
    ids += page.post("/api/sweep", sweep | {"options": undone})["ids"]
    found = [page.home.job(one) for one in ids]
    assert {(job["time_limit_ms"], job["need"]["mem_mib"]) for job in found} == {(None, None)}
    page.post("/api/jobs/edit", {"ids": [first["id"]], "options": {"time_limit": "none"}})
    assert page.home.job(first["id"])["time_limit_ms"] is None
    (root / "stoker.toml").write_text("tme-limit = 3\n")
    reply = page.ask("POST", "/api/jobs", body=order)
    assert reply.status == 400 and f"{root}/stoker.toml: " in reply.message


def test_a_process_that_runs_is_adopted_and_let_go_over_http(page: PageHome, train: Train) -> None:
    process = train()
    order = {"pid": process.pid, "options": {"on": "1", "name": "by hand", "mem": None}}
    answer = page.post("/api/jobs/adopt", order)
    assert (answer["gpus"], answer["process"]) == (["1"], f"{process.pid} (cat -)")
    job = page.home.until_state(answer["id"], "running")
    assert (job["name"], job["gpus"]) == ("by hand", ["1"])
    for body, status, message in (
        ({"pid": process.pid, "options": {"nice": 3}}, 400, "nice comes too late"),
        ({"pid": 2**31 - 1}, 400, "there is no process"),
        (order, 409, "of job"),
    ):
        reply = page.ask("POST", "/api/jobs/adopt", body=body)
        assert reply.status == status and message in reply.message
    chosen = {"ids": [answer["id"]]}
    reply = page.ask("POST", "/api/jobs/cancel", body=chosen)
    assert reply.status == 409 and "was adopted" in reply.message
    assert page.post("/api/jobs/cancel", {**chosen, "let_go": True})["ids"] == chosen["ids"]
    assert page.home.until_final(answer["id"])[0]["state"] == "cancelled"
    assert process.poll() is None


def test_a_message_is_wanted_by_a_flag_as_on_the_command_line(page: PageHome) -> None:
    order = {"jobs": [{"shell": "true"}], "options": {"notify": True, "hold": True}}
    reply = page.ask("POST", "/api/jobs", body=order)
    assert reply.status == 400 and "stoker config set notify" in reply.json["error"]["hint"]
    page.home.call("config_set", name="notify", value="json://localhost:9")
    by_flag, by_word = (
        page.post("/api/jobs", {**order, "options": {"notify": said, "hold": True}})["ids"][0]
        for said in (True, "yes")
    )
    assert page.home.job(by_flag)["notify"] is page.home.job(by_word)["notify"] is True
    [without] = page.post("/api/jobs", {**order, "options": {"notify": False, "hold": True}})["ids"]
    assert page.home.job(without)["notify"] is False
    page.post("/api/jobs/edit", {"ids": [without], "options": {"notify": True}})
    assert page.home.job(without)["notify"] is True
