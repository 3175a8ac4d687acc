"""What a future raises when its call did not come to an end of its own."""

from __future__ import annotations

from typing import Any

from stoker.errors import Failed
from stoker.wholefile import end_of

_TAIL_BYTES = 16_384
_TAIL_LINES = 20


class RemoteTraceback(Exception):
    """The traceback of a call, as text from the process in which it was made.

    It is the cause of the exception that the future raises, so that both are shown.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


class JobFailed(Failed):
    """The job of a call ended without a result: it was killed, lost, or could not start.

    `job_id`, `job_state`, `job_exit_code` and `job_signal` say which and how; `log_tail` has the
    last lines of its log, which are part of what is printed.
    """

    def __init__(
        self,
        job_id: int,
        state: str,
        reason: str,
        exit_code: int | None = None,
        signal: int | None = None,
        log_tail: str = "",
    ) -> None:
        how = f"job {job_id} {'was ' if state in ('lost', 'stopped') else ''}{state}"
        message = f"{how}: {reason}" if reason and reason != state else how
        super().__init__(message, f"see `stoker show {job_id}` and `stoker logs {job_id}`")
        self.job_id = job_id
        self.job_state = state
        self.job_exit_code = exit_code
        self.job_signal = signal
        self.log_tail = log_tail

    def __str__(self) -> str:
        said = super().__str__()
        if not self.log_tail:
            return said
        return f"{said}\n--- the last lines of its log ---\n{self.log_tail}"

    def __reduce__(self) -> tuple[Any, ...]:
        reason = self.message.partition(": ")[2]
        how = (self.job_state, reason, self.job_exit_code, self.job_signal)
        return type(self), (self.job_id, *how, self.log_tail)


def tail_of(path: str | None) -> str:
    """The last lines of a log, however long it is; nothing if there is none."""
    text = "" if path is None else end_of(path, _TAIL_BYTES)
    return "\n".join(text.splitlines()[-_TAIL_LINES:])
