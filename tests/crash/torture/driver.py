"""Does what the schedule says, with real processes, and remembers what was answered."""

from __future__ import annotations

import http.client
import json
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from crash.torture.built import Built
from crash.torture.clients import Client, Clients
from crash.torture.faults import Faults
from crash.torture.hands import Hands
from crash.torture.log import Log, Submission
from crash.torture.place import Place
from crash.torture.schedule import Step
from crash.torture.shapes import (
    CPUS,
    GPU_MIB,
    GPUS,
    GROUP_LIMIT,
    LIMITED_GROUP,
    Job,
    some_job,
)
from crash.torture.shim import Shim
from stoker.api.client import Client as Connection
from stoker.errors import StokerError
from waiting import eventually

_HERE = Path(__file__).resolve().parent
_TESTS = _HERE.parents[1]
_BEAT_S = 0.01
_COUNT_EVERY_S = 0.1
_ABSENT_FOR_S = 0.1
_HTTP_WITHIN_S = 20.0


class Driver:
    """One run."""

    def __init__(
        self, place: Place, built: Built, seed: int, most_queued: int, without: Collection[str]
    ) -> None:
        self.place = place
        self._without = without
        self._most_queued = most_queued
        self.log = Log()
        self.shim = Shim(place.root / "faults", seed)
        self._words = (str(built.job), str(place.records))
        stoker = place.stoker
        stoker.env |= {
            "PYTHONPATH": f"{stoker.env['PYTHONPATH']}:{_TESTS}",
            "LD_PRELOAD": str(built.shim),
            "TORTURE_SHIM": str(place.root / "faults"),
        }
        self.clients = Clients(place, stoker.env)
        self.faults = Faults(place, self.shim, self.clients, self.log)
        self.hands = Hands(stoker, self.log)
        self._tokens = 0
        self._queued = 0
        self._ids: list[int] = []  # of jobs that others may wait for
        self._names: list[str] = []  # by which jobs can be cancelled
        self._page_port = 0
        self._page_token = ""
        self._requests: list[threading.Thread] = []
        self._next_count_at = self._absent_since = 0.0
        self._answered_at = time.monotonic()
        self.is_over = False  # No daemon is wanted any more.

    # ------------------------------------------------------------------ the run

    def set_up(self) -> None:
        """A daemon with GPUs, a group with a limit, and the page."""
        stoker = self.place.stoker
        stoker.stoker("daemon", "start")
        gpus = ",".join(f"{number}:{GPU_MIB}M" for number in range(GPUS))
        for name, value in (
            ("gpus", gpus),
            ("cpus", str(CPUS)),
            ("grace", "1s"),
            ("driver", "off"),
        ):
            stoker.call("config_set", name=name, value=value)
        stoker.call("limit_group", group=LIMITED_GROUP, max_running=GROUP_LIMIT)
        if "http" not in self._without:
            self._page_port = _free_port()
            stoker.stoker("web", "--port", str(self._page_port), "--no-open")
            self._page_token = stoker.stoker("token", "create", "torture").split()[-1]

    def run(self, steps: list[Step], seconds: float) -> None:
        """All steps whose time comes before the end."""
        began = time.monotonic()
        for step in steps:
            while time.monotonic() < began + step.at_s:
                self.tend()
                time.sleep(_BEAT_S)
            if time.monotonic() > began + seconds:
                # A slow machine does less of it, rather than all of it later.
                self.log.passed_over["for want of time"] += 1
                continue
            self.tend()
            if not self._do(step):
                self.log.passed_over[step.what] += 1

    def tend(self) -> None:
        """What goes on beside the steps."""
        self.faults.tend()
        for client in self.clients.collect():
            self._ended(client)
        now = time.monotonic()
        if now >= self._next_count_at and not self.is_over:
            self._next_count_at = now + _COUNT_EVERY_S
            self._count()

    def _count(self) -> None:
        """Learn how much is queued, and see that there is a daemon."""
        try:
            with Connection(self.place.stoker.home, autostart=False) as connection:
                connection.send("status", limit=1)
                counts = connection.receive(1.0)["counts"]
        except (StokerError, OSError):
            self.faults.daemon_answers = False
            if not self._absent_since:
                self._absent_since = time.monotonic()
            elif time.monotonic() - self._absent_since > _ABSENT_FOR_S:
                self._absent_since = 0.0
                if not self.faults.look().of("daemon"):
                    self.clients.start("daemon", "start")
            return
        self._absent_since = 0.0
        self.faults.daemon_answers = True
        silent_s = time.monotonic() - self._answered_at
        self.log.longest_silence_s = max(self.log.longest_silence_s, silent_s)
        self._answered_at = time.monotonic()
        self._queued = sum(counts.get(state, 0) for state in ("held", "waiting", "running"))

    def _do(self, step: Step) -> bool:
        chance = random.Random(step.seed)
        verb, _, target = step.what.partition("-")
        if verb == "kill":
            return self.faults.kill(target, chance)
        if verb == "stop":
            return self.faults.stop(target, chance)
        if step.what == "follow":
            return self._follow(chance)
        if step.what == "cancel":
            return self._cancel(chance)
        submit = self._submitters().get(step.what)
        if submit is None:
            return self.faults.shortage(step.what, chance)
        if self._queued >= self._most_queued:
            return False
        return submit(chance)

    # ------------------------------------------------------------------ jobs

    def _submitters(self) -> dict[str, Callable[[random.Random], bool]]:
        return {
            "add": self._add,
            "run": lambda chance: self._attach(chance, cancel=False),
            "run-cancel": lambda chance: self._attach(chance, cancel=True),
            "sweep": self._sweep,
            "batch": self._batch,
            "feed": self._feed,
            "http": self._http,
            "library": lambda chance: self._library(chance, warm=False),
            "warm": lambda chance: self._library(chance, warm=True),
        }

    def _token(self, front_end: str) -> str:
        self._tokens += 1
        return f"tok-{front_end}-{self._tokens}"

    def _job(self, chance: random.Random, front_end: str) -> Job:
        token = self._token(front_end)
        return some_job(chance, token, front_end, self._ids, self._without)

    def _asked(
        self, jobs: list[Job], front_end: str, group: str = "", calls: int = 0
    ) -> Submission:
        asked = Submission(jobs, front_end, group, calls)
        self.log.submissions.append(asked)
        return asked

    def _add(self, chance: random.Random) -> bool:
        job = self._job(chance, "add")
        self.clients.start(*self._named("add", job), submission=self._asked([job], "add"))
        return True

    def _attach(self, chance: random.Random, *, cancel: bool) -> bool:
        if cancel and self.hands.are_full():
            return False
        job = self._job(chance, "run")
        asked = self._asked([job], "run")
        self.clients.start_on_terminal(*self._named("run", job), submission=asked)
        if cancel:
            self.hands.cancel(job.token, chance, once_running=True)
        return True

    def _named(self, verb: str, job: Job) -> list[str]:
        """A command line for one job, whose name is its token."""
        group = ["--group", job.group] if job.group else []
        words = job.words(*self._words)
        return [verb, *job.options(), "--name", job.token, *group, "--", *words]

    def _similar(self, chance: random.Random, front_end: str) -> list[Job]:
        """Several jobs with the same need, which differ in what they do."""
        first = self._job(chance, front_end)
        # Attempts of one job alone differ in their exit codes; a group is what these have anyway.
        first = replace(first, codes=first.codes[:1], ms=min(first.ms, 150), group="")
        others = [self._job(chance, front_end) for _ in range(chance.randint(2, 12))]
        return [first] + [
            replace(
                first,
                token=job.token,
                codes=job.codes[:1],
                ms=min(job.ms, 150),
                on_term=job.on_term,
                child=job.child,
            )
            for job in others
        ]

    def _sweep(self, chance: random.Random) -> bool:
        # All points of a sweep share one command but for what is a parameter.
        alike = self._similar(chance, "sweep")
        first = alike[0]
        jobs = [replace(first, token=job.token) for job in alike]
        words = first.words(*self._words)
        words[2] = "{token}"
        space = "token=" + ",".join(job.token for job in jobs)
        self.clients.start(
            "sweep", *first.options(), "--name", f"sweep-{first.token}", space, "--", *words,
            submission=self._asked(jobs, "sweep"),
        )  # fmt: skip
        return True

    def _batch(self, chance: random.Random) -> bool:
        jobs = self._similar(chance, "batch")
        path = self.place.outputs / f"{jobs[0].token}.jsonl"
        lines = [json.dumps({"command": self._line(job), "name": job.token}) + "\n" for job in jobs]
        path.write_text("".join(lines), encoding="utf-8")
        waits = [] if chance.random() < 0.5 else ["--no-wait"]
        self.clients.start(
            "batch", *jobs[0].options(), *waits, str(path), submission=self._asked(jobs, "batch")
        )
        return True

    def _feed(self, chance: random.Random) -> bool:
        jobs = self._similar(chance, "feed")
        lines = "".join(self._line(job) + "\n" for job in jobs)
        self.clients.start(
            "feed", *jobs[0].options(), submission=self._asked(jobs, "feed"), stdin=lines
        )
        return True

    def _line(self, job: Job) -> str:
        """For a shell, which is not to stand between the daemon and the job."""
        return " ".join(["exec", *job.words(*self._words)])

    def _library(self, chance: random.Random, *, warm: bool) -> bool:
        kind = "warm" if warm else "library"
        prefix, calls = self._token(kind), chance.randint(1, 8)
        self.clients.start_python(
            [
                str(_HERE / "library_client.py"), str(self.place.records),
                str(self.place.outputs / f"{prefix}.outcome"), prefix, str(calls),
                str(chance.choice((0, 20, 200))), kind,
            ],
            self._asked([], kind, prefix, calls),
        )  # fmt: skip
        return True

    def _http(self, chance: random.Random) -> bool:
        jobs = [self._job(chance, "http") for _ in range(chance.randint(1, 3))]
        self._requests = [thread for thread in self._requests if thread.is_alive()]
        if len(self._requests) >= 8:
            return False
        asked = self._asked(jobs, "http")
        thread = threading.Thread(target=self._post, args=(jobs, asked), daemon=True)
        self._requests.append(thread)
        thread.start()
        return True

    def _post(self, jobs: list[Job], asked: Submission) -> None:
        body = {
            "jobs": [job.fields(*self._words) for job in jobs],
            "cwd": str(self.place.root),
            "token": asked.jobs[0].token,
        }
        connection = http.client.HTTPConnection(
            "127.0.0.1", self._page_port, timeout=_HTTP_WITHIN_S
        )
        headers = {
            "Authorization": f"Bearer {self._page_token}",
            "Content-Type": "application/json",
        }
        try:
            connection.request("POST", "/api/jobs", json.dumps(body), headers)
            answer = connection.getresponse()
            ids = json.loads(answer.read()).get("ids")
            asked.acknowledged = answer.status == 200 and len(ids) == len(jobs)
            self._names.extend(job.token for job in jobs if asked.acknowledged)
        except (OSError, http.client.HTTPException, ValueError):
            pass  # The page is not there, or went away: it may have been taken or not.
        finally:
            connection.close()
            asked.over = True

    def _cancel(self, chance: random.Random) -> bool:
        if not self._names or self.hands.are_full():
            return False
        # What was asked for last has hardly begun.
        token = self._names.pop(-chance.randint(1, min(len(self._names), 12)))
        self.hands.cancel(token, chance, once_running=chance.random() < 0.5)
        return True

    def _follow(self, chance: random.Random) -> bool:
        """A client that only looks."""
        if not self._ids:
            return False
        job_id = str(chance.choice(self._ids[-10:]))
        looks = (["wait", job_id], ["logs", "-f", job_id], ["ls"], ["why", job_id], ["status"])
        self.clients.start(*chance.choice(looks))
        return True

    # ------------------------------------------------------------------ what is answered

    def _ended(self, client: Client) -> None:
        asked = client.submission
        if asked is None or asked.killed:
            return
        code = client.process.returncode
        if client.verb in ("add", "sweep", "feed", "batch"):
            asked.acknowledged = code == 0
            if code == 0 and client.verb in ("add", "batch"):
                self._names.extend(job.token for job in asked.jobs)
        if client.verb == "add" and code == 0:
            words = client.output.read_text(encoding="utf-8", errors="replace").split()
            numbers = [int(word) for word in words if word.isdecimal()]
            if numbers:
                self._ids.append(numbers[-1])

    @property
    def has_page(self) -> bool:
        """Whether the page is served."""
        return bool(self._page_port)

    def fields_of(self, job: Job) -> dict[str, Any]:
        """A job as the daemon is told of it."""
        return job.fields(*self._words)

    def finish_requests(self) -> None:
        """Wait for the answers of the page."""
        for thread in self._requests:
            thread.join()


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def until_clients_end(driver: Driver, timeout_s: float) -> list[str]:
    """Wait for the clients that live; the verbs of those that do not end."""

    def all_ended() -> bool:
        driver.tend()
        return not driver.clients.living

    try:
        eventually(all_ended, "every client has ended", timeout_s)
    except AssertionError:
        print("clients that do not end:", file=sys.stderr)
    return [client.verb for client in driver.clients.living]
