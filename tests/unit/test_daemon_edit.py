"""`stoker edit` of what a job needs: the new word counts, and what it replaces is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from stoker.api.messages import Edit, Select
from stoker.core.model import Need
from stoker.daemon.main import Daemon
from stoker.daemon.requests.edit import edit
from stoker.errors import UsageError
from unit.queue_scene import Queue


def edited(tmp_path: Path, said: dict[str, Any], changes: dict[str, Any]) -> Need:
    queue = Queue(tmp_path)
    [job_id] = queue.submit([{"argv": ["train"], "hold": True, **said}])
    request = Edit(select=Select(ids=[str(job_id)]), changes=changes)
    queue.grant(edit(cast(Daemon, queue), request).proposal)
    queue.commit()
    return queue.state.jobs[job_id].need


@pytest.mark.parametrize(
    ("said", "changes"),
    [
        ({"mem_mib": 8_192}, {"mem": "auto"}),
        ({"mem_mib": 8_192}, {"mem": "whole"}),
        ({"mem": "auto"}, {"mem_mib": 8_192}),
        ({"mem": "auto"}, {"mem": "whole"}),
        ({"mem": "auto"}, {"mem_mib": 4_096, "mem": None}),
        ({"gpus": 2}, {"share": 0.5}),
        ({"share": 0.5}, {"gpus": 2}),
        ({"share": 0.5}, {"mem_mib": 8_192}),
        ({"gpus": 0}, {"gpus": 1}),
        ({"gpus": 1}, {"gpus": 0}),
        ({"mem_mib": 8_192}, {"margin": [20, 100]}),
        ({"on": ["1"]}, {"on": []}),
        ({"cpus": 3}, {"gpus": 2}),
    ],
)
def test_an_edited_job_needs_what_a_new_one_would_that_says_the_same(
    tmp_path: Path, said: dict[str, Any], changes: dict[str, Any]
) -> None:
    need = edited(tmp_path, said, changes)
    replaced = {"mem", "mem_mib"} if changes.keys() & {"mem", "mem_mib"} else set()
    replaced |= {"gpus", "share"} if changes.keys() & {"gpus", "share"} else set()
    left = {name: value for name, value in said.items() if name not in replaced}
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    queue = Queue(fresh)
    [job_id] = queue.submit([{"argv": ["train"], "hold": True, **left, **changes}])
    assert need == queue.state.jobs[job_id].need


def test_memory_that_is_learned_replaces_an_amount(tmp_path: Path) -> None:
    need = edited(tmp_path, {"mem_mib": 8_192}, {"mem": "auto"})
    assert need.learns and need.mem_mib is None


@pytest.mark.parametrize("env", [{"A=B": "1"}, {"": "1"}, {"A": "one\0two"}])
def test_an_edit_to_what_no_environment_can_hold_is_refused(
    tmp_path: Path, env: dict[str, str]
) -> None:
    with pytest.raises(UsageError, match="can't be an environment variable"):
        edited(tmp_path, {}, {"env": env})
