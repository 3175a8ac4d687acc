"""A job's process in the user's own terminal: started, signalled, and its end put on record.

The truth of the attempt is in its directory, whatever becomes of the daemon. The file `pid` is
made before the command begins, by link(2): it *accepts* the attempt, and fails if the daemon has
taken the attempt back. `exit` is written before the process is reaped.
"""

from __future__ import annotations

import errno
import os
import signal
import time

from stoker.cli.processtree import anything_catches, kill_tree, signal_tree, start_time
from stoker.submission.surroundings import find_program
from stoker.text.terminal import say
from stoker.wholefile import write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# What a terminal or another process may send to us while the job runs. Signals that stop and
# continue are not among them: they reach job and client alike, as one group.
_FORWARDED = frozenset(
    (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
)
_RETRY_WRITE_S = 1.0
_LOOK_FOR_STOP_S = 0.2
_INSISTS_WITHIN_S = 2.0


# What the machine has not enough of now, and may have later: the daemon lets the job wait for it.
_PASSES = frozenset(
    (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EIO)
)


class CouldNotStart(Exception):
    """The command can't be run; the message says why."""

    def __init__(self, why: str, error: int = 0) -> None:
        super().__init__(why)
        self.errno = error if error in _PASSES else 0


class Presses:
    """Ctrl-C, pressed again and again: one that comes late begins anew.

    So does the first one that the job does not handle after one that it did. We may look so late
    that the job has taken it, and has given up its handler since because it is about to end.
    """

    def __init__(self) -> None:
        self._count = 0
        self._last_s = 0.0
        self._was_handled = False

    def one_more(self, now_s: float, *, handled: bool) -> int:
        """How many in a row there are by now, each within two seconds of the one before."""
        anew = now_s - self._last_s > _INSISTS_WITHIN_S or (self._was_handled and not handled)
        self._count = 1 if anew else self._count + 1
        self._last_s, self._was_handled = now_s, handled
        return self._count


class NotGranted(Exception):
    """The attempt was taken back: it may not be started any more."""


class AttachedProcess:
    """The process of one attempt, our child, in our process group.

    From the making of this object until `wait` has returned, signals to this process are taken
    for the job's: they are blocked, and fetched one by one with their origin, so that none is lost.
    """

    def __init__(
        self,
        argv: list[str],
        env: Mapping[str, str],
        cwd: str,
        directory: str,
        files: tuple[str | None, str | None] = (None, None),
        *,
        append: bool = False,
        namespace: int | None = None,
    ) -> None:
        """`namespace`: the PID namespace of the daemon, which may not see ours."""
        self._argv, self._env, self._cwd, self._files = argv, env, cwd, files
        self._directory = directory
        self._apart = namespace not in (None, own_namespace())
        self._told_to_send = 0
        self._append = append  # to the files, as later attempts do; the first one empties them
        self._presses = Presses()
        self._terminal = _terminal_settings()
        # Signals that were ignored when we were started (nohup, a background job of a script) are
        # ignored by the job too, and are nothing to forward.
        watched = {n for n in _FORWARDED if signal.getsignal(n) != signal.SIG_IGN}
        self._watched = watched | {signal.SIGCHLD}
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._watched)
        try:
            self.pid = self._start()
        except BaseException:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._old_mask)
            raise

    def _start(self) -> int:
        program = find_program(self._argv[0], self._cwd, self._env.get("PATH"))
        if program is None:
            raise CouldNotStart(f"the command {self._argv[0]} was not found")
        try:
            return self._begin(program)
        except OSError as error:
            why = f"can't start a process: {error.strerror}"
            raise CouldNotStart(why, error.errno or 0) from None

    def _begin(self, program: str) -> int:
        # The child is blocked until its pid is on record: nothing runs unrecorded.
        release_out, release_in = os.pipe()
        trouble_out, trouble_in = os.pipe()
        lock = self._lock_of_life() if self._apart else -1
        try:
            pid = os.fork()
        except OSError:
            for fd in (release_out, release_in, trouble_out, trouble_in, lock):
                if fd >= 0:
                    os.close(fd)
            raise
        if pid == 0:
            try:
                os.close(release_in)
                if not os.read(release_out, 1):
                    write_whole(f"{self._directory}/pid", b"failed its terminal was gone\n")
                    os._exit(127)
                if lock >= 0:
                    os.set_inheritable(lock, True)
                self._become(program)
            except BaseException as error:
                os.write(trouble_in, str(getattr(error, "strerror", None) or error).encode()[:500])
            finally:
                os._exit(127)
        os.close(release_out)
        os.close(trouble_in)
        if lock >= 0:
            os.close(lock)  # Only the job has it from now on.
        try:
            self._accept(pid)
        except BaseException as error:
            # It has not begun, and must not: it may be stopped, so it is not asked to go.
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(release_in)
            os.close(trouble_out)
            if isinstance(error, FileExistsError):
                raise NotGranted from None
            if isinstance(error, OSError):
                why = f"can't write to {self._directory}: {error.strerror}"
                raise CouldNotStart(why, error.errno or 0) from None
            raise
        try:
            os.write(release_in, b"g")
        except BrokenPipeError:
            pass  # The daemon has ended it, since it was cancelled.
        os.close(release_in)
        trouble = os.read(trouble_out, 500)  # Empty once the command has begun.
        os.close(trouble_out)
        if trouble:
            why = f"can't run {program}: {trouble.decode(errors='replace')}"
            self._note_failure(why)
            os.waitpid(pid, 0)
            raise CouldNotStart(why)
        return pid

    def _accept(self, pid: int) -> None:
        """Put the process on record, as ours to start; FileExistsError: it is not, any more.

        With a pid belong its start time, its PID namespace, the boot of the machine, its session.
        """
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        record = f"{pid} {start_time(pid)} {own_namespace()} {boot} {os.getsid(0)}\n"
        temporary = os.path.join(self._directory, f"pid.{os.getpid()}")
        write_whole(temporary, record.encode(), flush=True)
        try:
            os.link(temporary, os.path.join(self._directory, "pid"))
        finally:
            os.unlink(temporary)
        directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _note_failure(self, why: str) -> None:
        """The daemon may not be there to be told that the command never began."""
        try:
            text = f"failed {' '.join(why.split())[:400]}\n"
            write_whole(f"{self._directory}/pid", text.encode(errors="replace"))
        except OSError:
            pass

    def _lock_of_life(self) -> int:
        """A lock that the job holds as long as it lives, for a daemon that can't see it."""
        import fcntl

        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        fd = os.open(os.path.join(self._directory, "alive"), flags, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        return fd

    def _become(self, program: str) -> None:
        """In the child: be the job, as if the user's shell had started it."""
        os.chdir(self._cwd)
        out, err = self._files
        if out is not None:
            self._redirect(out, 1)
            if err is None:
                os.dup2(1, 2)
        if err is not None:
            self._redirect(err, 2)
        # Python ignores these two for itself.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        for number in self._watched:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._old_mask)
        try:
            os.execve(program, self._argv, self._env)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            # A script without a `#!` line: what a shell would do.
            os.execve("/bin/sh", ["/bin/sh", program, *self._argv[1:]], self._env)

    def _redirect(self, path: str, fd: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (0 if self._append else os.O_TRUNC)
        try:
            opened = os.open(path, flags, 0o666)
        except FileNotFoundError:  # A directory that is called as the job is.
            os.makedirs(os.path.dirname(path), exist_ok=True)
            opened = os.open(path, flags, 0o666)
        os.dup2(opened, fd)

    def wait(self) -> int:
        """Pass signals on until the process ends; its exit code, 128 + n for signal n."""
        try:
            while (ended := self._ended()) is None:
                self._take_next()
            if ended.si_code == os.CLD_EXITED:
                code, record = ended.si_status, f"exited {ended.si_status}\n"
            else:
                code, record = 128 + ended.si_status, f"signalled {ended.si_status}\n"
                self._restore_terminal()
            self._put_on_record(record)
            os.waitpid(self.pid, 0)
            return code
        finally:
            # What came too late for the job must not end us before we have given its exit code.
            while signal.sigtimedwait(self._watched, 0) is not None:
                pass
            signal.pthread_sigmask(signal.SIG_SETMASK, self._old_mask)

    def _ended(self) -> os.waitid_result | None:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)

    def _take_next(self) -> None:
        if not self._apart:
            self._take(signal.sigwaitinfo(self._watched))
            return
        info = signal.sigtimedwait(self._watched, _LOOK_FOR_STOP_S)
        if info is not None:
            self._take(info)
        self._obey_stop()

    def _obey_stop(self) -> None:
        """A daemon that can't signal the job itself puts down what it is to be sent."""
        try:
            with open(os.path.join(self._directory, "stop"), encoding="ascii") as file:
                number = int(file.read())
        except (OSError, ValueError):
            return
        if number != self._told_to_send:
            self._told_to_send = number
            if number == signal.SIGKILL:
                kill_tree(self.pid)
            else:
                signal_tree(self.pid, number)

    def _take(self, info: signal.struct_siginfo) -> None:
        if info.si_signo == signal.SIGCHLD:
            return
        # The terminal's own signals (si_code > 0: from the kernel) have reached the job as well;
        # but when the terminal dies, the kernel tells only the leader of the session.
        from_terminal = info.si_code > 0 and info.si_signo != signal.SIGHUP
        if info.si_signo != signal.SIGINT:
            if not from_terminal:
                signal_tree(self.pid, info.si_signo)
            return
        # A program with a handler (every Python, so every IPython) decides itself what it means.
        handled = anything_catches(self.pid, signal.SIGINT)
        presses = self._presses.one_more(time.monotonic(), handled=handled)
        if presses == 1 or handled:
            if not from_terminal:
                signal_tree(self.pid, signal.SIGINT)
            if presses == 3:
                job_id = self._env.get("STOKER_JOB_ID", "ID")
                say(f"stoker: the job handles Ctrl-C itself; `stoker cancel {job_id}` ends it")
        elif presses == 2:
            say("stoker: terminating the job; Ctrl-C once more kills it")
            signal_tree(self.pid, signal.SIGTERM)
        else:
            say("stoker: killing the job")
            kill_tree(self.pid)

    def _put_on_record(self, record: str) -> None:
        """Write how it ended. While a full disk is in the way, the zombie keeps the truth."""
        told = False
        while True:
            try:
                write_whole(f"{self._directory}/exit", record.encode())
                return
            except FileNotFoundError:
                return  # The directory was removed, and with it the need to know.
            except OSError as error:
                if not told:
                    told = True
                    say(f"stoker: can't save the exit code yet: {error.strerror}")
            info = signal.sigtimedwait(self._watched, _RETRY_WRITE_S)
            if info is not None and info.si_signo in (signal.SIGINT, signal.SIGTERM):
                return

    def _restore_terminal(self) -> None:
        """A job that was killed can't put the terminal's settings back itself."""
        if self._terminal is None:
            return
        import termios

        try:
            # Out of the foreground we may not touch the terminal: it would stop us.
            if os.tcgetpgrp(0) == os.getpgrp():
                termios.tcsetattr(0, termios.TCSADRAIN, self._terminal)
        except (OSError, termios.error):
            pass


def _terminal_settings() -> list[int | list[bytes | int]] | None:
    import termios

    try:
        return termios.tcgetattr(0)
    except (OSError, termios.error):
        return None


def own_namespace() -> int:
    """Our PID namespace, as others of this machine can compare it."""
    return os.stat("/proc/self/ns/pid").st_ino
