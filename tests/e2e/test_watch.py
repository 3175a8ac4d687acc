"""The feed of changes: put together, bounded, and never lost."""

from __future__ import annotations

from typing import Any

from stoker.api.client import Client
from stoker_home import StokerHome


def next_change(client: Client) -> dict[str, Any]:
    line = client.receive(60)
    assert line["event"] == "changed"
    return line


def until_changed(client: Client, job_id: int) -> dict[str, Any]:
    """The line that names a job."""
    while job_id not in (line := next_change(client))["changed"]:
        pass
    return line


def test_a_watcher_is_told_how_things_are_and_then_what_has_changed(stoker: StokerHome) -> None:
    with stoker.client() as client:
        client.send("watch", every_ms=50)
        first = next_change(client)
        assert [gpu["id"] for gpu in first["gpus"]] == ["0", "1", "2", "3"]
        assert first["changed"] == [] and not first["paused"]
        job = stoker.submit("sleep", "600")
        line = until_changed(client, job)
        assert line["version"] > first["version"]
        while line["counts"]["running"] != 1:
            line = next_change(client)
        while not any(gpu["jobs"] for gpu in line.get("gpus", [])):
            line = next_change(client)
        stoker.call("cancel", select={"ids": [str(job)]})
        while line["counts"]["cancelled"] != 1:
            line = until_changed(client, job)
        stoker.call("remove", select={"ids": [str(job)]})
        line = until_changed(client, job)
        assert line["counts"]["cancelled"] == 0 and "gpus" not in line


def test_what_many_jobs_do_is_told_in_few_bounded_lines(stoker: StokerHome) -> None:
    with stoker.client() as client:
        client.send("watch", every_ms=200)
        next_change(client)
        stoker.submit_all([{"argv": ["true"], "hold": True}] * 3000)
        line = next_change(client)
        assert line["many"] and len(line["changed"]) == 500
        assert line["counts"]["held"] == 3000


def test_a_watcher_that_does_not_read_misses_lines_but_no_change(stoker: StokerHome) -> None:
    with stoker.client() as client:
        client.send("watch", every_ms=50)
        for number in range(300):
            stoker.call("limit_group", group=f"g{number}" * 40, max_running=1)
            stoker.call("pause", group=f"g{number}" * 40)
        for _ in range(100):
            stoker.submit_all([{"argv": ["true"], "hold": True}] * 3)
        line = next_change(client)
        while line["counts"]["held"] != 300:
            line = next_change(client)
        assert len(line["paused_groups"]) == 300


def test_orders_on_a_watching_connection_are_answered_in_between(stoker: StokerHome) -> None:
    with stoker.client() as client:
        client.send("watch", every_ms=50)
        next_change(client)
        client.send("hello")
        while "pid" not in (line := client.receive(60)):
            assert line["event"] == "changed"
        assert line["pid"] == stoker.daemon_pid()


def test_a_watcher_that_leaves_is_forgotten(stoker: StokerHome) -> None:
    for _ in range(20):
        with stoker.client() as client:
            client.send("watch")
            next_change(client)
    stoker.submit("true")
    stoker.until_final(1)
    assert "Traceback" not in stoker.log_text()
