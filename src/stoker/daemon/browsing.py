"""Long lists are read by a thread of its own, so that no turn waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from stoker.errors import Failed
from stoker.store.browsing import Browser

_MOST_WAITING = 32

Found = TypeVar("Found")


class Browsing:
    """Answers what is read from the record alone, one question after the other."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stoker-browse")
        self._waiting = 0

    def close(self) -> None:
        """Answer nothing more."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._browser.close()

    async def read(self, question: Callable[[Browser], Found]) -> Found:
        """Read in the thread, and go on with what was found in the loop."""
        if self._waiting >= _MOST_WAITING:
            raise Failed("too many long lists are asked for at once", "try again in a moment")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, question, self._browser)
        finally:
            self._waiting -= 1
