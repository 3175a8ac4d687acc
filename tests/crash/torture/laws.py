"""What must hold, by the jobs' own records and by what Stoker says at the end.

Law: pure, and on the safe side: a violation is reported only where the records leave no
other way to read them. Each check is a generator of violations, named for what it finds.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from crash.torture.ending import Answers
from crash.torture.log import Cancel, Log, Submission
from crash.torture.records import Record
from crash.torture.shapes import CPUS, GPU_MIB, GROUP_LIMIT, LIMITED_GROUP, Job
from stoker_home import FINAL

LOG_MOST_BYTES = 8 * 2**20
LINES_A_START = 3  # of a kind, in the log, for each daemon that was started
_TOKEN = re.compile(r"tok-[a-z]+-\d+")
# With which a call ends whose result can't be written, and Python if it can't write its output.
_NOT_WRITTEN = (1, 120)
_NO_ROOM = {"full-disk", "inodes", "failing-writes"}


@dataclass(frozen=True, slots=True)
class Violation:
    """A law that was broken."""

    law: str
    text: str


@dataclass(slots=True)
class Case:
    """Everything that the laws look at."""

    log: Log
    records: list[Record]
    answers: Answers
    outcomes: dict[str, str] = field(default_factory=dict)  # of the library's futures, by token
    asked: dict[str, tuple[Job, Submission]] = field(init=False)
    by_attempt: dict[tuple[int, int], list[Record]] = field(init=False)
    by_job: dict[int, dict[str, Any]] = field(init=False)
    token_of: dict[int, str] = field(init=False)

    def __post_init__(self) -> None:
        self.asked = self.log.jobs()
        self.by_attempt = defaultdict(list)
        for record in self.records:
            self.by_attempt[record.key].append(record)
        self.by_job = {job["id"]: job for job in self.answers.jobs}
        self.token_of = {job_id: _token_in(job) for job_id, job in self.by_job.items()}

    def mains(self, key: tuple[int, int]) -> list[Record]:
        """The main processes of an attempt; there should be one at most."""
        return [record for record in self.by_attempt.get(key, ()) if record.role == "m"]

    def was_stopped(self, job_id: int, attempt: int) -> bool:
        """Whether Stoker says that it has ended this attempt before its time."""
        told = _attempt_of(self.by_job.get(job_id, {}), attempt)
        return told.get("state") == "cancelled" or "time limit" in (told.get("reason") or "")

    def holders(self, key: tuple[int, int]) -> list[Record]:
        """The processes for whose sake an attempt has its GPUs.

        One that has left the session was meant to stay, if its job has ended by itself.
        """
        found = self.by_attempt[key]
        return [r for r in found if r.role != "l" or self.was_stopped(*key)]

    def cancels_of(self, job_id: int) -> list[Cancel]:
        """The orders to stop a job that were acknowledged."""
        return [cancel for cancel in self.log.cancels if job_id in cancel.ids]

    def story(self, job_id: int) -> str:
        """All that is known of a job, for whoever looks into it."""
        job = self.by_job.get(job_id, {})
        attempts = [
            {k: a[k] for k in ("attempt", "state", "reason", "exit_code", "signal", "gpus", "pid")}
            for a in job.get("attempts", ())
        ]
        mine = [record for record in self.records if record.job_id == job_id]
        since = min((r.began_ns for r in mine), default=0) - 2_000_000_000
        until = max((r.last_ns for r in mine), default=0) + 2_000_000_000
        around = [
            f"{(e.began_ns - since) // 1_000_000 - 2000:+} ms {e.what} {e.pid or ''}"
            for e in self.log.events
            if e.began_ns <= until and e.ended_ns >= since
        ]
        return (
            f"job {job_id} ({self.token_of.get(job_id, '?')}): {job.get('state')} "
            f"({job.get('reason')})\n    attempts: {attempts}\n    records: "
            + "\n             ".join(str(r) for r in mine[:8])
            + f"\n    cancels: {self.cancels_of(job_id)[:3]}\n    around: {'; '.join(around[:40])}"
        )


def _token_in(job: dict[str, Any]) -> str:
    found = _TOKEN.search(" ".join(job.get("argv") or ()) + " " + (job.get("shell") or ""))
    return found[0] if found else ""


def _attempt_of(job: dict[str, Any], number: int) -> dict[str, Any]:
    for attempt in job.get("attempts", ()):
        if attempt["attempt"] == number:
            found: dict[str, Any] = attempt
            return found
    return {}


# ---------------------------------------------------------------------- attempts


def started_twice(case: Case) -> Iterator[Violation]:
    """No attempt is started twice."""
    for key in case.by_attempt:
        if len(case.mains(key)) > 1:
            yield Violation("started twice", case.story(key[0]))


def attempts_overlap(case: Case) -> Iterator[Violation]:
    """No two attempts of one job are there at once."""
    by_job: dict[int, dict[int, list[Record]]] = defaultdict(dict)
    for key in case.by_attempt:
        by_job[key[0]][key[1]] = case.holders(key)
    for job_id, attempts in by_job.items():
        ends = 0
        for number in sorted(attempts):
            processes = attempts[number]
            if any(record.began_ns < ends for record in processes):
                yield Violation("attempts overlap", case.story(job_id))
            ends = max([ends, *(record.last_ns for record in processes)])


# ---------------------------------------------------------------------- what is shared


def _crowded(holds: Iterable[tuple[int, int, float, int]], room: float) -> tuple[int, int] | None:
    """The first two jobs that together have more than there is; holds are (from, to, size, job)."""
    moments = []
    for since, until, size, job_id in holds:
        if since == until:
            continue  # It was there for too short a time to be seen beside another.
        moments.append((since, 1, size, job_id))
        moments.append((until, 0, size, job_id))
    there: dict[int, float] = {}
    for _, begins, size, job_id in sorted(moments):
        if not begins:
            there.pop(job_id, None)
            continue
        there[job_id] = size
        if sum(there.values()) > room + 1e-6:
            other = next((one for one in there if one != job_id), job_id)
            return job_id, other
    return None


def _held(case: Case) -> Iterator[tuple[int, int, int, tuple[str, ...], Job]]:
    """Of each attempt: its job, from when to when it was there for certain, its GPUs, its need."""
    for key in case.by_attempt:
        found = case.holders(key)
        if not found:
            continue
        asked = case.asked.get(found[0].token)
        # A call of the library has a whole GPU.
        need = asked[0] if asked else Job(found[0].token, "library")
        since = min(record.began_ns for record in found)
        until = max(record.last_ns for record in found)
        yield key[0], since, until, found[0].gpus, need


def gpu_overcommitted(case: Case) -> Iterator[Violation]:
    """No GPU has two jobs that want it whole, nor more shares or memory than there is."""
    by_gpu = defaultdict(list)
    for job_id, since, until, gpus, need in _held(case):
        for gpu in gpus:
            by_gpu[gpu].append((job_id, since, until, need))
    for gpu, held in by_gpu.items():
        # A whole GPU leaves no room for a share, however small, nor for a byte of memory.
        shares = ((s, u, n.share or (0.0001 if n.mem_mib else 1.0), j) for j, s, u, n in held)
        memory = ((s, u, n.mem_mib or (1 if n.share else GPU_MIB), j) for j, s, u, n in held)
        found = _crowded(shares, 1.001) or _crowded(memory, GPU_MIB + 100)
        if found is not None:
            text = f"GPU {gpu}:\n  {case.story(found[0])}\n  {case.story(found[1])}"
            yield Violation("GPU overcommitted", text)


def cpus_overcommitted(case: Case) -> Iterator[Violation]:
    """CPU slots never add up to more than there are."""
    held = [(s, u, float(need.cpus), job_id) for job_id, s, u, _, need in _held(case) if need.cpus]
    found = _crowded(held, CPUS)
    if found is not None:
        yield Violation("CPUs overcommitted", f"{case.story(found[0])}\n  {case.story(found[1])}")


def group_over_limit(case: Case) -> Iterator[Violation]:
    """No more jobs of a group run than it may have."""
    held = [(s, u, 1.0, job_id) for job_id, s, u, _, n in _held(case) if n.group == LIMITED_GROUP]
    found = _crowded(held, GROUP_LIMIT)
    if found is not None:
        yield Violation("group over its limit", f"{case.story(found[0])}")


# ---------------------------------------------------------------------- jobs


def lost_jobs(case: Case) -> Iterator[Violation]:
    """Every acknowledged job is there once, and nothing else is."""
    there = Counter(token for token in case.token_of.values() if token)
    for token, (job, asked) in case.asked.items():
        if asked.acknowledged and not there[token]:
            yield Violation("job lost", f"{job} was acknowledged, and is not there")
        if there[token] > 1:
            ids = [job_id for job_id, found in case.token_of.items() if found == token]
            yield Violation("submitted twice", f"{job}: jobs {ids}")
    for job_id, token in case.token_of.items():
        is_call = (case.by_job[job_id].get("group") or "").startswith("tok-")
        if token not in case.asked and not is_call:
            yield Violation("unknown job", case.story(job_id))
    for record in case.records:
        known = case.token_of.get(record.job_id)
        if known is None or (known and known != record.token):
            yield Violation("unknown process", f"{record}: its job is {known!r}")


def not_over(case: Case) -> Iterator[Violation]:
    """When nothing more is done to it, everything ends."""
    for job in case.answers.unfinished:
        yield Violation("never ends", f"why: {job.get('why')}\n  {case.story(job['id'])}")
    for job in case.answers.jobs:
        if job["state"] not in FINAL and not case.answers.unfinished:
            yield Violation("never ends", case.story(job["id"]))
    for verb in case.answers.hanging_clients:
        yield Violation("client hangs", f"`stoker {verb}` does not end")
    for text in case.answers.trouble:
        yield Violation("trouble at the end", text)


def wrong_ends(case: Case) -> Iterator[Violation]:
    """The exit on record is the one that the job used, and none is invented."""
    for job in case.answers.jobs:
        for attempt in job["attempts"]:
            yield from _wrong_end(case, job, attempt)
        yield from _wrong_state(case, job)


def _had_no_room(case: Case, record: Record) -> bool:
    call = record.token.startswith(("tok-library", "tok-warm"))
    return call and case.log.overlaps(_NO_ROOM, record.began_ns, record.ended_ns + 10**9)


def _wrong_end(case: Case, job: dict[str, Any], told: dict[str, Any]) -> Iterator[Violation]:
    mains = case.mains((job["id"], told["attempt"]))
    code, number = told["exit_code"], told["signal"]
    story = f"attempt {told['attempt']} of {case.story(job['id'])}"
    if code is not None or number is not None:
        if not mains and not case.token_of[job["id"]]:
            pass  # A call of the library, whose process ended before the call was made.
        elif not mains and told["state"] == "cancelled" and number in (15, 9):
            pass  # Its process was there, and was ended before it had become its program.
        elif not mains:
            yield Violation("exit invented", f"no process of it: {story}")
        elif mains[0].ended_ns:
            was = (mains[0].code, 0) if not mains[0].signal else (-1, mains[0].signal)
            if code in _NOT_WRITTEN and _had_no_room(case, mains[0]):
                pass  # A call whose result, or whose output, could not be written.
            elif was != (-1 if code is None else code, number or 0):
                yield Violation("wrong exit", f"it used {was}: {story}")
        elif code is not None:
            yield Violation("exit invented", f"it did not end by itself: {story}")
        elif not _may_be_stopped(case, job, told, mains[0]):
            yield Violation("killed without an order", story)
    if told["state"] == "lost" and not _may_be_lost(case, job, mains):
        yield Violation("lost without need", story)


def _may_be_stopped(case: Case, job: dict[str, Any], told: dict[str, Any], main: Record) -> bool:
    # How long it ran by its own clock says little: the daemon may have been stopped in between.
    # A job may be cancelled while it is being stopped for its time limit.
    if job["time_limit_ms"] and (
        "time limit" in (told["reason"] or "") or told["state"] == "cancelled"
    ):
        return True
    if any(cancel.sent_ns <= main.last_ns + 10**8 for cancel in case.log.cancels
           if cancel.token in (main.token, job.get("group"))):  # fmt: skip
        return True
    # The kernel tells the programs of a terminal that it is gone.
    asked = case.asked.get(main.token)
    return bool(job["attached"]) and asked is not None and asked[1].killed


def _may_be_lost(case: Case, job: dict[str, Any], mains: list[Record]) -> bool:
    """Whether nothing was left that could have written down how it ended."""
    if job["attached"]:
        asked = case.asked.get(case.token_of[job["id"]])
        return asked is None or asked[1].killed
    killed = case.log.killed("keeper")
    if not mains:
        # The daemon was killed as it made the process, or just before: its keeper would know.
        return bool(killed)
    parent = mains[0].parent
    # Its daemon may have been dead by the time it looked: then the parent is the keeper, or init.
    keeper = case.log.keepers.get(parent, parent)
    return keeper in killed or keeper <= 1 or parent in killed


def _wrong_state(case: Case, job: dict[str, Any]) -> Iterator[Violation]:
    state, reason = job["state"], job["reason"] or ""
    if state == "failed" and "could not start" in reason:
        yield Violation("could not start", case.story(job["id"]))
    last = case.mains((job["id"], job["attempt"]))
    if state == "succeeded" and not (last and last[0].ended_ns and last[0].code == 0):
        yield Violation("success invented", case.story(job["id"]))
    if state == "cancelled" and not _may_be_cancelled(case, job):
        yield Violation("cancelled without an order", case.story(job["id"]))


def _may_be_cancelled(case: Case, job: dict[str, Any]) -> bool:
    names = (case.token_of[job["id"]], job.get("group"))
    if any(cancel.token in names for cancel in case.log.cancels):
        return True
    if job["attached"]:
        # Its client was killed, or was stopped for so long that it counts as gone, or gave up.
        asked = case.asked.get(names[0])
        return asked is None or asked[1].killed or asked[1].code not in (0, None)
    group = job.get("group") or ""
    clients = [asked for asked in case.log.submissions if asked.group == group and group]
    return any(asked.killed or asked.code for asked in clients)


# ---------------------------------------------------------------------- cancels


def cancelled_runs_on(case: Case) -> Iterator[Violation]:
    """What was told to have been cancelled is gone, with all of its processes."""
    seen: set[tuple[int, str]] = set()
    for cancel in case.log.cancels:
        for job_id, (told_ns, state) in cancel.told.items():
            if state != "cancelled":
                continue
            late = [r for r in case.records if r.job_id == job_id and r.last_ns > told_ns]
            # What took a session of its own in an attempt that was over by then was meant to stay.
            mains = [r for r in case.records if r.job_id == job_id and r.role == "m"]
            over = {r.attempt for r in mains if 0 < r.ended_ns < cancel.sent_ns}
            late = [r for r in late if r.role != "l" or r.attempt not in over]
            if late and (job_id, "late") not in seen:
                seen.add((job_id, "late"))
                by_ms = (max(r.last_ns for r in late) - told_ns) // 10**6
                yield Violation("cancelled runs on", f"by {by_ms} ms: {case.story(job_id)}")
        for job_id in cancel.ids:
            begun = [
                r
                for r in case.records
                if r.job_id == job_id and r.role == "m" and r.began_ns > cancel.acknowledged_ns
            ]
            if begun and (job_id, "begun") not in seen and not _may_be_forgotten(case, cancel):
                seen.add((job_id, "begun"))
                yield Violation("starts after its cancel", case.story(job_id))


def cancel_forgotten(case: Case) -> Iterator[Violation]:
    """A job that was told to stop, and had not ended by then, ends as cancelled."""
    for cancel in case.log.cancels:
        for job_id in cancel.ids:
            job = case.by_job.get(job_id)
            if job is None or job["state"] in ("cancelled", "lost"):
                continue
            mains = [r for r in case.records if r.job_id == job_id and r.role == "m"]
            ended_ns = max((r.last_ns for r in mains), default=0)
            if ended_ns <= cancel.acknowledged_ns or _may_be_forgotten(case, cancel):
                continue
            yield Violation("cancel forgotten", case.story(job_id))


def _may_be_forgotten(case: Case, cancel: Cancel) -> bool:
    """An order to stop is taken even where nothing can be written down; a crash then forgets it."""
    until_ns = cancel.acknowledged_ns + 5 * 10**9
    return case.log.overlaps(_NO_ROOM, cancel.sent_ns - 10**9, until_ns)


# ---------------------------------------------------------------------- requirements


def requirement_broken(case: Case) -> Iterator[Violation]:
    """A job starts only after what it requires has ended as required."""
    for job_id, token in case.token_of.items():
        asked = case.asked.get(token)
        mains = [r for r in case.records if r.job_id == job_id and r.role == "m"]
        if asked is None or not mains:
            continue
        began_ns = min(record.began_ns for record in mains)
        for required in (*asked[0].after, *asked[0].after_any):
            theirs = [r for r in case.records if r.job_id == required and r.role != "l"]
            if any(record.last_ns > began_ns for record in theirs):
                text = f"{case.story(job_id)}\n  required: {case.story(required)}"
                yield Violation("starts too early", text)
        for required in asked[0].after:
            if case.by_job.get(required, {}).get("state") != "succeeded":
                text = f"{case.story(job_id)}\n  required: {case.story(required)}"
                yield Violation("starts without what it requires", text)


# ---------------------------------------------------------------------- clients


def wrong_results(case: Case) -> Iterator[Violation]:
    """Every future of a client that lived has the right value, and its call ran once."""
    for token, count in Counter(r.token for r in case.records if r.token not in case.asked).items():
        if count > 1:
            yield Violation("call ran twice", f"{token}: {count} times")
    for asked in case.log.submissions:
        if not asked.calls or asked.killed:
            continue
        for number in range(asked.calls):
            token = f"{asked.group}-{number}"
            outcome = case.outcomes.get(token, "nothing was said")
            if outcome == f"is {number * 2}" or outcome.startswith("refused"):
                continue
            if "JobFailed" in outcome and _may_fail(case, asked, outcome):
                continue
            yield Violation("wrong result", f"{token} (client: {asked.code}): {outcome}")


def _may_fail(case: Case, asked: Submission, outcome: str) -> bool:
    """Whether its result could not be written, or nothing was left that could tell of its end."""
    if "lost" in outcome:
        return bool(case.log.killed("keeper"))
    return case.log.overlaps(_NO_ROOM, asked.began_ns, asked.began_ns + 120 * 10**9)


def wrong_exit_of_client(case: Case) -> Iterator[Violation]:
    """`stoker run` ends with the exit code of its job."""
    jobs = {token: case.by_job[job_id] for job_id, token in case.token_of.items()}
    for token, (_, asked) in case.asked.items():
        job = jobs.get(token)
        if asked.front_end != "run" or asked.killed or job is None or asked.code is None:
            continue
        if job["state"] not in ("succeeded", "failed") or job["exit_code"] is None:
            continue
        if asked.code != job["exit_code"]:
            text = f"`stoker run` ended with {asked.code}: {case.story(job['id'])}"
            yield Violation("wrong exit of a client", text)


# ---------------------------------------------------------------------- the daemon


def daemon_unwell(case: Case) -> Iterator[Violation]:
    """No process and no file is left, the log is bounded, the database whole."""
    answers = case.answers
    for text in answers.left_behind:
        yield Violation("process left behind", text)
    if answers.fds_after > answers.fds_before:
        yield Violation("files left open", f"{answers.fds_before}, then {answers.fds_after}")
    if answers.log_bytes > LOG_MOST_BYTES:
        yield Violation("log too long", f"{answers.log_bytes} bytes")
    line, count = answers.repeated_line
    if count > LINES_A_START * (100 + case.log.done["kill-daemon"]):
        yield Violation("log repeats itself", f"{count} times: {line.strip()}")
    if answers.integrity != "ok":
        yield Violation("database damaged", answers.integrity)


LAWS = (
    started_twice, attempts_overlap, gpu_overcommitted, cpus_overcommitted, group_over_limit,
    lost_jobs, not_over, wrong_ends, cancelled_runs_on, cancel_forgotten, requirement_broken,
    wrong_results, wrong_exit_of_client, daemon_unwell,
)  # fmt: skip


def violations(case: Case) -> list[Violation]:
    """All that does not hold."""
    return [found for law in LAWS for found in law(case)]
