"""A warm server: a process that has loaded what calls use, and of which their processes are copies.

The daemon starts it as `python worker.py --warm-server PROTOCOL MODULES IDLE_S` and asks it for
copies over the socket that is its descriptor 3. Its input is any of the calls: the submitter's path
is in it. Each copy waits as an *idle copy* on a socket of its own until it is told which attempt it
is.

Law: a copy is the daemon's child and not ours, so its end is learned as that of every process, and
our own end loses nothing. It runs nothing of the user's before it bears the marker of its attempt
and leads its session, in this order; an idle copy that is never told leads none.

Only a process with a single thread is copied. What a fork has to mend (locks that other threads
held, threads that are gone) is not broken then, so that it is no loss that the libraries are not
told of it, as they would be by `os.fork`, which can't make a child for another process.
"""

import _socket
import ctypes
import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

PROTOCOL = "1"  # as in executors/warm_servers.py
CONTROL = 3
MARKER = "STOKER_ATTEMPT_ID"
_MOST_BYTES = 1 << 18
_THREADS_END_WITHIN_S = 2.0
_THREADS_BEGIN_TO_END_WITHIN_S = 0.2

_PR_SET_PDEATHSIG, _PR_GET_TID_ADDRESS = 1, 40
_SIGCHLD, _SIGKILL = 17, 9
_PF_EXITING = 0x4
_CLONE_PARENT, _CLONE_CHILD_CLEARTID, _CLONE_CHILD_SETTID = 0x8000, 0x200000, 0x1000000
# The numbers of clone, set_robust_list and get_robust_list.
_CALLS = {"x86_64": (56, 273, 274), "aarch64": (220, 99, 100)}


class CantWarm(Exception):
    """Copies of this process would not do; the message says why."""


def main(calling: "ModuleType") -> int:
    """Load, and make copies until none are wanted; in a copy, make the call."""
    os.set_inheritable(CONTROL, False)
    control = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, CONTROL)
    _, _, protocol, modules, idle_s = sys.argv
    try:
        if protocol != PROTOCOL:
            raise CantWarm("the daemon is of another version")
        copier = _Copier()  # First: nothing has touched the environment yet.
        _load(calling, modules)
        _let_threads_end()
        if uses_gpus(_open_files()):
            raise CantWarm("a module has looked for GPUs while it was loaded")
    except BaseException as error:
        return _give_up(control, error)
    gc.collect()
    gc.freeze()  # The collector would else write to all that is shared with the copies.
    control.settimeout(float(idle_s))
    while True:
        try:
            number, ancillary, _, _ = control.recvmsg(16, _socket.CMSG_SPACE(4))
        except TimeoutError:
            return 0
        if not ancillary:
            return 0  # The daemon has hung up.
        [link] = _descriptors(ancillary)
        try:
            pid = copier.copy()
        except OSError as error:
            return _give_up(control, error)
        if pid == 0:
            return _be_idle_copy(calling, copier, control, number, link)
        os.close(link)


def _give_up(control: "_socket.socket", error: BaseException) -> int:
    why = str(error)
    if not isinstance(error, CantWarm):
        why = f"it can't be made ready: {type(error).__name__}: {error}"
    control.send(f"no {why}".encode(errors="replace")[:1000])
    return 1


def _load(calling: "ModuleType", modules: str) -> None:
    if os.fstat(0).st_uid != os.geteuid():
        raise CantWarm("the call belongs to another user")
    with open(0, "rb", closefd=False) as call:
        header = calling._pickle.load(call)
    os.close(0)
    os.open("/dev/null", os.O_RDONLY)  # The lowest number that is free.
    sys.path[:] = header["path"]
    sys.argv[:] = header["argv"]
    for name in modules.split(","):
        if name:
            try:
                __import__(name)
            except BaseException as error:
                why = f"{type(error).__name__}: {error}"
                raise CantWarm(f"{name} can't be loaded: {why}") from error


def _let_threads_end() -> None:
    """See that there is but one thread; a library that knows of forks ends its own before one.

    One that is not about to end a moment later will stay. That is said at once, so that programs
    with short calls hear of it too.
    """
    import time

    trial = os.fork()
    if trial == 0:
        os._exit(0)
    os.waitpid(trial, 0)
    began = time.monotonic()
    while (count := len(threads := os.listdir("/proc/self/task"))) > 1:
        waited_s = time.monotonic() - began
        stays = waited_s > _THREADS_BEGIN_TO_END_WITHIN_S and sum(map(_goes_on, threads)) > 1
        if stays or waited_s > _THREADS_END_WITHIN_S:
            raise CantWarm(
                f"{count} threads run in a process that has loaded them, and its copies would have "
                "one of these only"
            )
        time.sleep(0.005)


def _goes_on(thread: str) -> bool:
    """True unless it has ended, or is about to."""
    try:
        with open(f"/proc/self/task/{thread}/stat", "rb") as file:
            flags = int(file.read().rpartition(b")")[2].split()[6])
    except OSError:
        return False
    return not flags & _PF_EXITING


def _open_files() -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            pass  # The listing itself.
    return found


def uses_gpus(paths: list[str]) -> bool:
    """True if a driver was asked: it has said that there is none, and copies would not ask anew."""
    return any(path.startswith(("/dev/nvidia", "/dev/kfd", "/dev/dri/")) for path in paths)


def _descriptors(ancillary: "list[tuple[int, int, bytes]]") -> list[int]:
    data = ancillary[0][2]
    return [int.from_bytes(data[at : at + 4], sys.byteorder) for at in range(0, len(data), 4)]


class _Copier:
    """Makes copies of this process that are its siblings, and marks them."""

    def __init__(self) -> None:
        machine = os.uname().machine
        if machine not in _CALLS:
            raise CantWarm(f"it is not known how a process is copied on {machine}")
        self._clone, self._set_robust_list, get_robust_list = _CALLS[machine]
        # These calls keep the interpreter's lock: nothing of Python runs beside them.
        self._libc, self._python = ctypes.PyDLL(None, use_errno=True), ctypes.pythonapi
        for name in ("PyOS_BeforeFork", "PyOS_AfterFork_Child", "PyOS_AfterFork_Parent"):
            getattr(self._python, name).restype = None
        # With its parent it goes, in the middle of loading too: nothing is lost with it.
        self._libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
        # Where the C library keeps the number of the thread: in a copy that is another one.
        self._tid = ctypes.c_void_p()
        if self._libc.prctl(_PR_GET_TID_ADDRESS, ctypes.byref(self._tid), 0, 0, 0) != 0:
            raise CantWarm("this kernel does not tell where a thread's number is kept")
        self._robust, self._robust_size = ctypes.c_void_p(), ctypes.c_size_t()
        robust, size = ctypes.byref(self._robust), ctypes.byref(self._robust_size)
        self._libc.syscall(get_robust_list, 0, robust, size)
        # What is in the environment from the start is what /proc shows, and is not moved.
        self._libc.getenv.restype = ctypes.c_void_p
        self._marker = self._libc.getenv(MARKER.encode())
        self._marker_size = len(os.environ[MARKER])

    def copy(self) -> int:
        """0 in the copy; its pid in this process."""
        flags = _CLONE_PARENT | _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID | _SIGCHLD
        # On one machine the fourth is where the thread's number goes, on the other the fifth; what
        # the remaining one would mean was not asked for.
        words = [ctypes.c_long(flags), None, None, self._tid, self._tid]
        clone = ctypes.c_long(self._clone)
        self._python.PyOS_BeforeFork()
        pid: int = self._libc.syscall(clone, *words)
        if pid == 0:
            self._libc.syscall(self._set_robust_list, self._robust, self._robust_size)
            self._python.PyOS_AfterFork_Child()
            return 0
        self._python.PyOS_AfterFork_Parent()
        if pid < 0:
            raise OSError(ctypes.get_errno(), "clone")
        return pid

    def mark(self, marker: bytes) -> None:
        """Bear this marker from now on, for all who look into /proc."""
        assert len(marker) <= self._marker_size
        ctypes.memmove(self._marker, marker.ljust(self._marker_size, b"\0"), self._marker_size)


# --- in a copy ------------------------------------------------------------------------------------


def _be_idle_copy(
    calling: "ModuleType", copier: _Copier, control: "_socket.socket", number: bytes, link: int
) -> int:
    """Wait to be told which attempt this is, become it, and make its call."""
    # A copy that has `control` open may still say its pid; so the daemon knows when all have.
    control.send(b"%s %d" % (number, os.getpid()))
    control.close()
    orders = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, link)
    orders.settimeout(None)  # Whatever a module has made the usual one.
    order, ancillary, _, _ = orders.recvmsg(_MOST_BYTES, _socket.CMSG_SPACE(12))
    orders.close()
    if not ancillary:
        os._exit(0)  # It is not needed.
    words = _become(copier, order.split(b"\0"), _descriptors(ancillary))
    sys.argv[:], sys.orig_argv[:] = words[1:], words
    code: int = calling.main()
    _leave(code)
    return code


def _become(copier: _Copier, order: list[bytes], streams: list[int]) -> list[str]:
    """The attempt's marker, session, environment, output and directory; its words."""
    directory, count, *rest = order
    words, variables = rest[: int(count)], rest[int(count) :]
    environment = dict(variable.split(b"=", 1) for variable in variables)
    copier.mark(environment[MARKER.encode()])
    os.setsid()
    os.environb.update(environment)
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    for fd in streams:
        os.close(fd)
    os.chdir(directory)
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()  # Else all calls would draw the same numbers.
    return [os.fsdecode(word) for word in words]


def _leave(code: int) -> None:
    """End as an interpreter does, but for taking everything apart: that writes to all memory."""
    threading: Any = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()
    import atexit

    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        code = 120  # As the interpreter says that the output can't be written.
    os._exit(code)
