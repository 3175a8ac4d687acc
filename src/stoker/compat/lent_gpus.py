"""GPUs that a command names: those that can't be are refused, and new ones last as long as it does.

Where no driver shows GPUs and none was declared, the GPUs that a job names declare themselves. A
command that names its GPUs each time must not leave a mistyped one behind for all that comes later.
"""

from __future__ import annotations

import os

from stoker.api.client import Client
from stoker.errors import StokerError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_ASKED_ABOUT = 5_000
_UNFINISHED = ("held", "waiting", "submitted", "running", "stopping")


class Lent:
    """The GPUs of one command, from before its first job until after its last."""

    def __init__(self, client: Client, named: Iterable[str]) -> None:
        """Refuse GPUs that there are not, as a job that names them would be refused."""
        self._home = client.home
        gpus = client.call("gpus")["gpus"]
        known = {name for gpu in gpus for name in (gpu["id"], gpu["uuid"]) if name}
        self._new = [name for name in dict.fromkeys(named) if name not in known]
        if self._new and any(gpu["declared"] or gpu["uuid"] for gpu in gpus):
            there = ", ".join(gpu["id"] for gpu in gpus)
            has_driver = any(gpu["uuid"] for gpu in gpus)
            more = "" if has_driver else "; `stoker gpus add` declares more"
            raise UsageError(f"there is no GPU {', '.join(self._new)}", f"there are {there}{more}")
        if self._new:
            try:
                # Should this process be killed, or leave jobs behind, the daemon gives them back.
                client.call("gpu_lend", gpus=self._new, pid=os.getpid())
            except StokerError:
                pass  # An older daemon; or one that can't see this process.

    def give_back(self) -> None:
        """Forget those that were not known before, unless another job names them by now."""
        if not self._new:
            return
        try:
            with Client(self._home, autostart=False) as client:
                unfinished = client.call(
                    "list", states=list(_UNFINISHED), limit=_MOST_ASKED_ABOUT + 1
                )["jobs"]
                if len(unfinished) > _MOST_ASKED_ABOUT:
                    return
                wanted = {gpu for job in unfinished for gpu in (*job["need"]["on"], *job["gpus"])}
                left = {gpu["id"] for gpu in client.call("gpus")["gpus"] if not gpu["declared"]}
                gone = [name for name in self._new if name in left and name not in wanted]
                if gone:
                    client.call("gpu_remove", gpus=gone)
        except StokerError:
            pass  # Without a daemon nothing can be told; they do no harm until then.
