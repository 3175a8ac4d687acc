"""Better or worse than before: what this run has to do with the committed results."""

from __future__ import annotations

from dataclasses import dataclass

from harness.measures import Measure, Report

WORSE_BY = 0.10

# The exit code names the row that got worse: this, and the number of the row. The bare number
# stands for several rows.
EXIT_WORSE = 10


@dataclass(frozen=True, slots=True)
class Change:
    """How a measure has changed: parts of the earlier value, positive where it is worse."""

    row: str
    name: str
    before: float
    now: float
    worse_by: float
    noticed: bool  # by more than counts as noise

    @property
    def text(self) -> str:
        """As in `dispatch: Stoker, 2,000 jobs is worse by 14 % (1.50 before, 1.71 now)`."""
        return (
            f"{self.row}: {self.name} is worse by {self.worse_by:.0%} "
            f"({self.before:g} before, {self.now:g} now)"
        )


def changes(before: Report | None, now: Report) -> dict[str, Change]:
    """What has changed, by the name of the measure; only what both runs measured alike."""
    if before is None or before.quick != now.quick:
        return {}
    earlier = {one.name: one for one in before.measures}
    found = {}
    for one in now.measures:
        then = earlier.get(one.name)
        if then is not None and then.compared and one.compared is not None:
            found[one.name] = _change(now.row, then, one)
    return found


def _change(row: str, before: Measure, now: Measure) -> Change:
    assert before.compared and now.compared is not None
    grown = now.compared / before.compared - 1
    # Half the rate is twice the cost: the same change counts the same either way.
    worse_by = (before.compared / max(now.compared, 1e-12) - 1) if now.more_is_better else grown
    noticed = worse_by > WORSE_BY and abs(now.value - before.value) > now.slack
    return Change(row, now.name, before.compared, now.compared, worse_by, noticed)


def exit_code(worse: list[Change], numbers: dict[str, int]) -> int:
    """0, or one that names the row that got worse."""
    rows = {one.row for one in worse}
    if not rows:
        return 0
    return EXIT_WORSE + (numbers[rows.pop()] if len(rows) == 1 else 0)
