"""A short stretch of `python -m crash.gave_way`, which goes on for as long as one likes."""

from __future__ import annotations

import random

import pytest

from crash.gave_way import GaveWay
from stoker_home import StokerHome

pytestmark = pytest.mark.timeout(900)

HAPPENINGS = 40


def test_no_job_is_lost_or_doubled_where_jobs_give_way_and_all_there_is_is_killed(
    home: StokerHome,
) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    GaveWay(home, seed).run(HAPPENINGS)
