"""`--freeze`, in every front end: jobs run the code as it was when they were queued."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from stoker.library.client import Client as Library
from stoker.submission.snapshots import MANIFEST
from stoker_home import StokerHome
from waiting import eventually

REPO = Path(__file__).parents[2]
SHOW = ("--freeze", "--gpus", "0", "--", "sh", "./code.sh")


@pytest.fixture
def project(home: StokerHome) -> Path:
    """A repository whose code prints `old`, and a daemon that starts nothing."""
    home.start(gpus="0")
    home.call("pause")
    root = home.work / "project"
    (root / "exp").mkdir(parents=True)
    (root / "runs").mkdir()
    (root / ".gitignore").write_text("runs/\n")
    (root / "exp" / "code.sh").write_text("echo old; pwd; echo $STOKER_SUBMIT_DIR\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def change(project: Path) -> None:
    (project / "exp" / "code.sh").write_text("echo new\n")


def queued(home: StokerHome, project: Path, *words: str) -> list[int]:
    ran = home.cli(*words, cwd=project / "exp")
    assert ran.code == 0, ran.err
    return [int(line) for line in ran.out.split()]


def swept(home: StokerHome, project: Path, *command: str) -> list[int]:
    words = ("sweep", "n=1,2", "--freeze", "--gpus", "0", "--json", "--", *command)
    ids: list[int] = json.loads(home.cli(*words, cwd=project / "exp").out)["ids"]
    return ids


def outputs(home: StokerHome, *ids: int) -> list[str]:
    home.call("resume")
    for job in ids:
        [ended] = home.until_final(job)
        assert ended["state"] == "succeeded", home.log_of(job)
    return [home.log_of(job).split("\n", 1)[0] for job in ids]


def test_what_the_quickstart_says_of_later_changes_is_so(home: StokerHome, project: Path) -> None:
    page = " ".join((REPO / "docs" / "quickstart.md").read_text().split())
    assert "Later changes of these do not affect it. Files are read when the job starts" in page
    assert "reaches jobs that still wait, unless they were queued with [`--freeze`]" in page
    code = project / "exp" / "train.sh"
    code.write_text("echo old $SEED $(umask) $(basename $PWD)\n")
    ids = []
    for words in ((), ("--freeze",)):
        ran = home.cli(
            "add", "--gpus", "0", *words, "--", "sh", "./train.sh",
            cwd=project / "exp", env={"SEED": "1"},
        )  # fmt: skip
        ids.append(int(ran.out))
    code.write_text("echo new $SEED $(umask) $(basename $PWD)\n")
    home.cli("daemon", "restart", env={"SEED": "2"})
    mask = f"{os.umask(0):04o}"
    os.umask(int(mask, 8))
    assert outputs(home, *ids) == [f"new 1 {mask} exp", f"old 1 {mask} exp"]


def test_a_frozen_job_runs_old_code_in_the_same_directory_of_the_tree(
    home: StokerHome, project: Path
) -> None:
    [job] = queued(home, project, "add", *SHOW)
    [plain] = queued(home, project, "add", *SHOW[1:])
    change(project)
    assert outputs(home, job, plain) == ["old", "new"]
    _, cwd, submitted_in, _ = home.log_of(job).split("\n")
    assert cwd.startswith(f"{home.home.root}/frozen/trees/") and cwd.endswith("/project/exp")
    assert submitted_in == str(project / "exp")
    shown = home.cli("show", str(job)).out
    assert f"freeze      {project}/exp" in shown and f"directory   {cwd}" in shown


def test_what_was_frozen_is_said_as_it_is(home: StokerHome, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "code.sh").write_text("echo old\n")
    ran = home.cli("add", "--freeze", "--", "sh", "code.sh", cwd=alone)
    assert f"froze 1 file of {alone};" in ran.err and "git" not in ran.err


def test_files_that_change_while_a_thousand_jobs_wait_reach_none_of_them(
    home: StokerHome, project: Path
) -> None:
    ran = home.cli(
        "sweep", "x=range(1,1001)", "--freeze", "--gpus", "0", "--", "sh", "./code.sh",
        cwd=project / "exp",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    ids = [job["id"] for job in home.call("list", all=True)["jobs"]]
    assert len(ids) == 1000
    change(project)
    assert len(os.listdir(f"{home.home.root}/frozen/trees")) == 1
    home.call("config_set", name="cpus", value="8")
    home.call("resume")
    home.call("wait", select={"ids": [f"{ids[0]}-{ids[-1]}"]})
    said = {home.log_of(job).split("\n", 1)[0] for job in ids}
    assert said == {"old"}


def test_batch_feed_and_library_freeze_too(home: StokerHome, project: Path) -> None:
    (project / "exp" / "jobs.csv").write_text('command,freeze,gpus\n"sh ./code.sh",yes,0\n')
    (project / "exp" / "lines").write_text("sh ./code.sh\n")
    ids = queued(home, project, "batch", "jobs.csv", "--no-wait")
    feeding = subprocess.Popen(
        home.command("feed", "--freeze", "--gpus", "0", "lines"),
        env=home.env, cwd=project / "exp", stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with Library(home.home.root) as library:
        ids += library.add_many(
            [{"command": "sh ./code.sh", "freeze": True, "gpus": 0, "cwd": project / "exp"}]
        )
        ids += library.sweep(
            "sh ./code.sh", {"x": [1]}, freeze=True, gpus=0, cwd=project / "exp"
        ).ids
    eventually(lambda: len(home.call("list", all=True)["jobs"]) == 4)
    ids = [job["id"] for job in home.call("list", all=True)["jobs"]]
    change(project)
    assert outputs(home, *ids) == ["old"] * 4
    assert feeding.communicate()[1] is not None and feeding.returncode == 0


def test_what_jobs_write_to_ignored_paths_is_in_the_real_directory(
    home: StokerHome, project: Path
) -> None:
    words = ("--freeze", "--gpus", "0", "--out", "out.txt", "--")
    [job] = queued(
        home, project, "add", *words, "echo result > ../runs/x; echo more > new; echo done"
    )
    home.call("resume")
    home.until_final(job)
    assert (project / "runs" / "x").read_text() == "result\n"
    assert (project / "exp" / "out.txt").read_text() == "done\n"
    [shown] = home.call("show", select={"ids": [str(job)]})["jobs"]
    assert Path(shown["cwd"], "new").read_text() == "more\n"


def test_an_editable_install_of_the_frozen_code_is_frozen_with_it(
    home: StokerHome, project: Path
) -> None:
    packages = home.root / "venv" / "lib" / "python3.99" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "a.pth").write_text(f"{project}/src\n")
    (packages / "__editable___b_finder.py").write_text(
        f"MAPPING: dict[str, str] = {{'b': '{project}/lib/b', 'other': '{project}/lib/odd'}}\n"
    )
    (packages / "_c_editable_loader.py").write_text(f"install('{project}/c')\n")
    for name in ("src/a.py", "lib/b/__init__.py"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("state = 'old'\n")
    home.env["VIRTUAL_ENV"] = str(home.root / "venv")
    code = "import a, b; print(a.state, b.state)"
    ran = home.cli(
        "add", "--freeze", "--gpus", "0", "--", sys.executable, "-c", code, cwd=project / "exp"
    )
    assert "the editable install other is used as it is" in ran.err
    assert "the editable install _c_editable_loader.py is used as it is" in ran.err
    (project / "src/a.py").write_text("state = 'new'\n")
    (project / "lib/b/__init__.py").write_text("state = 'new'\n")
    assert outputs(home, int(ran.out)) == ["old old"]


@pytest.mark.parametrize(
    "command",
    [
        ("../venv/bin/python", "-c", "import a; print(a.state)"),
        ("env", "A=1", "{exp}/../venv/bin/python", "-c", "import a; print(a.state)"),
        ("../venv/bin/python -c 'import a; print(a.state)'",),
        ("bash", "-c", ". ../venv/bin/activate; python -c 'import a; print(a.state)'"),
        ("sh", "./run.sh"),
    ],
)
def test_an_editable_install_is_frozen_however_the_command_comes_to_its_python(
    home: StokerHome, project: Path, command: tuple[str, ...]
) -> None:
    venv.create(project / "venv", with_pip=False)
    (project / ".gitignore").write_text("venv/\n")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (project / "venv/lib" / version / "site-packages/a.pth").write_text(f"{project}/src\n")
    (project / "src").mkdir()
    (project / "src/a.py").write_text("state = 'old'\n")
    (project / "exp/run.sh").write_text("../venv/bin/python -c 'import a; print(a.state)'\n")
    words = [word.replace("{exp}", str(project / "exp")) for word in command]
    ran = home.cli("add", "--freeze", "--gpus", "0", "--", *words, cwd=project / "exp")
    ids = [int(ran.out)]
    ids += swept(home, project, *words) if len(words) > 1 else ()
    (project / "src/a.py").write_text("state = 'new'\n")
    assert set(outputs(home, *ids)) == {"old"}


def test_a_python_elsewhere_that_each_point_of_a_sweep_names_is_looked_into(
    home: StokerHome, project: Path
) -> None:
    venv.create(home.root / "venv", with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (home.root / "venv/lib" / version / "site-packages/a.pth").write_text(f"{project}/exp\n")
    (project / "exp/a.py").write_text("print('old')\n")
    python = str(home.root / "venv/bin/python")
    ids = swept(home, project, python, "-c", "import a", "{n}")
    (project / "exp/a.py").write_text("print('new')\n")
    assert outputs(home, *ids) == ["old", "old"]


def test_a_path_that_leaves_the_repository_is_warned_of(home: StokerHome, project: Path) -> None:
    (home.work / "data").mkdir()
    ran = home.cli("add", "--freeze", "--", "ls", "../../data", "../runs", cwd=project / "exp")
    told = "names ../../data, which is not there as seen from frozen code; write "
    assert f"{told}{home.work}/data instead" in ran.err
    assert "../runs" not in ran.err


def test_too_much_code_is_refused_and_nothing_is_queued(home: StokerHome, project: Path) -> None:
    (project / "weights.bin").write_bytes(b"x" * 3 * 2**20)
    home.call("config_set", name="freeze-limit", value="1M")
    ran = home.cli("add", *SHOW, cwd=project / "exp")
    assert ran.code == 2 and "largest: weights.bin (3.0 MiB)" in ran.err
    assert "freeze-limit" in ran.err
    assert home.call("list", all=True)["jobs"] == []


def test_code_named_by_its_absolute_path_is_warned_of(home: StokerHome, project: Path) -> None:
    ran = home.cli(
        "add", "--freeze", "--", "sh", f"{project}/exp/code.sh", f"{project}/runs", cwd=project
    )
    assert "exp/code.sh, which is not frozen; write exp/code.sh instead" in ran.err
    assert "runs, which" not in ran.err


def test_a_job_on_the_cluster_or_of_a_client_that_froze_nothing_is_refused(
    home: StokerHome, project: Path
) -> None:
    ran = home.cli("add", "--on-cluster", *SHOW, cwd=project / "exp")
    assert ran.code == 2 and "leave out --freeze" in ran.err
    [job] = queued(home, project, "add", *SHOW)
    ran = home.cli("edit", str(job), "--cwd", str(project))
    assert ran.code == 2 and "stays in its directory" in ran.err
    bare = {"argv": ["true"], "freeze": "."}
    with pytest.raises(Exception, match="was not frozen"):
        home.call("submit", jobs=[bare], cwd=str(project), env={})


def test_removing_the_last_job_of_a_tree_deletes_it(home: StokerHome, project: Path) -> None:
    [job] = queued(home, project, "add", *SHOW)
    change(project)
    [waiting] = queued(home, project, "add", "--hold", *SHOW)
    outputs(home, job)
    trees = {
        one: Path(home.call("show", select={"ids": [str(one)]})["jobs"][0]["cwd"]).parents[1]
        for one in (job, waiting)
    }
    for tree in trees.values():
        os.utime(tree / MANIFEST, (1, 1))
    home.cli("rm", str(job))
    eventually(lambda: not trees[job].exists())
    assert (trees[waiting] / "project" / "exp" / "code.sh").read_text() == "echo new\n"
