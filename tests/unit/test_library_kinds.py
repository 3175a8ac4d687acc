"""What is no argument of the library is told by its name, before anything is asked or begun."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.errors import UsageError
from stoker.library.client import Client

WRONG = {
    "results": {
        "name": 3, "group": b"x", "minimize": 3, "maximize": [1], "metrics": None,
        "metrics_from": 1.5, "repeat": {"seed": 3}, "single": "yes", "sort": ["lr"], "reverse": 1,
        "top": "3",
    },
    "search": {
        "params": "lr", "minimize": b"loss", "maximize": 1.5, "samples": "60", "sampler": 3,
        "seed": "7", "until": 0.3, "stop_early": True, "file": 3, "where": None, "repeat": 3,
        "style": None, "max_running": object(), "name": [1], "command": 3,
    },
}  # fmt: skip


@pytest.mark.parametrize("method", WRONG)
def test_each_argument_of_a_wrong_type_is_named(
    method: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_HOME", str(tmp_path))
    right = {} if method == "results" else {"command": "true {x}", "minimize": "loss", "samples": 1}
    for name, value in WRONG[method].items():
        client = Client.__new__(Client)  # Nothing is asked of a daemon.
        with pytest.raises(UsageError, match=f"{name}") as caught:
            getattr(client, method)(**{**right, name: value})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("job", [object(), 1.5, None, b"7", {"name": "x"}])
def test_what_is_no_job_is_refused_in_words(job: Any) -> None:
    with pytest.raises(UsageError, match="a job is its id"):
        Client.__new__(Client).metrics(job)
