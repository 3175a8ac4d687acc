"""What a node runs for an attempt, tried without a cluster: one start, and the exact truth."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from uuid import uuid4

import pytest

from stoker.core.commands import Awaited, HandOver
from stoker.core.model import Exit, Launch, Need, Terms
from stoker.executors.attempt_dir import read_exit
from stoker.executors.slurm import files as on_disk
from stoker.executors.slurm.files import Files
from stoker_home import kill_and_wait, processes_with
from waiting import eventually

pytestmark = pytest.mark.skipif(shutil.which("perl") is None, reason="there is no perl here")

Running = subprocess.Popen[bytes]


class Node:
    """A directory that daemon and node share, and the script as Slurm would start it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.instance = uuid4().hex  # Its processes are known by it, also beside other tests.
        (root / "attempts").mkdir()
        self.files = Files(root / "attempts", None)

    def order(
        self,
        command: str,
        *,
        terms: Terms | None = None,
        after: tuple[Awaited, ...] = (),
        job_id: int = 7,
        launch: Mapping[str, object] = MappingProxyType({}),
    ) -> str:
        fields: dict[str, object] = {"shell": command, "cwd": str(self.root)}
        env = {"PATH": os.environ["PATH"], "SHELL": "/bin/sh", "ODD": "a\n=b'\""}
        made = Launch(**(fields | {"env": env} | dict(launch)))  # type: ignore[arg-type]
        order = HandOver(job_id, 1, "slurm", Need(), terms or Terms(), 0, None, after)
        self.script = self.files.make_batch(f"b{job_id}", ())
        return self.files.prepare(order, made, self.instance, f"b{job_id}", 0, "name")

    def start(self, *, slurm_id: str = "812", **env: str) -> Running:
        given = {
            "PATH": os.environ["PATH"],
            "SLURM_JOB_ID": slurm_id,
            "SLURMD_NODENAME": "n1",
            "CUDA_VISIBLE_DEVICES": "0,2",
        }
        with open(self.root / "log", "ab") as log:
            return subprocess.Popen(
                ["perl", self.script, os.path.dirname(self.script)],
                env=given | env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def log(self) -> str:
        return (self.root / "log").read_text()

    def processes(self) -> list[int]:
        """All that its jobs have started, and that has not ended."""
        return processes_with(f"STOKER_ATTEMPT_ID={self.instance}:".encode(), prefix=True)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    for pid in node.processes():
        kill_and_wait(pid)


def test_the_script_is_good_by_the_strictest_rules(node: Node) -> None:
    node.order("true")
    done = subprocess.run(
        ["perl", "-Mstrict", "-Mwarnings=FATAL,all", "-c", node.script], capture_output=True
    )
    assert done.returncode == 0 and b"syntax OK" in done.stderr, done.stderr.decode()


@pytest.mark.parametrize(
    ("command", "how", "status"),
    [
        ("exit 0", Exit(code=0), 0),
        ("exit 7", Exit(code=7), 7),
        ("exit 143", Exit(code=143), 143),
        ("kill -TERM $$", Exit(signal=15), -15),
        ("kill -KILL $$", Exit(signal=9), -9),
        ("kill -INT $$", Exit(signal=2), -2),
        ("kill -QUIT $$", Exit(signal=3), 131),
    ],
)
def test_an_end_is_put_down_exactly_and_passed_on(
    node: Node, command: str, how: Exit, status: int
) -> None:
    directory = node.order(command)
    assert node.start().wait() == status
    assert read_exit(directory) == how
    assert sorted(os.listdir(directory)) == ["batch", "exit", "order", "start"]


@pytest.mark.parametrize(("visible", "noted"), [("0", "0"), ("0,2", "0,2"), ("", "-")])
def test_the_start_notes_which_gpus_the_job_has(node: Node, visible: str, noted: str) -> None:
    directory = node.order("true")
    assert node.start(CUDA_VISIBLE_DEVICES=visible).wait() == 0
    assert Path(directory, "start").read_text().split()[-1] == noted


def test_a_second_start_gives_way_while_the_first_goes_on_and_after_it(node: Node) -> None:
    go = node.root / "go"
    directory = node.order(f"echo ran; until [ -e {go} ]; do sleep 0.05; done")
    first = node.start()
    eventually(lambda: "ran" in node.log())
    assert node.start(slurm_id="813").wait() == 75
    go.touch()
    assert first.wait() == 0
    assert node.start(slurm_id="814").wait() == 75
    assert node.log() == "ran\n"
    started = on_disk.read_start(directory)
    assert started is not None and (started.slurm_id, started.gpus) == ("812", ("0", "2"))


def test_many_starts_at_once_are_one(node: Node) -> None:
    node.order("echo ran")
    codes = [one.wait() for one in [node.start(slurm_id=str(n)) for n in range(12)]]
    assert sorted(codes) == [0] + [75] * 11
    assert node.log() == "ran\n"


def test_what_is_withdrawn_never_starts_and_what_has_started_is_not_withdrawn(node: Node) -> None:
    directory = node.order("echo ran")
    assert on_disk.withdraw(directory) and on_disk.withdraw(directory)
    assert node.start().wait() == 75 and node.log() == ""
    directory = node.order("echo ran", job_id=8)
    assert node.start().wait() == 0
    assert not on_disk.withdraw(directory)


def test_it_does_not_begin_before_what_it_requires_has_succeeded(node: Node) -> None:
    first = node.order("exit 1", job_id=3)
    assert node.start().wait() == 1
    directory = node.order("echo ran", after=(Awaited(3, 1, True),))
    assert node.start().wait() == 75
    assert on_disk.read_refusal(directory) == ("requirement", first)
    os.unlink(f"{directory}/refused")
    Path(first, "exit").write_text("exited 0\n")
    assert node.start().wait() == 0


@pytest.mark.parametrize(
    ("launch", "why"),
    [
        ({"argv": ("no-such-program", "x"), "shell": None}, "no-such-program: No such file"),
        ({"argv": ("/etc", "x"), "shell": None}, "/etc: Permission denied"),
        ({"cwd": "/nowhere"}, "/nowhere: No such file"),
        ({"out": "/nowhere/out"}, "/nowhere/out: No such file"),
    ],
)
def test_what_can_not_be_started_is_said_with_its_reason(
    node: Node, launch: dict[str, object], why: str
) -> None:
    directory = node.order("true", launch=launch)
    assert node.start().wait() == 127
    kind, text = on_disk.read_refusal(directory) or ("", "")
    assert kind == "start" and text.startswith(why)
    assert read_exit(directory) is None


def test_the_environment_is_the_jobs_own_and_slurms(node: Node) -> None:
    node.order(
        'echo "$ODD|$STOKER_JOB_ID|$STOKER_GPUS|$CUDA_VISIBLE_DEVICES|$SLURM_JOB_ID|$SECRET"'
    )
    node.start(SECRET="x").wait()
    assert node.log() == "a\n=b'\"|7|0,2|0,2|812|\n"


@pytest.mark.parametrize("shell", [True, False])
@pytest.mark.parametrize(("gpus", "appended"), [("0,2", " --gpu 0 2"), ("", "")])
def test_the_ids_of_its_gpus_are_appended_where_they_are_known(
    node: Node, shell: bool, gpus: str, appended: str
) -> None:
    if shell:
        node.order("echo a", launch={"gpu_arg": True})
    else:
        node.order("", launch={"argv": ("echo", "a"), "shell": None, "gpu_arg": True})
    node.start(CUDA_VISIBLE_DEVICES=gpus).wait()
    assert node.log() == f"a{appended}\n"


def test_output_goes_where_it_is_told_to(node: Node) -> None:
    out, err = node.root / "out", node.root / "err"
    out.write_text("old\n")
    files = {"out": str(out), "err": str(err)}
    node.order("echo o; echo e >&2", launch=files)
    node.start().wait()
    assert (out.read_text(), err.read_text(), node.log()) == ("old\no\n", "e\n", "")


def test_a_file_is_emptied_for_a_job_that_says_so(node: Node) -> None:
    out = node.root / "out"
    out.write_text("old\n")
    node.order("echo o", launch={"out": str(out), "options": {"overwrite": True}})
    node.start().wait()
    assert out.read_text() == "o\n"


def test_the_signal_before_the_limit_reaches_those_who_are_prepared_for_it(node: Node) -> None:
    inner = "trap 'echo saved; exit 0' USR1; echo ready; while :; do sleep 0.05; done"
    node.order(f'sh -c "{inner}"; echo after $?', terms=Terms(60_000, signal=10))
    process = node.start()
    eventually(lambda: "ready" in node.log())
    process.send_signal(signal.SIGUSR1)
    assert process.wait() == 0
    assert node.log() == "ready\nsaved\nafter 0\n"


def test_the_signal_before_the_limit_spares_those_that_inherited_the_handler(node: Node) -> None:
    loop = "while :; do sleep 0.05; done"
    loader = f"(trap 'echo saved' USR1; echo loader; {loop})"
    inner = f"trap 'echo saved; exit 0' USR1; {loader} & until [ -e go ]; do sleep 0.05; done"
    command = f'sh -c "{inner}; echo ready; {loop}"; echo after $?'
    node.order(command, terms=Terms(60_000, signal=10))
    process = node.start()
    eventually(lambda: "loader" in node.log())
    (node.root / "go").touch()
    eventually(lambda: "ready" in node.log())
    process.send_signal(signal.SIGUSR1)
    assert process.wait() == 0
    assert node.log().count("saved") == 1


def test_what_does_not_heed_is_killed_after_the_grace_time_with_its_children(node: Node) -> None:
    stubborn = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    directory = node.order(f'sh -c "{stubborn}" & {stubborn}', terms=Terms(grace_ms=1000))
    process = node.start()
    eventually(lambda: node.log().count("ready") == 2)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == -9
    assert read_exit(directory) == Exit(signal=9) and on_disk.was_told_to_stop(directory)
    eventually(lambda: not node.processes(), "its children are gone too")


@pytest.mark.parametrize(
    "fork",
    ["kill 'TERM', $$; CORE::fork()", "my $pid = CORE::fork(); kill 'TERM', $$ if !$pid; $pid"],
)
def test_what_is_told_to_end_in_the_moment_before_its_command_runs_does_not_run(
    node: Node, fork: str
) -> None:
    """All its processes were told, and nobody tells the command again."""
    directory = node.order("echo it runs")
    early = f"package early; BEGIN {{ *CORE::GLOBAL::fork = sub () {{ {fork} }} }} 1;\n"
    (node.root / "early.pm").write_text(early)
    node.start(PERL5LIB=str(node.root), PERL5OPT="-Mearly").wait(60)
    assert read_exit(directory) == Exit(signal=signal.SIGTERM)
    assert on_disk.was_told_to_stop(directory)
    assert node.log() == ""


def test_a_command_on_a_node_has_the_umask_of_its_submitter(tmp_path: Path) -> None:
    node = Node(tmp_path)
    out = str(tmp_path / "out")
    node.order("umask; touch made", launch={"umask": 0o027, "out": out})
    node.start().wait()
    assert Path(out).read_text() == "0027\n"
    assert Path(out).stat().st_mode & 0o777 == 0o640
    node.order("umask", job_id=8, launch={"umask": None})
    node.start().wait()
    ours = os.umask(0o077)
    os.umask(ours)
    assert node.log().strip() == f"{ours:04o}"
