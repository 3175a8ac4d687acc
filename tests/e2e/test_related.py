"""Which jobs wait for which, as the page draws it: a few steps in both directions."""

from __future__ import annotations

from stoker.store.related import MOST_OF_STEP
from stoker_home import StokerHome


def test_the_jobs_around_one_are_told_also_after_they_have_ended(reused: StokerHome) -> None:
    first = reused.submit("true", name="first", gpus=0)
    reused.until_final(first)
    second = reused.submit("true", gpus=0, hold=True)
    middle = reused.submit("true", gpus=0, after=[str(first)], after_any=[str(second)])
    behind = reused.submit("true", gpus=0, after=[f"{first}-{middle}"])
    reused.submit("true", gpus=0, hold=True)
    found = reused.call("related", job_id=middle)
    assert {job["id"]: job["state"] for job in found["jobs"]} == {
        first: "succeeded", second: "held", middle: "waiting", behind: "waiting",
    }  # fmt: skip
    assert found["links"] == [
        [first, middle, True], [second, middle, False], [middle, behind, True],
    ]  # fmt: skip
    wide = [{"argv": ["true"], "gpus": 0, "after": [str(behind)]} for _ in range(MOST_OF_STEP + 1)]
    reused.submit_all(wide)
    found = reused.call("related", job_id=behind)
    assert found["more"] and len(found["jobs"]) == 4 + MOST_OF_STEP
