"""What Stoker and Slurm say at the moment at which a test has failed."""

from __future__ import annotations

import json
from pathlib import Path

from slurm.cluster import Cluster
from stoker_home import FINAL, StokerHome

_TAIL_LINES = 150
_COMMANDS = (
    ("squeue", "-r", "--states=all"),
    ("scontrol", "show", "job", "-o"),
    ("sinfo", "-N", "-l"),
    ("sinfo", "-R"),
)


def findings(there: StokerHome | None, cluster: Cluster) -> str:
    """The jobs that have not ended, with their files, and all that Slurm has to say."""
    parts = [] if there is None else _of_stoker(there)
    parts += [_titled(" ".join(words), _output(cluster, words)) for words in _COMMANDS]
    parts += [
        _titled(path.name, _tail(path)) for path in sorted((cluster.base / "log").glob("*.log"))
    ]
    return "\n".join(parts)


def _of_stoker(there: StokerHome) -> list[str]:
    parts = []
    try:
        for job_id, job in there.jobs().items():
            if job["state"] not in FINAL:
                parts.append(_titled(f"job {job_id}: {job['state']}", _story_of(there, job_id)))
    except Exception as error:  # The daemon may be what has failed.
        parts.append(_titled("jobs", repr(error)))
    parts.append(_titled("the daemon's log", "\n".join(there.log_text().splitlines()[-100:])))
    return parts


def _story_of(there: StokerHome, job_id: int) -> str:
    """Its attempts, with name, time and first words of whatever they have put down."""
    job = there.job(job_id)
    lines = [str(job["reason"]), *map(json.dumps, job["attempts"])]
    for path in sorted((Path(there.home.root) / "attempts").glob(f"*/{job_id}.*/*")):
        if path.name != "order":
            said = path.read_bytes()[:200].decode(errors="replace").strip()
            lines.append(f"{path.parent.name}/{path.name} {path.stat().st_mtime:.3f} {said!r}")
    return "\n".join(lines)


def _output(cluster: Cluster, words: tuple[str, ...]) -> str:
    try:
        return cluster.command(*words, check=False)
    except Exception as error:  # It may hang, and that is worth knowing too.
        return repr(error)


def _tail(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-_TAIL_LINES:])


def _titled(title: str, text: str) -> str:
    return f"--- {title}\n{text.rstrip()}"
