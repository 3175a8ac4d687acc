"""Machines and containers on one directory, made of namespaces: a name, pids and ids of their own.

A `Box` is what differs between two machines that share a file system: host name, machine id, boot
id, PID namespace, sockets, and (if wanted) locks that do not reach the other. A container has the
boot id of its machine, and its sockets and locks.
Law: whatever runs in a box is gone when its `power_off` returns.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

from stoker_home import SRC, Ran, all_gone, is_running, parent_of
from waiting import PATIENCE_S, eventually

# The first process of the box. It ignores SIGCHLD, so that the kernel reaps what is left to it.
_INIT = """
set -e
hostname "$1"
mount --make-rprivate /
mount --bind "$2/machine-id" /etc/machine-id
mount --bind "$2/boot-id" /proc/sys/kernel/random/boot_id
if [ -e "$2/var-tmp" ]; then
  mount --bind "$2/var-tmp" /var/tmp
  mount --bind "$3" "$3"
  sed "s#\\( $3 .* - \\)[^ ]*#\\1nfs4#" /proc/self/mountinfo > "$2/mountinfo"
fi
if [ -e "$2/lock" ]; then
  mount --bind "$2/lock" "$3/daemon.lock"
  mount --bind "$2/lock.start" "$3/daemon.lock.start"
fi
trap '' CHLD
echo up
exec sleep infinity
"""


def missing() -> str:
    """Why no box can be made here; "" if one can."""
    if os.geteuid() != 0:
        return "namespaces with mounts of their own need root"
    for program in ("unshare", "nsenter", "mount", "hostname", "cc"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    done = subprocess.run(
        ["unshare", "--uts", "--pid", "--fork", "--mount", "--mount-proc", "true"],
        capture_output=True,
    )
    return done.stderr.decode().strip() if done.returncode else ""


class Box:
    """One machine, or container of one.

    `home` is the state directory; with `on_nfs`, the user's home, which is said to be on NFS.
    """

    def __init__(
        self,
        root: Path,
        name: str,
        home: Path,
        *,
        machine: str = "",
        locks_cross: bool = True,
        on_nfs: bool = False,
    ) -> None:
        self.name = name
        self.home = home
        self._root = root / f"box-{name}"
        self._root.mkdir()
        (self._root / "machine-id").write_text((machine or uuid4().hex) + "\n")
        self._locks_cross = locks_cross
        self._errors = (self._root / "errors").open("ab")
        self._init: subprocess.Popen[bytes] | None = None
        self.first_pid = 0
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "LANG": "C.UTF-8",
            "SHELL": "/bin/sh",
            "STOKER_HOME": str(home),
            "PYTHONPATH": SRC,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        if on_nfs:
            home.mkdir(mode=0o700, exist_ok=True)
            (self._root / "var-tmp").mkdir()
            (self._root / "var-tmp").chmod(0o1777)
            self.env["BOX_MOUNTINFO"] = str(self._root / "mountinfo")
            self.env["HOME"] = self.env.pop("STOKER_HOME")

    def power_on(self, boot: str = "") -> None:
        """Start the machine; without a boot id given, it is a new one."""
        (self._root / "boot-id").write_text((boot or str(uuid4())) + "\n")
        if not boot:
            # A machine of its own.
            library = self._root / "own_machine.so"
            if not library.exists():
                source = Path(__file__).with_name("own_machine.c")
                subprocess.run(
                    ["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True
                )
            self.env["LD_PRELOAD"] = str(library)
        if not self._locks_cross:
            self.home.mkdir(mode=0o700, exist_ok=True)
            for name in ("lock", "lock.start"):
                (self._root / name).touch(0o600)
                (self.home / f"daemon.{name}").touch(0o600)
        self._init = subprocess.Popen(
            ["unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc",
             "sh", "-c", _INIT, "sh", self.name, str(self._root), str(self.home)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip
        assert self._init.stdout is not None
        up = self._init.stdout.readline() == b"up\n"
        assert up, (self._root / "errors").read_text()
        children = Path(f"/proc/{self._init.pid}/task/{self._init.pid}/children").read_text()
        self.first_pid = int(children.split()[0])

    def power_off(self) -> None:
        """As if by the switch: with its first process all others of a PID namespace are killed."""
        if self._init is None:
            return
        try:
            os.kill(self.first_pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._init.wait()
        assert self._init.stdout is not None
        self._init.stdout.close()
        self._init = None

    def command(self, *words: str) -> list[str]:
        """The words that run something in the box."""
        enter = ["nsenter", "--target", str(self.first_pid), "--uts", "--pid", "--mount"]
        return [*enter, "--", *words]

    def popen(self, *words: str) -> subprocess.Popen[bytes]:
        """A `stoker` command line in the box that goes on beside the test."""
        return subprocess.Popen(
            self.command(sys.executable, "-m", "stoker", *words),
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def cli(self, *words: str) -> Ran:
        """A `stoker` command line in the box."""
        process = self.popen(*words)
        out, err = process.communicate(timeout=PATIENCE_S * 2)
        return Ran(process.returncode, out.decode(), err.decode())

    def stoker(self, *words: str) -> str:
        """One that must succeed; what it printed."""
        ran = self.cli(*words)
        assert ran.code == 0, f"{self.name}: {words}: {ran}"
        return ran.out

    def processes(self, word: str) -> list[int]:
        """The pids, as seen from outside, of those in the box with this word in their command."""
        namespace = os.readlink(f"/proc/{self.first_pid}/ns/pid")
        found = []
        for name in os.listdir("/proc"):
            if not name.isdecimal():
                continue
            try:
                if os.readlink(f"/proc/{name}/ns/pid") != namespace:
                    continue
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if word.encode() in words:
                found.append(int(name))
        return found

    def daemons(self) -> list[int]:
        """Its daemons."""
        keepers = set(self.keepers())
        found = [pid for pid in self.processes("stoker.daemon.main") if pid not in keepers]
        # A job that has not loaded its program yet looks just like its daemon.
        return [pid for pid in found if _parent(pid) not in (None, *found)]

    def keepers(self) -> list[int]:
        """Its keepers."""
        return self.processes("stoker.executors.keeper")

    def kill(self, pids: list[int]) -> None:
        """As by `kill -9`; returns when they are gone."""
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        eventually(lambda: all_gone(pids), "they are gone")


def _parent(pid: int) -> int | None:
    """None if there is no such process any more."""
    try:
        return parent_of(pid) if is_running(pid) else None
    except OSError:
        return None
