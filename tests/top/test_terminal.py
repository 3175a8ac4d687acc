"""`stoker top` on real terminals: in tmux, in a pseudo-terminal, into a pipe, without Textual."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest

from stoker_home import StokerHome, lines_of
from unit.cli_run import Terminal
from waiting import PATIENCE_S, eventually

# An editor that shows a file, waits for Enter, and changes the file.
EDITOR = """sh -c 'cat "$1"; read enter; sed -i "s/^priority = 0/priority = -7/" "$1"' sh"""


class Tmux:
    """A tmux server of its own, with one window."""

    def __init__(self, home: StokerHome) -> None:
        self._socket = str(home.root / "tmux")
        self._env = home.env | {"TERM": "xterm-256color", "EDITOR": EDITOR}
        self._home = home

    def start(self, columns: int, rows: int, *words: str) -> None:
        """Run a command line in the window; what it leaves behind is the shell's."""
        command = " ".join(self._home.command(*words))
        words_of_shell = f"{command}; echo code $? > code; exec cat"
        self._run("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows),
                  "-c", str(self._home.work), words_of_shell)  # fmt: skip

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        self._run("send-keys", *keys)

    def resize(self, columns: int, rows: int) -> None:
        """Another size of the window."""
        self._run("resize-window", "-x", str(columns), "-y", str(rows))

    @property
    def screen(self) -> str:
        """What is on the screen now."""
        return self._run("capture-pane", "-p")

    def until(self, *texts: str) -> None:
        """Wait until texts are on the screen, all of them."""
        try:
            eventually(lambda: all(text in self.screen for text in texts))
        except AssertionError:
            raise AssertionError(f"{texts} are not all in\n{self.screen}") from None

    def until_gone(self, text: str) -> None:
        """Wait until a text is not on the screen any more."""
        eventually(lambda: text not in self.screen, f"{text} is gone")

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words], env=self._env, capture_output=True,
            timeout=PATIENCE_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    def stop(self) -> None:
        """End the server, and what runs in it."""
        subprocess.run(
            ["tmux", "-S", self._socket, "kill-server"], env=self._env, capture_output=True
        )


@pytest.fixture
def tmux(reused: StokerHome) -> Iterator[Tmux]:
    """A window on the Stoker of the test."""
    if shutil.which("tmux") is None:
        assert not os.environ.get("CI"), "the tests of the live view need tmux"
        pytest.skip("there is no tmux")
    window = Tmux(reused)
    try:
        yield window
    finally:
        window.stop()


def test_the_live_view_in_tmux(reused: StokerHome, tmux: Tmux) -> None:
    reused.submit("sh", "-c", "echo hello from the job; exec sleep 600", name="runs", gpus=4)
    reused.submit_all([{"argv": ["sleep", "600"], "name": f"waits-{n}"} for n in range(2, 30)])
    reused.until_state(reused.nth(1), "running")
    tmux.start(80, 24, "top")
    tmux.until("1 running  28 waiting", "q quit", "waits-2 ", "+ - sooner/later")
    tmux.press("l")
    tmux.until(f"log of job {reused.nth(1)}, running, following", "hello from the job")
    tmux.press("l", "j", "j", "Enter")
    tmux.until("why: needs 1 GPU, 0 of 4 free", f"job {reused.nth(3)} (waits-3)")
    tmux.press("Escape")
    tmux.until_gone("why: ")
    tmux.press("/", "waits-29")
    tmux.until("1 job ", "filter: waits-29")
    tmux.press("Enter", "h")
    tmux.until(f"held job {reused.nth(29)}")
    tmux.press("e")
    tmux.until(f"[{reused.nth(29)}]", "priority = 0")
    tmux.press("Enter")
    tmux.until("1 job ", "filter: waits-29")
    tmux.press("?")
    tmux.until("sort by the next column")
    tmux.press("q", "Escape")
    tmux.until("29 jobs", "27 waiting")
    tmux.press("s", "g", "c")
    tmux.until(f"Stop job {reused.nth(1)} (runs)?", "y stop it")
    tmux.resize(60, 16)
    tmux.press("y")
    tmux.until("4 running")
    assert all(len(line) <= 60 for line in tmux.screen.splitlines())
    tmux.resize(132, 40)
    tmux.until("NOTE", "GROUP", "PRI")
    tmux.press("C-c")
    assert eventually(lambda: lines_of(reused.work / "code")) == ["code 0"]
    assert "q quit" not in tmux.screen, "the terminal is as it was"
    assert reused.until_final(reused.nth(1))[0]["state"] == "cancelled"
    assert reused.job(reused.nth(29))["priority"] == -7, "it was edited"


COLOURS = re.compile(rb"\x1b\[([0-9;]*)m")
# Bold, dim, reversed, and colours that can be read on light and on dark; never a background.
ALLOWED = {"", "0", "1", "2", "7", "31", "32", "35", "39", "49"}


@pytest.mark.parametrize("no_color", ["", "1"])
def test_the_terminal_keeps_its_own_background(reused: StokerHome, no_color: str) -> None:
    reused.until_final(reused.submit("false", name="broken"))
    reused.submit("sleep", "600", name="runs")
    env = {"TERM": "xterm-256color", "NO_COLOR": no_color, "COLORTERM": "truecolor"}
    with Terminal(reused.root, "top", **(reused.env | env)) as terminal:
        terminal.until(b"sooner/later")
        terminal.type(b"c")
        terminal.until(b"are you sure?")
        terminal.type(b"n")
        terminal.type(b"?")
        terminal.until(b"Esc closes")
        terminal.type(b"q")
        terminal.type(b"q")
        assert terminal.wait() == 0
    codes = {
        code for found in COLOURS.findall(terminal.screen) for code in found.decode().split(";")
    }
    assert codes <= ALLOWED
    assert bool(codes & {"31", "32", "35"}) == (not no_color)


def test_it_draws_on_the_terminal_though_errors_go_elsewhere(reused: StokerHome) -> None:
    command = f"{' '.join(reused.command('top'))} 2>{reused.work}/errors; exit $?"
    with Terminal(reused.root, "run", "--", "sh", "-c", command, **reused.env) as terminal:
        terminal.until(b"sooner/later")
        terminal.type(b"q")
        assert terminal.wait() == 0
    assert (reused.work / "errors").read_text(encoding="utf-8") == ""


def test_once_into_a_pipe_is_plain_text_of_80_by_24(stoker: StokerHome) -> None:
    sleeps = {"argv": ["sleep", "600"], "time_limit_ms": 3_600_000}
    stoker.submit_all([{**sleeps, "name": f"job-{n}"} for n in range(40)])
    ran = stoker.cli("top", "--once")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert len(lines) == 23 and all(len(line) <= 80 for line in lines)
    assert "\x1b" not in ran.out
    assert lines[0] == "stoker  4 running  36 waiting"
    assert lines[-1] == "  and 26 more"
    assert "STARTS" not in ran.out

    def last_start() -> str | None:
        """When the last one starts, once that of all is known: that may take a busy daemon long."""
        wide = stoker.cli("top", "--once", env={"COLUMNS": "150", "LINES": "60"}).out
        assert "COMMAND" in wide and "STARTS" in wide and len(wide.splitlines()) == 48
        jobs = [line for line in wide.splitlines() if re.match(r" +\d+ [rw]", line)]
        starts = [re.search(r" in (\S+)", line) for line in jobs]
        known = [bool(found) for found in starts] == [False] * 4 + [True] * 36
        return starts[-1][1] if known and starts[-1] else None

    assert eventually(last_start) in ("8h", "9h"), "nine hours of others are before it"


def test_once_on_a_terminal_is_as_large_as_that(reused: StokerHome) -> None:
    reused.until_final(reused.submit("false", name="broken"))
    for env in ({}, {"NO_COLOR": "1"}):
        with Terminal(reused.root, "top", "--once", **(reused.env | env)) as terminal:
            assert terminal.wait() == 0
        assert b"broken" in terminal.screen
        assert (b"\x1b[" in terminal.screen) == (not env)
        assert b"\x1b[?1049h" not in terminal.screen


def test_once_speaks_plain_letters_where_there_are_no_others(reused: StokerHome) -> None:
    reused.submit("sleep", "600", name="größer")
    ran = reused.cli("top", "--once", env={"PYTHONIOENCODING": "ascii"})
    assert ran.code == 0 and ran.out.isascii()
    assert "=====" in ran.out and "gr\\xf6" in ran.out


def test_a_dumb_terminal_gets_one_picture_and_is_told_so(reused: StokerHome) -> None:
    with Terminal(reused.root, "top", **(reused.env | {"TERM": "dumb"})) as terminal:
        assert terminal.wait() == 0
    assert b"TERM=dumb" in terminal.screen and b"GPU" in terminal.screen
    assert b"\x1b" not in terminal.screen


def test_without_a_terminal_it_says_what_to_do(reused: StokerHome) -> None:
    ran = reused.cli("top")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "stoker: there is no terminal to draw on; `stoker top --once` prints a picture\n"
    )


def test_without_textual_it_says_what_to_install_and_once_works(
    reused: StokerHome, tmp_path: Path
) -> None:
    # As if it were not installed: site-packages are not looked at.
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    import msgspec

    (libraries / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    ours = distribution("stoker-gpu")  # What it needs is written there.
    info = f"stoker_gpu-{ours.version}.dist-info"
    (libraries / info).symlink_to(Path(str(ours.locate_file(info))))
    env = reused.env | {"PYTHONPATH": f"{reused.env['PYTHONPATH']}:{libraries}"}
    once = subprocess.run(
        [sys.executable, "-S", "-m", "stoker", "top", "--once"],
        env=env, capture_output=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert once.returncode == 0 and b"GPU" in once.stdout
    script = "import sys; sys.argv = ['stoker', 'top']; from stoker.cli.main import entry; entry()"
    pid, fd = os.forkpty()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-S", "-c", script], env | {"TERM": "xterm"})
    said = b""
    try:
        while data := os.read(fd, 65_536):
            said += data
    except OSError:
        pass  # This is how a terminal tells that its last process has gone.
    os.close(fd)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    assert said.decode().strip() == (
        "stoker: the live view needs Textual, which is not installed; "
        f"run: uv pip install --python {sys.executable} 'textual>=8.2', or use `stoker top --once`"
    )


def test_a_daemon_that_can_not_start_is_told_in_one_line(home: StokerHome) -> None:
    Path(home.home.root).mkdir(mode=0o700)
    Path(home.home.database).write_bytes(b"not a database" * 1000)
    with Terminal(home.root, "top", **(home.env | {"TERM": "xterm"})) as terminal:
        assert terminal.wait() != 0
    assert terminal.screen.count(b"\n") == 1 and terminal.screen.startswith(b"stoker: ")
    assert b"\x1b" not in terminal.screen


def test_keys_before_the_first_picture_are_not_lost(reused: StokerHome) -> None:
    reused.submit("sleep", "600", name="runs")
    with Terminal(reused.root, "top", **(reused.env | {"TERM": "xterm-256color"})) as terminal:
        terminal.type(b"q")
        assert terminal.wait() == 0
    assert reused.job(reused.nth(1))["state"] in ("running", "waiting")
