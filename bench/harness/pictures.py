"""Which pictures are made of which results."""

from __future__ import annotations

from pathlib import Path

from harness.measures import Measure, Report
from harness.svg import Bar, bars, lines


def pictures(report: Report) -> dict[str, str]:
    """The pictures of a row, by the names of their files."""
    match report.row:
        case "dispatch":
            some = _of_size(report, "2,000") or report.measures
            shown = [_bar(one) for one in some if "over the best" not in one.name]
            goal = next((one.must.limit for one in some if one.must is not None), None)
            title = "Dispatch of 2,000 no-op jobs: wall time over a C loop of posix_spawn"
            return {"dispatch.svg": bars(title, "x", shown, goal)}
        case "feed":
            some = [one for one in report.measures if one.unit == "jobs/s"]
            some = [one for one in some if "10,000" in one.name] or some
            title = "A file of 10,000 commands: lines a second (more is better)"
            return {"feed.svg": bars(title, "", [_bar(one) for one in some])}
        case "bulk":
            goal = next((one.must.limit for one in report.measures if one.must), None)
            shown = [_bar(one, ours=True) for one in report.measures]
            title = "100,000 jobs queued by one call, durable: jobs a second (more is better)"
            return {"bulk.svg": bars(title, "", shown, goal)}
        case "gap":
            title = "From the exit of a job to the next start on its GPU"
            return {"gap.svg": lines(title, "milliseconds", "% of the gaps", report.curves)}
        case "growth":
            rate = {"Stoker": report.curves["starts a second"]}
            turn = {"Stoker": report.curves["p99 of a turn, ms"]}
            return {
                "growth.svg": lines("Starts a second", "waiting jobs", "jobs/s", rate),
                "turns.svg": lines("p99 of a turn", "waiting jobs", "ms", turn),
            }
        case "packing":
            each = {name: curve for name, curve in report.curves.items() if name.startswith("GPU ")}
            ways = {name: curve for name, curve in report.curves.items() if name not in each}
            axes = ("seconds of the trainings", "GiB in use")
            title = "Memory in use of four GPUs of 24 GiB, together"
            each_title = "Memory in use of each GPU, while Stoker learns as it goes"
            return {
                "packing.svg": lines(title, *axes, ways, log_x=False),
                "packing-gpus.svg": lines(each_title, *axes, each, log_x=False),
            }
    return {}


def draw(report: Report, directory: Path) -> list[Path]:
    """Write the pictures of a row."""
    written = []
    for name, text in pictures(report).items():
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / name
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


def _of_size(report: Report, size: str) -> list[Measure]:
    return [one for one in report.measures if one.name.endswith(f", {size}")]


def _bar(one: Measure, *, ours: bool = False) -> Bar:
    name = one.name.partition(",")[0]
    mine = ours or name in ("Stoker", "stoker feed", "drop-in")
    return Bar(name, one.value, one.least, one.most, mine)
