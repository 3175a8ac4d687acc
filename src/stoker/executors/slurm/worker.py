"""The thread that deals with the cluster, so that no turn of the engine ever waits for it.

Law: nothing is concluded from silence. While the controller does not answer, the files of the
attempts are looked at all the same; what Slurm last said stands, marked with its age.
"""

from __future__ import annotations

import fcntl
import logging
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress

from stoker.core import events as ev
from stoker.core.commands import HandOver
from stoker.core.model import Cause, Launch
from stoker.executors.slurm import files as on_disk
from stoker.executors.slurm.accounting import Accounting
from stoker.executors.slurm.attending import Attendant, not_started
from stoker.executors.slurm.calls import Answer, Call, client_environment, in_words
from stoker.executors.slurm.cancelling import Canceller
from stoker.executors.slurm.cases import Adopted, Case, Key, Phase, Standing, slurm_id_of
from stoker.executors.slurm.facts import (
    SINFO_FORMAT,
    ClusterFacts,
    facts_from_config,
    nodes_from_text,
)
from stoker.executors.slurm.files import Files, Started
from stoker.executors.slurm.options import ClusterConfig
from stoker.executors.slurm.squeue import NoAnswer, Seen, submitted_id
from stoker.executors.slurm.submitting import Submission, Submitter
from stoker.executors.slurm.sweeping import Sweeper
from stoker.executors.slurm.watching import Watcher

log = logging.getLogger("stoker.slurm")

_CALL_TAKES_AT_MOST_S = 40.0
_GATHERS_S = 0.03  # orders of one moment share a submission
_FACTS_LAST_S = 600.0
_LOOKS_AT_FILES_S = (0.2, 2.0)
_LOOKS_A_PART = 20  # of the time at most goes into that
_TRIES_AGAIN_S = (1.0, 30.0)

Message = Callable[["Worker"], None]


class Worker(threading.Thread):
    """Owns all cases. Others talk to it by `post`, and hear from it by `told` and `standings`."""

    def __init__(
        self,
        files: Files,
        instance: str,
        lock_path: str,
        clock: Callable[[], int],
        told: Callable[[list[ev.Fact]], None],
        env: dict[str, str],
    ) -> None:
        super().__init__(name="stoker-slurm", daemon=True)
        self.files = files
        self.config = ClusterConfig()
        self.standings: dict[Key, Standing] = {}
        self._env = client_environment(env)
        self._clock = clock
        self._tell = told
        self._submitter = Submitter(files, instance)
        self._watcher = Watcher(self._submitter.token)
        self._canceller = Canceller()
        self._sweeper = Sweeper(self._watcher, self._canceller)
        self._attendant = Attendant(
            self._canceller, self._watcher, clock, lambda fact: self._news.append(fact), self._over
        )
        self._accounting = Accounting(self._attendant, self._watcher)
        self._cases: dict[Key, Case] = {}
        self._ended: set[Key] = set()  # told, and perhaps not on record yet
        self._news: list[ev.Fact] = []
        self._facts: ClusterFacts | None = None
        self._facts_at = 0.0
        self._submission: Submission | None = None
        self._calls: dict[str, Call] = {}
        self._nodes_text = ""
        self._try_again_at = 0.0
        self._trouble_s = 0.0
        self._trouble = ""  # why nothing can be handed over at the moment
        self._submit_at = 0.0
        self._not_now_s = 0.0
        self._ordered_at: float | None = None
        self._look_at = 0.0
        self._look_every_s = _LOOKS_AT_FILES_S[0]
        self._inbox: deque[Message] = deque()
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._ends = False
        self._lock_path = lock_path
        self._lock: int | None = None

    # ------------------------------------------------------------------ from other threads

    def post(self, message: Message) -> None:
        """Let the thread do something."""
        self._inbox.append(message)
        with suppress(BlockingIOError):  # It has been woken often enough.
            os.write(self._wake_write, b"x")

    def end(self) -> None:
        """Stop the thread; what is under way at the cluster goes on."""

        def leave(worker: Worker) -> None:
            worker._ends = True

        if self._wake_write < 0:
            return
        self.post(leave)
        self.join(5.0)
        if not self.is_alive():
            # Not by the thread itself, which may be gone before it has been woken: by then the
            # number could be another file's.
            os.close(self._wake_read)
            os.close(self._wake_write)
            self._wake_read = self._wake_write = -1

    # ------------------------------------------------------------------ messages

    def use(self, config: ClusterConfig, files: Files) -> None:
        """Take what was set anew."""
        self.config, self.files, self._submitter.files = config, files, files

    def adopt(self, attempts: Iterable[Adopted]) -> None:
        """All attempts of an earlier daemon at once: what is not among them is of no attempt."""
        now = time.monotonic()
        for one in attempts:
            directory = self.files.directory(one.key)
            submitted = on_disk.submitted_as(directory)
            case = Case(one.key, directory, Phase.UNSURE if submitted else Phase.NEW)
            case.stopping, case.unsure_since = one.stopping, now
            if submitted is not None:
                case.batch, case.index, case.label = submitted
            begun = on_disk.read_start(directory) or on_disk.read_refusal(directory)
            slurm_id, _, node = one.place.partition(" ")
            if one.place or one.started or begun:
                case.phase, case.taken_at, case.taken_as = Phase.TAKEN, now, slurm_id
            if one.started and begun is None:
                # Its files were deleted; that it began is on record all the same.
                case.started = Started(node or "-", slurm_id, 0, (), 0)
            self._cases[one.key] = case
        self._watcher.soon()
        self._look_soon()

    def order(self, order: HandOver, launch: Launch) -> None:
        """An attempt is to be submitted, unless it was."""
        key = (order.job_id, order.attempt)
        if key in self._ended:
            return  # The order and the news of its end have crossed.
        case = self._cases.get(key)
        if case is None:
            case = self._cases[key] = Case(key, self.files.directory(key), Phase.NEW)
        case.order, case.launch = order, launch
        if case.phase is Phase.NEW:
            case.phase = Phase.ORDERED
            if self._ordered_at is None:
                self._ordered_at = time.monotonic()

    def stop(self, key: Key, force: bool) -> None:
        """An attempt is to end."""
        if key in self._ended:
            return
        case = self._cases.get(key)
        if case is None:
            # It was neither ordered nor adopted, so no start of it can come.
            self._ended.add(key)
            self._news.append(not_started(self._clock(), key))
            return
        case.stopping, case.force = True, case.force or force
        self._look_soon()

    def forget(self, keys: Iterable[Key]) -> None:
        """The ends of these attempts are on record: they will not be spoken of again."""
        self._ended.difference_update(keys)

    # ------------------------------------------------------------------ the loop

    def run(self) -> None:
        """The thread itself."""
        while not self._ends:
            try:
                self._step()
            except Exception:
                # A bug of ours, or a file system that fails: the next round may fare better.
                log.exception("dealing with the cluster failed")
                time.sleep(1.0)
        for call in self._calls.values():
            call.close()
        if self._lock is not None:
            os.close(self._lock)

    def _step(self) -> None:
        self._wait()
        while self._inbox:
            self._inbox.popleft()(self)
        if not self._has_lock():
            return
        for name, call in list(self._calls.items()):
            answer = call.answer()
            if answer is not None:
                del self._calls[name]
                self._hear(name, call, answer)
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at_files(now)
        self._start_calls(time.monotonic())
        self._publish()

    def _wait(self) -> None:
        now = time.monotonic()
        moments = [call.deadline for call in self._calls.values()]
        if self._lock is None:
            moments.append(now + 0.1)
        elif self._cases:
            moments.append(self._look_at)
        moments += [moment for moment in self._due(now) if moment is not None]
        timeout = max(0.0, min(moments) - now) if moments else None
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_read, selectors.EVENT_READ)
            for call in self._calls.values():
                if call.fileno() >= 0:
                    selector.register(call.fileno(), selectors.EVENT_READ)
                else:
                    timeout = 0.0
            if not self._inbox:
                selector.select(timeout)
        with suppress(BlockingIOError):
            while os.read(self._wake_read, 4096):
                pass

    def _has_lock(self) -> bool:
        """A submission of a daemon that died may still be on its way: it holds the lock too."""
        if self._lock is not None:
            return True
        fd = os.open(self._lock_path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self._lock = fd
        return True

    # ------------------------------------------------------------------ calls

    def _due(self, now: float) -> Iterable[float | None]:
        """The moments at which a call is to be started."""
        if self._facts is None and self._cases and "facts" not in self._calls:
            yield self._try_again_at
        if "submit" not in self._calls and "facts" not in self._calls and self._ordered():
            gathered = (self._ordered_at or now) + _GATHERS_S
            yield max(self._try_again_at, self._submit_at, gathered)
        if "ask" not in self._calls and self._wants_to_ask():
            yield max(self._try_again_at, self._watcher.due_at)
        if "account" not in self._calls and self._attendant.to_account:
            yield max(self._try_again_at, self._accounting.due_at)
        if "cancel" not in self._calls:
            due = self._canceller.due_at()
            yield None if due is None else max(self._try_again_at, due)

    def _ordered(self) -> list[Case]:
        return [case for case in self._cases.values() if case.phase is Phase.ORDERED]

    def _wants_to_ask(self) -> bool:
        if self._watcher.never_asked or self._canceller.unconfirmed:
            return True
        asked_for = (Phase.TAKEN, Phase.UNSURE)
        return any(case.phase in asked_for for case in self._cases.values())

    def _start_calls(self, now: float) -> None:
        if now < self._try_again_at:
            return
        ordered = self._ordered()
        stale = self._facts is None or (ordered and now > self._facts_at + _FACTS_LAST_S)
        if stale and self._cases and "facts" not in self._calls:
            self._call("facts", ["sinfo", "--noheader", "-o", SINFO_FORMAT])
        gathered = now >= max(self._submit_at, (self._ordered_at or now) + _GATHERS_S)
        free = "submit" not in self._calls and "facts" not in self._calls
        if ordered and gathered and free and self._facts is not None:
            self._submit(ordered, self._facts)
        if "ask" not in self._calls and self._wants_to_ask() and now >= self._watcher.due_at:
            self._call("ask", self._watcher.words(now))
        if "account" not in self._calls:
            words = self._accounting.next_words(self._cases, now)
            if words is not None:
                self._call("account", words)
        if "cancel" not in self._calls:
            words = self._canceller.next_words(now)
            if words is not None:
                self._call("cancel", words)

    def _call(self, name: str, words: list[str], keeps_open: int | None = None) -> None:
        self._calls[name] = Call(words, self._env, _CALL_TAKES_AT_MOST_S, keeps_open)

    def _hear(self, name: str, call: Call, answer: Answer) -> None:
        now = time.monotonic()
        if name == "account":
            # That is another daemon's word: nothing else has to wait for it.
            self._accounting.answered(answer, now)
            if not answer.silent:
                self._look_soon()
            return
        if answer.silent:
            self._not_heard(now, answer.error)
        elif name != "ask":  # Whether that was an answer is seen only when it is read.
            self._is_heard()
        match name:
            case "facts":
                self._hear_facts(call, answer, now)
            case "submit":
                self._hear_submission(answer, now)
            case "ask":
                self._hear_states(answer, now)
            case "cancel":
                self._canceller.answered(answer, now)
                self._watcher.soon()

    def _is_heard(self) -> None:
        self._trouble_s, self._trouble = 0.0, ""
        self._watcher.heard(self._clock())

    def _not_heard(self, now: float, error: str) -> None:
        first, most = _TRIES_AGAIN_S
        if not self._trouble_s:
            log.warning("the cluster does not answer: %s", in_words(error))
        self._trouble_s = min(most, max(first, self._trouble_s * 2))
        self._trouble = f"the cluster does not answer: {in_words(error)}"
        self._try_again_at = now + self._trouble_s
        self._watcher.not_heard(self._clock())

    def _hear_facts(self, call: Call, answer: Answer, now: float) -> None:
        if not answer.ok:
            if not answer.silent:
                # A site may keep its users from asking; Slurm's defaults will do.
                self._facts, self._facts_at = self._facts or ClusterFacts(), now
            return
        text = answer.out.decode(errors="replace")
        if call.words[0] == "sinfo":
            self._nodes_text = text
            self._call("facts", ["scontrol", "show", "config"])
            return
        self._facts = facts_from_config(text, nodes_from_text(self._nodes_text))
        self._facts_at = now
        self._attendant.facts = self._facts

    # ------------------------------------------------------------------ submitting

    def _submit(self, ordered: list[Case], facts: ClusterFacts) -> None:
        stopped = [case for case in ordered if case.stopping]
        for case in stopped:
            self._over(case, not_started(self._clock(), case.key))
        ordered = [case for case in ordered if not case.stopping]
        submission, refused = self._submitter.next_submission(
            ordered, facts, self.config, self._id_of, self._clock()
        )
        for case, why in refused:
            self._over(case, ev.AttemptNotStarted(self._clock(), *case.key, why))
        if submission is None:
            self._ordered_at = None
            return
        for case in submission.cases:
            case.phase = Phase.SUBMITTING
        self._submission = submission
        self._call("submit", list(submission.words), keeps_open=self._lock)

    def _id_of(self, job_id: int, attempt: int) -> str | None:
        case = self._cases.get((job_id, attempt))
        return None if case is None else slurm_id_of(case)

    def _hear_submission(self, answer: Answer, now: float) -> None:
        submission, self._submission = self._submission, None
        assert submission is not None
        array_id = submitted_id(answer.out.decode(errors="replace")) if answer.ok else None
        self._ordered_at = now if self._ordered() else None
        self._watcher.soon()
        if array_id is not None:
            self._not_now_s = 0.0
            many = len(submission.cases) > 1
            doubtful = self._watcher.counts_back(array_id)
            for case in submission.cases:
                case.doubtful = doubtful
                self._taken(case, f"{array_id}_{case.index}" if many else str(array_id), now)
            return
        if answer.silent or answer.ok:
            # Whether it was taken is not known, so it is looked for before it is tried again.
            for case in submission.cases:
                case.phase, case.unsure_since = Phase.UNSURE, now
            return
        if answer.not_now:
            first, most = _TRIES_AGAIN_S
            self._not_now_s = min(most, max(first, self._not_now_s * 2))
            self._submit_at = now + self._not_now_s
            self._trouble = f"the cluster takes no more now: {in_words(answer.error)}"
            for case in submission.cases:
                case.phase = Phase.ORDERED
            self._ordered_at = now
            return
        why = in_words(answer.error) or "the cluster refused it"
        for case in submission.cases:
            if "dependency" in why.lower() and case.order is not None and case.order.after:
                fact: ev.Fact = ev.AttemptEvicted(self._clock(), *case.key, Cause.REQUEUED, why)
            else:
                fact = ev.AttemptNotStarted(self._clock(), *case.key, why)
            self._over(case, fact)

    def _taken(self, case: Case, slurm_id: str, now: float) -> None:
        case.phase, case.taken_at, case.taken_as = Phase.TAKEN, now, slurm_id
        case.order = case.launch = None
        self._news.append(ev.AttemptAccepted(self._clock(), *case.key, slurm_id))
        # Until Slurm is asked, this stands for its word.
        case.seen = self._watcher.just_taken(slurm_id, case.label, case.batch)
        self._look_soon()

    # ------------------------------------------------------------------ watching

    def _hear_states(self, answer: Answer, now: float) -> None:
        try:
            if not self._watcher.take(answer, now):
                return
        except NoAnswer as silence:
            self._not_heard(now, str(silence))
            return
        self._is_heard()
        by_place = self._watcher.by_place
        for case in list(self._cases.values()):
            self._compare(case, by_place.get((case.batch, case.index), []), now)
        self._sweeper.sweep(self._cases.values(), self.files, now)
        self._look_soon()

    def _compare(self, case: Case, seen: list[Seen], now: float) -> None:
        asked_at = self._watcher.asked_at
        if case.phase is Phase.UNSURE and asked_at >= case.unsure_since:
            if seen:
                self._taken(case, seen[0].id, now)
            else:
                # The cluster does not have it. The order is at hand, or will be given again.
                case.phase = Phase.ORDERED if case.order is not None else Phase.NEW
                self._ordered_at = self._ordered_at or now
                return
        if case.phase is Phase.TAKEN and asked_at >= case.taken_at:
            self._watcher.note(case, seen, now)

    # ------------------------------------------------------------------ files

    def _look_soon(self) -> None:
        self._look_every_s = _LOOKS_AT_FILES_S[0]
        self._look_at = min(self._look_at, time.monotonic())

    def _look_at_files(self, now: float) -> None:
        before = len(self._news)
        for case in list(self._cases.values()):
            if case.phase is Phase.TAKEN:
                self._attendant.look(case, now)
            elif case.stopping and case.phase in (Phase.NEW, Phase.ORDERED):
                self._over(case, not_started(self._clock(), case.key))
        least_s, most_s = _LOOKS_AT_FILES_S
        if len(self._news) > before:
            self._look_every_s = least_s
        else:
            self._look_every_s = min(most_s, self._look_every_s * 1.3)
        took_s = time.monotonic() - now
        self._look_at = now + max(self._look_every_s, _LOOKS_A_PART * took_s)

    # ------------------------------------------------------------------ what others hear

    def _over(self, case: Case, fact: ev.Fact) -> None:
        del self._cases[case.key]
        self._ended.add(case.key)
        self._news.append(fact)

    def _publish(self) -> None:
        unheard_ms = self._watcher.unheard_since_ms
        self.standings = {
            case.key: self._standing(case, unheard_ms) for case in self._cases.values()
        }
        if self._news:
            news, self._news = self._news, []
            self._tell(news)

    def _standing(self, case: Case, unheard_ms: int | None) -> Standing:
        if case.seen is None:
            return Standing(slurm_id_of(case) or "", "", self._trouble, "", unheard_ms)
        seen = case.seen
        return Standing(seen.id, seen.state, seen.reason, seen.node, unheard_ms)
