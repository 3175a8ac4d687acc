"""On what kind of file system a directory is, and whether other machines may have it too.

The kernel's list of mounts has a name for each kind. Where a directory is on none of them, as it
may be after a chroot, `statfs` has a number for it.
"""

from __future__ import annotations

import os

# Kinds that other machines may mount as well. What is behind FUSE is not known, and mostly that.
_SHARED = frozenset((
    "nfs", "nfs4", "lustre", "cifs", "smb3", "smbfs", "9p", "virtiofs", "ceph", "gpfs", "mmfs",
    "beegfs", "beegfs_nodev", "afs", "pvfs2", "orangefs", "glusterfs", "panfs", "wekafs", "ncpfs",
    "coda", "ocfs2", "gfs2", "prl_fs", "vboxsf", "vmhgfs", "fuse", "daos", "acfs", "quobyte",
    "smb2", "fhgfs", "dvs", "cvfs", "scoutfs",
))  # fmt: skip
# The numbers of statfs; those of local disks are of no interest.
_KINDS = {
    0x6969: "nfs", 0x517B: "smbfs", 0xFF534D42: "cifs", 0xFE534D42: "smb2", 0x0BD00BD0: "lustre",
    0x47504653: "gpfs", 0x19830326: "beegfs", 0x00C36400: "ceph", 0x65735546: "fuse",
    0x01021997: "9p", 0x5346414F: "afs", 0x6B414653: "afs", 0x20030528: "orangefs",
    0xAAD7AAEA: "panfs", 0x564C: "ncpfs", 0x73757245: "coda", 0x7461636F: "ocfs2",
    0x01161970: "gfs2", 0x786F4256: "vboxsf", 0x01021994: "tmpfs", 0x858458F6: "ramfs",
}  # fmt: skip
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
            return kind_of_mount(file.read(), mount) or _KINDS.get(statfs_number(fd), "")
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


def statfs_number(fd: int) -> int:
    """By which `statfs` tells the kind; 0 if that can't be asked."""
    import ctypes

    found = (ctypes.c_long * 64)()  # The number comes first, in a field of the size of a word.
    try:
        failed = ctypes.CDLL(None).fstatfs(fd, found)
    except (OSError, AttributeError):
        return 0
    return 0 if failed else found[0] & 0xFFFFFFFF


def is_shared(kind: str) -> bool:
    """True if other machines may see what is on such a file system."""
    return kind in _SHARED or (kind.startswith("fuse.") and kind != "fuse.fuse-overlayfs")


def lasts(kind: str) -> bool:
    """True if such a file system is this machine's own, and there after its next start."""
    return not is_shared(kind) and kind not in _FLEETING
