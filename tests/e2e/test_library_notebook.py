"""The library in a real Jupyter kernel: cells, an interrupted cell, a restarted kernel."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from library_home import fifo, tell
from stoker_home import StokerHome
from waiting import PATIENCE_S


@dataclass
class Shown:
    """What stands under a cell once it has run."""

    printed: str = ""
    value: str = ""
    error: str = ""  # its kind
    traceback: str = ""


@dataclass
class Notebook:
    """A kernel, and cells that are given to it one after the other."""

    manager: KernelManager
    client: BlockingKernelClient
    home: StokerHome
    shown: Shown = field(default_factory=Shown)

    def run(self, cell: str) -> Shown:
        """What a cell shows in the end; it is interrupted where it prints "waits"."""
        self.shown, interrupted = Shown(), False
        asked = self.client.execute(cell)
        while True:
            message = self.client.get_iopub_msg(timeout=PATIENCE_S)
            if message["parent_header"].get("msg_id") != asked:
                continue
            self._take(message)
            if message["content"].get("execution_state") == "idle":
                return self.shown
            if "waits" in self.shown.printed and not interrupted:
                interrupted = True
                self.manager.interrupt_kernel()

    def _take(self, message: dict[str, Any]) -> None:
        content = message["content"]
        match message["msg_type"]:
            case "stream":
                self.shown.printed += content["text"]
            case "execute_result":
                self.shown.value = content["data"]["text/plain"]
            case "error":
                self.shown.error = content["ename"]
                lines = "\n".join(content["traceback"])
                self.shown.traceback = re.sub(r"\x1b\[[0-9;]*m", "", lines)


@pytest.fixture
def notebook(stoker: StokerHome) -> Iterator[Notebook]:
    # A socket's path is short, and no two kernels are given the same port.
    with tempfile.TemporaryDirectory(prefix="kernel-") as directory:
        manager = KernelManager(
            transport="ipc", ip=f"{directory}/k", connection_file=f"{directory}/connection.json"
        )
        manager.start_kernel(env=stoker.env, cwd=str(stoker.work))
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=PATIENCE_S)
            yield Notebook(manager, client, stoker)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


UNTIL_TOLD = """
def until_told(path):
    with open(path) as pipe:
        pipe.read()
    return "told"
"""


def test_the_cells_of_a_notebook_run_calls_as_jobs(notebook: Notebook) -> None:
    run = notebook.run
    assert run("import asyncio, os, stoker\nSCALE = 3").error == ""
    run("def f(x):\n    return g(x) * SCALE")
    run("def g(x):\n    return x + 1")
    assert run("future = stoker.submit(f, 1)\nfuture.result()").value == "6"
    run("def g(x):\n    return x + 2")
    assert run("stoker.submit(f, 1).result()").value == "9", "cells may be changed and run again"
    run("class Net:\n    def __init__(self, x):\n        self.x = x")
    assert run("net = stoker.submit(Net, 5).result()\nisinstance(net, Net), net.x").value == (
        "(True, 5)"
    )
    assert run("await asyncio.wrap_future(stoker.submit(g, 1))").value == "3"
    many = "with stoker.Executor() as executor:\n    print(list(executor.map(g, range(3))))"
    assert run(many).printed == "[2, 3, 4]\n"
    assert run("stoker.submit(print, 'in the job').result()").printed == ""
    failed = run("def broken():\n    raise ValueError('no data')\nstoker.submit(broken).result()")
    assert failed.error == "ValueError" and "in broken" in failed.traceback


def test_cells_are_interrupted_and_the_kernel_is_restarted_while_jobs_run(
    notebook: Notebook,
) -> None:
    stoker, run, go = notebook.home, notebook.run, fifo(notebook.home.work)
    daemon = stoker.daemon_pid()
    run("import stoker" + UNTIL_TOLD)
    call = f"until_told, {go!r}"
    shown = run(f"future = stoker.submit({call})\nprint('waits')\nfuture.result()")
    assert shown.error == "KeyboardInterrupt"
    assert run("future.done()").value == "False", "it was the waiting that was interrupted"
    block = f"executor.submit({call})\n    print('waits')"
    assert run(f"with stoker.Executor() as executor:\n    {block}").error == "KeyboardInterrupt"
    states = {job["id"]: job["state"] for job in stoker.jobs().values()}
    job_id = int(run("future.job_id").value)
    assert states.pop(job_id) in ("waiting", "running")
    assert list(states.values()) == ["cancelled"], "a block that is left takes its calls along"

    stoker.until_pid(job_id)
    notebook.manager.restart_kernel(now=False)
    notebook.client.wait_for_ready(timeout=PATIENCE_S)
    assert run("stoker").error == "NameError", "the kernel is a new one"
    assert stoker.daemon_pid() == daemon
    assert stoker.job(job_id)["state"] == "running"
    tell(go)
    assert stoker.until_final(job_id)[0]["state"] == "succeeded"
    show = f"import stoker\nwith stoker.Client() as client:\n    [job] = client.show({job_id})"
    assert run(f"{show}\njob['state']").value == "'succeeded'"
    assert run("stoker.submit(lambda: 7).result()").value == "7"
