"""A daemon is killed in the moment in which it tells a copy: the call is made once, or not at all.

The server, its copies and the keeper are real; of the daemon there is only its executor.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.test_keeper import Kept
from stoker.core.model import Exit
from stoker.executors.attempt_dir import read_exit
from stoker.executors.ledger import read_ledger
from stoker.library.calling import Call
from stoker.library.calls import Calls
from stoker.library.channel import worker_words
from stoker.library.pickling import pickled_call
from stoker_home import lines_of

DAEMON = """
import select
from stoker.core.commands import Start
from stoker.core.model import Launch
from stoker.executors import warm_servers
from stoker.executors.adoption import Past
from stoker.executors.warm_servers import IdleCopy
from stoker.executors.local import LocalExecutor
from stoker.executors.mps import MpsServers
from stoker.executors.mps_clients import MpsClients
past = Past(root / "attempts", root / "ledgers")
mps = MpsClients(MpsServers(root / "mps", "an-instance"))
executor = LocalExecutor(root / "attempts", past, ledger, "an-instance", None, mps)
launch = Launch(argv=tuple({words!r}), cwd=str(root), env=dict(os.environ))
first = Launch(argv=tuple({first!r}), cwd=str(root), env=launch.env)
executor.carry_out([Start(1, 1, (), 0)], lambda _: first, 0)
[server] = executor._warm_servers._warm_servers
while len(server.copies) < warm_servers._IDLE_COPIES:
    select.select([server.control], [], [])
    server.hear()
become = IdleCopy.become
def dying(copy, *order):
    {before}
    become(copy, *order)
    die()
IdleCopy.become = dying
executor.carry_out([Start(2, 1, (), 0)], lambda _: launch, 0)
"""
# The copy hears nothing until the daemon is dead, and reaped by its keeper.
STOPS = (
    "os.system(f'P={copy.process.pid}; kill -STOP $P;"
    " (while [ -e /proc/{os.getpid()} ]; do sleep 0.01; done; kill -CONT $P) &')"
)


def daemon(tmp_path: Path, calls: Calls, before: str) -> Kept:
    """One that dies while it starts job 2, which leaves a line and exits with 9."""
    text = f"import os; open({str(tmp_path / 'made')!r}, 'a').write('once\\n'); os._exit(9)"
    file = calls.write(pickled_call(Call(exec, (text,), {}), exec))
    idle = calls.write(pickled_call(Call(abs, (1,), {}), abs))
    words, first = worker_words(file, "call", ""), worker_words(idle, "call", "")
    return Kept(tmp_path, DAEMON.format(words=words, first=first, before=before))


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(str(tmp_path / "calls"))


@pytest.mark.parametrize("late", [False, True])
def test_a_spare_that_was_told_makes_the_call_once_and_its_exit_is_known(
    tmp_path: Path, calls: Calls, late: bool
) -> None:
    kept = daemon(tmp_path, calls, STOPS if late else "pass")
    entries = kept.ledger()
    assert entries.intent is None and (2, 1) in entries.pids
    assert kept.exit(2) == Exit(code=9)
    kept.until_gone()
    assert lines_of(tmp_path / "made") == ["once"]


@pytest.mark.parametrize("late", [False, True])
def test_a_spare_that_was_not_told_leaves_no_trace_and_the_call_can_be_started(
    tmp_path: Path, calls: Calls, late: bool
) -> None:
    kept = daemon(tmp_path, calls, f"{STOPS if late else 'pass'}; die()")
    entries = kept.ledger()
    assert entries.intent is None and (2, 1) not in entries.pids
    kept.until_gone()
    [path] = (tmp_path / "ledgers").glob("*.ledger")
    assert " by " in path.read_text(), "it had been named"
    assert read_ledger(path).pids.keys() == {(1, 1)}
    assert not lines_of(tmp_path / "made")
    assert read_exit(str(tmp_path / "attempts" / "0000" / "2.1")) is None
