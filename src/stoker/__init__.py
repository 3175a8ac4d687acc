"""Stoker keeps GPUs fed: it queues commands and runs each as soon as there is room for it.

Nothing is imported here: every fresh `stoker` process passes through this file. The names of the
Python library are looked up when they are first used.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.library.attaching import future as future
    from stoker.library.attaching import futures as futures
    from stoker.library.client import Client as Client
    from stoker.library.executor import Executor as Executor
    from stoker.library.executor import submit as submit
    from stoker.library.failures import JobFailed as JobFailed
    from stoker.library.futures import JobFuture as JobFuture
    from stoker.library.grids import grid as grid
    from stoker.library.reporting import report as report
    from stoker.library.run_grid import run_grid as run_grid
    from stoker.library.task import Task as Task

_HOMES = {
    "Client": "client",
    "Executor": "executor",
    "JobFailed": "failures",
    "JobFuture": "futures",
    "Task": "task",
    "future": "attaching",
    "futures": "attaching",
    "grid": "grids",
    "report": "reporting",
    "run_grid": "run_grid",
    "submit": "executor",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'stoker' has no attribute {name!r}")
    module = __import__(f"stoker.library.{home}", fromlist=[name])
    value: object = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
