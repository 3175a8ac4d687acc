"""The course of each GPU and attempt, as telemetry wants it kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from stoker.store.database import transaction
from stoker.store.named_sql import queries


class Histories:
    """Bodies that only telemetry can read."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._sql = queries()

    def of_gpus(self) -> list[tuple[str, bytes]]:
        """Those of all GPUs, by id."""
        return self._connection.execute(self._sql["gpu_histories"]).fetchall()

    def of_attempt(self, job_id: int, number: int) -> bytes | None:
        """That of one attempt."""
        key = {"job_id": job_id, "number": number}
        row = self._connection.execute(self._sql["attempt_history"], key).fetchone()
        return None if row is None else bytes(row[0])

    def keep(
        self, gpus: Sequence[tuple[str, bytes]], attempts: Sequence[tuple[int, int, bytes]]
    ) -> None:
        """Write down those of GPUs (id, body) and of attempts (job, number, body)."""
        of_gpus = [{"gpu": gpu, "body": body} for gpu, body in gpus]
        of_attempts = [{"job_id": i, "number": n, "body": body} for i, n, body in attempts]
        with transaction(self._connection) as cursor:
            cursor.executemany(self._sql["put_gpu_history"], of_gpus)
            cursor.executemany(self._sql["put_attempt_history"], of_attempts)
