"""A connection for a program: warnings and errors as Python has them, answers whole or none."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from stoker.api.client import Client
from stoker.errors import StokerError
from stoker.submission.keywords import in_keywords


class Connection(Client):
    """One whose warnings are Python's own, as a program or a notebook shows them."""

    def warn(self, text: str) -> None:
        """Name the line of the caller's that asked for it."""
        level, frame = 1, sys._getframe()
        while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("stoker"):
            level, frame = level + 1, frame.f_back
        warnings.warn(text, RuntimeWarning, stacklevel=level)


@contextmanager
def whole_answers(client: Client) -> Iterator[None]:
    """Leave the connection if the caller (Ctrl-C in a notebook) leaves before the answer is there.

    It would else be taken for the answer to the next order. Errors name options as Python does.
    """
    try:
        yield
    except StokerError as error:
        in_keywords(error)
        raise
    except BaseException:
        client.close()
        raise
