"""What a job finds around it: nothing of another run, all about itself, a port, its own files."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker import Client
from stoker.errors import UsageError
from stoker_home import StokerHome
from waiting import eventually

# As three trainings with `mp.spawn` do it: the first process listens where all of them meet.
MEETS = (
    "import os, socket, sys, time\n"
    "meeting = socket.create_server((os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])))\n"
    "print(os.environ['MASTER_PORT'], flush=True)\n"
    "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
)
FOREIGN = {
    "SLURM_NTASKS": "2", "SLURM_JOB_ID": "7", "PMI_RANK": "0", "PMIX_RANK": "0",
    "OMPI_COMM_WORLD_RANK": "1", "RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1",
    "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "x", "JPY_PARENT_PID": "1",
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
}  # fmt: skip
KEPT = {"SLURM_CONF": "/etc/slurm.conf", "RANKING": "1", "MY_RANK": "3"}


def environment_of(stoker: StokerHome, *words: str, env: dict[str, str]) -> dict[str, str]:
    """What a job has that was added with these words in that environment."""
    added = stoker.cli("add", "--gpus", "0", *words, "--", "env", "-0", env=env)
    job = int(added.out)
    assert stoker.until_final(job)[0]["state"] == "succeeded"
    return dict(one.split("=", 1) for one in stoker.log_of(job).split("\0") if one)


def test_variables_of_another_run_are_left_out_and_show_says_which(reused: StokerHome) -> None:
    seen = environment_of(reused, env={**FOREIGN, **KEPT})
    assert not seen.keys() & FOREIGN.keys()
    assert {name: seen[name] for name in KEPT} == KEPT
    shown = reused.stoker("show", "last")
    line = next(line for line in shown.splitlines() if "left out" in line)
    assert set(re.findall(r"[A-Z_]{4,}", line)) == FOREIGN.keys() and "--env-all" in line


def test_env_all_passes_everything_and_env_always_counts(reused: StokerHome) -> None:
    seen = environment_of(reused, "--env-all", env=FOREIGN)
    assert {name: seen[name] for name in FOREIGN} == FOREIGN
    assert "left out" not in reused.stoker("show", "last")
    seen = environment_of(reused, "--env", "RANK=0", env=FOREIGN)
    assert seen["RANK"] == "0" and "WORLD_SIZE" not in seen


# As torchrun does it: two workers with variables of their own, which meet at the job's port. Each
# then looks, as Lightning does, whether Slurm has started it.
TORCHRUN = """
import os, socket, subprocess, sys
if len(sys.argv) == 1:
    own = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "own"}
    workers = [
        subprocess.Popen([sys.executable, sys.argv[0], "worker"],
                         env={**os.environ, **own, "RANK": str(n), "LOCAL_RANK": str(n)})
        for n in (1, 0)
    ]
    raise SystemExit(max(worker.wait() for worker in workers))
address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    with socket.create_server(address) as meeting:
        there, _ = meeting.accept()
        rank = there.recv(10).decode()
    world, by_slurm = os.environ["WORLD_SIZE"], "SLURM_NTASKS" in os.environ
    print(f"0 of {world} met {rank}, by Slurm: {by_slurm}", flush=True)
else:
    while True:
        try:
            there = socket.create_connection(address)
            break
        except ConnectionRefusedError:
            pass
    there.sendall(os.environ["RANK"].encode())
"""


def test_a_launcher_in_a_job_has_its_own_variables_and_none_of_the_allocation_around_it(
    reused: StokerHome,
) -> None:
    (reused.work / "launch.py").write_text(TORCHRUN)
    around = {
        **FOREIGN,
        "SLURM_NTASKS_PER_NODE": "4",
        "SLURM_JOB_NAME": "train",
        "SLURM_PROCID": "0",
    }
    words = ("add", "--gpus", "2", "--time-limit", "1m", "--", sys.executable, "launch.py")
    job = int(reused.cli(*words, env=around).out)
    [ended] = reused.until_final(job)
    assert ended["state"] == "succeeded", reused.log_of(job)
    assert reused.log_of(job) == "0 of 2 met 1, by Slurm: False\n"


def test_a_plot_backend_that_the_user_chose_is_kept(reused: StokerHome) -> None:
    assert environment_of(reused, env={"MPLBACKEND": "agg"})["MPLBACKEND"] == "agg"


def test_a_job_in_a_terminal_has_the_same_surroundings(reused: StokerHome) -> None:
    words = ("run", "--gpus", "2", "--name", "here", "--group", "g", "--", "env")
    seen = reused.cli(*words, env=FOREIGN).out.splitlines()
    assert "RANK=1" not in seen and "SLURM_NTASKS=2" not in seen
    assert "STOKER_NAME=here" in seen and "STOKER_GROUP=g" in seen
    assert any(re.fullmatch(r"MASTER_PORT=2\d{4}", line) for line in seen)


def test_a_job_is_told_its_name_group_sweep_and_parameters(reused: StokerHome) -> None:
    reused.stoker("sweep", "--name", "tune", "lr=0.1", "model=b", "--", "sh", "-c",
                  "env | grep ^STOKER_; : {lr} {model}")  # fmt: skip
    point = reused.first_id
    reused.until_final(point)
    seen = dict(line.split("=", 1) for line in reused.log_of(point).splitlines())
    assert seen["STOKER_SWEEP"] == seen["STOKER_GROUP"] == "tune"
    assert seen["STOKER_NAME"] == "lr=0.1,model=b"
    assert json.loads(seen["STOKER_PARAMS"]) == {"lr": 0.1, "model": "b"}
    # What a job queues is told of itself alone.
    words = " ".join(reused.command("add", "--gpus", "0", "--", "env"))
    outer = reused.add("--name", "outer", "--group", "g", "--", "sh", "-c", words)
    reused.until_final(outer)
    inner = int(reused.log_of(outer))
    reused.until_final(inner)
    told = [line for line in reused.log_of(inner).splitlines() if line.startswith("STOKER_")]
    assert not [one for one in told if one.startswith(("STOKER_NAME", "STOKER_GROUP"))]


def test_containers_are_told_which_gpus_they_get(reused: StokerHome) -> None:
    words = ("--", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES")
    for options, expected in (("--gpus", "2"), "0,1"), (("--gpus", "0"), "void"):
        job = reused.add(*options, *words)
        reused.until_final(job)
        assert reused.log_of(job) == f"{expected}\n"


# --- ports ---


def meeting(stoker: StokerHome, end: Path, *options: str) -> int:
    return stoker.add("--gpus", "2", "--mem", "1G", *options,
                      "--", sys.executable, "-c", MEETS, str(end))  # fmt: skip


def test_three_trainings_at_once_each_have_a_port(stoker: StokerHome, tmp_path: Path) -> None:
    stoker.start("0:8G,1:8G")
    jobs = [meeting(stoker, tmp_path / "end") for _ in range(3)]
    ports = eventually(lambda: [p for p in map(stoker.log_of, jobs) if p.endswith("\n")][2:])
    assert ports
    (tmp_path / "end").touch()
    assert [job["state"] for job in stoker.until_final(*jobs)] == ["succeeded"] * 3
    assert len({stoker.log_of(job) for job in jobs}) == 3


def test_a_command_names_the_port_that_its_environment_has(reused: StokerHome) -> None:
    job = reused.add("--gpus", "2", "--", "sh", "-c", "echo $MASTER_PORT {port}")
    reused.until_final(job)
    port, in_command = reused.log_of(job).split()
    assert port == in_command and port.isdigit()


def test_a_port_that_the_user_sets_is_the_port(reused: StokerHome) -> None:
    job = reused.add("--gpus", "2", "--env", "MASTER_PORT=4711", "--", "sh", "-c",
                     "echo $MASTER_PORT {port} $MASTER_ADDR")  # fmt: skip
    reused.until_final(job)
    assert reused.log_of(job) == "4711 4711 127.0.0.1\n"


def test_a_job_on_one_gpu_has_no_port_and_its_braces_are_its_own(reused: StokerHome) -> None:
    job = reused.add("--", "sh", "-c", "echo {port}$MASTER_PORT")
    reused.until_final(job)
    assert reused.log_of(job) == "{port}\n"


def test_a_sweep_leaves_the_port_to_be_filled_in(reused: StokerHome) -> None:
    reused.stoker("sweep", "--gpus", "2", "lr=1", "--", "sh", "-c", "echo {lr} {port} $MASTER_PORT")
    reused.until_final(reused.first_id)
    lr, port, told = reused.log_of(reused.first_id).split()
    assert lr == "1" and port == told and port.isdigit()


# --- output files ---


@pytest.mark.parametrize("verb", ["add", "run"])
def test_output_files_are_called_after_their_job(reused: StokerHome, verb: str) -> None:
    words = ("--gpus", "0", "--name", "a/b", "--out", "runs/{id}/{name}-{attempt}.txt",
             "--err", "{id}.err", "--", "sh", "-c", "echo said; echo wrong >&2")  # fmt: skip
    (reused.work / "runs").mkdir(exist_ok=True)
    reused.stoker(verb, *words)
    job = reused.first_id
    reused.until_final(job)
    out = reused.work / "runs" / str(job) / "a_b-1.txt"
    assert out.read_text() == "said\n"
    assert (reused.work / f"{job}.err").read_text() == "wrong\n"
    assert reused.job(job)["log"] == str(out)
    assert reused.stoker("logs", str(job)) == "said\n"
    assert reused.stoker("logs", "--err", str(job)) == "wrong\n"


def test_each_attempt_has_the_file_of_its_number(reused: StokerHome) -> None:
    job = reused.add("--gpus", "0", "--retries", "1", "--out", "try-{attempt}", "--", "sh", "-c",
                     "echo $STOKER_ATTEMPT; exit 1")  # fmt: skip
    reused.until_final(job)
    assert [(reused.work / f"try-{n}").read_text() for n in (1, 2)] == ["1\n", "2\n"]
    logs = [attempt["log"] for attempt in reused.job(job)["attempts"]]
    assert logs == [str(reused.work / f"try-{n}") for n in (1, 2)]


def test_points_of_a_sweep_may_be_told_apart_by_their_id(reused: StokerHome) -> None:
    reused.stoker("sweep", "--gpus", "0", "--out", "{lr}-{id}.out", "lr=1,2", "--", "echo", "{lr}")
    jobs = [reused.nth(number) for number in (1, 2)]
    reused.until_final(*jobs)
    assert (reused.work / f"1-{jobs[0]}.out").read_text() == "1\n"
    assert (reused.work / f"2-{jobs[1]}.out").read_text() == "2\n"


def test_missing_directories_of_a_file_with_braces_are_made_whoever_asks(
    reused: StokerHome,
) -> None:
    (reused.work / "j.csv").write_text("command,gpus,out\necho batch,0,b/x/{id}.txt\n")
    reused.stoker("add", "--gpus", "0", "--out", "a/x/{id}.txt", "--", "echo", "add")
    reused.stoker("batch", "j.csv")
    with Client(reused.home.root) as client:
        out = str(reused.work / "c/{id}/x.txt")
        client.add(["echo", "library"], gpus=0, out=out, cwd=str(reused.work))
    edited = reused.add("--hold", "--gpus", "0", "--", "echo", "edit")
    reused.stoker("edit", str(edited), "--out", "d/x/{id}.txt")
    reused.stoker("release", str(edited))
    jobs = [reused.nth(number) for number in (1, 2, 3, 4)]
    reused.until_final(*jobs)
    paths = [f"a/x/{jobs[0]}.txt", f"b/x/{jobs[1]}.txt", f"c/{jobs[2]}/x.txt", f"d/x/{edited}.txt"]
    said = [(reused.work / path).read_text() for path in paths]
    assert said == ["add\n", "batch\n", "library\n", "edit\n"]


def test_a_file_in_the_place_of_a_directory_is_refused(reused: StokerHome) -> None:
    (reused.work / "file").touch()
    refused = reused.cli("add", "--out", "file/new/{id}.txt", "--", "true", "x")
    assert refused.code == 2 and "there is no directory" in refused.err
    refused = reused.cli("add", "--out", "no/x", "--", "true", "x")
    assert refused.code == 2 and "there is no directory" in refused.err


def test_an_unknown_name_in_the_braces_of_a_file_is_refused_whoever_asks(
    reused: StokerHome,
) -> None:
    said = "{foo} is not known in the name of a file"
    (reused.work / "u.csv").write_text("command,gpus,out\necho x,0,{id}-{foo}.txt\n")
    held = reused.add("--hold", "--gpus", "0", "--", "true", "x")
    for option in ("--out", "--err", "--metrics-from"):
        for words in (("add",), ("run",), ("edit", str(held))):
            command = () if words[0] == "edit" else ("--gpus", "0", "--", "true", "x")
            refused = reused.cli(*words, option, "o-{id}-{foo}.txt", *command)
            assert refused.code == 2 and f"{option}: {said}" in refused.err, (words, refused)
            assert "{id}, {name}, {attempt}" in refused.err
    refused = reused.cli("add", "--out", "{foo}/x", "--", "true", "x")
    assert refused.code == 2 and said in refused.err
    refused = reused.cli("batch", "u.csv")
    assert refused.code == 2 and said in refused.err
    with Client(reused.home.root) as client:
        for option in ("out", "err", "metrics_from"):
            said_so: Any = {option: "o-{foo}.txt"}
            with pytest.raises(UsageError, match="foo} is not known"):
                client.add(["true"], gpus=0, cwd=str(reused.work), **said_so)
    refused = reused.cli("sweep", "--metrics-from", "{lr}/{foo}", "lr=1,2", "--", "true", "x")
    assert refused.code == 2 and said in refused.err and "{lr}" in refused.err
    assert reused.nth(2) not in reused.jobs()


def test_braces_that_name_no_field_stay_in_the_names_of_files(reused: StokerHome) -> None:
    (reused.work / "{foo}").mkdir()  # What is there is what it is called.
    names = ["{}", "{1}", "${x}", "{ a }", "{{x}}", "{a,b}", "{foo}/x"]
    for name in names:
        reused.stoker("add", "--gpus", "0", "--out", name, "--", "echo", "said")
    words = ("--gpus", "0", "--out", "{{foo}}-{lr}", "lr=1", "--", "echo said # {lr}")
    reused.stoker("sweep", *words)
    reused.until_final(*[reused.nth(number + 1) for number in range(len(names) + 1)])
    for name in [*names, "{foo}-1"]:
        assert (reused.work / name).read_text() == "said\n", name


def test_a_sweep_makes_the_directories_of_its_files(reused: StokerHome) -> None:
    reused.stoker("sweep", "--gpus", "0", "--out", "new/{id}/{lr}", "lr=1,2", "--", "echo", "{lr}")
    jobs = [reused.nth(number) for number in (1, 2)]
    reused.until_final(*jobs)
    made = sorted(str(path.relative_to(reused.work)) for path in (reused.work / "new").iterdir())
    assert made == sorted(f"new/{job}" for job in jobs)


def test_a_file_that_is_there_is_found_by_the_name_that_it_will_have(reused: StokerHome) -> None:
    (reused.work / "old-x.txt").write_text("kept\n")
    words = ("add", "--gpus", "0", "--name", "x", "--out", "old-{name}.txt")
    refused = reused.cli(*words, "--", "true", "x")
    assert refused.code == 2 and "old-x.txt exists" in refused.err
    reused.stoker(*words, "--append", "--", "echo", "more")
    reused.until_final(reused.first_id)
    assert (reused.work / "old-x.txt").read_text() == "kept\nmore\n"
