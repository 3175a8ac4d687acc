"""The last moments of a daemon: nothing is called any more once all of it is closed."""

from __future__ import annotations

import asyncio
import threading

from own_loop import run_apart
from stoker.daemon.main import call_off_timers


def test_no_timer_rings_while_a_loop_that_ends_waits_for_its_threads() -> None:
    rang: list[str] = []
    end = threading.Event()

    async def leaves() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(0.01, rang.append, "late")
        loop.run_in_executor(None, end.wait)
        call_off_timers(loop)
        # Longer than the timer takes: the loop goes on until its thread has ended.
        threading.Timer(0.2, end.set).start()

    run_apart(leaves())
    assert rang == []
