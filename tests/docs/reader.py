"""Somebody who reads a page and types what it says: one shell, in a home and directory of its own.

Law: whatever the page starts is gone when `leave` returns.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

from docs.pages import ROOT, Command
from stoker_home import processes_with
from waiting import eventually

PATIENCE_S = 90
ENDLESS_S = 4  # how long a command that never ends is let run, to see that it does

# Commands come from one descriptor, and exit codes go to another; neither is left to the commands.
_SHELL = """
set -o pipefail
ip link set lo up 2> /dev/null
while IFS= read -r -d '' -u {orders} command; do
    eval "$command" {orders}<&- {answers}>&- < /dev/null
    printf '%d\\0' "$?" >&{answers}
done
"""


@cache
def network_of_its_own() -> tuple[str, ...]:
    """What runs a program where nobody else has port 4004; nothing if that can't be had here."""
    for words in (("unshare", "--net"), ("unshare", "--net", "--map-root-user")):
        if not subprocess.run(
            [*words, "ip", "link", "set", "lo", "up"], capture_output=True
        ).returncode:
            return words
    return ()


class Reader:
    """A shell for the commands of one page."""

    def __init__(
        self,
        home: Path,
        files: dict[str, str],
        *,
        clone: bool,
        login_node: dict[str, str],
        bin: Path | None = None,
    ) -> None:
        """`bin`: the programs of an environment into which Stoker was installed, too."""
        self.home = home
        self.work = home / "work"
        self.work.mkdir()
        if clone:
            self._clone()
        for name, text in files.items():
            self.write(name, text)
        self._out = (home / ".output").open("w+b")
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        # The cluster is reached by the network of this machine, and has no use for port 4004.
        network = () if login_node else network_of_its_own()
        programs = self._programs()
        env = {
            "HOME": str(home),
            "USER": "ada",
            "LANG": "C.UTF-8",
            "SHELL": "/bin/bash",
            "EDITOR": "true",  # It is opened, and changes nothing.
            "PYTHONDONTWRITEBYTECODE": "1",
            "MAKEFLAGS": "-n",  # The targets are there; what they do is tested elsewhere.
            "PYTEST_ADDOPTS": "--collect-only -q -p no:cacheprovider",  # The same for tests.
            "PATH": os.environ["PATH"],
            **login_node,
        }
        env["PATH"] = f"{programs}:{sys.prefix}/bin:{env['PATH']}"
        if bin is not None:
            env |= {"PATH": f"{bin}:{env['PATH']}", "PYTHONPATH": str(ROOT / "src")}
        script = _SHELL.format(orders=orders, answers=answers)
        self._shell = subprocess.Popen(
            [*network, "bash", "--norc", "--noprofile", "-c", script],
            env=env, cwd=self.work, pass_fds=(orders, answers),
            stdin=subprocess.DEVNULL, stdout=self._out, stderr=self._out,
            start_new_session=True,
        )  # fmt: skip
        os.close(orders)
        os.close(answers)

    def _clone(self) -> None:
        """Make the directory look like a clone of ours that was set up."""
        for path in ROOT.iterdir():
            if not path.name.startswith(".venv"):
                (self.work / path.name).symlink_to(path)
        (self.work / ".venv").symlink_to(sys.prefix)

    def _programs(self) -> Path:
        """A directory with stand-ins for programs that reach other machines, or this one's init."""
        folder = self.home / ".programs"
        folder.mkdir()
        for path in (Path(__file__).parent / "programs").iterdir():
            (folder / path.name).symlink_to(path)
        return folder

    def write(self, name: str, text: str) -> None:
        """Have a file."""
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run(self, text: str) -> tuple[int, str]:
        """Run a command; its exit code, and what it wrote."""
        begin = self._out.seek(0, os.SEEK_END)
        os.write(self._orders, text.encode() + b"\0")
        poll = select.poll()
        poll.register(self._answers, select.POLLIN)
        code = os.read(self._answers, 100) if poll.poll(PATIENCE_S * 1000) else b""
        self._out.seek(begin)
        output = self._out.read().decode(errors="replace")
        assert code, f"this did not end within {PATIENCE_S} s: {text}\n{output}"
        return int(code.strip(b"\0")), output

    def watch(self, command: Command, *, terminal: bool) -> tuple[int, str]:
        """Run a command that goes on until Ctrl-C, and see that it does."""
        words = f"bash -c {shlex.quote(command.text)}"
        if terminal:
            words = f"env TERM=xterm script -qec {shlex.quote(words)} /dev/null"
        return self.run(f"timeout -s INT -k 10 {ENDLESS_S} {words}")

    def leave(self) -> None:
        """End everything."""
        os.close(self._orders)
        os.close(self._answers)

        def all_gone() -> bool:
            mine = processes_with(f"HOME={self.home}".encode())
            for pid in mine:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self._shell.poll()
            return not mine

        eventually(all_gone, "no process of the page is left")
        self._shell.wait()
        self._out.close()
