"""The directories of a run: a home that can be full, and beside it what must never be.

Law: nothing is left mounted, also after a run that was interrupted.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from stoker_home import StokerHome

_DISK_MIB, _INODES = 256, 100_000


class Place:
    """Where everything of one run is."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="stoker-torture-"))
        self.records = self.root / "records"
        self.records.touch()
        self.outputs = self.root / "outputs"
        self.outputs.mkdir()
        self._disk = self.root / "disk"
        self._disk.mkdir(mode=0o700)
        self.no_disk_because = self._mount()
        self.stoker = StokerHome(self._disk)

    @property
    def has_disk(self) -> bool:
        """Whether the home is on a file system of its own, which can be full."""
        return not self.no_disk_because

    def _mount(self) -> str:
        if os.geteuid() != 0:
            return "only root can mount a file system"
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"{_sizes(_DISK_MIB << 20, _INODES)},mode=700",
             "stoker-torture", str(self._disk)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return "" if done.returncode == 0 else done.stderr.strip() or "mount failed"

    def fill(self) -> None:
        """Leave no room for a further byte."""
        used = os.statvfs(self._disk)
        self._remount((used.f_blocks - used.f_bfree) * used.f_frsize, _INODES)

    def fill_inodes(self) -> None:
        """Leave no room for a further file."""
        used = os.statvfs(self._disk)
        self._remount(_DISK_MIB << 20, used.f_files - used.f_ffree)

    def make_room(self) -> None:
        """As it was."""
        self._remount(_DISK_MIB << 20, _INODES)

    def _remount(self, size_bytes: int, inodes: int) -> None:
        # Stoker may have written in between, so that it no longer fits: then it is as it was.
        options = f"remount,{_sizes(size_bytes, inodes)}"
        subprocess.run(["mount", "-o", options, str(self._disk)], capture_output=True, check=False)

    def keep_home(self) -> Path:
        """Copy what tells how things came about to where it outlasts the run."""
        kept = self.root / "kept"
        shutil.copytree(
            self.stoker.home.root, kept, ignore=shutil.ignore_patterns("*.sock"), dirs_exist_ok=True
        )
        return kept

    def leave(self, *, keep: bool) -> None:
        """Unmount, and delete everything, or keep what is not on the small disk."""
        if self.has_disk:
            subprocess.run(["umount", "-l", str(self._disk)], capture_output=True, check=False)
        if not keep:
            shutil.rmtree(self.root, ignore_errors=True)


def _sizes(size_bytes: int, inodes: int) -> str:
    return f"size={size_bytes},nr_inodes={inodes}"
