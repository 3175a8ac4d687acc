"""Every request of the HTTP api, in one table: it is served and documented from here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from stoker import __version__
from stoker.api.job_option import JobOption
from stoker.api.job_options import GROUPS, JOB_OPTIONS
from stoker.api.tokens import Grant
from stoker.errors import NotFound, UsageError
from stoker.quantities import quoted
from stoker.submission.surroundings import user_name
from stoker.text.failing import complaint_of
from stoker.web import bodies, curves, failures, logs, submitting, sweep_results
from stoker.web.services import Answer, Services

FORECAST_EVERY_S = 5.0
USAGE_EVERY_S = 5.0
METRICS_WITHIN_MS = 1_000  # What is not read by then is asked for again.
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: who asks, the job in its path, and its fields."""

    grant: Grant
    job_id: int
    fields: Any


Handler = Callable[["Services", Asked], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One line of the table."""

    method: str
    path: str
    handler: Handler
    fields: type[msgspec.Struct]
    summary: str
    answer: dict[str, str]  # the fields of the answer, each with the name of its schema
    tag: str = "jobs"


# ---------------------------------------------------------------------- questions


async def _status(services: Services, asked: Asked) -> Answer:
    status = await services.link.call("status", limit=1)
    del status["jobs"]
    return status


async def _me(services: Services, asked: Asked) -> Answer:
    return {
        "user": user_name(),
        "directory": submitting.home_directory(),
        "read_only": asked.grant.read_only,
        "version": __version__,
    }


async def _options(services: Services, asked: Asked) -> Answer:
    def described(option: JobOption) -> dict[str, Any]:
        flag = ("yes", "no") if option.negative else ("yes",)
        return {
            "key": option.key,
            "means": option.help,
            "group": option.group,
            "example": option.metavar,
            "choices": flag if option.is_flag else option.choices,
            "not_in": option.not_in,
            "fields": [field.name for field in option.fields if field.kind != "margin"],
        }

    # One without a field of its own is another word for what another one says.
    return {"options": [described(o) for o in JOB_OPTIONS if o.fields], "groups": GROUPS}


async def _jobs(services: Services, asked: Asked) -> Answer:
    fields = msgspec.structs.asdict(asked.fields)
    key = ("jobs", msgspec.json.encode(fields))
    return await services.shared(key, lambda: services.link.call("browse", **fields))


async def _job(services: Services, asked: Asked) -> Answer:
    async def ask() -> Answer:
        select = {"ids": [str(asked.job_id)]}
        shown, why = await asyncio.gather(
            services.link.call("show", select=select), services.link.call("why", select=select)
        )
        job = shown["jobs"][0]
        failed = job["state"] in ("failed", "lost")
        line = await asyncio.to_thread(complaint_of, job) if failed else ""
        return {"job": job, "why": why["jobs"][0], "complaint": line}

    return await services.shared(("job", asked.job_id), ask)


async def _related(services: Services, asked: Asked) -> Answer:
    ask = partial(services.link.call, "related", job_id=asked.job_id)
    return await services.shared(("related", asked.job_id), ask)


async def _job_history(services: Services, asked: Asked) -> Answer:
    question: bodies.HistoryQuestion = asked.fields
    fields = {"job_id": asked.job_id, "attempt": question.attempt}
    return await services.link.call("job_history", **fields)


async def _job_metrics(services: Services, asked: Asked) -> Answer:
    attempt = asked.fields.attempt
    key = ("metrics", asked.job_id, attempt)
    return await services.shared(key, lambda: curves.of_job(services.link, asked.job_id, attempt))


async def _gpu_history(services: Services, asked: Asked) -> Answer:
    question: bodies.GpuHistoryQuestion = asked.fields

    async def ask() -> Answer:
        since_ms = time.time_ns() // 1_000_000 - int(question.minutes * 60_000)
        return await services.link.call("gpu_history", since_ms=max(0, since_ms))

    return await services.shared(("gpu_history", question.minutes), ask)


async def _gpus(services: Services, asked: Asked) -> Answer:
    return await services.link.call("gpus")


async def _forecast(services: Services, asked: Asked) -> Answer:
    return await services.shared(
        "forecast", lambda: services.link.call("forecast", limit=500, ends=True), FORECAST_EVERY_S
    )


async def _groups(services: Services, asked: Asked) -> Answer:
    return await services.shared("groups", lambda: services.link.call("groups"))


async def _usage(services: Services, asked: Asked) -> Answer:
    edges = asked.fields.edges_ms
    ask = partial(services.link.call, "usage", edges_ms=edges)
    return await services.shared(("usage", *edges), ask, USAGE_EVERY_S)


async def _failures(services: Services, asked: Asked) -> Answer:
    return await services.shared("failures", lambda: failures.by_message(services.link))


async def _timeline(services: Services, asked: Asked) -> Answer:
    question: bodies.TimelineQuestion = asked.fields

    async def ask() -> Answer:
        now_ms = time.time_ns() // 1_000_000
        since_ms = max(0, now_ms - int(question.hours * _HOUR_MS))
        past, ahead = await asyncio.gather(
            services.link.call("attempts", since_ms=since_ms, limit=question.limit),
            _forecast(services, asked),
        )
        return {**past, "since_ms": since_ms, "ahead": ahead["starts"], "ends": ahead["ends"]}

    return await services.shared(("timeline", question.hours, question.limit), ask)


async def _sweeps(services: Services, asked: Asked) -> Answer:
    return await services.shared("sweeps", lambda: services.link.call("sweeps"))


async def _sweep(services: Services, asked: Asked) -> Answer:
    question: bodies.SweepQuestion = asked.fields

    async def ask() -> Answer:
        found = await services.link.call(
            "sweep_points", sweep=question.name, offset=question.offset, limit=question.limit
        )
        if not found["total"]:
            raise NotFound(f"there is no sweep {quoted(question.name)}", "see /api/sweeps")
        return {"sweep": question.name, **found}

    key = ("sweep", question.name, question.offset, question.limit)
    return await services.shared(key, ask)


async def _sweep_results(services: Services, asked: Asked) -> Answer:
    question: bodies.SweepResultsQuestion = asked.fields
    name, known = question.name, question.known

    async def found() -> Answer:
        table = await services.link.call("sweep_table", sweep=name)
        if not table["total"]:
            raise NotFound(f"there is no sweep {quoted(name)}", "see /api/sweeps")
        read = await services.link.call(
            "metrics", select={"group": name}, patience_ms=METRICS_WITHIN_MS
        )
        return {"table": table, "read": read}

    async def made() -> Answer:
        both = await services.shared(("sweep's jobs", name), found)
        return await asyncio.to_thread(sweep_results.answer, both["table"], both["read"], question)

    what = msgspec.structs.replace(question, known=None, delta=False)
    key = ("results", msgspec.json.encode(what))
    content = await services.shared(key, made)
    before = services.told.since(known) if question.delta else None
    services.told.note(content["version"], content)
    return await asyncio.to_thread(sweep_results.unless_known, content, known, before)


async def _sweep_curves(services: Services, asked: Asked) -> Answer:
    key = ("sweep_curves", msgspec.json.encode(asked.fields))
    return await services.shared(key, lambda: curves.of_sweep(services.link, asked.fields))


async def _compare(services: Services, asked: Asked) -> Answer:
    key = ("compare", msgspec.json.encode(asked.fields))
    return await services.shared(key, lambda: curves.compared(services.link, asked.fields))


# ---------------------------------------------------------------------- logs


async def _log_path(services: Services, job_id: int, attempt: int | None, err: bool) -> str:
    async def ask() -> Answer:
        return await services.link.call("show", select={"ids": [str(job_id)]})

    job = (await services.shared(("show", job_id), ask))["jobs"][0]
    attempts = {one["attempt"]: one for one in job["attempts"]}
    if not attempts:
        raise NotFound("there is no log yet", "the job has not started")
    chosen = attempts.get(attempt or max(attempts))
    if chosen is None:
        raise NotFound(f"job {job_id} has no attempt {attempt}", f"it has {len(attempts)}")
    path: str | None = chosen["err_log" if err else "log"]
    if path is None:
        raise NotFound("errors are in the same log as the output", "leave out err")
    return path


async def _log(services: Services, asked: Asked) -> Answer:
    question: bodies.LogQuestion = asked.fields
    places = (question.after, question.before, question.around)
    if sum(place is not None for place in places) > 1:
        raise UsageError("after, before and around exclude each other", "give one of them")
    path = await _log_path(services, asked.job_id, question.attempt, question.err)
    if question.after is not None:
        return await asyncio.to_thread(logs.after, path, question.after, question.bytes)
    if question.around is not None:
        return await asyncio.to_thread(logs.around, path, question.around, question.bytes)
    return await asyncio.to_thread(logs.before, path, question.before, question.bytes)


async def _log_search(services: Services, asked: Asked) -> Answer:
    question: bodies.LogSearch = asked.fields
    path = await _log_path(services, asked.job_id, question.attempt, question.err)
    return await asyncio.to_thread(
        logs.search, path, question.text, question.after, places=question.places
    )


async def _log_ticket(services: Services, asked: Asked) -> Answer:
    request: bodies.TicketRequest = asked.fields
    path = await _log_path(services, request.id, request.attempt, request.err)
    ticket = services.new_ticket(
        path, f"stoker-job-{request.id}{'-err' if request.err else ''}.log"
    )
    return {"url": f"/api/log/download?ticket={ticket}"}


# ---------------------------------------------------------------------- changes


async def _submit(services: Services, asked: Asked) -> Answer:
    answer = await submitting.submit(services.link, asked.fields)
    services.changed()
    return answer


async def _adopt(services: Services, asked: Asked) -> Answer:
    answer = await services.link.call("adopt", **submitting.adoption_of(asked.fields))
    services.changed()
    return answer


async def _disk(services: Services, asked: Asked) -> Answer:
    return await services.shared("disk", lambda: services.link.call("disk"))


def _passed_on(op: str) -> Handler:
    async def give(services: Services, asked: Asked) -> Answer:
        request = asked.fields
        fields = msgspec.structs.asdict(request)
        if isinstance(request, bodies.Chosen):
            select = {name: fields[name] for name in ("names", "group", "all", "states", "text")}
            fields = {"select": {**select, "ids": [str(job_id) for job_id in request.ids]}}
        if isinstance(request, bodies.RemoveRequest) and request.older_ms is not None:
            fields["older_ms"] = request.older_ms
        if isinstance(request, bodies.CancelRequest):
            fields["let_go"] = request.let_go
        if isinstance(request, bodies.EditRequest):
            fields["changes"] = submitting.changes(request)
        answer = await services.link.call(op, **fields)
        services.changed()
        return answer

    return give


async def _preview(services: Services, asked: Asked) -> Answer:
    plan = await asyncio.to_thread(submitting.planned, asked.fields)
    return submitting.preview(plan)


async def _queue_sweep(services: Services, asked: Asked) -> Answer:
    request: bodies.SweepRequest = asked.fields
    plan = await asyncio.to_thread(submitting.planned, request)
    queued = await submitting.queue_sweep(services.link, request, plan)
    services.changed()
    return {
        "sweep": plan.name,
        "count": len(plan.jobs),
        "ids": queued.ids,
        "succeeded_before": queued.done,
        "unfinished": queued.unfinished,
        "not_tried": queued.passed_over,
    }


_IDS = {"ids": "Ids"}
_GPUS = {"gpus": "Texts"}
_CURVES = {"names": "Lists", "metric": "MaybeText", "goal": "MaybeText", "total": "Number",
           "best": "MaybeNumber", "curves": "Objects", "unread": "Number",
           "warnings": "Texts"}  # fmt: skip

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/api/me", _me, bodies.Nothing, "who one is here",
             {"user": "Text", "directory": "Text", "read_only": "Flag", "version": "Text"},
             "page"),
    Endpoint("GET", "/api/options", _options, bodies.Nothing,
             "the options of a job, and the groups that they are in",
             {"options": "Objects", "groups": "Texts"}, "page"),
    Endpoint("GET", "/api/status", _status, bodies.Nothing, "GPUs, counts by state, the daemon",
             {"gpus": "Gpus", "counts": "Counts", "paused": "Flag", "paused_groups": "Texts",
              "short": "MaybeText", "disk": "MaybeText", "cpus": "Object", "daemon": "Object"},
             "queue"),
    Endpoint("GET", "/api/disk", _disk, bodies.Nothing,
             "what takes how much of the disk",
             {"parts": "Objects", "logs": "Objects", "largest": "Objects", "disks": "Objects",
              "total_bytes": "Number"}, "page"),
    Endpoint("GET", "/api/jobs", _jobs, bodies.JobsQuestion, "a window of the list of jobs",
             {"jobs": "Jobs", "total": "Number", "version": "Number"}),
    Endpoint("POST", "/api/jobs", _submit, bodies.SubmitRequest, "queue jobs, all or none",
             {**_IDS, "warnings": "Texts"}),
    Endpoint("POST", "/api/jobs/adopt", _adopt, bodies.AdoptRequest,
             "make a job of a process that runs already",
             {"id": "Number", "gpus": "Texts", "process": "Text"}),
    Endpoint("POST", "/api/jobs/cancel", _passed_on("cancel"), bodies.CancelRequest, "stop jobs",
             _IDS),
    Endpoint("POST", "/api/jobs/retry", _passed_on("retry"), bodies.Chosen,
             "queue finished jobs again",
             {**_IDS, "counts": "Counts", "left_out": "Object"}),
    Endpoint("POST", "/api/jobs/requeue", _passed_on("requeue"), bodies.Chosen,
             "put running jobs back into the queue", _IDS),
    Endpoint("POST", "/api/jobs/suspend", _passed_on("suspend"), bodies.Chosen,
             "stop all processes of running jobs for a while", _IDS),
    Endpoint("POST", "/api/jobs/resume", _passed_on("resume_jobs"), bodies.Chosen,
             "let suspended jobs go on", _IDS),
    Endpoint("POST", "/api/jobs/yield", _passed_on("yield"), bodies.Chosen,
             "let running jobs that offered it give way", _IDS),
    Endpoint("POST", "/api/jobs/hold", _passed_on("hold"), bodies.Chosen, "hold jobs back", _IDS),
    Endpoint("POST", "/api/jobs/release", _passed_on("release"), bodies.Chosen,
             "let held jobs go", _IDS),
    Endpoint("POST", "/api/jobs/remove", _passed_on("remove"), bodies.RemoveRequest,
             "forget finished jobs and their logs", _IDS),
    Endpoint("POST", "/api/jobs/edit", _passed_on("edit"), bodies.EditRequest,
             "change jobs that wait", {**_IDS, "left_out": "Object", "warnings": "Texts"}),
    Endpoint("GET", "/api/jobs/{id}", _job, bodies.Nothing,
             "all that is known of a job, its attempts, why it stands where it does, and the line "
             "of its log that says why it failed",
             {"job": "Object", "why": "Object", "complaint": "Text"}),
    Endpoint("GET", "/api/jobs/{id}/related", _related, bodies.Nothing,
             "the jobs that it waits for, those that wait for it, and so on for three steps",
             {"jobs": "Objects", "links": "Lists", "more": "Flag"}),
    Endpoint("GET", "/api/jobs/{id}/history", _job_history, bodies.HistoryQuestion,
             "GPU memory and use of an attempt (default: the latest) over time",
             {"at_ms": "Ids", "mem_mib": "MaybeNumbers", "use_percent": "MaybeNumbers",
              "gpus": "Object"}),
    Endpoint("GET", "/api/jobs/{id}/metrics", _job_metrics, bodies.HistoryQuestion,
             "all metrics of an attempt (default: the latest with any) with their curves; "
             "while some is unread, ask again",
             {"curves": "Objects", "unread": "Number", "warnings": "Texts"}),
    Endpoint("GET", "/api/compare", _compare, bodies.CompareQuestion,
             "some jobs with their parameters, and the curves of one of their metrics",
             {"runs": "Objects", "varied": "Texts", **_CURVES}),
    Endpoint("GET", "/api/jobs/{id}/log", _log, bodies.LogQuestion, "a part of a job's log",
             {"start": "Number", "end": "Number", "size": "Number", "first": "MaybeNumber",
              "lines": "Objects", "partial": "Flag"}, "logs"),
    Endpoint("GET", "/api/jobs/{id}/log/search", _log_search, bodies.LogSearch,
             "lines of a log that have a text in them",
             {"matches": "Objects", "next": "MaybeNumber", "size": "Number"}, "logs"),
    Endpoint("POST", "/api/log/ticket", _log_ticket, bodies.TicketRequest,
             "a link that downloads a log, once asked for good for a minute",
             {"url": "Text"}, "logs"),
    Endpoint("GET", "/api/timeline", _timeline, bodies.TimelineQuestion,
             "what ran on which GPU of late, when what runs should end, and what should start next",
             {"attempts": "Objects", "more": "Flag", "now_ms": "Number", "since_ms": "Number",
              "ahead": "Objects", "ends": "Objects"}, "queue"),
    Endpoint("GET", "/api/forecast", _forecast, bodies.Nothing, "what should start next, and when",
             {"starts": "Objects", "ends": "Objects", "now_ms": "Number"}, "queue"),
    Endpoint("GET", "/api/groups", _groups, bodies.Nothing,
             "all groups, the newest last, with their limits and the states of their jobs",
             {"groups": "Objects"}, "queue"),
    Endpoint("POST", "/api/queue/limit", _passed_on("limit_group"), bodies.LimitRequest,
             "let at most so many jobs of a group run at a time", {}, "queue"),
    Endpoint("GET", "/api/usage", _usage, bodies.UsageQuestion,
             "what the GPUs were used for between some moments, by group and user; how jobs ended, "
             "and how long they had waited",
             {"busy_ms": "Ids", "groups": "Objects", "users": "Objects", "ended": "Objects",
              "started": "Ids", "waited_ms": "MaybeNumbers", "waited_long_ms": "MaybeNumbers",
              "gpus": "Number", "now_ms": "Number"}, "queue"),
    Endpoint("GET", "/api/failures", _failures, bodies.Nothing,
             "the latest failures, those with the same message together",
             {"failures": "Objects", "looked_at": "Number", "total": "Number"}),
    Endpoint("POST", "/api/queue/pause", _passed_on("pause"), bodies.QueueRequest,
             "start nothing new, in a group or at all", {}, "queue"),
    Endpoint("POST", "/api/queue/resume", _passed_on("resume"), bodies.QueueRequest,
             "undo pause; in a group, suspended jobs go on too", {}, "queue"),
    Endpoint("GET", "/api/gpus", _gpus, bodies.Nothing, "all GPUs", {"gpus": "Gpus"}, "GPUs"),
    Endpoint("GET", "/api/gpus/history", _gpu_history, bodies.GpuHistoryQuestion,
             "use and memory of the GPUs over time, by id", {"histories": "Object"}, "GPUs"),
    Endpoint("POST", "/api/gpus/add", _passed_on("gpu_add"), bodies.GpuRequest,
             "declare GPUs", _GPUS, "GPUs"),
    Endpoint("POST", "/api/gpus/remove", _passed_on("gpu_remove"), bodies.GpuRequest,
             "take GPUs away; what runs on them ends by itself", _GPUS, "GPUs"),
    Endpoint("POST", "/api/gpus/drain", _passed_on("gpu_drain"), bodies.GpuRequest,
             "start nothing new on some GPUs", _GPUS, "GPUs"),
    Endpoint("POST", "/api/gpus/resume", _passed_on("gpu_resume"), bodies.GpuRequest,
             "undo drain", _GPUS, "GPUs"),
    Endpoint("GET", "/api/sweeps", _sweeps, bodies.Nothing, "all sweeps, the newest first",
             {"sweeps": "Objects"}, "sweeps"),
    Endpoint("GET", "/api/sweep", _sweep, bodies.SweepQuestion,
             "a part of a sweep's points, the latest job of each",
             {"sweep": "Text", "points": "Objects", "total": "Number", "counts": "Counts",
              "varied": "Texts"}, "sweeps"),
    Endpoint("GET", "/api/sweep/results", _sweep_results, bodies.SweepResultsQuestion,
             "all points of a sweep in columns, with the last, lowest and highest value of each "
             "metric; which is best, and which parameters matter",
             {"sweep": "Text", "total": "Number", "counts": "Counts", "varied": "Texts",
              "repeat": "MaybeText", "metric": "MaybeText", "goal": "MaybeText", "unread": "Number",
              "warnings": "Texts", "columns": "Object", "params": "Objects", "metrics": "Objects",
              "best": "MaybeNumber", "front": "Ids", "objectives": "Texts", "so_far": "Flag",
              "why_no_best": "Text", "search": "MaybeText", "searching": "Flag",
              "importance": "Objects", "judged_by": "Number", "rough": "Flag",
              "version": "Text", "changed": "Flag", "delta": "MaybeObject"}, "sweeps"),
    Endpoint("GET", "/api/sweep/curves", _sweep_curves, bodies.SweepCurvesQuestion,
             "the curves of one metric of a sweep's points: of many the best, and some of the rest",
             _CURVES, "sweeps"),
    Endpoint("POST", "/api/sweep/preview", _preview, bodies.SweepRequest,
             "the points that a sweep would have; nothing is queued",
             {"sweep": "Text", "count": "Number", "varied": "Texts", "points": "Objects"},
             "sweeps"),
    Endpoint("POST", "/api/sweep", _queue_sweep, bodies.SweepRequest,
             "queue the points of a sweep that are new or failed",
             {"sweep": "Text", "count": "Number", "ids": "Ids", "succeeded_before": "Number",
              "unfinished": "Number", "not_tried": "Number"}, "sweeps"),
)  # fmt: skip
