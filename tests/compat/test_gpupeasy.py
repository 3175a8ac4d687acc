"""What GPUPeasy describes: named jobs with an output file and a shell command, one GPU each."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from fakegpu.build import Built
from gpu_box import Box
from stoker_home import Ran, StokerHome, lines_of
from waiting import PATIENCE_S, eventually

BLAH = """\
import os, sys
print("on", os.environ["CUDA_VISIBLE_DEVICES"])
print("oops", file=sys.stderr)
"""


def holding(home: StokerHome, name: str) -> str:
    """A command that tells its GPU, and ends when a file of its name is there."""
    return (
        f"echo $CUDA_VISIBLE_DEVICES > {name}.gpu; "
        f"until [ -e {home.work}/{name}.go ]; do sleep 0.05; done"
    )


def gpu_of(home: StokerHome, name: str) -> str:
    return eventually(lambda: lines_of(home.work / f"{name}.gpu"), f"{name} runs")[0]


def let_go(home: StokerHome, *names: str) -> None:
    for name in names:
        (home.work / f"{name}.go").touch()


def test_a_job_has_a_name_an_output_file_and_a_shell_command(stoker: StokerHome) -> None:
    (stoker.work / "blah.py").write_text(BLAH)
    job = stoker.add("--name", "blah", "--out", "blah.txt", "--", "python3 -u blah.py")
    listing = stoker.add("--name", "listing", "--out", "listing.txt", "--", "ls -l")
    assert [j["state"] for j in stoker.until_final(job, listing)] == ["succeeded"] * 2
    assert sorted(lines_of(stoker.work / "blah.txt")) == ["on 0", "oops"]
    assert any("blah.py" in line for line in lines_of(stoker.work / "listing.txt"))
    assert stoker.stoker("logs", str(job)).splitlines()[0] == "on 0"
    assert json.loads(stoker.stoker("show", str(job), "--json"))["job"]["name"] == "blah"


def test_the_server_is_started_on_four_devices_and_jobs_may_be_sent_from_anywhere(
    home: StokerHome,
) -> None:
    home.stoker("daemon", "start")
    home.stoker("config", "set", "gpus", "0-3")
    jobs = [home.add("--name", f"job{n}", "--", holding(home, f"job{n}")) for n in range(5)]
    assert sorted(gpu_of(home, f"job{n}") for n in range(4)) == ["0", "1", "2", "3"]
    assert home.job(jobs[4])["state"] == "waiting"
    let_go(home, "job2")
    assert gpu_of(home, "job4") == gpu_of(home, "job2")
    let_go(home, *(f"job{n}" for n in range(5)))
    home.until_final(*jobs)


PAGE = (Path(__file__).parents[2] / "docs" / "coming-from-gpupeasy.md").read_text()


def test_the_server_and_the_page_are_started_by_the_commands_of_the_description(
    home: StokerHome,
) -> None:
    for name in ("startserver.py", "startgui.py"):
        found = re.search(rf'^```python title="{name}"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)
        assert found is not None
        (home.work / name).write_text(found[1])
    home.env["PATH"] = f"{Path(sys.executable).parent}:{home.env['PATH']}"
    for _ in range(2):  # A second one finds what the first has started.
        done = typed(home, "python startserver.py")
        assert done.code == 0 and str(home.daemon_pid()) in done.out, done
    assert [gpu["id"] for gpu in home.call("gpus")["gpus"]] == ["0", "1", "2", "3"]
    home.call("config_set", name="gpus", value="0,1")
    typed(home, "python startserver.py")
    assert [gpu["id"] for gpu in home.call("gpus")["gpus"]] == ["0", "1"], "GPUs are left alone"
    # On another port than the usual one, which may be taken.
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    gui = (home.work / "startgui.py").read_text()
    (home.work / "startgui.py").write_text(gui.replace("start_gui()", f"start_gui(port={port})"))
    done = typed(home, "python startgui.py")
    assert done.code == 0 and done.out.startswith(f"http://127.0.0.1:{port}/enter#"), done
    with urllib.request.urlopen(done.out.partition("#")[0], timeout=PATIENCE_S) as page:
        assert page.status == 200


def typed(home: StokerHome, line: str) -> Ran:
    """A command line as a user types it."""
    done = subprocess.run(
        ["bash", "-c", line], env=home.env, cwd=home.work, capture_output=True, timeout=PATIENCE_S
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_list_of_jobs_in_one_file_is_queued_and_seen_through(stoker: StokerHome) -> None:
    (stoker.work / "blah.py").write_text(BLAH)
    (stoker.work / "jobs.yaml").write_text(
        """\
- name: first
  out: first.txt
  command: python3 -u blah.py
- jobname: second
  outfile: second.txt
  command: ls -l
  gpus: 2
  priority: -1
"""
    )
    (stoker.work / "jobs.jsonl").write_text(
        '{"name": "third", "out": "third.txt", "command": "echo $STOKER_GPUS", "on": [3]}\n'
    )
    assert stoker.cli("batch", "jobs.yaml").code == 0
    assert stoker.cli("batch", "jobs.jsonl").code == 0
    printed = lines_of(stoker.work / "first.txt")
    assert "oops" in printed and any(line.startswith("on ") for line in printed)
    assert (stoker.work / "second.txt").stat().st_size > 0
    assert lines_of(stoker.work / "third.txt") == ["3"]
    names = {job["name"]: job for job in stoker.jobs().values()}
    assert names["second"]["need"]["gpus"] == 2
    assert names["second"]["priority"] == -1


def test_gpus_come_and_go_without_killing_the_server_or_a_job(home: StokerHome) -> None:
    home.start(gpus="0")
    first = home.add("--name", "first", "--", holding(home, "first"))
    second = home.add("--name", "second", "--", holding(home, "second"))
    assert gpu_of(home, "first") == "0"
    home.stoker("gpus", "add", "1")
    assert gpu_of(home, "second") == "1"
    home.stoker("gpus", "remove", "0")
    assert home.job(first)["state"] == "running"
    third = home.add("--name", "third", "--", holding(home, "third"))
    let_go(home, "first", "second", "third")
    assert gpu_of(home, "third") == "1"
    assert {j["state"] for j in home.until_final(first, second, third)} == {"succeeded"}


def test_jobs_have_priorities_and_without_them_it_is_a_queue(home: StokerHome) -> None:
    home.start(gpus="0")
    blocker = home.add("--", holding(home, "blocker"))
    gpu_of(home, "blocker")
    wanted = [("c", 30), ("a", -1), ("d", 30), ("b", 5)]
    jobs = [
        home.add("--name", name, "--priority", str(priority), "--", f"echo {name} >> order")
        for name, priority in wanted
    ]
    let_go(home, "blocker")
    home.until_final(blocker, *jobs)
    assert lines_of(home.work / "order") == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("devices", "declared", "words"),
    [
        (["0", "1"], ["0", "1"], ""),
        ([0, 1], ["0", "1"], ""),
        (["0,1", "2,3"], ["0", "1", "2", "3"], "--gpus 2"),
        ([["0", "1"], "2"], ["0", "1", "2"], "--gpus 2"),
        (["0", "", ""], ["0"], "--gpus 0"),
        (["", ""], [], "--gpus 0"),
    ],
)
def test_the_server_takes_a_list_of_devices(
    home: StokerHome, devices: list[object], declared: list[str], words: str
) -> None:
    done = serve(home, devices)
    assert done.code == 0, done
    assert [gpu["id"] for gpu in home.call("gpus")["gpus"]] == declared
    assert words in done.err and bool(words) == bool(done.err)


@pytest.mark.parametrize(
    ("gpus", "used", "said"),
    [
        (["1"], ["1"], ""),
        ("0-1:24G", ["0", "1"], ""),
        ([["0", "1"], ["2", "3"]], ["0", "1"], "the driver shows 2 of the 4 GPUs"),
        (["6", "7"], ["0", "1"], "the driver shows no GPU 6, 7; there are 0, 1"),
    ],
)
def test_of_a_drivers_gpus_those_that_are_named_are_used(
    cold_box: Box, gpus: object, used: list[str], said: str
) -> None:
    done = serve(cold_box, gpus)
    assert done.code == (2 if "no GPU" in said else 0), done
    assert said in done.err
    assert list(cold_box.gpus()) == used


def serve(home: StokerHome, gpus: object) -> Ran:
    """Start the server by a script, on these GPUs."""
    (home.work / "startserver.py").write_text(
        "import sys\nfrom stoker.compat.gpupeasy import start_server\n"
        f"sys.exit(start_server(gpus={gpus!r}))\n"
    )
    return typed(home, f"{sys.executable} startserver.py")


def test_a_later_start_uses_gpus_of_the_driver_that_an_earlier_one_left_out(
    tmp_path: Path, built: Built
) -> None:
    box = Box(tmp_path, built, 8)
    try:
        assert serve(box, ["0", "1"]).code == 0
        assert list(box.gpus()) == ["0", "1"]
        done = serve(box, "0-3")
        assert (done.code, done.err) == (0, ""), done
        assert list(box.gpus()) == ["0", "1", "2", "3"]
        refused = serve(box, "9")
        assert refused.code == 2 and "it shows" not in refused.err
        assert "the driver shows no GPU 9; there are 0, 1, 2, 3, 4, 5, 6, 7" in refused.err
        assert list(box.gpus()) == ["0", "1", "2", "3"], "those of before"
        assert not box.call("status")["paused"]
        box.call("pause")
        assert serve(box, ["7"]).code == 0
        assert list(box.gpus()) == ["7"] and box.call("status")["paused"]
    finally:
        box.clean_up()


@pytest.mark.parametrize("gpus", [None, 4])
def test_what_is_no_list_of_gpus_is_refused_in_a_line(home: StokerHome, gpus: object) -> None:
    done = serve(home, gpus)
    assert done.code == 2 and done.err.count("\n") == 1
    assert f"gpus={gpus} is no list of GPUs; write e.g." in done.err


def test_a_relative_output_file_is_in_the_directory_of_the_job(stoker: StokerHome) -> None:
    (stoker.work / "sub").mkdir()
    job = stoker.add("--cwd", "sub", "--out", "out.txt", "--", "pwd")
    stoker.until_final(job)
    assert lines_of(stoker.work / "sub" / "out.txt") == [str(stoker.work / "sub")]
