"""`stoker disk`: what takes how much room."""

from __future__ import annotations

from stoker.api.client import Client
from stoker.cli.options import JSON, Args, Json, Verb, print_json
from stoker.text.terminal import Column, out, table

_MOST_ROWS = 20


def disk(args: Args) -> None:
    """Show what takes room, the largest first."""
    with Client() as client:
        answer = client.call("disk")
    if args["json"]:
        print_json({key: value for key, value in answer.items() if key != "ok"})
        return
    size = Column("SIZE", lambda row: size_text(row["bytes"]), right=True)
    shown = [table((Column("PART", "part", "bold"), size, _count("FILES", "files")),
                   answer["parts"])]  # fmt: skip
    logs = answer["logs"][:_MOST_ROWS]
    if logs:
        group = Column("GROUP", lambda row: row["group"] or "-", least=12)
        of_logs = (Column("LOGS OF", "state"), group, size, _count("JOBS", "jobs"))
        shown.append(table(of_logs, logs))
        shown.append(table((Column("LARGEST LOGS", lambda row: f"job {row['id']}"), size),
                           answer["largest"]))  # fmt: skip
    out("\n".join(shown) + "\n" + "".join(map(_room, answer["disks"])))


def _count(title: str, key: str) -> Column:
    return Column(title, lambda row: str(row[key]), right=True)


def _room(disk: Json) -> str:
    free, total = size_text(disk["free_bytes"]), size_text(disk["total_bytes"])
    low = disk.get("low")
    words = f"; below the setting disk-{low}" if low else ""
    return f"{free} of {total} free on the disk of {disk['path']}{words}\n"


def size_text(count: int) -> str:
    """Bytes for people: "512 KiB", "23.5 GiB"."""
    value, unit = count / 1024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "KiB" else f"{value:.1f} {unit}"


VERB = Verb(
    "disk",
    "what takes how much of the disk: database, logs, calls",
    run=disk,
    options=(JSON,),
    examples=(
        ("stoker disk", "the parts, logs by state and group, and the largest logs"),
        ("stoker rm --older 30d --state succeeded", "delete old jobs and their logs"),
    ),
    notes=(
        "Parts that are directories have their names: frozen is the code of jobs with --freeze, "
        "calls are those of the library, ledgers say which processes jobs are. The reserve is "
        "room that Stoker gives back to its database on a full disk. `other files` are small ones "
        "of its own: locks, the socket, the version, tokens of the page.",
        "The settings keep-jobs, keep-logs and keep-results delete what is old by themselves.",
    ),
)
