"""From what the daemon says of jobs to runs with their metrics, for every front end."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker.errors import NotFound, UsageError, quoted
from stoker.metrics import asking
from stoker.metrics.asking import Call, Summary
from stoker.metrics.attempt import read_attempt
from stoker.metrics.patterns import read_pattern
from stoker.metrics.results import Objective, ResultTable, Run, tabulate, varied_names
from stoker.metrics.runs import gone_on
from stoker.metrics.series import Series
from stoker.metrics.spec import Spec, folder_of, run_of
from stoker.output_files import check_braces
from stoker.quantities import job_ids
from stoker.text.jobs import now_ms
from stoker.text.terminal import escaped

Job = Mapping[str, Any]
ByName = dict[str, Summary]
Waiting = Callable[[int], None]

_OF_SWEEPS = "sweep:"  # what the names of their points begin with
_NOT_BEGUN = ("waiting", "held", "submitted")
_SETTING = re.compile(r"[+~]*(?P<name>[A-Za-z_][\w.@/-]*)=(?P<value>.*)", re.DOTALL)
_PUNCTUATION = "();<>|&"  # of shells


@dataclass(frozen=True, slots=True)
class Sources:
    """Where metrics come from beside what Stoker has read: `--metric` and `--metrics-from`."""

    names: list[str] = field(default_factory=list)  # the metrics that were named
    patterns: list[str] = field(default_factory=list)  # those that were described
    files: str | None = None

    @classmethod
    def said(cls, metrics: Sequence[str], files: str | None) -> Sources:
        """What the options say: each metric a NAME, or NAME=EXPRESSION."""
        patterns = [read_pattern(text).text for text in metrics if "=" in text]
        names = [text.partition("=")[0].strip() for text in metrics]
        return cls(names, patterns, files)


@dataclass(frozen=True, slots=True)
class Question:
    """What results are asked for."""

    words: Sequence[str] = ()  # a sweep's name, `last`, or ids of jobs
    select: Mapping[str, Any] = field(default_factory=dict)  # jobs by name or group instead
    objectives: Sequence[Objective] = ()
    sources: Sources = field(default_factory=Sources)
    repeat: str | None = None  # the parameter that only repeats points; None: that of the sweep
    single: bool = False  # one row per run


def gather(call: Call, question: Question, waiting: Waiting = lambda _: None) -> ResultTable:
    """The table of what is asked for; `waiting` is told how many logs are still to be read."""
    sweep, select = _which(call, question)
    if sweep is not None:
        runs, repeat, wanted = runs_of_sweep(call, sweep)
    else:
        runs, repeat, wanted = runs_of_jobs(call, select)
        if not runs:
            raise NotFound("there are no such jobs", "see `stoker ls --all`")
    metrics = metrics_of(call, select, question.sources, waiting)
    for run in runs:
        run.metrics = metrics.get(run.id, {})
    if question.repeat is not None:
        repeat = question.repeat
        if not any(repeat in run.params for run in runs):
            names = ", ".join(varied_names([run.params for run in runs])) or "none"
            raise NotFound(f"no job has a parameter {quoted(repeat)}", f"those that vary: {names}")
    repeat = None if question.single else repeat
    there = {name for run in runs for name in run.metrics}
    if question.objectives or not all(one.name in there for one in wanted):
        wanted = question.objectives  # A search that has just begun has no values yet.
    return tabulate(runs, wanted, repeat=repeat, names=question.sources.names)


def objectives_of(minimize: Sequence[str], maximize: Sequence[str]) -> list[Objective]:
    """What is wanted of which metrics."""
    wanted = [Objective(name, "min") for name in minimize]
    wanted += [Objective(name, "max") for name in maximize]
    names = [one.name for one in wanted]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{quoted(name)} is wanted twice", "name each metric once")
    return wanted


def _which(call: Call, question: Question) -> tuple[str | None, dict[str, Any]]:
    """The sweep that is meant, if one is, and the jobs as a request names them."""
    words, select = question.words, dict(question.select)
    if len(words) > 1 or (words and words[0] != "last"):
        try:
            ids = [one for word in words for one in job_ids(word)]
        except UsageError:
            if len(words) > 1:
                raise
        else:
            return None, {**select, "ids": ids}
    if not words and not select:
        raise UsageError("nothing was named", "name a sweep (last: the newest), jobs or a group")
    if not words:
        return None, select
    if select:
        raise UsageError("a sweep is all of its jobs", "name either a sweep or a group")
    sweep = sweep_named(call, words[0])
    return sweep, {"group": sweep}


# ---------------------------------------------------------------------- jobs


def sweep_named(call: Call, word: str) -> str:
    """The name of the sweep that is meant by a name, by the id of one of its jobs, or by `last`."""
    if word == "last":
        newest = call("sweeps", limit=1)["sweeps"]
        if not newest:
            raise NotFound("there is no sweep yet", "`stoker sweep` queues one")
        return str(newest[0]["sweep"])
    if word.isascii() and word.isdigit():
        [job] = call("show", select={"ids": [word]})["jobs"]
        if not job["group"] or not (job["point"] or "").startswith(_OF_SWEEPS):
            raise NotFound(f"job {word} is not part of a sweep", "see `stoker sweep ls`")
        return str(job["group"])
    return word


Found = tuple[list[Run], str | None, Sequence[Objective]]


def runs_of_sweep(call: Call, sweep: str) -> Found:
    """The latest job of each point of a sweep, the parameter of its `--repeat`, and its goals.

    Only a search has goals.
    """
    found = call("sweep_table", sweep=sweep)
    if not found["total"]:
        raise NotFound(f"there is no sweep {quoted(sweep)}", "see `stoker sweep ls`")
    return runs_in(found), found.get("repeat"), _goals(found.get("search"))


def runs_in(found: Mapping[str, Any]) -> list[Run]:
    """The runs of the daemon's table of a sweep."""
    columns, now = found["columns"], now_ms()
    params: list[dict[str, Any]] = [{} for _ in range(found["total"])]
    for name, values in found["params"].items():
        absent = set(found["absent"].get(name, ()))
        for place, value in enumerate(values):
            if place not in absent:
                params[place][name] = value
    fields = ("id", "state", "started_at_ms", "ended_at_ms", "gpus")
    rows = zip(*(columns[name] for name in fields), params, strict=True)
    return [
        Run(job_id, state, its, _run_time_s(state, began, ended, now), gpus)
        for job_id, state, began, ended, gpus, its in rows
    ]


def _goals(search: Mapping[str, Any] | None) -> list[Objective]:
    return [Objective(name, goal) for name, goal in search["objectives"]] if search else []


def runs_of_jobs(call: Call, select: Mapping[str, Any]) -> Found:
    """The same of these jobs; one of no sweep has the options of its command as parameters."""
    jobs: list[Job] = call("list", select=select, all=True)["jobs"]
    now = now_ms()
    runs = [
        Run(
            job["id"],
            job["state"],
            job["params"] or options_said(job["argv"], job["shell"]),
            _run_time_s(job["state"], job["started_at_ms"], job["ended_at_ms"], now),
            job["gpus"],
            job["name"],
        )
        for job in jobs
    ]
    repeats = {job["options"].get("repeat") for job in jobs}
    groups = {job["group"] for job in jobs}
    searches = []
    if len(groups) == 1 and (group := groups.pop()) is not None:
        searches = call("searches", name=group, brief=True)["searches"]
    repeat = repeats.pop() if len(repeats) == 1 else None
    return sorted(runs, key=lambda run: run.id), repeat, _goals(next(iter(searches), None))


def _run_time_s(state: str, began: int | None, ended: int | None, now: int) -> float | None:
    if began is None or state in _NOT_BEGUN:
        return None
    return max(0, (now if ended is None else ended) - began) / 1000


def options_said(argv: Sequence[str], shell: str | None) -> dict[str, Any]:
    """The options of a command: --lr 0.1, --lr=0.1, lr=0.1, and flags, which are true."""
    try:
        words = list(argv) if shell is None else _shell_words(shell)
    except ValueError:
        return {}  # It is for a shell to understand.
    found: dict[str, Any] = {}
    place = 1
    while place < len(words):
        word, place = words[place], place + 1
        setting = _SETTING.fullmatch(word.lstrip("-"))
        if setting is not None:
            found[setting["name"]] = _value(setting["value"])
        elif word.startswith("--") and len(word) > 2:
            takes_next = place < len(words) and not _is_option(words[place])
            found[word[2:]] = _value(words[place]) if takes_next else True
            place += takes_next
    return found


def _shell_words(shell: str) -> list[str]:
    """The words of a shell command; what is between commands (`;`, `&&`, `>`) is a word, too."""
    lexer = shlex.shlex(shell, posix=True, punctuation_chars=_PUNCTUATION)
    lexer.whitespace_split, lexer.commenters = True, ""
    return list(lexer)


def _is_option(word: str) -> bool:
    """Whether a word is no value of the option before it."""
    if word and not word.strip(_PUNCTUATION):
        return True
    return word.startswith("-") and not isinstance(_value(word), int | float)


def _value(text: str) -> Any:
    """A number where the text is one as JSON has it, else the text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, int | float) else text


# ---------------------------------------------------------------------- their metrics


def metrics_of(
    call: Call, select: Mapping[str, Any], sources: Sources, waiting: Waiting = lambda _: None
) -> dict[int, ByName]:
    """The metrics of jobs: of each, those that it has by their names.

    Stoker has read them, or reads them now. What was not said when jobs were queued is read here.
    """
    found: dict[int, ByName] = {}
    if sources.patterns or sources.files is not None:
        jobs = call("show", select=select)["jobs"]
        refuse_absent_files(jobs, sources)
        for job in jobs:
            found[job["id"]] = {curve.summary.name: curve.summary for curve in read(job, sources)}
        return found
    for one in asking.metrics_of(call, select, waiting=waiting):
        found.setdefault(one.job, {})[one.name] = one
    return found


def refuse_absent_files(jobs: Sequence[Job], sources: Sources) -> None:
    """Refuse --metrics-from that names nothing in any of the jobs: what was meant is elsewhere."""
    if sources.files is None:
        return
    names = dict.fromkeys(name for job in jobs for name in job["params"])
    check_braces(sources.files, "--metrics-from", names)
    path = ""
    for job in jobs:
        for one in job["attempts"]:
            path = _folder(sources.files, job, one["attempt"])
            if os.path.isfile(path) or os.path.isdir(path):
                return
    if path:
        what = "neither a file nor a directory" if os.path.lexists(path) else "not there"
        raise NotFound(
            f"--metrics-from: {escaped(path)} is {what}"
            + (", nor that of any other job" if len(jobs) > 1 else ""),
            "name a file or directory, from the directory of the job",
        )


def _folder(said: str, job: Job, attempt: int) -> str:
    found = folder_of(said, job["cwd"], (job["id"], attempt), job["name"], job["params"])
    assert found is not None
    return found


def read(job: Job, sources: Sources, number: int | None = None) -> list[asking.Curve]:
    """The metrics of an attempt, or of a job's latest run, read from log, reports and files."""
    attempts = {one["attempt"]: one for one in job["attempts"]}
    latest = job["attempt"] if number is None else number
    put_back = {at for at, one in attempts.items() if one["state"] == "requeued"}
    found: dict[str, Series] = {}
    for at in run_of(latest, put_back) if number is None else [number]:
        if at in attempts:
            found = gone_on(found, _read(job, attempts[at], sources))
    return [asking.curve_of(job["id"], latest, name, one) for name, one in found.items()]


def _read(job: Job, attempt: Job, sources: Sources) -> dict[str, Series]:
    key, options = (job["id"], attempt["attempt"]), job["options"]
    folder = sources.files if sources.files is not None else options.get("metrics_from")
    spec = Spec(
        *key,
        log=attempt["log"],
        err=attempt["err_log"],
        folder=None if folder is None else _folder(folder, job, attempt["attempt"]),
        reports=(f"{attempt['dir']}/metrics", f"{attempt['dir']}.metrics"),
        patterns=(*options.get("metric", ()), *sources.patterns),
    )
    return read_attempt(spec)
