"""A short stretch of `python -m crash.searched_once`, which kills as often as one likes."""

from __future__ import annotations

import random

import pytest

from crash.searched_once import SearchedOnce
from stoker_home import StokerHome

pytestmark = pytest.mark.timeout(900)

KILLS = 8


def test_no_trial_is_lost_doubled_or_told_twice_however_often_its_searcher_is_killed(
    home: StokerHome,
) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    SearchedOnce(home, seed).run(KILLS, samples=20)
