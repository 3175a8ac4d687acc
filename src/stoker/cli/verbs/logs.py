"""`stoker logs`: show or follow the output of a job."""

from __future__ import annotations

import time

from stoker import quantities
from stoker.api.client import Client
from stoker.cli.options import Args, Json, Option, Positional, Verb
from stoker.errors import Failed, NotFound, Unavailable, Unreachable, UsageError
from stoker.text.jobs import FINAL_STATES, Job, outcome, title
from stoker.text.logfile import LogFile, Printer
from stoker.text.terminal import say

DEFAULT_LINES = 200
_lines = quantities.number_within(0, 10**12)
_POLL_S = 0.1
_POLLS_A_QUESTION = 3


def logs(args: Args) -> None:
    """Show or follow a log."""
    if args["all"] and args["lines"] is not None:
        raise UsageError("--all and --lines exclude each other", "give one of them")
    select = _select(args)
    with Client() as client:
        job = _one_job(client, select)
        if args["follow"]:
            _Follower(client, job, args).follow()
            return
        path = _log_of(job, args["err"])
        log = None if path is None else _opened(path)
        if log is None:
            raise _no_log(job, path)
    printer = Printer(raw=args["raw"], live=False)
    skipped = _skip(log, args)
    for piece in log.new_pieces():
        printer.write(piece)
    printer.finish()
    if skipped and args["lines"] is None:
        say(f"stoker: these are the last {DEFAULT_LINES} lines; --all shows the log from its start")


def _select(args: Args) -> Json:
    if args["id"] is not None and args["name"] is not None:
        raise UsageError("an id and --name exclude each other", "give one of them")
    if args["id"] is not None:
        return {"ids": args["id"]}
    if args["name"] is not None:
        return {"names": [args["name"]]}
    raise UsageError("no job was named", "e.g. stoker logs 7, or stoker logs last")


def _one_job(client: Client, select: Json) -> Job:
    jobs: list[Job] = client.call("show", select=select)["jobs"]
    if not jobs:
        raise NotFound("there is no such job", "`stoker ls --all` lists all jobs")
    if len(jobs) > 1:
        if "ids" in select:
            raise UsageError("that is more than one job", "name one job by its id")
        jobs.sort(key=lambda job: int(job["id"]))
        say(f"stoker: {len(jobs)} jobs have that name; this is the newest, {jobs[-1]['id']}")
    return jobs[-1]


def _log_of(job: Job, err: bool) -> str | None:
    path: str | None = job.get("err_log") if err else job.get("log")
    if err and path is None and job.get("log") is not None:
        raise Failed(
            f"{title(job)} has one log for output and errors",
            f"`stoker logs {job['id']}` shows it; --err FILE of `stoker add` keeps them apart",
        )
    return path


def _no_log(job: Job, path: str | None) -> Failed:
    """Why there is no log to show."""
    local = job.get("executor", "local") == "local"
    if path is not None and job.get("attached"):
        return Failed(f"the output of {title(job)} went to its terminal", "look there")
    if path is not None and (job.get("pid") is not None or not local):
        return Failed(f"the log {path} is not there", "it may have been removed by hand")
    if job["state"] not in FINAL_STATES:
        words = f"{title(job)} is {job['state']} and has no log yet"
        return Failed(words, f"`stoker logs -f {job['id']}` waits for it")
    why = outcome(job) or job["state"]
    return Failed(f"{title(job)} has no log, because it never started: {why}")


def _opened(path: str) -> LogFile | None:
    try:
        return LogFile(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Failed(
            f"can't read the log {path}: {error.strerror}", "see that it is yours to read"
        ) from None


def _skip(log: LogFile, args: Args) -> int:
    if args["all"]:
        return 0
    return log.skip_to_last(DEFAULT_LINES if args["lines"] is None else args["lines"])


class _Follower:
    """Follows one job's log, attempt after attempt, until the job is final and all is printed."""

    def __init__(self, client: Client, job: Job, args: Args) -> None:
        self._client = client
        # Following must not bring a daemon back that was stopped on purpose.
        self._client.autostart = False
        self._job = job
        self._args = args
        self._printer = Printer(raw=args["raw"], live=True)
        self._log: LogFile | None = None
        self._attempt = 0
        self._told_reason = False
        self._told_daemon = False

    def follow(self) -> None:
        polls = 0
        while True:
            # The state is asked for before the file is read: once the job is known to be final,
            # what is read afterwards is all that there is.
            final = self._job["state"] in FINAL_STATES
            self._print_new()
            if final:
                self._printer.finish()
                if self._log is None:
                    self._tell_state(" and has no log")
                return
            time.sleep(_POLL_S)
            polls += 1
            if polls % _POLLS_A_QUESTION == 0:
                self._ask()

    def _ask(self) -> None:
        try:
            self._job = _one_job(self._client, {"ids": [str(self._job["id"])]})
            self._told_daemon = False
        except (Unreachable, Unavailable):
            if not self._told_daemon:
                self._told_daemon = True
                say("stoker: the daemon is not there; the log is followed without it")

    def _print_new(self) -> None:
        path = _log_of(self._job, self._args["err"])
        attempt = self._job.get("attempt") or 0
        if self._log is not None and (
            path != self._log.path or (attempt > self._attempt and self._log.was_replaced())
        ):
            self._drain(self._log)
            self._log.close()
            self._log = None
        if self._log is None and path is not None:
            self._log = _opened(path)
            if self._log is not None:
                self._begin(self._log, attempt)
        if self._log is None:
            self._tell_reason()
        else:
            self._drain(self._log)

    def _begin(self, log: LogFile, attempt: int) -> None:
        if self._attempt == 0:
            _skip(log, self._args)
        else:
            self._printer.finish()
            say(f"stoker: attempt {attempt} of {title(self._job)}")
        self._attempt = attempt

    def _drain(self, log: LogFile) -> None:
        for piece in log.new_pieces():
            self._printer.write(piece)
        self._printer.flush()

    def _tell_reason(self) -> None:
        if not self._told_reason and self._job["state"] in ("waiting", "held", "submitted"):
            self._told_reason = True
            self._tell_state("")

    def _tell_state(self, more: str) -> None:
        words = outcome(self._job)
        reason = f": {words}" if words else ""
        say(f"stoker: {title(self._job)} is {self._job['state']}{more}{reason}")


VERB = Verb(
    "logs",
    "show or follow the output of a job",
    run=logs,
    positionals=(Positional("ID", "the job: 7, or last", quantities.job_ids, optional=True),),
    options=(
        Option("follow", "follow the output until the job has ended", short="f"),
        Option("err", "stderr, if it is kept in a file of its own"),
        Option("lines", f"the last N lines (default: {DEFAULT_LINES})", "N", _lines, short="n"),
        Option("all", "the whole log", short="a"),
        Option("raw", "print every byte as the job wrote it"),
        Option("name", "the newest job with this name, instead of an ID", "NAME", quantities.label),
    ),
    examples=(
        ("stoker logs -f 7", "follow job 7 until it ends; Ctrl-C leaves it alone"),
        ("stoker logs --all last > log.txt", "the whole log of the newest job"),
        ("stoker logs -n 20 --err 7", "the last 20 lines of its stderr"),
    ),
    notes=(
        "Progress bars that rewrite their line are shown in their last state. On a terminal, "
        "colours are kept and other control sequences are dropped. Into a pipe or file, "
        "everything else is written unchanged; with --raw, progress bars too.",
    ),
)
