"""The laws of the torture driver: each finds the violation that it is for, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crash.torture.ending import Answers
from crash.torture.laws import Case, violations
from crash.torture.log import Cancel, Event, Log, Submission
from crash.torture.records import Record
from crash.torture.schedule import CLASSES, WEIGHTS, schedule
from crash.torture.shapes import LIMITED_GROUP, Job

MS = 10**6
DAEMON, KEEPER = 100, 99


def process(token: str, job_id: int, since_ms: int, until_ms: int, **fields: Any) -> Record:
    """The record of a process on GPU 0 that ends with code 0."""
    given: dict[str, Any] = {
        "role": "m", "attempt": 1, "pid": 1000 + job_id, "parent": DAEMON,
        "ended_ns": until_ms * MS, "code": 0, "signal": 0, "gpus": ("0",),
    } | fields  # fmt: skip
    return Record(
        job_id=job_id, token=token, began_ns=since_ms * MS, alive_ns=until_ms * MS, **given
    )


def told(token: str, job_id: int, state: str = "succeeded", **fields: Any) -> dict[str, Any]:
    """A job as Stoker shows it at the end, with one attempt."""
    attempt = {
        "attempt": 1, "state": state, "reason": None, "gpus": ["0"], "pid": 1000 + job_id,
        "exit_code": 0 if state == "succeeded" else None, "signal": None,
    } | fields  # fmt: skip
    return attempt | {
        "id": job_id, "argv": ["job", "records", token], "shell": None, "group": None,
        "attached": False, "time_limit_ms": None, "attempts": [attempt],
    }  # fmt: skip


class Story:
    """What two jobs did, one after the other, and all that was said of them; to be spoilt."""

    def __init__(self) -> None:
        self.log = Log(keepers={DAEMON: KEEPER})
        self.asked = [
            Submission([Job(f"tok-add-{n}", "add")], "add", acknowledged=True) for n in (1, 2)
        ]
        self.log.submissions.extend(self.asked)
        self.records = [process("tok-add-1", 1, 0, 50), process("tok-add-2", 2, 60, 90)]
        self.answers = Answers(
            jobs=[told("tok-add-1", 1), told("tok-add-2", 2)], integrity="ok",
            fds_before=20, fds_after=20,
        )  # fmt: skip
        self.outcomes: dict[str, str] = {}

    def job(self, number: int, **fields: Any) -> None:
        """Ask for one of the jobs with another need."""
        self.asked[number - 1].jobs = [Job(f"tok-add-{number}", "add", **fields)]

    def cancelled(self, number: int, at_ms: int, told_ms: int | None, state: str) -> None:
        """An order to stop, which was acknowledged a millisecond later."""
        cancel = Cancel(f"tok-add-{number}", at_ms * MS, (at_ms + 1) * MS, (number,))
        if told_ms is not None:
            cancel.told[number] = (told_ms * MS, state)
        self.log.cancels.append(cancel)
        self.answers.jobs[number - 1] = told(f"tok-add-{number}", number, state)

    def kill(self, target: str, pid: int) -> None:
        """A kill at any time."""
        self.log.events.append(Event(f"kill-{target}", 0, 10**12, pid))

    def found(self) -> list[str]:
        """The laws that are broken."""
        case = Case(self.log, self.records, self.answers, self.outcomes)
        return sorted({violation.law for violation in violations(case)})


def test_nothing_is_found_where_all_is_well() -> None:
    assert Story().found() == []


# --- what spoils it, by the law that it breaks --------------------------------------------------


def started_twice(story: Story) -> None:
    story.records.append(process("tok-add-1", 1, 55, 58))


def attempts_overlap(story: Story) -> None:
    story.records.append(process("tok-add-1", 1, 49, 55, attempt=2, gpus=("1",)))


def whole_gpus(story: Story) -> None:
    story.records[1] = process("tok-add-2", 2, 49, 90)


def a_child_in_the_session(story: Story) -> None:
    story.records.append(process("tok-add-1", 1, 10, 61, role="s"))


def a_share_beside_a_whole(story: Story) -> None:
    story.job(2, share=0.25)
    whole_gpus(story)


def memory(story: Story) -> None:
    for number in (1, 2):
        story.job(number, mem_mib=16_384)
    whole_gpus(story)


def cpus(story: Story) -> None:
    for number in (1, 2):
        story.job(number, gpus=0, cpus=4)
    story.records = [
        process("tok-add-1", 1, 0, 50, gpus=()),
        process("tok-add-2", 2, 40, 90, gpus=()),
    ]


def group(story: Story) -> None:
    story.log.submissions.append(Submission([Job("tok-add-3", "add")], "add", acknowledged=True))
    story.answers.jobs.append(told("tok-add-3", 3))
    story.records = [process(f"tok-add-{n}", n, 10 * n, 90, gpus=(str(n),)) for n in (1, 2, 3)]
    for asked in story.log.submissions:
        asked.jobs = [Job(asked.jobs[0].token, "add", group=LIMITED_GROUP)]


def a_job_is_missing(story: Story) -> None:
    del story.records[1], story.answers.jobs[1]


def a_job_is_there_twice(story: Story) -> None:
    story.answers.jobs.append(told("tok-add-2", 3, "cancelled"))
    story.log.cancels.append(Cancel("tok-add-2", 0))


def a_job_that_was_not_asked_for(story: Story) -> None:
    story.answers.jobs.append(told("tok-add-77", 3, "skipped"))


def a_process_of_no_job(story: Story) -> None:
    story.records.append(process("tok-add-77", 77, 95, 99))


def unfinished(story: Story) -> None:
    del story.records[1]
    story.answers.jobs[1] = told("tok-add-2", 2, "waiting")


def another_code(story: Story) -> None:
    story.answers.jobs[0] = told("tok-add-1", 1, "failed", exit_code=7)


def a_code_without_a_process(story: Story) -> None:
    del story.records[1]
    story.answers.jobs[1] = told("tok-add-2", 2, "failed", exit_code=127)


def success_without_an_end(story: Story) -> None:
    story.records[0] = process("tok-add-1", 1, 0, 50, ended_ns=0, code=-1)
    story.answers.jobs[0] = told("tok-add-1", 1, exit_code=None)


def a_signal_of_nobody(story: Story) -> None:
    story.records[0] = process("tok-add-1", 1, 0, 50, ended_ns=0, code=-1)
    story.answers.jobs[0] = told("tok-add-1", 1, "failed", signal=15)


def lost_though_its_keeper_lived(story: Story) -> None:
    story.kill("daemon", DAEMON)
    story.answers.jobs[0] = told("tok-add-1", 1, "lost")


def lost_though_its_keeper_was_seen_to_live(story: Story) -> None:
    story.kill("keeper", KEEPER + 100)
    lost_though_its_keeper_lived(story)


def could_not_start(story: Story) -> None:
    del story.records[1]
    story.answers.jobs[1] = told(
        "tok-add-2", 2, "failed", reason="could not start: No space left on device"
    )


def cancelled_by_nobody(story: Story) -> None:
    del story.records[1]
    story.answers.jobs[1] = told("tok-add-2", 2, "cancelled")


def runs_on(story: Story) -> None:
    story.cancelled(2, 70, 80, "cancelled")


def a_leaver_runs_on(story: Story) -> None:
    story.cancelled(2, 70, 91, "cancelled")
    story.records.append(process("tok-add-2", 2, 61, 95, role="l", ended_ns=0, code=-1))


def begins_after_its_cancel(story: Story) -> None:
    story.cancelled(2, 55, 95, "cancelled")


def a_cancel_is_forgotten(story: Story) -> None:
    story.cancelled(2, 70, None, "succeeded")


def too_early(story: Story) -> None:
    story.job(2, after_any=(1,))
    story.records[1] = process("tok-add-2", 2, 40, 90, gpus=("1",))


def not_as_required(story: Story) -> None:
    story.job(2, after=(1,))
    story.records[0] = process("tok-add-1", 1, 0, 50, code=7)
    story.answers.jobs[0] = told("tok-add-1", 1, "failed", exit_code=7)


def a_future_fails(story: Story) -> None:
    story.log.submissions.append(Submission([], "library", "tok-library-3", 1))
    story.outcomes["tok-library-3-0"] = "raised Unreachable()"


def a_client_ends_otherwise(story: Story) -> None:
    story.asked[0].front_end = "run"
    story.asked[0].code = 1


def a_process_is_left(story: Story) -> None:
    story.answers.left_behind.append("123 job")


def files_are_left(story: Story) -> None:
    story.answers.fds_after = 21


def a_long_log(story: Story) -> None:
    story.answers.log_bytes = 2**24


def a_log_of_one_line(story: Story) -> None:
    story.answers.repeated_line = ("Too many open files", 508)


def a_damaged_database(story: Story) -> None:
    story.answers.integrity = "malformed"


@pytest.mark.parametrize(
    ("spoil", "laws"),
    [
        (started_twice, ["started twice"]),
        (attempts_overlap, ["attempts overlap"]),
        (whole_gpus, ["GPU overcommitted"]),
        (a_child_in_the_session, ["GPU overcommitted"]),
        (a_share_beside_a_whole, ["GPU overcommitted"]),
        (memory, ["GPU overcommitted"]),
        (cpus, ["CPUs overcommitted"]),
        (group, ["group over its limit"]),
        (a_job_is_missing, ["job lost"]),
        (a_job_is_there_twice, ["submitted twice"]),
        (a_job_that_was_not_asked_for, ["unknown job"]),
        (a_process_of_no_job, ["unknown process"]),
        (unfinished, ["never ends"]),
        (another_code, ["wrong exit"]),
        (a_code_without_a_process, ["exit invented"]),
        (success_without_an_end, ["success invented"]),
        (a_signal_of_nobody, ["killed without an order"]),
        (lost_though_its_keeper_lived, ["lost without need"]),
        (lost_though_its_keeper_was_seen_to_live, ["lost without need"]),
        (could_not_start, ["could not start"]),
        (cancelled_by_nobody, ["cancelled without an order"]),
        (runs_on, ["cancelled runs on"]),
        (a_leaver_runs_on, ["cancelled runs on"]),
        (begins_after_its_cancel, ["starts after its cancel"]),
        (a_cancel_is_forgotten, ["cancel forgotten"]),
        (too_early, ["starts too early"]),
        (not_as_required, ["starts without what it requires"]),
        (a_future_fails, ["wrong result"]),
        (a_client_ends_otherwise, ["wrong exit of a client"]),
        (a_process_is_left, ["process left behind"]),
        (files_are_left, ["files left open"]),
        (a_long_log, ["log too long"]),
        (a_log_of_one_line, ["log repeats itself"]),
        (a_damaged_database, ["database damaged"]),
    ],
)
def test_a_law_finds_what_breaks_it(spoil: Callable[[Story], None], laws: list[str]) -> None:
    story = Story()
    spoil(story)
    assert story.found() == laws


# --- what is right, though it looks odd ---------------------------------------------------------


def lost_with_a_daemon_whose_keeper_was_killed_before_it_was_seen(story: Story) -> None:
    story.kill("keeper", KEEPER)
    story.kill("daemon", DAEMON)
    story.log.keepers[DAEMON] = 0
    story.answers.jobs[0] = told("tok-add-1", 1, "lost")


def lost_with_daemon_and_keeper(story: Story) -> None:
    story.kill("daemon", DAEMON)
    story.kill("keeper", KEEPER)
    story.answers.jobs[0] = told("tok-add-1", 1, "lost")


def a_leaver_stays_after_its_job(story: Story) -> None:
    story.records.append(process("tok-add-1", 1, 10, 80, role="l"))


def shares_beside_each_other(story: Story) -> None:
    for number in (1, 2):
        story.job(number, share=0.5)
    whole_gpus(story)


def an_unacknowledged_job_is_missing(story: Story) -> None:
    a_job_is_missing(story)
    story.asked[1].acknowledged = False


def a_cancel_that_came_too_late(story: Story) -> None:
    story.cancelled(2, 95, 97, "succeeded")


def a_job_that_is_too_short_to_be_seen(story: Story) -> None:
    story.records.append(process("tok-add-3", 3, 70, 70))
    story.answers.jobs.append(told("tok-add-3", 3))
    story.log.submissions.append(Submission([Job("tok-add-3", "add")], "add"))


def ended_at_its_gate(story: Story) -> None:
    story.cancelled(2, 95, 97, "cancelled")
    del story.records[1]
    story.answers.jobs[1]["attempts"][0] |= {"signal": 15, "state": "cancelled"}


@pytest.mark.parametrize(
    "odd",
    [
        ended_at_its_gate,
        lost_with_daemon_and_keeper,
        lost_with_a_daemon_whose_keeper_was_killed_before_it_was_seen,
        a_leaver_stays_after_its_job,
        shares_beside_each_other,
        an_unacknowledged_job_is_missing,
        a_cancel_that_came_too_late,
        a_job_that_is_too_short_to_be_seen,
    ],
)
def test_nothing_is_found_where_it_only_looks_odd(odd: Callable[[Story], None]) -> None:
    story = Story()
    odd(story)
    assert story.found() == []


# --- the schedule -------------------------------------------------------------------------------


def test_a_seed_gives_the_same_steps_and_another_one_others() -> None:
    assert schedule(7, 60) == schedule(7, 60)
    assert schedule(7, 60) != schedule(8, 60)
    assert schedule(7, 30) == [step for step in schedule(7, 60) if step.at_s < 30]


def test_what_is_left_out_changes_nothing_else() -> None:
    without = {"run-cancel", "kill-daemon"}
    rest = [step for step in schedule(7, 60) if step.what not in without]
    assert schedule(7, 60, without) == rest


def test_a_schedule_has_every_class_and_two_kills_a_second_at_least() -> None:
    steps = schedule(7, 1200)
    assert {step.what for step in steps} == set(WEIGHTS) <= CLASSES
    kills = [step for step in steps if step.what.startswith("kill")]
    assert len(kills) > 2400, "some of them find nothing to kill"
