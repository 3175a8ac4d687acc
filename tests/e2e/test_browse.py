"""Windows of a long list: `browse`, `attempts`, `forecast` and the sweeps, over the socket."""

from __future__ import annotations

import json
import select
from typing import Any

import pytest

from stoker.api.client import Client
from stoker.errors import NotFound, UsageError
from stoker_home import StokerHome
from waiting import eventually

MANY = 10_000
SORTS = ["standing", "id", "name", "state", "group", "priority", "user", "started", "ended", "time"]


def browse(home: StokerHome, **fields: Any) -> dict[str, Any]:
    return home.call("browse", **fields)


def readable(client: Client) -> bool:
    return bool(select.select([client.fileno()], [], [], 0)[0])


def ids(answer: dict[str, Any]) -> list[int]:
    return [job["id"] for job in answer["jobs"]]


@pytest.fixture
def mixed(stoker: StokerHome) -> StokerHome:
    """Jobs in many states: two ended, one runs, two wait, one is held."""
    done = stoker.submit("true", name="Alpha", group="one", gpus=0)
    failed = stoker.submit_all([{"shell": "exit 3", "name": "beta_1", "gpus": 0}])[0]
    stoker.until_final(done, failed)
    stoker.submit("sleep", "600", name="runs", gpus=4)
    stoker.until_pid(3)
    stoker.submit("true", name="waits", priority=5, group="one")
    stoker.submit("true", name="first", priority=-1)
    stoker.submit("true", name="held", hold=True)
    return stoker


def test_the_list_stands_as_things_do(mixed: StokerHome) -> None:
    answer = browse(mixed)
    assert answer["total"] == 6
    assert ids(answer) == [3, 5, 4, 6, 2, 1] or ids(answer) == [3, 5, 4, 6, 1, 2]
    by_id = {job["id"]: job for job in answer["jobs"]}
    assert (by_id[5]["position"], by_id[4]["position"], by_id[6]["position"]) == (1, 2, None)
    assert by_id[5]["reason"] == "needs 1 GPU, 0 of 4 free"
    assert by_id[5]["reason_kind"] == "NeedsGpus"
    assert by_id[2]["reason"] == "exit code 3" and by_id[2]["reason_kind"] == "exit"
    assert by_id[3]["gpus"] == ["0", "1", "2", "3"] and by_id[3]["command"] == "sleep 600"
    assert by_id[3]["started_at_ms"] and by_id[4]["started_at_ms"] is None
    assert by_id[4]["need"] == {
        "gpus": 1,
        "share": None,
        "mem_mib": None,
        "mem": None,
        "cpus": 0,
    }
    assert ids(browse(mixed, descending=True)) == ids(answer)[::-1]


def test_windows_together_make_the_whole_list(mixed: StokerHome) -> None:
    for sort in (
        "standing",
        "id",
        "name",
        "state",
        "group",
        "priority",
        "started",
        "ended",
        "time",
    ):
        for descending in (False, True):
            whole = ids(browse(mixed, sort=sort, descending=descending))
            parts = [
                job_id
                for at in range(0, 8, 2)
                for job_id in ids(
                    browse(mixed, sort=sort, descending=descending, offset=at, limit=2)
                )
            ]
            assert parts == whole and sorted(whole) == [1, 2, 3, 4, 5, 6]
    assert browse(mixed, limit=0)["total"] == 6


def test_jobs_without_a_value_come_last_either_way(mixed: StokerHome) -> None:
    for descending in (False, True):
        grouped = ids(browse(mixed, sort="group", descending=descending))[:2]
        assert sorted(grouped) == [1, 4]


def test_a_list_is_narrowed_by_state_group_and_words(mixed: StokerHome) -> None:
    assert ids(browse(mixed, states=["waiting", "held"], sort="id")) == [4, 5, 6]
    assert ids(browse(mixed, group="one", sort="id")) == [1, 4]
    assert ids(browse(mixed, user="nobody")) == []
    assert ids(browse(mixed, text="alph")) == [1], "the case of letters does not matter"
    assert ids(browse(mixed, text="sleep 600")) == [3], "in the command"
    assert ids(browse(mixed, text="one true", sort="id")) == [1, 4], "all words, anywhere"
    assert ids(browse(mixed, text="5")) == [5], "an id, whole"
    assert ids(browse(mixed, text="a_1")) == [2], "what SQL would take for a pattern is text"
    assert ids(browse(mixed, text="%")) == []
    assert ids(browse(mixed, text="'; DROP TABLE jobs --")) == []
    assert browse(mixed, text="e", limit=1)["total"] == 6


def test_a_filter_means_the_same_in_lists_and_in_what_jobs_are_acted_on(
    mixed: StokerHome,
) -> None:
    yesterday = "2020-01-01"
    for text, wanted in {
        "state:waiting": [4, 5],
        "state:wait,held -name:held": [4, 5],
        "-state:waiting,held": [1, 2, 3],
        "state:held state:waiting": [],
        "-state:held,waiting state:held": [],
        "group:one": [1, 4],
        "-group:*": [2, 3, 5, 6],
        "group:o?e name:A*": [1],
        "name:first,runs": [3, 5],
        "gpu:2": [3],
        "gpu:0-3,9 -state:running": [],
        f"since:{yesterday}": [1, 2, 3, 4, 5, 6],
        f"-since:{yesterday}": [],
        "-true": [2, 3],
        "user:nobody": [],
    }.items():
        assert ids(browse(mixed, text=text, sort="id")) == wanted, text
        listed = mixed.call("list", select={"text": text})
        assert ids(listed) == wanted, text
    both = mixed.call("list", select={"ids": ["1-3"], "text": "group:one"})
    assert ids(both) == [1], "a filter narrows what is named"
    for call in ({"op": "browse", "text": "stat:x"}, {"op": "list", "select": {"text": "stat:x"}}):
        with pytest.raises(UsageError, match="did you mean state:"):
            mixed.call(**call)
    with pytest.raises(NotFound, match="no job matches 'group:two'"):
        mixed.call("cancel", select={"text": "group:two"})
    assert mixed.call("hold", select={"text": "state:waiting group:one"})["ids"] == [4]
    assert mixed.call("release", select={"ids": ["4-6"], "text": "name:w*"})["ids"] == [4]


def test_an_unknown_state_is_refused_in_one_line(stoker: StokerHome) -> None:
    with pytest.raises(UsageError, match="no state 'gone'"):
        browse(stoker, states=["gone"])


def test_a_window_of_ten_thousand_jobs_costs_the_turns_nothing(home: StokerHome) -> None:
    home.start(gpus="0-3")
    home.call("pause")
    home.submit_all([{"argv": ["true"], "name": f"n{n}", "group": "g"} for n in range(MANY)])
    answer = browse(home, offset=5000, limit=50)
    assert answer["total"] == MANY
    assert [job["position"] for job in answer["jobs"]] == list(range(5001, 5051))
    with home.client() as busy, home.client() as other:
        other.connect()
        for number in range(40):
            busy.send("browse", text=f"n99{number} nothing", sort="name")
        answered = 0
        for _ in range(40):
            while not busy.has_line() and not readable(busy):
                other.call("hello")
                answered += 1
            assert busy.receive(60)["total"] == 0
    assert answered > 40, "others were answered while the table was gone through"


def test_attempts_of_late_are_told_with_their_gpus(mixed: StokerHome) -> None:
    answer = mixed.call("attempts", since_ms=0)
    assert answer["attempts"][0]["id"] == 3 and not answer["more"]
    by_id = {one["id"]: one for one in answer["attempts"]}
    assert set(by_id) == {1, 2, 3}
    assert by_id[3]["gpus"] == ["0", "1", "2", "3"] and by_id[3]["ended_at_ms"] is None
    assert by_id[2]["state"] == "failed" and by_id[2]["ended_at_ms"] is not None
    later = mixed.call("attempts", since_ms=answer["now_ms"] + 1000)
    assert [one["id"] for one in later["attempts"]] == [3]
    assert mixed.call("attempts", since_ms=0, limit=1)["more"]


def test_an_earlier_attempt_of_a_job_that_waits_again_is_told(stoker: StokerHome) -> None:
    job = stoker.submit("false", retries=3, grace_ms=0)
    eventually(
        lambda: stoker.job(job)["attempt"] >= 1 and stoker.job(job)["state"] == "waiting",
        "it failed once and waits",
    )
    [attempt] = stoker.call("attempts", since_ms=0)["attempts"][-1:]
    assert (attempt["id"], attempt["attempt"], attempt["state"]) == (job, 1, "failed")


def test_what_should_start_next_is_told_with_its_gpus(stoker: StokerHome) -> None:
    stoker.submit_all([{"argv": ["sleep", "600"], "gpus": 4, "time_limit_ms": 60_000}])
    stoker.until_pid(1)
    stoker.submit("true", name="next", gpus=2, time_limit_ms=5_000)
    stoker.submit("true", name="after", gpus=4)
    starts = stoker.call("forecast")["starts"]
    assert [(one["id"], one["name"]) for one in starts] == [(2, "next"), (3, "after")]
    assert starts[0]["ends_at_ms"] - starts[0]["starts_at_ms"] == 5_000
    assert starts[1]["starts_at_ms"] >= starts[0]["ends_at_ms"]
    assert starts[1]["ends_at_ms"] is None and len(starts[1]["gpus"]) == 4
    [why] = stoker.call("why", select={"ids": ["2"]})["jobs"]
    assert abs(why["starts_at_ms"] - starts[0]["starts_at_ms"]) < 100
    asked = stoker.call("forecast", places_of=[3, 1, 2, 99], most_unfinished=2)
    assert asked["places"] == [2, None, 1, None], "one runs, one was never there"
    assert asked["starts"] == [], "three jobs have not ended"
    assert stoker.call("forecast", most_unfinished=3)["starts"] == starts
    stoker.call("pause")
    assert stoker.call("forecast")["starts"] == []


def test_sweeps_and_their_points_are_told_by_the_latest_job_of_each(stoker: StokerHome) -> None:
    jobs = [
        {
            "argv": ["true"],
            "gpus": 0,
            "group": "s",
            "params": {"lr": lr, "fixed": "x", "deep": [1, lr]},
            "point": f"sweep:{lr}",
        }
        for lr in (0.1, 0.2, 0.3)
    ]
    stoker.submit_all([{"argv": ["true"], "gpus": 0, "group": "s"}, *jobs])
    stoker.until_final(1, 2, 3, 4)
    again = stoker.submit_all([jobs[0] | {"hold": True}])[0]
    [sweep] = stoker.call("sweeps")["sweeps"]
    assert (sweep["sweep"], sweep["points"], sweep["last_id"]) == ("s", 3, again)
    assert sweep["counts"] == {"succeeded": 2, "held": 1}
    found = stoker.call("sweep_points", sweep="s")
    assert found["total"] == 3 and found["counts"] == sweep["counts"]
    assert found["varied"] == ["lr", "deep"]
    assert [point["id"] for point in found["points"]] == [again, 3, 4]
    assert found["points"][1]["params"] == {"lr": 0.2, "fixed": "x", "deep": [1, 0.2]}
    assert found["points"][0]["started_at_ms"] is None
    part = stoker.call("sweep_points", sweep="s", offset=1, limit=1)["points"]
    assert [point["id"] for point in part] == [3]
    assert stoker.call("sweep_points", sweep="none")["total"] == 0


def test_a_point_that_waits_to_be_tried_again_shows_no_gpu_of_before(stoker: StokerHome) -> None:
    point = {"params": {"lr": 1}, "point": "sweep:1", "group": "s"}
    job = stoker.submit("false", gpus=1, **point)
    assert stoker.until_final(job)[0]["gpus"]
    stoker.call("pause")
    stoker.call("retry", select={"ids": [str(job)]})
    for state in ("waiting", "held"):
        [shown] = stoker.call("sweep_points", sweep="s")["points"]
        table = json.loads(stoker.stoker("sweep", "show", "s", "--json"))["points"]
        for row in (shown, *table):
            assert (row["state"], row["gpus"]) == (state, [])
        if state == "waiting":
            stoker.call("hold", select={"ids": [str(job)]})
