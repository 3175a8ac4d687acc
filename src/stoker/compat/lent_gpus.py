"""GPUs that a command names: those that can't be are refused, and new ones last as long as it does.

Where no driver shows GPUs and none was declared, a command may name any. It names its GPUs each
time, and must not leave a mistyped one behind for all that comes later.
"""

from __future__ import annotations

import os

from stoker.api.client import Client
from stoker.errors import StokerError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class Lent:
    """The GPUs of one command, from before its first job until after its last."""

    def __init__(self, client: Client, named: Iterable[str]) -> None:
        """Refuse GPUs that there are not, as a job that names them would be refused."""
        self._home = client.home
        gpus = client.call("gpus")["gpus"]
        known = {name for gpu in gpus for name in (gpu["id"], gpu["uuid"]) if name}
        passing = {gpu["id"] for gpu in gpus if not gpu["declared"] and not gpu["uuid"]}
        new = [name for name in dict.fromkeys(named) if name not in known]
        if new and passing != {gpu["id"] for gpu in gpus}:
            there = ", ".join(gpu["id"] for gpu in gpus)
            has_driver = any(gpu["uuid"] for gpu in gpus)
            more = "" if has_driver else f"; `stoker gpus add {','.join(new)}` declares more"
            raise UsageError(f"there is no GPU {', '.join(new)}", f"there are {there}{more}")
        # Another command may have named some of them first, and end first.
        self._lent = [name for name in dict.fromkeys(named) if name in passing or name in new]
        if self._lent:
            try:
                # Should this process be killed, or leave jobs behind, the daemon sees that.
                client.call("gpu_lend", gpus=self._lent, pid=os.getpid())
            except StokerError:
                pass  # An older daemon; or one that can't see this process.

    def give_back(self) -> None:
        """Let those go that were not known before, unless another job or command needs them."""
        if not self._lent:
            return
        try:
            with Client(self._home, autostart=False) as client:
                client.call("gpu_lend", gpus=self._lent, pid=os.getpid(), over=True)
        except StokerError:
            pass  # Without a daemon nothing can be told; the next one sees that this has ended.
