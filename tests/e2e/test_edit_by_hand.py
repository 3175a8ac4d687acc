"""`stoker edit` without options: the jobs in an editor."""

from __future__ import annotations

import os
import shlex
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from stoker.api.job_options import options_in
from stoker.submission.job_file import changes_in, file_text, table_of
from stoker_home import Ran, StokerHome
from unit.cli_run import Terminal


def editor(stoker: StokerHome, code: str, name: str = "editor.py") -> str:
    """An editor that changes the text of its file by some lines of Python."""
    script = stoker.work / name
    script.write_text(
        "import os, sys\npath = sys.argv[-1]\ntext = open(path).read()\n"
        f"{code}\nopen(path, 'w').write(text)\n"
    )
    return shlex.join([sys.executable, str(script)])


def edit(stoker: StokerHome, ids: str, code: str) -> Ran:
    return stoker.cli("edit", ids, env={"EDITOR": editor(stoker, code), "VISUAL": ""})


def held(stoker: StokerHome, count: int, **fields: Any) -> list[int]:
    return stoker.submit_all([{"argv": ["true", "x"], "hold": True, **fields}] * count)


def test_each_job_gets_the_changes_of_its_own_table(reused: StokerHome) -> None:
    a, b, c = held(reused, 3, name="old", time_limit_ms=60_000)
    code = (
        f"head, one, two = text.partition('[{b}]')\n"
        "head = head.replace('priority = 0', 'priority = -5').replace('\"x\"]', '\"y z\"]')\n"
        "two = two.replace('name = \"old\"\\n', 'cpus = 1\\n', 1)\n"
        "text = head + one + two"
    )
    ran = edit(reused, f"{a}-{c}", code)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"changed: jobs {a}-{b}\n"
    first, second, third = (reused.job(one) for one in (a, b, c))
    assert (first["priority"], first["argv"]) == (-5, ["true", "y z"])
    assert (second["name"], second["need"]["cpus"]) == (None, 1)
    assert (second["argv"], second["time_limit_ms"]) == (["true", "x"], 60_000)
    assert (third["name"], third["priority"], third["need"]["cpus"]) == ("old", 0, 0)


def test_the_header_names_every_option_whole_and_says_how_variables_are_set(
    reused: StokerHome,
) -> None:
    [job_id] = held(reused, 1)
    copy = reused.work / "header"
    edit(reused, str(job_id), f"open({str(copy)!r}, 'w').write(text)")
    header = copy.read_text().partition("\n\n")[0]
    words = header.replace(",", " ").replace(".", " ").split()
    assert {option.name for option in options_in("edit")} <= set(words)
    [said] = [line for line in header.splitlines() if "env = {" in line]
    example = said[said.index("env = {") : said.index("}") + 1]
    assert edit(reused, str(job_id), f"text += {example + chr(10)!r}").code == 0
    reused.call("edit", select={"ids": [str(job_id)]}, changes={"shell": "echo $SEED", "argv": []})
    reused.call("release", select={"ids": [str(job_id)]})
    reused.until_final(job_id)
    assert reused.log_of(job_id) == "1\n"


def test_words_are_shown_as_a_list_and_a_shell_line_as_text_and_each_is_taken_as_that(
    reused: StokerHome,
) -> None:
    words = reused.add("--hold", "--", "echo", "hello")
    line = reused.add("--hold", "echo hello")
    seen = reused.work / "seen"
    code = (
        f"open({str(seen)!r}, 'w').write(text)\n"
        'text = text.replace(\'["echo", "hello"]\', \'"echo words | tr w j"\')\n'
        'text = text.replace(\'"echo hello"\', \'["echo", "a | b"]\')'
    )
    ran = edit(reused, f"{words}-{line}", code)
    assert ran.code == 0, ran.err
    shown = seen.read_text()
    assert f'[{words}]\ncommand = ["echo", "hello"]\n' in shown
    assert f'[{line}]\ncommand = "echo hello"\n' in shown
    assert "in quotes" in shown.partition("[")[0], "the file says which is which"
    first, second = reused.job(words), reused.job(line)
    assert (first["argv"], first["shell"]) == ([], "echo words | tr w j")
    assert (second["argv"], second["shell"]) == (["echo", "a | b"], None)


def test_a_file_that_was_not_changed_changes_nothing(reused: StokerHome) -> None:
    [job_id] = held(reused, 1, mem="auto", on=["0", "1"], nice=3, signal="USR1",
                    signal_before_ms=5_000, time_limit_ms=90_000, max_per_gpu=3)  # fmt: skip
    before = reused.job(job_id)
    ran = edit(reused, str(job_id), "")
    assert (ran.code, ran.err) == (0, "nothing was changed\n")
    assert reused.job(job_id) == before


def test_what_started_or_is_gone_meanwhile_is_named_and_the_rest_is_changed(
    reused: StokerHome,
) -> None:
    a, b, c = held(reused, 3)
    commands = (("cancel", f"{a}-{b}"), ("rm", str(b)))
    code = "".join(f"os.system({shlex.join(reused.command(*one))!r})\n" for one in commands)
    code += "text = text.replace('priority = 0', 'priority = 9')"
    ran = edit(reused, f"{a}-{c}", code)
    assert ran.code == 1
    said, where = ran.err.splitlines()[-2:]
    assert said.startswith(f"changed: job {c}; not: job {a} (cancelled), job {b} (there is no job")
    assert reused.job(c)["priority"] == 9
    kept = Path(where.removeprefix("stoker: your changes are in "))
    assert kept.read_text().count("priority = 9") == 3
    kept.unlink()
    kept.parent.rmdir()


def test_a_job_that_has_started_before_is_refused_without_an_editor(reused: StokerHome) -> None:
    job_id = reused.submit("true")
    reused.until_final(job_id)
    ran = edit(reused, str(job_id), "raise SystemExit('opened')")
    assert ran.code == 1
    assert f"job {job_id} is succeeded; only a job that waits" in ran.err


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("text += 'gpus = = 1'", "it is not TOML: "),
        ("text += 'gpsu = 1'", "a job has no option 'gpsu'; did you mean gpus?"),
        ("text += 'after = 1'", "after can't be changed"),
        ("text = text.replace('gpus = 1', 'gpus = -1')", "gpus: "),
        ("text = text.replace('gpus = 1\\n', '')", "gpus can't be taken away"),
        ("text = text.replace('[\"true\", \"x\"]', '[1]')", "the command is missing"),
        ('text = text.replace(\'["true", "x"]\', \'""\')', "the command is empty"),
        ("text += '[999999]\\nnice = 3'", "'999999' is not one of the jobs that were opened"),
    ],
)
def test_a_mistake_is_one_line_and_the_file_is_kept_for_its_user_alone(
    reused: StokerHome, code: str, said: str
) -> None:
    [job_id] = held(reused, 1)
    before = reused.job(job_id)
    ran = edit(reused, str(job_id), code)
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1
    kept = Path(ran.err.strip().rpartition("your changes are in ")[2])
    assert f"[{job_id}]" in kept.read_text()
    assert stat.S_IMODE(os.stat(kept.parent).st_mode) == 0o700
    assert reused.job(job_id) == before
    kept.unlink()
    kept.parent.rmdir()


def test_without_a_terminal_or_an_editor_it_says_what_to_do(reused: StokerHome) -> None:
    [job_id] = held(reused, 1)
    ran = reused.cli("edit", str(job_id), env={"EDITOR": "", "VISUAL": ""})
    assert ran.code == 2
    assert "nothing to change was named; e.g. stoker edit 7 --priority -1" in ran.err


def test_the_editor_is_no_text_for_a_shell_and_its_failure_changes_nothing(
    reused: StokerHome,
) -> None:
    [job_id] = held(reused, 1)
    ran = reused.cli(
        "edit", str(job_id), env={"VISUAL": "", "EDITOR": "false; touch injected; true"}
    )
    assert (ran.code, "can't be started" in ran.err) == (2, True)
    assert not (reused.work / "injected").exists()
    ran = reused.cli("edit", str(job_id), env={"VISUAL": "", "EDITOR": "false"})
    assert (ran.code, "the editor false failed (exit code 1)" in ran.err) == (1, True)


def test_visual_comes_before_editor(reused: StokerHome) -> None:
    [job_id] = held(reused, 1)
    visual = editor(reused, "text = text.replace('priority = 0', 'priority = 3')")
    ran = reused.cli("edit", str(job_id), env={"EDITOR": "false", "VISUAL": visual})
    assert (ran.code, reused.job(job_id)["priority"]) == (0, 3)


def test_on_a_terminal_a_mistake_can_be_mended(reused: StokerHome) -> None:
    [job_id] = held(reused, 1)
    code = (
        "text = text.replace('= =', '=') if '= =' in text else "
        "text.replace('priority = 0', 'priority = = 4')"
    )
    env = reused.env | {"EDITOR": editor(reused, code), "VISUAL": ""}
    with Terminal(reused.root, "edit", str(job_id), **env) as terminal:
        terminal.until(b"it is not TOML")
        terminal.until(b"Open it again?")
        terminal.type(b"y\n")
        assert terminal.wait() == 0
    assert reused.job(job_id)["priority"] == 4


@pytest.mark.parametrize("max_log_mib", [7, 0])
def test_all_that_can_be_shown_of_a_job_is_read_back_as_it_was(
    reused: StokerHome, max_log_mib: int
) -> None:
    [job_id] = held(
        reused, 1, mem="auto", margin=[20, 512], on=["0"], prefer=["0"], cpus=2, priority=3,
        name='a "b" c', group="g", grace_ms=1_500, retries=2, nice=1, max_log_mib=max_log_mib,
        not_before_ms=4_000_000_000_000, keep_children=True, hook="echo 'a\tb\x7f'",
        signal="USR1", signal_before_ms=5_000, time_limit_ms=1_209_601_500, visible="uuid",
        kind="nets", err=str(reused.work / f"{max_log_mib}-{{id}}.txt"),
    )  # fmt: skip
    job = reused.job(job_id)
    tables = {job_id: table_of(job)}
    assert changes_in(file_text(tables), tables) == {}
    assert tables[job_id]["time-limit"] == "1209601.5s" and tables[job_id]["grace"] == "1.5s"
    # Read as if all of it were new, it says the same of the job as before.
    fields = changes_in(file_text(tables), {job_id: {}})[job_id]
    reused.call("edit", select={"ids": [str(job_id)]}, changes=fields)
    assert reused.job(job_id) == job


def test_show_says_the_options_of_a_waiting_job_as_they_are_written(reused: StokerHome) -> None:
    [job_id] = held(
        reused, 1, max_log_mib=5, keep_children=True, time_limit_ms=600_000, signal="USR1",
        signal_before_ms=120_000, kind="nets", env={"SEED": "1", "KEY": "secret"},
        err=str(reused.work / "e-{id}.txt"),
    )  # fmt: skip
    page = reused.stoker("show", str(job_id))
    facts = dict(line.strip().split("  ", 1) for line in page.splitlines()[1:])
    facts = {name: value.strip() for name, value in facts.items()}
    expected = {
        "max-log": "5M", "keep-children": "yes", "signal": "USR1, 2m 00s before the time limit",
        "kind": "nets", "env": "KEY, SEED", "err": f"{reused.work}/e-{{id}}.txt",
    }  # fmt: skip
    assert facts | expected == facts
    assert "_" not in "".join(facts) and "secret" not in page
    [usual] = held(reused, 1)
    assert "kind" not in reused.stoker("show", str(usual))
