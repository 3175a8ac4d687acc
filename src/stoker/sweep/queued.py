"""What became of the points of a sweep that was submitted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Queued:
    """How many got a job, and why the others did not."""

    ids: list[int] = field(default_factory=list)
    done: int = 0  # points that have succeeded before
    unfinished: int = 0  # points whose job is queued or running already
    passed_over: int = 0  # points that --rerun failed leaves out

    def took(self, answer: dict[str, Any]) -> None:
        """What the daemon said of some of them."""
        self.ids += answer["ids"]
        left_out = answer["left_out"]
        self.done += left_out["succeeded"]
        self.unfinished += left_out["unfinished"]
        self.passed_over += left_out["not_tried"]
