"""Orders given before earlier ones are answered: the daemon is at one, its client makes the next.

Answers come in the order of the orders. All of them must be such as can be given again: questions,
or submissions with a token.
"""

from __future__ import annotations

from collections import deque

from stoker.api.client import ConnectionLost, line_of
from stoker.errors import StokerError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stoker.api.client import Client

_MOST_REPEATS = 5


class Pipeline:
    """The orders of one client that are under way; it gives no others meanwhile."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._given: deque[bytes] = deque()  # without an answer, the oldest first

    def give(self, op: str, **fields: Any) -> None:
        """Give an order; see `answer`."""
        self.give_line(line_of(op, fields))

    def give_line(self, line: bytes) -> None:
        """The same for one that was written by `line_of`."""
        self._given.append(line)
        self._client.send_line(line)

    def answer(self) -> dict[str, Any]:
        """The answer to the oldest order that has none; an error that it meets is raised."""
        for _ in range(_MOST_REPEATS):
            try:
                return self._answer()
            except ConnectionLost:
                for line in self._given:
                    self._client.send_line(line)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        try:
            answer = self._client.answer()
        except ConnectionLost:
            raise
        except StokerError:
            # What the daemon has to say of the others is not waited for.
            self._client.close()
            self._given.clear()
            raise
        self._given.popleft()
        return answer
