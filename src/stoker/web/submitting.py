"""Jobs and sweeps from the page: whose they are, where they run, and what they inherit."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from typing import Any

import msgspec

import stoker
from stoker.api.job_option import NONE
from stoker.api.job_options import BY_KEY
from stoker.api.messages import JobRequest
from stoker.errors import UsageError
from stoker.quantities import quoted, sweep_label
from stoker.submission.adopting import adoption
from stoker.submission.changes import changed_fields
from stoker.submission.freezing import LIMIT, freeze_jobs
from stoker.submission.keywords import in_keywords, job_fields, values_of
from stoker.submission.surroundings import (
    absolute_paths,
    new_token,
    note_commits,
    project_file,
    surroundings,
)
from stoker.submission.sweeps import (
    Plan,
    Queued,
    SweepSpec,
    is_a_search,
    part_of,
    parts,
    plan,
)
from stoker.sweep import notation
from stoker.sweep.points import Choosing, Space
from stoker.web.bodies import AdoptRequest, EditRequest, SubmitRequest, SweepRequest
from stoker.web.link import Link

PREVIEWED = 50
# A command of such letters means the same to a shell and without one; {name} is a place.
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./{} -]*\Z")


def home_directory() -> str:
    """Where a job runs for which no directory was named."""
    home = os.path.expanduser("~")
    return home if os.path.isdir(home) else "/"


def inherited(cwd: str) -> dict[str, Any]:
    """What jobs from the page take along: the environment and umask that the daemon began with."""
    request = surroundings(cwd=cwd)
    found = request["env"]
    # The daemon was told where its own code is; that is no concern of a job's.
    own = os.path.dirname(os.path.dirname(os.path.abspath(stoker.__file__)))
    path = [part for part in found.pop("PYTHONPATH", "").split(":") if part and part != own]
    if path:
        found["PYTHONPATH"] = ":".join(path)
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    return request


async def submit(link: Link, request: SubmitRequest) -> dict[str, Any]:
    """Queue jobs, all or none; their ids, and what to warn of."""
    cwd = _directory(request.cwd)
    jobs = await asyncio.to_thread(_jobs, request, cwd)
    message: dict[str, Any] = {"jobs": jobs, **inherited(cwd)}
    if request.environment_of is not None:
        message |= {"env": {}, "env_of": request.environment_of}
    await _take_code(link, jobs, message, {})
    token = request.token or new_token()
    answer = await link.call("submit", **message, token=token)
    return {"ids": answer["ids"], "warnings": answer.get("warnings", [])}


def _jobs(request: SubmitRequest, cwd: str) -> list[dict[str, Any]]:
    """The jobs, each with the defaults of the project that its directory is in."""
    jobs = [_resolved(job, cwd) for job in request.jobs]
    values = values_of(request.options)
    directories = {os.path.join(cwd, values.get("cwd") or ""), *(job.get("cwd") for job in jobs)}
    if not any(project_file(one) for one in directories if one):
        shared = job_fields(request.options, cwd)
        return [shared | job for job in jobs]
    said = {} if request.cwd is None else {"cwd": cwd}
    return [_of_project(request.options, job, said, cwd) for job in jobs]


def _of_project(
    options: dict[str, Any], job: dict[str, Any], said: dict[str, Any], cwd: str
) -> dict[str, Any]:
    words = job.get("argv") or [job.get("shell") or ""]
    here = job.get("cwd", cwd)
    if "cwd" not in options:  # The directory of the request does not give way to the file's.
        job = said | job
    return job_fields(options, here, "library", words, job)


async def _take_code(
    link: Link, jobs: list[dict[str, Any]], message: dict[str, Any], example: dict[str, Any]
) -> None:
    """Say which commit the code is of, and have jobs with `freeze` run it as it is now.

    Other requests do not wait for it.
    """
    await asyncio.to_thread(note_commits, jobs, message)
    if not any(job.get("freeze") for job in jobs):
        return
    limit = (await link.call("config_get", name=LIMIT))["settings"][0]["value"]
    home = (await link.call("hello"))["home"]
    await asyncio.to_thread(freeze_jobs, home, limit, jobs, message, example)


def _resolved(job: JobRequest, cwd: str) -> dict[str, Any]:
    """The job as the daemon takes it: paths are absolute, and defaults are left out."""
    fields: dict[str, Any] = {
        name: getattr(job, name)
        for name, default in zip(
            JobRequest.__struct_fields__, JobRequest.__struct_defaults__, strict=True
        )
        if getattr(job, name) != _plain_default(default)
    }
    if "cwd" in fields:
        fields["cwd"] = _directory(fields["cwd"])
    absolute_paths(fields, cwd)
    return fields


def changes(request: EditRequest) -> dict[str, Any]:
    """The fields that change of jobs that wait."""
    said = {key: text for key, text in request.options.items() if text is not None}
    cleared = request.options.keys() - said.keys()
    fixed = [key for key in cleared if key not in BY_KEY or not BY_KEY[key].cleared]
    if fixed:
        raise UsageError(f"{fixed[0]} can't be taken away", "give it a value")
    values = values_of(said) | dict.fromkeys(cleared, NONE)
    return {**changed_fields(values), **request.changes}


def adoption_of(request: AdoptRequest) -> dict[str, Any]:
    """The fields of `adopt`."""
    try:
        return adoption(str(request.pid), values_of(request.options))
    except UsageError as error:
        raise in_keywords(error) from None


def _plain_default(default: object) -> object:
    factory = getattr(default, "factory", None)
    return factory() if factory is not None else default


def _directory(given: str | None) -> str:
    if given is None or not given.strip():
        return home_directory()
    path = os.path.expanduser(given.strip())
    if "\0" in path or not os.path.isabs(path):
        raise UsageError(f"{quoted(given)} is not a whole path", "begin it with / or ~").about(
            "cwd"
        )
    return os.path.normpath(path)


# ---------------------------------------------------------------------- sweeps


def preview(plan: Plan) -> dict[str, Any]:
    """What the page shows of a sweep before it is queued."""
    shown = [{"params": job["params"], "command": _command(job)} for job in plan.jobs[:PREVIEWED]]
    varied = list(plan.varied)
    return {"sweep": plan.name, "count": len(plan.jobs), "varied": varied, "points": shown}


def planned(request: SweepRequest) -> Plan:
    """The points of a sweep; refused in one line if any of it is not good."""
    cwd = _directory(request.cwd)
    words = shlex.split(request.command) if _PLAIN.match(request.command) else [request.command]
    said = _resolved(request.job, cwd) if request.job is not None else {}
    if request.cwd is not None and "cwd" not in request.options:
        said.setdefault("cwd", cwd)
    base = job_fields(request.options, said.get("cwd", cwd), "sweep", words, said)
    for key in ("argv", "shell", "name", "group", "params", "point"):
        if key in base:
            raise UsageError(f"a sweep has no single {key}", f"leave out job.{key}")
    files: dict[str, str] = {key: base.pop(key) for key in ("out", "err") if key in base}
    message = {"jobs": [base], **inherited(cwd)}
    return plan(
        SweepSpec(
            Space(tuple(notation.parsed(word) for word in request.space if word.strip())),
            Choosing(request.samples, None, request.shuffle, request.seed, request.where),
            words,
            request.style,
            sweep_label(request.name) if request.name else None,
            message,
            files,
        )
    )


async def queue_sweep(link: Link, request: SweepRequest, plan: Plan) -> Queued:
    """Queue the points that have not been run, or have failed."""
    queued = Queued()
    if (await link.call("searches", name=plan.name, brief=True))["searches"]:
        raise is_a_search(plan.name)
    if request.max_running is not None:
        await link.call("limit_group", group=plan.name, max_running=request.max_running)
    await _take_code(link, [plan.shared], plan.request, plan.example)
    for part in parts(plan.jobs):
        answer = await link.call("submit", **part_of(plan, part, request.rerun))
        queued.took(answer, plan.name)
    return queued


def _command(job: dict[str, Any]) -> str:
    shell: str | None = job.get("shell")
    return shell if shell is not None else shlex.join(job["argv"])


def decoded(body: bytes, kind: type[Any]) -> Any:
    """A body as what it should be; refused in one line if it is something else."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"the body can't be understood: {error}", "see /api/openapi.json"
        ) from None
