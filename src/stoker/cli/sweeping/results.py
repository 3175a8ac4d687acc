"""What came of sweeps: `stoker sweep show` and `stoker sweep ls`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from stoker.api.client import Client
from stoker.api.jsonline import dumps
from stoker.cli.jobtext import STATE_COLOURS, STATES, iso_times, now_ms
from stoker.cli.terminal import Cell, Column, out, say, table
from stoker.errors import NotFound, UsageError
from stoker.quantities import duration_text, local_moment_text, quoted
from stoker.sweep.identity import PREFIX

if TYPE_CHECKING:
    from stoker.cli.options import Args

Job = dict[str, Any]

# How many of the newest jobs are looked at for the newest sweep, further and further back.
_LOOKING_BACK = (100, 10_000, 1_000_000)


def show(args: Args) -> int:
    """Show one sweep."""
    if args["csv"] and args["json"]:
        raise UsageError("--csv and --json can't both be had", "choose one")
    with Client() as client:
        name = _named(client, args["id"])
        jobs = client.call("list", select={"group": name}, all=True)["jobs"]
    rows = latest_by_point(jobs)
    if not rows:
        raise NotFound(f"there is no sweep {quoted(name)}", "see `stoker sweep ls`")
    if args["json"]:
        out(dumps(_as_json(name, rows)) + "\n")
    elif args["csv"]:
        out(_as_csv(rows))
    else:
        out(_as_table(rows))
        say(_summary(rows))
    return 0


def _named(client: Client, word: str) -> str:
    """The name of the sweep that is meant by a name, by the id of one of its jobs, or by `last`."""
    if word == "last":
        for limit in _LOOKING_BACK:
            jobs = client.call("list", all=True, limit=limit)["jobs"]
            newest = next((job for job in reversed(jobs) if _is_point(job)), None)
            if newest is not None:
                return str(newest["group"])
            if len(jobs) < limit:
                break
        raise NotFound("there is no sweep yet", "`stoker sweep` queues one")
    if word.isascii() and word.isdigit():
        [job] = client.call("show", select={"ids": [word]})["jobs"]
        if not _is_point(job):
            raise NotFound(f"job {word} is not of a sweep", "see `stoker sweep ls`")
        return str(job["group"])
    return word


def _is_point(job: Job) -> bool:
    return bool(job["group"]) and (job["point"] or "").startswith(PREFIX)


def latest_by_point(jobs: Iterable[Job]) -> list[Job]:
    """The latest job of each point, in the order in which the points were first queued."""
    rows: dict[str, Job] = {}
    for job in sorted(jobs, key=lambda job: int(job["id"])):
        if _is_point(job):
            rows[job["point"]] = job
    return list(rows.values())


def varied(rows: Sequence[Job]) -> list[str]:
    """The parameters that differ between points; all of them if there is but one point."""
    values: dict[str, set[str]] = {}
    for row in rows:
        for name, value in row["params"].items():
            values.setdefault(name, set()).add(json.dumps(value, sort_keys=True))
    if len(rows) == 1:
        return list(values)
    everywhere = {name: all(name in row["params"] for row in rows) for name in values}
    return [name for name, seen in values.items() if len(seen) > 1 or not everywhere[name]]


def run_time_ms(job: Job, now: int) -> int | None:
    """How long a point's job has run, or ran."""
    started: int | None = job["started_at_ms"]
    ended: int | None = job["ended_at_ms"]
    if started is None:
        return None
    return max(0, (now if ended is None else ended) - started)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# ---------------------------------------------------------------------- one sweep


def _as_table(rows: Sequence[Job]) -> str:
    names = varied(rows)
    columns = [Column("ID", right=True), Column("STATE")]
    columns += [Column(name, least=6) for name in names]
    columns += [Column("TIME", right=True), Column("GPUS", least=4), Column("EXIT", right=True)]
    now = now_ms()
    cells = []
    for job in rows:
        ran = run_time_ms(job, now)
        cells.append(
            [
                Cell(str(job["id"])),
                Cell(job["state"], STATE_COLOURS.get(job["state"], "")),
                *(Cell(_text(job["params"][n]) if n in job["params"] else "") for n in names),
                Cell("" if ran is None else duration_text(ran)),
                Cell(",".join(job["gpus"])),
                Cell(_exit(job)),
            ]
        )
    return table(columns, cells)


def _exit(job: Job) -> str:
    if job["signal"]:
        return f"signal {job['signal']}"
    return "" if job["exit_code"] is None else str(job["exit_code"])


def _counts(rows: Iterable[Job]) -> dict[str, int]:
    found = dict.fromkeys(STATES, 0)
    for row in rows:
        found[row["state"]] += 1
    return {state: count for state, count in found.items() if count}


def _summary(rows: Sequence[Job]) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in _counts(rows).items())
    return f"{len(rows)} point{'' if len(rows) == 1 else 's'}: {counts}"


def _as_csv(rows: Sequence[Job]) -> str:
    import csv
    import io

    names = varied(rows)
    own = ("id", "state", "run_time_s", "gpus", "exit_code", "signal")
    titles = [f"param_{name}" if name in own else name for name in names]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*own[:2], *titles, *own[2:]])
    now = now_ms()
    for job in rows:
        ran = run_time_ms(job, now)
        params = job["params"]
        writer.writerow(
            [
                job["id"],
                job["state"],
                *(_text(params[name]) if name in params else "" for name in names),
                "" if ran is None else f"{ran / 1000:.3f}",
                ",".join(job["gpus"]),
                "" if job["exit_code"] is None else job["exit_code"],
                job["signal"] or "",
            ]
        )
    return text.getvalue()


def _as_json(name: str, rows: Sequence[Job]) -> dict[str, Any]:
    now = now_ms()
    points = []
    for job in rows:
        ran = run_time_ms(job, now)
        kept = ("id", "state", "params", "gpus", "exit_code", "signal", "reason", "command",
                "attempt", "submitted_at_ms", "started_at_ms", "ended_at_ms", "log")  # fmt: skip
        point = iso_times({key: job[key] for key in kept})
        points.append(point | {"run_time_s": None if ran is None else ran / 1000})
    return {
        "schema": 1,
        "sweep": name,
        "counts": _counts(rows),
        "varied": varied(rows),
        "points": points,
    }


# ---------------------------------------------------------------------- all sweeps


def ls(args: Args) -> int:
    """List all sweeps."""
    with Client() as client:
        jobs = client.call("list", all=True)["jobs"]
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        if _is_point(job):
            groups.setdefault(job["group"], []).append(job)
    sweeps = {name: latest_by_point(members) for name, members in groups.items()}
    in_order = sorted(sweeps.items(), key=lambda item: int(item[1][-1]["id"]))
    if args["json"]:
        listed = [
            {"sweep": name, "points": len(rows), "counts": _counts(rows), "varied": varied(rows)}
            for name, rows in in_order
        ]
        out(dumps({"schema": 1, "sweeps": listed}) + "\n")
    elif not in_order:
        say("no sweeps")
    else:
        out(_sweeps_table(in_order))
    return 0


def _sweeps_table(sweeps: Sequence[tuple[str, list[Job]]]) -> str:
    columns = (
        Column("SWEEP", least=8),
        Column("POINTS", right=True),
        Column("STATES", least=16),
        Column("PARAMETERS", least=10),
        Column("QUEUED"),
    )
    now = now_ms()
    cells = []
    for name, rows in sweeps:
        states = ", ".join(f"{count} {state}" for state, count in _counts(rows).items())
        cells.append(
            (
                Cell(name, "bold"),
                Cell(str(len(rows))),
                Cell(states, "red" if "failed" in states or "lost" in states else ""),
                Cell(", ".join(varied(rows))),
                Cell(local_moment_text(rows[-1]["submitted_at_ms"], now)),
            )
        )
    return table(columns, cells)
