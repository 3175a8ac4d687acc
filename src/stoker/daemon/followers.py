"""Clients that follow a group: they hear of each start and each end as it is committed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stoker.core.change import Ended
from stoker.core.reasons import outcome_words
from stoker.daemon.loop import Rounds
from stoker.daemon.server import Connection
from stoker.executors.attempt_dir import log_text


@dataclass(slots=True)
class Followers:
    """Who follows which group."""

    rounds: Rounds
    attempts: str  # where their logs are
    _by_group: dict[str, list[Connection]] = field(default_factory=dict)

    def follow(self, group: str, connection: Connection) -> None:
        """Tell this client of the group from now on."""
        self._by_group.setdefault(group, []).append(connection)
        connection.on_close.append(lambda: self._forget(group, connection))
        connection.tell()
        connection.take_more()

    def tell(self) -> None:
        """After a turn: pass on what it has committed."""
        if not self._by_group:
            return
        change, state = self.rounds.engine.committed, self.rounds.state
        lines: dict[str, list[dict[str, Any]]] = {group: [] for group in self._by_group}
        # Ends come first: within one turn the end of one job makes room for the start of the next.
        for ended in change.ended:
            group = ended.job.group or ""
            if group in lines and (ended.attempt is not None or ended.job_is_final):
                lines[group].append(_ended_line(ended))
        here = [i for i in change.placed if i in state.jobs and not state.jobs[i].terms.executor]
        for job_id in (*here, *change.begun):
            job = state.jobs.get(job_id)
            if job is not None and job.active is not None and (job.group or "") in lines:
                line = {
                    "event": "started",
                    "id": job_id,
                    "attempt": job.active.number,
                    "gpus": state.shown_gpus(job.active.gpus),
                }
                if not job.terms.executor:
                    line["log"] = log_text(self.attempts, job_id, job.active.number)
                lines[job.group or ""].append(line)
        for group, told in lines.items():
            if told:
                for connection in self._by_group[group]:
                    connection.tell_all(told)

    def _forget(self, group: str, connection: Connection) -> None:
        followers = self._by_group.get(group, [])
        if connection in followers:
            followers.remove(connection)
        if not followers:
            self._by_group.pop(group, None)


def _ended_line(ended: Ended) -> dict[str, Any]:
    how = ended.outcome.exit
    return {
        "event": "ended",
        "id": ended.job.id,
        "attempt": ended.attempt.number if ended.attempt is not None else 0,
        "state": ended.outcome.state.value,
        "exit_code": how.code if how is not None else None,
        "signal": how.signal if how is not None else None,
        "reason": outcome_words(ended.outcome),
        "final": ended.job_is_final,
    }
