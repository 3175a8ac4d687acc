"""Processes that are made without waiting for their programs, and what they are like."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quickspawn import needs_quickspawn

needs_quickspawn()

from stoker.executors import _quickspawn  # noqa: E402

SHOWS_SIGNALS = (
    "import re, signal\n"
    "status = open('/proc/self/status').read()\n"
    "print(*re.findall(r'Sig(?:Blk|Ign):\\s*(\\w+)', status))\n"
)


class Child:
    """A process that was made, and its output."""

    def __init__(self, *words: str, env: list[bytes] | None = None, program: str = "") -> None:
        read_end, write_end = os.pipe()
        no_input = os.open(os.devnull, os.O_RDONLY)
        encoded = [os.fsencode(word) for word in words]
        self.pid, self.pidfd, self.underway = _quickspawn.spawn(
            os.fsencode(program or words[0]), encoded, env or [], (no_input, write_end, write_end)
        )
        os.close(write_end)
        os.close(no_input)
        self.output = open(read_end, "rb")  # noqa: SIM115

    def end(self) -> tuple[int, bytes]:
        """Its exit code, or minus its signal, and what it has printed."""
        printed = self.output.read()
        self.output.close()
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.pidfd)
        return code, printed


def test_a_process_has_its_words_and_variables_and_nothing_else() -> None:
    child = Child("/bin/sh", "-c", 'env; echo "$0 $1"', "nought", "one", env=[b"A=b c", b"D="])
    code, printed = child.end()
    lines = printed.splitlines()
    assert code == 0
    assert lines[-1] == b"nought one"
    assert {b"A=b c", b"D="} <= set(lines)
    assert not any(line.startswith((b"PATH", b"HOME")) for line in lines)


def test_a_process_leads_a_session_and_has_the_directory_that_we_had(tmp_path: Path) -> None:
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        child = Child("/bin/sh", "-c", "cut -d ' ' -f 1,5,6 /proc/$$/stat; /bin/pwd")
    finally:
        os.chdir(before)
    _, printed = child.end()
    ids, directory = printed.splitlines()
    assert ids.split() == [str(child.pid).encode()] * 3
    assert directory == os.fsencode(tmp_path)


def test_a_process_inherits_no_descriptor() -> None:
    given_to_us = {fd for fd in range(3, 256) if _is_inheritable(fd)}
    with open(os.devnull) as _, open(os.devnull) as _:
        _, printed = Child("/bin/sh", "-c", "ls /proc/$$/fd").end()
    assert set(map(int, printed.split())) == {0, 1, 2} | given_to_us


def test_no_signal_is_ignored_or_blocked_whatever_we_do_with_it() -> None:
    before = {n: signal.signal(n, signal.SIG_IGN) for n in (signal.SIGUSR1, signal.SIGHUP)}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    try:
        child = Child(sys.executable, "-S", "-c", SHOWS_SIGNALS)
        printed = child.output.read()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)
    child.end()
    blocked, ignored = (int(word, 16) for word in printed.split())
    python_itself_ignores = {signal.SIGPIPE, signal.SIGXFSZ}
    assert blocked == 0
    assert {n for n in range(1, 65) if ignored >> (n - 1) & 1} == python_itself_ignores


def test_our_own_mask_is_as_it_was_before() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    Child("/bin/true").end()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_a_program_that_is_not_there_is_told_once_its_process_has_ended() -> None:
    child = Child("/no/such/program")
    assert child.end() == (127, b"")
    assert _quickspawn.outcome(child.underway) == errno.ENOENT


def test_a_program_that_runs_is_told_to_be_loaded() -> None:
    child = Child("/bin/sh", "-c", "echo here")
    assert child.output.readline() == b"here\n"
    assert _quickspawn.outcome(child.underway) == 0
    child.end()


def test_a_process_that_is_ended_by_a_signal_is_not_one_that_could_not_be_loaded() -> None:
    child = Child("/bin/sleep", "600")
    signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
    assert child.end() == (-signal.SIGKILL, b"")
    assert _quickspawn.outcome(child.underway) == 0


def test_words_that_can_not_be_passed_on_are_refused_and_make_no_process() -> None:
    children = set(_children())
    for words, env in (([b"a\0b"], []), ([b"a"], [b"A=\0"])):
        with pytest.raises(ValueError, match="null"):
            _quickspawn.spawn(b"/bin/true", words, env, (0, 1, 2))
    for wrong in (["a"], [None]):
        with pytest.raises(TypeError):
            _quickspawn.spawn(b"/bin/true", wrong, [], (0, 1, 2))  # type: ignore[arg-type]
    assert set(_children()) == children


def test_what_is_too_long_for_the_kernel_is_told() -> None:
    child = Child("/bin/true", "x" * 4_000_000)
    assert child.end()[0] == 127
    assert _quickspawn.outcome(child.underway) == errno.E2BIG


def test_where_no_descriptor_is_left_no_process_is_made(few_descriptors: list[int]) -> None:
    with pytest.raises(OSError, match="Too many open files"):
        _quickspawn.spawn(b"/bin/true", [b"true"], [], (few_descriptors[0],) * 3)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_many_at_once_each_have_their_own_words_also_when_ours_are_gone() -> None:
    count, width = 120, 3_000
    children = []
    for number in range(count):
        # Nobody keeps these, so that what is freed too early is written over by the next one.
        word = f"{number}-" + chr(97 + number % 26) * width
        children.append(Child("/bin/sh", "-c", 'echo "$1 $V"', "sh", word, env=[b"V=%d" % number]))
        if number % 2:
            del children[-1].underway
    for number, child in enumerate(children):
        code, printed = child.end()
        letters = (chr(97 + number % 26) * width).encode()
        assert (code, printed) == (0, b"%d-%b %d\n" % (number, letters, number))


@pytest.fixture
def few_descriptors() -> Iterator[list[int]]:
    """All descriptors that we may have, but for none."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[0]), before[1]))
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDWR))
    except OSError:
        yield taken
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def _is_inheritable(fd: int) -> bool:
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def noted(tmp_path: Path, program: bytes, *, wait: bool) -> tuple[int, object, bytes]:
    """A process that was made with a note: its pid, how that went, and what was written."""
    path = tmp_path / "book"
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    words, note = [b"sh", b"-c", b"cat book"], (fd, b"made 4 2 ")
    pid, pidfd, underway = _quickspawn.spawn(program, words, [], (0, 1, 2), None, note, wait)
    known = _quickspawn.outcome(underway)
    os.waitpid(pid, 0)
    os.close(fd)
    os.close(pidfd)
    return pid, known, path.read_bytes()


@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("program", [b"/bin/sh", b"/no/such/program"])
def test_a_process_says_who_it_is_whatever_becomes_of_it(
    tmp_path: Path, program: bytes, wait: bool
) -> None:
    pid, _, written = noted(tmp_path, program, wait=wait)
    assert written == b"made 4 2 %d\n" % pid


def test_a_process_says_who_it_is_before_its_program_begins(tmp_path: Path) -> None:
    path = tmp_path / "book"
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    read_end, write_end = os.pipe()
    words = [b"cat", os.fsencode(path)]
    streams = (0, write_end, write_end)
    pid, pidfd, _ = _quickspawn.spawn(b"/bin/cat", words, [], streams, None, (fd, b"made "))
    os.waitpid(pid, 0)
    for opened in (fd, write_end, pidfd):
        os.close(opened)
    with open(read_end, "rb") as output:
        assert output.read() == b"made %d\n" % pid


def test_whoever_waits_knows_how_it_went(tmp_path: Path) -> None:
    assert noted(tmp_path, b"/bin/sh", wait=True)[1] == 0
    assert noted(tmp_path, b"/no/such/program", wait=True)[1] == errno.ENOENT


def test_a_note_for_which_there_is_no_room_is_refused() -> None:
    with pytest.raises(ValueError, match="too long"):
        _quickspawn.spawn(b"/bin/true", [b"true"], [], (0, 1, 2), None, (2, b"x" * 76))
