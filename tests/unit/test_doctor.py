"""`stoker doctor`: each check is right on good facts, and says what to do on bad ones."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stoker import __version__
from stoker.api.paths import Home
from stoker.cli.doctor import checks, facts
from stoker.cli.doctor.facts import Facts, Limit
from stoker.cli.verbs import doctor
from unit.cli_run import stoker

BIN = Path(__file__).parents[2] / "bin"

GOOD = Facts(
    python="3.11", daemon_version=__version__, home="/home/ada/state", file_system="ext4",
    gpus=({"id": "0", "declared": False, "fault": ""},), driver="550.54.15", vendors=("NVIDIA",),
    shared_memory_bytes=8 << 30,
)  # fmt: skip

BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("daemon", {"daemon_trouble": "disk is full; free some"}, "does not answer", "disk is full"),
    ("versions", {"daemon_version": "0.0.9"}, "0.0.9", "stoker daemon restart"),
    ("libraries", {"wrong_libraries": (("textual", "0.1", "8.2"),)}, "textual 0.1 is too old",
     "-m pip install 'textual>=8.2'"),
    ("libraries", {"wrong_libraries": (("uvicorn", "", "0.29"),)}, "uvicorn is missing", "pip"),
    ("installation", {"missing_files": ("/x/lanes.py is missing; reinstall it",)}, "lanes.py",
     "reinstall"),
    ("installation", {"other_program": "/usr/bin/stoker"}, "/usr/bin/stoker", "PATH"),
    ("installation", {"other_program": "/usr/bin/simple_hypersearch"},
     "/usr/bin/simple_hypersearch is found first on PATH, and is another tool's", "PATH"),
    ("driver and GPUs", {"gpus": (), "vendors": ()}, "no GPU", "stoker config set gpus"),
    ("driver and GPUs", {"gpus": (), "why_none_measured": "the driver is not loaded"}, "NVIDIA",
     "the driver is not loaded"),
    ("faults of GPUs", {"gpus": ({"id": "3", "declared": False, "fault": "GPU is lost"},)},
     "GPU 3: GPU is lost", "stoker gpus resume"),
    ("device files", {"closed_devices": ("/dev/nvidia0",)}, "/dev/nvidia0", "group"),
    ("MPS", {"others_mps": "/tmp/nvidia-mps"}, "/tmp/nvidia-mps", "echo quit"),
    ("MPS", {"mps_by_default": True}, "not on PATH", "stoker config set mps off"),
    ("disk", {"free_bytes": 1 << 20}, "0.0 GiB", "stoker rm"),
    ("disk", {"free_files": 12}, "12 more files", "stoker rm"),
    ("disk", {"file_system": "tmpfs"}, "gone after a restart", "STOKER_HOME"),
    ("home", {"owner": "ada on gpu2"}, "ada on gpu2", "stoker daemon claim"),
    ("home", {"shared": True, "file_system": "nfs4"}, "nfs4", "local disk"),
    ("permissions", {"is_mine": False}, "another user", "STOKER_HOME"),
    ("permissions", {"mode": 0o755}, "open to other users", "chmod 700 /home/ada/state"),
    ("service", {"has_systemd": True, "has_unit": True}, "logged in", "enable-linger"),
    ("logging out", {"has_systemd": True, "kills_at_logout": True}, "KillUserProcesses",
     "enable-linger"),
    ("page", {"page_trouble": "something else listens on 127.0.0.1:8080"}, "8080", "stoker web"),
    ("open files", {"open_files": 1024}, "1024", "ulimit -Hn"),
    ("memory", {"memory": Limit(4 << 30, 4 << 30)}, "0.0 GiB of 4.0 GiB", "--memory"),
    ("processes", {"processes": Limit(300, 200)}, "100 of 300", "--pids-limit"),
    ("CPUs", {"cpus": 0.5}, "0.50 of a CPU", "--cpus"),
    ("shared memory", {"shared_memory_bytes": 64 << 20}, "64 MiB", "--shm-size"),
]  # fmt: skip


def test_on_a_machine_that_is_well_there_is_nothing_to_do() -> None:
    assert [(name, one) for name, one in checks.findings(GOOD) if one.todo] == []


@pytest.mark.parametrize(("name", "facts", "text", "todo"), BAD)
def test_what_is_wrong_is_said_with_what_to_do(
    name: str, facts: dict[str, Any], text: str, todo: str
) -> None:
    found = dict(checks.findings(dataclasses.replace(GOOD, **facts)))[name]
    assert text in found.text and todo in found.todo
    assert "\n" not in found.text + found.todo


@pytest.mark.parametrize("name", ["stoker", "simple_gpu_scheduler", "simple_hypersearch"])
def test_a_command_that_hides_one_of_ours_is_found_and_a_link_to_ours_is_not(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, first = tmp_path / "own", tmp_path / "first"
    first.mkdir()
    shutil.copytree(BIN, own)
    monkeypatch.setattr(sys, "argv", [str(own / "stoker"), "doctor"])
    monkeypatch.setenv("PATH", f"{first}:{own}")
    assert facts._of_installation()["other_program"] == ""
    (first / name).symlink_to(own / name)
    assert facts._of_installation()["other_program"] == ""
    (first / name).unlink()
    shutil.copy(own / name, first / name)
    assert facts._of_installation()["other_program"] == str(first / name)


def test_every_check_can_fail() -> None:
    assert {name for name, *_ in BAD} == {name for name, _ in checks.CHECKS}


@pytest.mark.parametrize(
    ("facts", "name", "text"),
    [
        ({"gpus": ({"id": "0", "declared": True, "fault": ""},), "vendors": ()},
         "driver and GPUs", "1 GPU, declared by hand"),
        ({"logs": "/home/ada/hosts/gpu1"}, "home", "on the network; state is in /home/ada/state"),
        ({"kills_at_logout": True, "lingers": True}, "logging out", "continue"),
        ({"port_is_taken": True, "page_url": "http://localhost:4005"}, "page", "localhost:4005"),
        ({"port_is_taken": True}, "page", "takes the next free one"),
        ({"memory": Limit(64 << 30, 4 << 30)}, "memory", "60.0 GiB of 64.0 GiB"),
        ({"mps_program": "/usr/bin/nvidia-cuda-mps-control"}, "MPS", "can be used"),
    ],
)  # fmt: skip
def test_what_is_unusual_but_right_is_ok(facts: dict[str, Any], name: str, text: str) -> None:
    found = dict(checks.findings(dataclasses.replace(GOOD, **facts)))[name]
    assert text in found.text and not found.todo


@pytest.mark.parametrize(("said", "code"), [(GOOD, 0), (dataclasses.replace(GOOD, cpus=0.5), 1)])
def test_the_exit_code_and_json_say_whether_anything_is_wrong(
    said: Facts, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "gather", lambda: said)
    ran = stoker(capsys, "doctor")
    assert ran.code == code
    assert ran.out.count("WRONG") == ran.out.count("->") == code
    ran = stoker(capsys, "doctor", "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["ok"]) == (code, code == 0)
    assert [one["name"] for one in answer["checks"]] == [name for name, _ in checks.CHECKS]
    assert [one["name"] for one in answer["checks"] if not one["ok"]] == ["CPUs"][:code]
    assert doctor.VERB.name == "doctor"


def test_the_tightest_limit_of_the_control_groups_above_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (tmp_path / "a" / "memory.max").write_text("1000\n")
    (tmp_path / "a" / "memory.current").write_text("400\n")
    (tmp_path / "memory.max").write_text("5000\n")
    (inner / "pids.max").write_text("100\n")
    (inner / "cpu.max").write_text("150000 100000\n")
    (tmp_path / "a" / "cpu.max").write_text("max 100000\n")
    (tmp_path / "cpu.max").write_text("400000 100000\n")
    found = facts.group_limits(str(tmp_path), "1:cpu:/\n0::/a/b\n")
    assert found == (Limit(1000, 400), Limit(100, 0), 1.5)
    assert facts.group_limits(str(tmp_path / "no"), "") == (Limit(), Limit(), None)


def test_a_disk_that_does_not_count_files_has_room_for_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = SimpleNamespace(f_bavail=1 << 20, f_frsize=4096, f_files=0, f_favail=0)
    monkeypatch.setattr(os, "statvfs", lambda path: room)
    monkeypatch.setenv("STOKER_HOME", str(tmp_path))
    found = Facts(**facts.of_directory(Home.from_environment()))
    assert found.free_bytes == 4 << 30 and "4.0 GiB free" in checks.disk(found).text


def test_gpus_on_the_bus_are_told_from_other_devices(tmp_path: Path) -> None:
    for name, vendor, kind in (("1", "0x10de", "0x030200"), ("2", "0x10de", "0x0c0330"),
                               ("3", "0x8086", "0x030000"), ("4", "0x1002", "0x120000"),
                               ("5", "0x1002", "0x060400")):  # fmt: skip
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(f"{vendor}\n")
        (tmp_path / name / "class").write_text(f"{kind}\n")
    assert facts.vendors_on_bus(str(tmp_path)) == ("AMD", "NVIDIA")
    text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\nGCC: 12\n"
    assert facts.driver_version(text) == "550.54.15"
    assert facts.driver_version("") == ""
