"""Clients that follow a group: they hear of each start and each end as it is committed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stoker.core.change import Ended
from stoker.core.model import Attempt, Job
from stoker.core.reasons import outcome_words
from stoker.daemon.loop import TurnLoop
from stoker.daemon.server import Connection
from stoker.executors.attempt_dir import log_text


@dataclass(slots=True)
class Followers:
    """Who follows which group."""

    turn_loop: TurnLoop
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
        change, state = self.turn_loop.engine.committed, self.turn_loop.state
        lines: dict[str, list[dict[str, Any]]] = {group: [] for group in self._by_group}
        over = {i for i in change.placed if i not in state.jobs or state.jobs[i].active is None}
        # Ends come first: within one turn the end of one job makes room for the start of the next,
        # which may have ended in it as well.
        for ended in change.ended:
            job, attempt = ended.job, ended.attempt
            group = job.group or ""
            if group in lines and (attempt is not None or ended.job_is_final):
                was_placed = job.id in over and not job.terms.executor
                if was_placed and attempt is not None and attempt.number == job.attempt:
                    lines[group].append(self._started_line(job, attempt))
                lines[group].append(_ended_line(ended))
        here = [i for i in change.placed if i in state.jobs and not state.jobs[i].terms.executor]
        for job_id in (*here, *change.begun):
            active = state.jobs.get(job_id)
            if active is not None and active.active is not None and (active.group or "") in lines:
                lines[active.group or ""].append(self._started_line(active, active.active))
        for group, told in lines.items():
            if told:
                for connection in self._by_group[group]:
                    connection.tell_all(told)

    def _started_line(self, job: Job, attempt: Attempt) -> dict[str, Any]:
        line: dict[str, Any] = {
            "event": "started",
            "id": job.id,
            "attempt": attempt.number,
            "gpus": self.turn_loop.state.shown_gpus(attempt.gpus),
        }
        if not job.terms.executor:
            line["log"] = log_text(self.attempts, job.id, attempt.number)
        return line

    def _forget(self, group: str, connection: Connection) -> None:
        followers = self._by_group.get(group, [])
        if connection in followers:
            followers.remove(connection)
        if not followers:
            self._by_group.pop(group, None)


def _ended_line(ended: Ended) -> dict[str, Any]:
    how, attempt = ended.outcome.exit, ended.attempt
    began_ms = None if attempt is None else attempt.started_at_ms or attempt.placed_at_ms
    stood_ms = 0 if attempt is None else attempt.suspended_ms
    return {
        "event": "ended",
        "id": ended.job.id,
        "attempt": attempt.number if attempt is not None else 0,
        "state": ended.outcome.state.value,
        "exit_code": how.code if how is not None else None,
        "signal": how.signal if how is not None else None,
        "reason": outcome_words(ended.outcome),
        "final": ended.job_is_final,
        "ran_ms": None if began_ms is None else max(0, ended.at_ms - began_ms - stood_ms),
    }
