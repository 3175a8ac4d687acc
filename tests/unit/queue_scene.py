"""A queue on disk without a daemon: submissions and orders as they come in, and what is kept."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import msgspec

from stoker.api.messages import Submit
from stoker.core import events as ev
from stoker.core.state import State
from stoker.daemon.asked import Defaults
from stoker.daemon.cluster import ClusterRules
from stoker.daemon.submission import submission
from stoker.engine import Proposal
from stoker.executors.slurm.options import ClusterConfig
from stoker.sim.fingerprint import of_job
from stoker.store.sqlite import SqliteStore
from stoker.store.views import Views

NOW_MS = 1_700_000_000_000


class Queue:
    """The store, and the state that a turn would have in hand."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = SqliteStore(directory / "stoker.db")
        self.views = Views(self.store.connection)
        self.state: State = self.store.load(NOW_MS)
        for number in range(4):
            self.state.apply(ev.GpuAdded(NOW_MS, str(number), 24_576))
        self.state.apply(ev.CpusCounted(NOW_MS, 8))
        self.commit()

    def proposal(self, jobs: list[dict[str, Any]], **fields: Any) -> Proposal:
        """What a submission asks of a turn."""
        usual = {"cwd": str(self.directory), "env": {"A": "1"}, "user": "tester"}
        request = msgspec.convert({**usual, "jobs": jobs, **fields}, Submit)
        cluster = ClusterRules(False, ClusterConfig(), None)
        return submission(request, self.views, Defaults(10_000), cluster)

    def grant(self, proposal: Proposal) -> Any:
        """Its answer, once it has come true in memory."""
        decided = proposal(self.state)
        for event in decided.events:
            self.state.apply(event)
        return decided.answer

    def submit(self, jobs: list[dict[str, Any]], **fields: Any) -> list[int]:
        """The ids of jobs that are on disk."""
        ids: list[int] = self.grant(self.proposal(jobs, **fields))["ids"]
        self.commit()
        return ids

    def commit(self) -> None:
        """Write what has changed, and read it again."""
        self.store.commit(self.state, self.state.take_change())
        self.state = self.store.load(NOW_MS)

    def kept(self, job_id: int) -> Hashable:
        """All that is known of a job but its id."""
        launch = self.store.launch(job_id)
        shown = msgspec.json.encode(launch._asdict() | {"requires": list(launch.requires)})
        job = of_job(self.state.jobs[job_id])
        assert isinstance(job, tuple)
        return (*job[1:], shown)
