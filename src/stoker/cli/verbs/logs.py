"""`stoker logs`: show or follow the output of a job."""

from __future__ import annotations

import re
import time
from collections import Counter

from stoker import quantities
from stoker.api.client import Client
from stoker.cli.options import Args, Json, Option, Verb
from stoker.cli.selection import GROUP, IDS
from stoker.errors import Failed, NotFound, Unavailable, Unreachable, UsageError
from stoker.text.jobs import FINAL_STATES, Job, outcome, title
from stoker.text.logfile import LogFile, Printer
from stoker.text.terminal import escaped, say

DEFAULT_LINES = 200
_lines = quantities.number_within(0, 10**12)
_POLL_S = 0.1
_POLLS_A_QUESTION = 3
_MOST_FOLLOWED = 200


def logs(args: Args) -> None:
    """Show or follow logs."""
    if args["all"] and args["lines"] is not None:
        raise UsageError("--all and --lines exclude each other", "give one of them")
    if args["raw"] and args["grep"] is not None:
        raise UsageError("--raw and --grep exclude each other", "give one of them")
    if args["grep"] is not None:
        _end_at_once_on_ctrl_c()
    select = _select(args)
    with Client() as client:
        jobs = _chosen(client, select)
        many = len(jobs) > 1 or "group" in select
        if many and args["raw"]:
            raise UsageError("--raw is for the log of one job", "name one job by its id")
        if args["follow"]:
            if not many:
                select = {"ids": [str(jobs[0]["id"])]}
            _follow(client, select, jobs, args, many)
            return
    unstarted: list[tuple[Job, str]] = []
    for job in jobs:
        try:
            _print(job, args, many)
        except _NotStarted as error:
            if not many:
                raise
            unstarted.append((job, error.message))
        except Failed as error:
            if not many:
                raise
            say(f"stoker: {error.message}")
    _say_unstarted(unstarted)


def _end_at_once_on_ctrl_c() -> None:
    """Python sees a signal only after a search, and some patterns take for ever: `(a+)+$`."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


class _NotStarted(Failed):
    """There is no log because the job has not started."""


def _say_unstarted(jobs: list[tuple[Job, str]]) -> None:
    """Of one job its own line; of several their number, for a sweep may have thousands."""
    if len(jobs) == 1:
        say(f"stoker: {jobs[0][1]}")
    elif jobs:
        counts = Counter(job["state"] for job, _ in jobs)
        states = ", ".join(f"{count} {state}" for state, count in counts.items())
        some_started = counts.keys() & {"running", "succeeded", "failed"}
        have = "have no log" if some_started else "have not started and have no log"
        say(f"stoker: {len(jobs)} jobs {have}: {states}")


def _print(job: Job, args: Args, many: bool) -> None:
    path = _log_of(job, args["err"])
    log = None if path is None else _opened(path)
    if log is None:
        raise _no_log(job, path)
    printer = _printer(job, args, many, live=False)
    skipped = _skip(log, args)
    for piece in log.new_pieces():
        printer.write(piece)
    printer.finish()
    log.close()
    if skipped and args["lines"] is None and not many:
        say(f"stoker: these are the last {DEFAULT_LINES} lines; --all shows the log from its start")


def _printer(job: Job, args: Args, many: bool, *, live: bool) -> Printer:
    prefix = ""
    if many:
        name = f" {escaped(job['name'])}" if job.get("name") else ""
        prefix = f"[{job['id']}{name}] "
    # Lines of several jobs can't be brought up to date in one place of a terminal.
    live = live and not many and args["grep"] is None
    return Printer(raw=args["raw"], live=live, prefix=prefix, only=args["grep"])


def _select(args: Args) -> Json:
    ids = [one for several in args["id"] for one in several]
    said = [what for what in (ids, args["name"], args["group"]) if what]
    if len(said) > 1:
        raise UsageError("ids, --name and --group exclude each other", "give one of them")
    if ids:
        return {"ids": ids}
    if args["name"] is not None:
        return {"names": [args["name"]]}
    if args["group"] is not None:
        return {"group": args["group"]}
    raise UsageError("no job was named", "e.g. stoker logs 7, or stoker logs last")


def _chosen(client: Client, select: Json) -> list[Job]:
    """The jobs by id; of those with a name, the newest."""
    jobs: list[Job] = client.call("show", select=select)["jobs"]
    if not jobs:
        raise NotFound("there is no such job", "`stoker ls --all` lists all jobs")
    jobs.sort(key=lambda job: int(job["id"]))
    if len(jobs) > 1 and "names" in select:
        say(f"stoker: {len(jobs)} jobs have that name; this is the newest, {jobs[-1]['id']}")
        return jobs[-1:]
    return jobs


def _pattern(text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(text.encode())
    except (re.error, UnicodeEncodeError) as error:
        raise UsageError(f"{quantities.quoted(text)} is no pattern: {error}", "mend it") from None


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
    if job.get("adopted"):
        return Failed(
            f"{title(job)} was adopted, and Stoker has no output of it", "look where it was started"
        )
    if path is not None and (job.get("pid") is not None or not local):
        return Failed(
            f"the log {path} is not there", "it was removed by hand, or by the setting keep-logs"
        )
    if job["state"] not in FINAL_STATES:
        words = f"{title(job)} is {job['state']} and has no log yet"
        return _NotStarted(words, f"`stoker logs -f {job['id']}` waits for it")
    why = outcome(job) or job["state"]
    return _NotStarted(f"{title(job)} has no log, because it never started: {why}")


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
    if args["all"] or (args["grep"] is not None and args["lines"] is None):
        return 0
    return log.skip_to_last(DEFAULT_LINES if args["lines"] is None else args["lines"])


def _follow(client: Client, select: Json, jobs: list[Job], args: Args, many: bool) -> None:
    """Follow the logs of jobs until all are final and printed; jobs may join a group meanwhile."""
    # Following must not bring a daemon back that was stopped on purpose.
    client.autostart = False
    followers: dict[int, _Follower] = {}
    told_daemon = False
    polls = 0
    while True:
        for job in jobs:
            if job["id"] not in followers:
                followers[job["id"]] = _Follower(job, args, many)
            followers[job["id"]].job = job
        if sum(not follower.is_over for follower in followers.values()) > _MOST_FOLLOWED:
            raise UsageError(
                f"more than {_MOST_FOLLOWED} logs can't be followed at once", "name fewer jobs"
            )
        told = ((follower.job, follower.step()) for follower in followers.values())
        _say_unstarted([(job, words) for job, words in told if words is not None])
        if all(follower.is_over for follower in followers.values()):
            return
        time.sleep(_POLL_S)
        polls += 1
        if polls % _POLLS_A_QUESTION == 0:
            try:
                jobs = _chosen(client, select)
                told_daemon = False
            except (Unreachable, Unavailable):
                if not told_daemon:
                    told_daemon = True
                    say("stoker: the daemon is not there; the log is followed without it")


class _Follower:
    """Follows one job's log, attempt after attempt, until the job is final and all is printed."""

    def __init__(self, job: Job, args: Args, many: bool) -> None:
        self.job = job
        self.is_over = False
        self._args = args
        self._printer = _printer(job, args, many, live=True)
        self._log: LogFile | None = None
        self._attempt = 0
        self._told_reason = False

    def step(self) -> str | None:
        """Print what is new; if there is no log, what is to be said of that once."""
        if self.is_over:
            return None
        # The state is asked for before the file is read: once the job is known to be final,
        # what is read afterwards is all that there is.
        final = self.job["state"] in FINAL_STATES
        self._print_new()
        if final:
            self.is_over = True
            self._printer.finish()
            if self._log is None:
                return self._state(" and has no log")
            self._log.close()
            return None
        if self._log is not None or self._told_reason:
            return None
        self._told_reason = self.job["state"] in ("waiting", "held", "submitted")
        return self._state("") if self._told_reason else None

    def _print_new(self) -> None:
        path = _log_of(self.job, self._args["err"])
        attempt = self.job.get("attempt") or 0
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
        if self._log is not None:
            self._drain(self._log)

    def _begin(self, log: LogFile, attempt: int) -> None:
        if self._attempt == 0:
            _skip(log, self._args)
        else:
            self._printer.finish()
            say(f"stoker: attempt {attempt} of {title(self.job)}")
        self._attempt = attempt

    def _drain(self, log: LogFile) -> None:
        for piece in log.new_pieces():
            self._printer.write(piece)
        self._printer.flush()

    def _state(self, more: str) -> str:
        words = outcome(self.job)
        reason = f": {words}" if words else ""
        return f"{title(self.job)} is {self.job['state']}{more}{reason}"


VERB = Verb(
    "logs",
    "show or follow the output of jobs",
    run=logs,
    positionals=(IDS,),
    options=(
        Option("follow", "follow the output until the job has ended", short="f"),
        Option("err", "stderr, if it is kept in a file of its own"),
        Option("lines", f"the last N lines (default: {DEFAULT_LINES})", "N", _lines, short="n"),
        Option("all", "the whole log", short="a"),
        Option("raw", "print every byte as the job wrote it"),
        Option("name", "the newest job with this name, instead of an ID", "NAME", quantities.label),
        GROUP,
        Option("grep", "only lines in which this pattern is found, of the whole log unless --lines "
               "is given", "PATTERN", _pattern),
    ),
    examples=(
        ("stoker logs -f 7", "follow job 7 until it ends; Ctrl-C leaves it alone"),
        ("stoker logs --all last > log.txt", "the whole log of the newest job"),
        ("stoker logs -n 20 --err 7", "the last 20 lines of its stderr"),
        ("stoker logs -f --group sweep", "what all jobs of a group print, as it comes"),
        ("stoker logs 3-9 --grep 'val_loss'", "the lines with val_loss of jobs 3 to 9"),
    ),
    notes=(
        "Of several jobs, each line begins with the job it is from: [7 big].",
        "Progress bars that rewrite their line are shown in their last state. On a terminal, "
        "colours are kept and other control sequences are dropped. Into a pipe or file, "
        "everything else is written unchanged; with --raw, progress bars too.",
    ),
)  # fmt: skip
