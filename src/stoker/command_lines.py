"""How parts of Stoker start each other's processes, which they do not import.

Each is said once, for the part that starts and for the one that is started:

- `api.launch` starts the keeper (executors), and that starts the daemon.
- `daemon.page` starts the page (web).
- `daemon.notices` starts the sender of messages (notify).
- `daemon.readings` starts the reader of metrics.
- `daemon.searches` starts a searcher for each search.
- `stoker doctor --report` (cli) starts a reader of GPUs' drivers (inventory).
- The live view (top) starts `stoker edit` (cli).
- The library queues calls; the daemon knows them by their words, and starts warm servers for them.

What a worker runs (library/worker.py, calling.py, warm_server.py) loads nothing of Stoker, and so
says these words once more; tests/contract/test_command_lines.py runs both sides against each other.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

KEEPER, DAEMON, PAGE = "stoker.executors.keeper", "stoker.daemon.main", "stoker.web.main"
STARTS_NOTHING = "starts-nothing"  # a daemon that only looks after jobs that run already
SENDER = "stoker.notify.main"
READER = "stoker.metrics.reader"
SEARCHER = "stoker.search.main"
DRIVER_REPORT = "stoker.inventory.report"
# What has this in its environment is the sender, a hook, the reader of metrics or a searcher: no
# job, but it may outlive its daemon.
SENDER_MARKER = "STOKER_SENDER"
WORKER = "/stoker/library/worker.py"
WARM = "--warm="
COLD = "cold"  # the file beside calls that says why they are not warm: modules, tab, reason
_MOST_CHARS_SHOWN = 200  # of its arguments
WARM_PROTOCOL = "1"  # the other end may be of another version


def _python(module: str) -> list[str]:
    # -P: a file of the user's in this directory must not stand in for a module of ours.
    return [sys.executable, "-P", "-m", module]


def keeper(attempts: str, ledgers: str, report: int, *, starts_nothing: bool = False) -> list[str]:
    """A keeper of these directories, whose daemon says on `report` that it is ready."""
    daemon = [*_python(DAEMON), str(report), *([STARTS_NOTHING] if starts_nothing else [])]
    return [*_python(KEEPER), attempts, ledgers, *daemon]


def page(report: int, life: int, settings: str, last_port: int | None, *, again: bool) -> list[str]:
    """A page that says on `report` where it is, and ends when `life` does."""
    words = [str(report), str(life), settings, str(last_port or "")]
    return [*_python(PAGE), *words, *(["again"] if again else [])]


def sender(directory: str) -> list[str]:
    """A sender of the batch on its stdin, which has its journal in that directory."""
    return [*_python(SENDER), directory]


def reader(home: str) -> list[str]:
    """A reader of metrics, whose stdin is a socket to the daemon."""
    return [*_python(READER), home]


def searcher(home: str, name: str) -> list[str]:
    """What chooses the points of a search, and ends when its stdin does."""
    return [*_python(SEARCHER), home, name]


def edit(job_ids: Iterable[int]) -> list[str]:
    """`stoker edit`, which opens the user's editor."""
    return [*_python("stoker"), "edit", *(str(job_id) for job_id in job_ids)]


def driver_report(patience_s: float) -> list[str]:
    """What asks the drivers of GPUs what Stoker asks them, and prints how they answered by then."""
    return [*_python(DRIVER_REPORT), str(patience_s)]


def call(worker: str, file: str, full_name: str, warm: str | None) -> list[str]:
    """A call in a file; `warm` names the modules that a warm server would have loaded for it."""
    words = [sys.executable, worker, "--call", file, full_name]
    return words if warm is None else [*words, f"{WARM}{warm}"]


def call_of(words: Sequence[str]) -> tuple[str, str, str, str | None] | None:
    """Python, worker, file and `warm` of a call; None for any other command."""
    match words:
        case [python, worker, "--call", file, *more] if worker.endswith(WORKER):
            is_warm = bool(more) and more[-1].startswith(WARM)
            return python, worker, file, more[-1].removeprefix(WARM) if is_warm else None
    return None


def shown_call(words: Sequence[str], params: Mapping[str, object] | None) -> str | None:
    """A call as its user would write it, with its parameters; None for any other command."""
    if call_of(words) is None or len(words) < 5 or words[4].startswith(WARM):
        return None
    full_name = words[4].rpartition(":")[2].removeprefix("__main__.")
    told = ", ".join(f"{name}={value}" for name, value in (params or {}).items())
    if len(told) > _MOST_CHARS_SHOWN:
        told = told[: _MOST_CHARS_SHOWN - 1] + "…"
    return f"{full_name}({told})"


def warm_server(python: str, worker: str, modules: str, idle_s: float) -> list[str]:
    """A process that has loaded these modules, and ends when it was idle for so long."""
    return [python, worker, "--warm-server", WARM_PROTOCOL, modules, str(idle_s)]
