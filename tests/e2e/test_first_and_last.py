"""`stoker doctor` and `stoker uninstall` with a real daemon: the first command and the last."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.cli.verbs.uninstall import remove_command
from stoker_home import StokerHome, all_gone
from waiting import eventually


def test_the_doctor_looks_at_a_real_machine(home: StokerHome) -> None:
    ran = home.cli("doctor", "--json")
    found = {one["name"]: one for one in json.loads(ran.out)["checks"]}
    assert found["daemon"]["ok"] and found["permissions"]["ok"] and found["versions"]["ok"]
    assert home.home.root in found["disk"]["text"]
    assert ran.code == (0 if all(one["ok"] for one in found.values()) else 1)
    Path(home.home.root).chmod(0o755)
    ran = home.cli("doctor")
    assert ran.code == 1
    assert f"-> run: chmod 700 {home.home.root}" in ran.out


def test_doctor_called_by_a_link_of_the_users_finds_the_installation_complete(
    home: StokerHome, tmp_path: Path
) -> None:
    link = tmp_path / "own" / "stoker"
    link.parent.mkdir()
    link.symlink_to(Path(sys.executable).parent / "stoker")
    env = {**home.env, "PATH": f"{link.parent}:{home.env['PATH']}"}
    ran = subprocess.run([link, "doctor"], env=env, capture_output=True, text=True)
    assert "ok     installation     complete\n" in ran.stdout, ran


def test_uninstall_tells_of_jobs_that_have_not_started(stoker: StokerHome) -> None:
    stoker.submit("true", hold=True)
    stoker.call("pause")
    stoker.submit("true")
    ran = stoker.cli("uninstall")
    assert "2 jobs in the queue: they start if Stoker is started again\n" in ran.err
    stoker.start()
    ran = stoker.cli("uninstall", "--delete-data")
    assert "2 jobs had not started, and were deleted too\n" in ran.err


def test_uninstall_stops_the_daemon_and_deletes_nothing(stoker: StokerHome) -> None:
    job = stoker.submit("sleep", "1000", gpus=0)
    pid = stoker.until_pid(job)
    ran = stoker.cli("uninstall")
    assert ran.code == 0 and "1 job continues without it" in ran.err
    assert f"jobs, logs and settings: {stoker.home.root}\n" in ran.out
    assert "stoker uninstall --delete-data" in ran.err and "pip uninstall stoker-gpu" in ran.err
    assert not stoker.daemons() and not all_gone([pid])
    assert Path(stoker.home.database).exists()
    stoker.start()
    assert stoker.job(job)["state"] == "running"


def test_data_are_deleted_only_when_told_to_and_never_under_running_jobs(
    stoker: StokerHome,
) -> None:
    pid = stoker.until_pid(stoker.submit("sleep", "1000", gpus=0))
    refused = stoker.cli("uninstall", "--delete-data")
    assert refused.code == 1 and "--kill" in refused.err
    assert stoker.is_reachable() and not all_gone([pid])
    ran = stoker.cli("uninstall", "--delete-data", "--kill", "--json")
    answer = json.loads(ran.out)
    assert answer["deleted"] == [stoker.home.root]
    assert [one["what"] for one in answer["left"]] == ["program"]
    assert all_gone([pid]) and not Path(stoker.home.root).exists()


def test_data_are_not_deleted_under_a_job_that_is_still_stopping(stoker: StokerHome) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.02; done"
    job = stoker.submit("sh", "-c", script, gpus=0, grace_ms=600_000)
    eventually(lambda: "ready" in stoker.cli("logs", str(job)).out, "it ignores SIGTERM")
    stoker.stoker("cancel", str(job))
    ran = stoker.cli("uninstall", "--delete-data")
    assert (ran.code, "--kill" in ran.err) == (1, True)
    assert stoker.job(job)["state"] == "stopping"
    os.kill(stoker.job(job)["pid"], 9)
    stoker.until_final(job)


def test_a_directory_that_is_not_stokers_is_not_deleted(home: StokerHome) -> None:
    mine = Path(home.home.root) / "thesis.tex"
    mine.parent.mkdir(mode=0o700)
    mine.write_text("years")
    ran = home.cli("uninstall", "--delete-data")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert mine.exists()


def test_of_a_directory_with_other_files_only_what_is_stokers_is_deleted(
    stoker: StokerHome,
) -> None:
    root = Path(stoker.home.root)
    mine = [root / "thesis.tex", root / "claim.txt", root / "stoker.db.bak", root / "data"]
    for path in mine[:-1]:
        path.write_text("years")
    (root / "data").mkdir()
    stoker.until_final(stoker.submit("true", gpus=0))
    ran = stoker.cli("uninstall", "--delete-data")
    assert ran.code == 0 and sorted(root.iterdir()) == sorted(mine)
    assert "kept, because it is not Stoker's: " in ran.err
    assert str(root / "thesis.tex") in ran.err and f"deleted {root}/attempts\n" in ran.err
    assert "jobs, logs and settings" not in ran.out


def test_a_state_directory_that_is_reached_by_a_link_is_deleted(home: StokerHome) -> None:
    real = home.root / "real"
    real.mkdir(mode=0o700)
    Path(home.home.root).symlink_to(real)
    home.start()
    ran = home.cli("uninstall", "--delete-data")
    assert ran.code == 0, ran
    assert not real.exists() and not os.path.lexists(home.home.root)


def test_results_in_frozen_code_are_kept(stoker: StokerHome) -> None:
    (stoker.work / "train.py").write_text("open('best.pt', 'w').write('weights')")
    subprocess.run(["git", "init", "-q", stoker.work], check=True)
    job = stoker.add("--gpus", "0", "--freeze", "--", sys.executable, "train.py")
    assert stoker.until_final(job)[0]["state"] == "succeeded"
    ran = stoker.cli("uninstall", "--delete-data")
    left = [path for path in Path(stoker.home.root).rglob("*") if path.name == "best.pt"]
    assert ran.code == 0 and len(left) == 1 and "frozen/trees/" in ran.err


def test_data_are_not_deleted_under_jobs_that_go_on_without_a_daemon(stoker: StokerHome) -> None:
    job = stoker.submit("sleep", "1000", gpus=0)
    pid = stoker.until_pid(job)
    for end in (lambda: stoker.stoker("daemon", "stop"), stoker.kill_daemon):
        stoker.start()
        end()
        ran = stoker.cli("uninstall", "--delete-data")
        assert (ran.code, ran.err.count("\n")) == (1, 1) and f"job {job} is running" in ran.err
        assert not all_gone([pid]) and not stoker.daemons()


def test_kill_ends_jobs_that_go_on_without_a_daemon_and_starts_none(stoker: StokerHome) -> None:
    pid = stoker.until_pid(stoker.submit("sleep", "1000", on=["0"], gpus=1))
    started = stoker.work / "started"
    stoker.submit("touch", str(started), on=["0"], gpus=1)
    stoker.kill_daemon()
    ran = stoker.cli("uninstall", "--delete-data", "--kill")
    assert ran.code == 0 and "1 job had not started, and was deleted too" in ran.err, ran
    assert all_gone([pid]) and not started.exists() and not Path(stoker.home.root).exists()


@pytest.mark.parametrize(
    ("file", "command"),
    [("uv-receipt.toml", "uv tool uninstall"), ("pipx_metadata.json", "pipx uninstall"),
     ("pyvenv.cfg", "-m pip uninstall")],
)  # fmt: skip
def test_the_program_is_removed_by_what_installed_it(
    file: str, command: str, tmp_path: Path
) -> None:
    (tmp_path / file).touch()
    assert f"{command} stoker-gpu" in remove_command(str(tmp_path))
