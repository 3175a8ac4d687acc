"""Waiting for a fact, with a deadline: tests wait by this, and do not sleep."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 60.0


class Steady:
    """Asks for a number again and again: true once it has stayed the same for so long."""

    def __init__(self, number: Callable[[], int], for_s: float) -> None:
        self._number = number
        self._for_s = for_s
        self._last: int | None = None
        self._since = 0.0

    def __call__(self) -> bool:
        now, number = time.monotonic(), self._number()
        if number != self._last:
            self._last, self._since = number, now
        return now - self._since >= self._for_s


def eventually(fact: Callable[[], T], what: str = "", timeout_s: float = PATIENCE_S) -> T:
    """The first true answer of `fact`, which is asked again and again until the deadline."""
    deadline = time.monotonic() + timeout_s
    pause_s = 0.002
    while True:
        answer = fact()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"it did not come true within {timeout_s} s: {what or fact}")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.05)


def until_interrupt_is_taken(pid: int) -> None:
    """Wait until a process has seen its last SIGINT: two that are pending count as one."""
    eventually(lambda: not _interrupt_is_pending(pid), "the process has seen the Ctrl-C before")


def _interrupt_is_pending(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            masks = [line.split()[1] for line in file if line.startswith(("SigPnd:", "ShdPnd:"))]
    except OSError:
        return False
    return any(int(mask, 16) >> (signal.SIGINT - 1) & 1 for mask in masks)
