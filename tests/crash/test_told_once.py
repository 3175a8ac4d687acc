"""A short stretch of `python -m crash.told_once`, which kills as often as one likes."""

from __future__ import annotations

import random

import pytest

from crash.told_once import ToldOnce
from message_sinks import http_sink, smtp_sink
from stoker_home import StokerHome

pytestmark = pytest.mark.timeout(900)

KILLS = 8


def test_each_end_is_told_exactly_once_however_often_the_daemon_is_killed(
    home: StokerHome,
) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    with http_sink() as web, smtp_sink() as mail:
        ToldOnce(home, web, mail, seed).run(KILLS)
