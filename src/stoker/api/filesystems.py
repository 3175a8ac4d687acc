"""On what kind of file system a directory is, and whether other machines may have it too.

Asked by the kernel's list of mounts: it has a name for each kind, where statfs has a number, and
Python's own statvfs has neither.
"""

from __future__ import annotations

import os

# Kinds that other machines may mount as well. What is behind FUSE is not known, and mostly that.
_SHARED = frozenset((
    "nfs", "nfs4", "lustre", "cifs", "smb3", "smbfs", "9p", "virtiofs", "ceph", "gpfs", "mmfs",
    "beegfs", "beegfs_nodev", "afs", "pvfs2", "orangefs", "glusterfs", "panfs", "wekafs", "ncpfs",
    "coda", "ocfs2", "gfs2", "prl_fs", "vboxsf", "vmhgfs", "fuse", "daos", "acfs", "quobyte",
))  # fmt: skip
_FLEETING = frozenset(("tmpfs", "ramfs"))  # gone when the machine is started anew


def kind_of(path: str) -> str:
    """The kind of file system that a directory is on, or would be; "" if that can't be told."""
    at = path
    while True:
        try:
            fd = os.open(at, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            break
        except OSError:
            above = os.path.dirname(at)
            if above == at:
                return ""
            at = above
    try:
        with open(f"/proc/self/fdinfo/{fd}", "rb") as file:
            mount = _number_of_mount(file.read())
        with open("/proc/self/mountinfo", "rb") as file:
            return kind_of_mount(file.read(), mount)
    except OSError:
        return ""
    finally:
        os.close(fd)


def _number_of_mount(fdinfo: bytes) -> bytes:
    for line in fdinfo.splitlines():
        if line.startswith(b"mnt_id:"):
            return line[7:].strip()
    return b""


def kind_of_mount(mountinfo: bytes, number: bytes) -> str:
    """The kind of the mount with this number, as /proc/self/mountinfo tells."""
    for line in mountinfo.splitlines():
        if line.startswith(number + b" "):
            _, _, rest = line.partition(b" - ")
            return rest.split(b" ", 1)[0].decode("ascii", "replace")
    return ""


def is_shared(kind: str) -> bool:
    """True if other machines may see what is on such a file system."""
    return kind in _SHARED or (kind.startswith("fuse.") and kind != "fuse.fuse-overlayfs")


def lasts(kind: str) -> bool:
    """True if such a file system is this machine's own, and there after its next start."""
    return not is_shared(kind) and kind not in _FLEETING
