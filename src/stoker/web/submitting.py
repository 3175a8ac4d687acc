"""Jobs and sweeps from the page: whose they are, where they run, and what they inherit."""

from __future__ import annotations

import os
import pwd
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

import stoker
from stoker.api.messages import JobRequest
from stoker.errors import UsageError
from stoker.quantities import MAX_LABEL_CHARS, label, quoted
from stoker.sweep import identity, notation
from stoker.sweep.points import Choosing, Space, chosen
from stoker.sweep.queued import Queued
from stoker.sweep.template import Template, Text
from stoker.sweep.values import Point
from stoker.web.bodies import SubmitOrder, SweepOrder
from stoker.web.link import Link

_IN_A_MESSAGE = 5_000
PREVIEWED = 50
# A command of such letters means the same to a shell and without one; {name} is a place.
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./{} -]*\Z")


def user_name() -> str:
    """Who submits: the page belongs to one user."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def home_directory() -> str:
    """Where a job runs for which no directory was named."""
    home = os.path.expanduser("~")
    return home if os.path.isdir(home) else "/"


def environment() -> dict[str, str]:
    """What a job from the page inherits: the environment in which the daemon was started."""
    found = {}
    for name, value in os.environ.items():
        try:
            (name + value).encode()
        except UnicodeEncodeError:
            continue
        found[name] = value
    # The daemon was told where its own code is; that is no concern of a job's.
    own = os.path.dirname(os.path.dirname(os.path.abspath(stoker.__file__)))
    path = [part for part in found.pop("PYTHONPATH", "").split(":") if part and part != own]
    if path:
        found["PYTHONPATH"] = ":".join(path)
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    return found


async def submit(link: Link, order: SubmitOrder) -> list[int]:
    """Queue jobs, all or none."""
    cwd = _directory(order.cwd)
    jobs = [_settled(job, cwd) for job in order.jobs]
    request: dict[str, Any] = {"jobs": jobs, "cwd": cwd, "user": user_name()}
    if order.environment_of is not None:
        request |= {"env": {}, "env_of": order.environment_of}
    else:
        request["env"] = environment()
    token = order.token or os.urandom(16).hex()
    ids: list[int] = (await link.call("submit", **request, token=token))["ids"]
    return ids


def _settled(job: JobRequest, cwd: str) -> dict[str, Any]:
    """The job as the daemon takes it: paths are absolute, and defaults are left out."""
    fields: dict[str, Any] = {
        name: getattr(job, name)
        for name, default in zip(
            JobRequest.__struct_fields__, JobRequest.__struct_defaults__, strict=True
        )
        if getattr(job, name) != _plain_default(default)
    }
    if "cwd" in fields:
        fields["cwd"] = cwd = _directory(fields["cwd"])
    for name in ("out", "err"):
        if name in fields:
            fields[name] = os.path.normpath(os.path.join(cwd, fields[name]))
    return fields


def _plain_default(default: object) -> object:
    factory = getattr(default, "factory", None)
    return factory() if factory is not None else default


def _directory(given: str | None) -> str:
    if given is None or not given.strip():
        return home_directory()
    path = os.path.expanduser(given.strip())
    if "\0" in path or not os.path.isabs(path):
        raise UsageError(f"{quoted(given)} is not a whole path", "begin it with / or ~")
    return os.path.normpath(path)


# ---------------------------------------------------------------------- sweeps


@dataclass(frozen=True, slots=True)
class Planned:
    """A sweep, ready to be queued: the job of each point."""

    name: str
    cwd: str
    jobs: list[dict[str, Any]]
    varied: list[str]

    def preview(self) -> dict[str, Any]:
        """What the page shows before it is queued."""
        shown = [
            {"params": job["params"], "command": _command(job)} for job in self.jobs[:PREVIEWED]
        ]
        return {
            "sweep": self.name,
            "count": len(self.jobs),
            "varied": self.varied,
            "points": shown,
        }


def planned(order: SweepOrder) -> Planned:
    """The points of a sweep; refused in one line if any of it is not good."""
    space = Space(tuple(notation.parsed(word) for word in order.space if word.strip()))
    if not space.names:
        raise UsageError("no parameter was given", "write e.g. lr=0.1,0.01")
    cwd = _directory(order.cwd)
    words = shlex.split(order.command) if _PLAIN.match(order.command) else [order.command]
    if not words or not words[0].strip():
        raise UsageError("no command was given", "e.g. python train.py --lr {lr}")
    template = Template(words, space.names, order.style)
    name = label(order.name) if order.name else None
    if name is not None and (name.isdigit() or name == "last"):
        raise UsageError(f"{quoted(name)} would be taken for a job's id", "use letters too")
    name = name or identity.sweep_name(template.key, cwd, space.names)
    choosing = Choosing(order.samples, None, order.shuffle, order.seed, order.where)
    points = chosen(space, choosing)
    varied = list(space.varied or space.names)
    base = _settled(order.job, cwd) if order.job is not None else {}
    for key in ("argv", "shell", "name", "group", "params", "point"):
        if key in base:
            raise UsageError(f"a sweep has no single {key}", f"leave out job.{key}")
    files = {key: Text(base.pop(key), space.names) for key in ("out", "err") if key in base}
    for key, text in files.items():
        if text.is_fixed and len(points) > 1:
            raise UsageError(
                f"all {len(points)} points would write to one file",
                f"put a parameter or {{point}} in {key}, e.g. run-{{point}}.txt",
            )
    base["group"] = name
    name_of = identity.namer(template.key, cwd)
    jobs = []
    for point in points:
        point_name = name_of(point)
        short = identity.short(point_name)
        job = base | template.filled(point, short)
        job |= {key: text.filled(point, short) for key, text in files.items()}
        job["name"] = _job_name(point, varied)
        job["params"] = {parameter: value.data for parameter, value in point.items()}
        job["point"] = point_name
        jobs.append(job)
    return Planned(name, cwd, jobs, varied)


async def queue_sweep(link: Link, order: SweepOrder, plan: Planned) -> Queued:
    """Queue the points that have not been run, or have failed."""
    queued = Queued()
    if order.max_running is not None:
        await link.call("limit_group", group=plan.name, max_running=order.max_running)
    request = {"cwd": plan.cwd, "env": environment(), "user": user_name()}
    request["rerun"] = order.rerun or "missing"
    for part in _parts(plan.jobs):
        token = os.urandom(16).hex()
        queued.took(await link.call("submit", **request, jobs=part, token=token))
    return queued


def _parts(items: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(items), _IN_A_MESSAGE):
        yield items[start : start + _IN_A_MESSAGE]


def _job_name(point: Point, varied: list[str]) -> str:
    text = ",".join(f"{name}={point[name].text}" for name in varied)
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= MAX_LABEL_CHARS else text[: MAX_LABEL_CHARS - 1] + "…"


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
