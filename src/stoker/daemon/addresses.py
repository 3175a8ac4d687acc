"""What the settings of messages mean: where they go, and when they do not."""

from __future__ import annotations

import importlib.util
import re
import time

from stoker.errors import Failed, UsageError
from stoker.installing import install_command
from stoker.quantities import quoted

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://\S+")
_HOURS = re.compile(r"(\d{1,2}):(\d\d)-(\d{1,2}):(\d\d)")
_DAY_MIN = 24 * 60


def addresses(text: str) -> list[str]:
    """The addresses in a setting."""
    return text.split()


def checked(text: str) -> str:
    """Addresses as they are kept. A complaint does not repeat them: they have passwords in them."""
    for number, url in enumerate(addresses(text), start=1):
        if not _URL.fullmatch(url):
            raise UsageError(
                f"address {number} is not an Apprise URL", "write e.g. ntfys://ntfy.sh/my-topic"
            )
    if text.strip() and importlib.util.find_spec("apprise") is None:
        raise Failed(
            "messages are sent by Apprise, which is not installed",
            f"run: {install_command('apprise')}",
        )
    return " ".join(addresses(text))


def masked(text: str) -> str:
    """The addresses without what may be secret in them."""
    return " ".join(f"{url.partition(':')[0]}://***" for url in addresses(text))


def quiet_hours(text: str) -> str:
    """Quiet hours as they are kept: "22:00-08:00", or nothing."""
    if text.strip():
        _minutes(text.strip())
    return text.strip()


def quiet_until_ms(text: str, now_ms: int) -> int | None:
    """When the quiet hours end, in which this moment lies; None if it lies in none."""
    if not text:
        return None
    begin, end = _minutes(text)
    now = time.localtime(now_ms / 1000)
    minute = now.tm_hour * 60 + now.tm_min
    if (minute - begin) % _DAY_MIN >= (end - begin) % _DAY_MIN:
        return None
    left_s = (end - minute) % _DAY_MIN * 60 - now.tm_sec
    return now_ms + left_s * 1000


def _minutes(text: str) -> tuple[int, int]:
    found = _HOURS.fullmatch(text)
    numbers = [int(part) for part in found.groups()] if found else []
    if not numbers or max(numbers[0::2]) > 23 or max(numbers[1::2]) > 59:
        raise UsageError(f"{quoted(text)} is no part of a day", "write e.g. 22:00-08:00")
    return numbers[0] * 60 + numbers[1], numbers[2] * 60 + numbers[3]
