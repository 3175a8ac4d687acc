"""`stoker results`: which point was best, as a user asks it of real jobs."""

from __future__ import annotations

import csv
import io
import json
import shlex
from typing import Any

import pytest

from stoker.sweep.identity import PREFIX
from stoker_home import StokerHome
from terminals import Terminal
from waiting import eventually

# Losses fall and rise again; the accuracy is another for each seed.
TRAIN = (
    "for i in 1 2 3; do echo step $i loss={lr}.$(( (i-2)*(i-2) )) acc=0.{lr}$i; done; "
    "echo the end was at {lr}.5"
)
SEEDS = "echo loss={lr}.{seed}"


@pytest.fixture
def swept(stoker: StokerHome) -> StokerHome:
    sweep(stoker, "lr=3,1,2", TRAIN, "--name", "try")
    return stoker


def sweep(stoker: StokerHome, space: str, script: str, *options: str) -> None:
    queued = stoker.cli("sweep", space, *options, "--gpus", "0", "--", script)
    assert queued.code == 0, queued.err
    done = stoker.cli("wait", "--group", queued.out.strip())
    assert done.code == 0, done.err


def found(stoker: StokerHome, *words: str) -> dict[str, Any]:
    ran = stoker.cli("results", *words, "--json")
    assert ran.code == 0, ran.err
    answer: dict[str, Any] = json.loads(ran.out)
    return answer


def test_the_best_point_of_a_sweep_is_marked_and_comes_first(swept: StokerHome) -> None:
    shown = swept.cli("results", "last", "--minimize", "loss")
    title, best, *others = shown.out.splitlines()
    assert title.split() == ["ID", "STATE", "lr", "loss", "min", "loss", "AT", "acc", "TIME"]
    assert best.split()[:7] == ["*", "2", "succeeded", "1", "1.1", "1", "2"]
    assert [line.split()[0] for line in others] == ["3", "1"]
    assert max(map(len, shown.out.splitlines())) <= 80
    highest = swept.cli("results", "try", "--maximize", "acc", "--top", "1").out.splitlines()
    assert len(highest) == 2 and highest[1].split()[:2] == ["*", "1"]


def test_json_and_csv_have_each_row_with_its_parameters_and_metrics(swept: StokerHome) -> None:
    said = found(swept, "try", "--minimize", "loss")
    assert (said["varied"], said["metrics"]) == (["lr"], ["loss", "acc"])
    assert [row["params"] for row in said["results"]] == [{"lr": 1}, {"lr": 2}, {"lr": 3}]
    assert [row["best"] for row in said["results"]] == [True, False, False]
    first = said["results"][0]["metrics"]["loss"]
    assert (first["last"], first["best"], first["best_step"]) == (1.1, 1.0, 2)
    text = swept.cli("results", "try", "--sort", "lr", "--reverse", "--csv").out
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["lr"], row["loss_best"]) for row in rows] == [
        ("3", "3.0"), ("2", "2.0"), ("1", "1.0"),
    ]  # fmt: skip
    both = swept.cli("results", "try", "--csv", "--json")
    assert both.code == 2 and "exclude each other" in both.err


def test_the_best_tells_its_command_log_and_directory(swept: StokerHome) -> None:
    shown = swept.cli("results", "best", "last", "--minimize", "loss")
    facts = {line[:11].strip(): line[11:].strip() for line in shown.out.splitlines()}
    assert facts["point"] == "lr=1" and facts["loss"] == "1 at step 2"
    assert facts["directory"] == str(swept.work) and facts["log"].endswith("2.1.log")
    [said] = json.loads(
        swept.cli("results", "best", "try", "--minimize", "loss", "--json").out
    )["best"]  # fmt: skip
    assert said["id"] == 2 and said["log"] == facts["log"] and said["cwd"] == facts["directory"]
    assert said["run_again"] == facts["run again"]
    assert said["run_again"].startswith(f"stoker add --cwd {swept.work} --gpus 0 --cpus 1 -- ")


def test_the_command_to_run_the_best_again_gives_the_same_value(swept: StokerHome) -> None:
    [said] = json.loads(
        swept.cli("results", "best", "try", "--minimize", "loss", "--json").out
    )["best"]  # fmt: skip
    again = swept.cli(*shlex.split(said["run_again"])[1:])
    assert again.code == 0, again.err
    assert swept.cli("wait", again.out.strip()).code == 0
    [row] = found(swept, again.out.strip(), "--minimize", "loss")["results"]
    assert row["metrics"]["loss"]["best"] == said["metrics"]["loss"]["best"] == 1.0


def test_what_is_best_need_not_be_said_if_one_name_tells_it(stoker: StokerHome) -> None:
    sweep(stoker, "lr=2,1", SEEDS.replace("{seed}", "0"))
    shown = stoker.cli("results", "best", "last")
    assert "lr=1" in shown.out and "loss is taken to be minimized" in shown.err
    sweep(stoker, "lr=2,1", TRAIN, "--name", "two")
    asked = stoker.cli("results", "best", "two")
    assert asked.code == 2 and "loss, acc" in asked.err and "--minimize loss" in asked.err


def test_repeats_are_put_together(stoker: StokerHome) -> None:
    sweep(stoker, "lr=2,1", SEEDS, "--repeat", "seed=3", "--name", "seeds")
    said = found(stoker, "seeds", "--minimize", "loss")
    assert said["repeat"] == "seed" and said["varied"] == ["lr"]
    best, other = said["results"]
    assert best["params"] == {"lr": 1} and best["ids"] == [4, 5, 6] and best["id"] == 4
    assert best["metrics"]["loss"]["best"] == pytest.approx(1.1)
    assert best["metrics"]["loss"]["best_spread"] == pytest.approx(0.1)
    assert other["metrics"]["loss"]["runs"] == 3
    shown = stoker.cli("results", "--group", "seeds", "--minimize", "loss").out
    assert "1.1 ±0.1" in shown and "RUNS" in shown
    assert len(found(stoker, "seeds", "--single")["results"]) == 6
    assert len(found(stoker, "seeds", "--repeat", "lr")["results"]) == 3
    assert "mean of 3 runs" in stoker.cli("results", "best", "seeds").out
    missing = stoker.cli("results", "seeds", "--repeat", "fold")
    assert missing.code == 3
    assert "no job has a parameter 'fold'; those that vary: lr, seed" in missing.err


def test_a_group_and_ids_are_compared_by_the_options_of_their_commands(stoker: StokerHome) -> None:
    for lr in ("0.1", "0.2"):
        script = 'echo "loss=$2"'
        words = ("sh", "-c", script, "train", "--lr", lr)
        assert stoker.cli("add", "--gpus", "0", "--group", "g", "--", *words).code == 0
    assert stoker.cli("wait", "--group", "g").code == 0
    said = found(stoker, "--group", "g", "--minimize", "loss")
    assert said["varied"] == ["lr"] and said["results"][0]["params"] == {"lr": 0.1}
    assert [row["id"] for row in found(stoker, "1-2")["results"]] == [1, 2]
    assert [row["id"] for row in found(stoker, "2", "1")["results"]] == [1, 2]


def test_the_importance_of_each_parameter_is_told(stoker: StokerHome) -> None:
    ran = stoker.cli("sweep", "lr=1,2,3,4", "act=a,b", "--name", "s", "--gpus", "0",
                     "--", "echo loss={lr}; : {act}")  # fmt: skip
    assert ran.code == 0 and stoker.cli("wait", "--group", "s").code == 0
    told = stoker.cli("results", "s", "--minimize", "loss", "--importance")
    assert [line.split() for line in told.out.splitlines()] == [
        ["PARAMETER", "IMPORTANCE"], ["lr", "100%"], ["act", "0%"]
    ]  # fmt: skip
    assert told.err == "for min loss, by 8 points; so few points are but a hint\n"
    answer = found(stoker, "s", "--importance")
    assert answer["metric"] == "loss" and answer["points"] == 8
    assert answer["importance"][0] == {"parameter": "lr", "importance": 1.0}
    assert stoker.cli("results", "s", "--importance", "--csv").out.splitlines()[1] == "lr,1.0"


def test_several_objectives_show_the_front(stoker: StokerHome) -> None:
    sweep(stoker, "lr=1,2,3", "echo loss={lr} latency=$(( ({lr}-2)*({lr}-2) ))")
    said = found(stoker, "last", "--minimize", "loss", "--minimize", "latency")
    assert [row["id"] for row in said["results"] if row["best"]] == [1, 2]
    pages = stoker.cli("results", "best", "last", "--minimize", "loss", "--minimize", "latency")
    assert pages.out.count("point ") == 2
    twice = stoker.cli("results", "last", "--minimize", "loss", "--maximize", "loss")
    assert twice.code == 2 and "twice" in twice.err


def test_a_metric_in_the_users_own_words_is_found_after_the_fact(swept: StokerHome) -> None:
    said = found(swept, "try", "--metric", r"end=end was at (\S+)", "--minimize", "end")
    assert said["metrics"] == ["end"]
    assert [row["metrics"]["end"]["best"] for row in said["results"]] == [1.5, 2.5, 3.5]


def test_what_does_not_exist_is_told_with_what_does(swept: StokerHome) -> None:
    for words, code, says in (
        (("try", "--minimize", "los"), 3, "no metric is called 'los'; did you mean loss?"),
        (("try", "--sort", "looss"), 2, "there is no column 'looss'; did you mean loss?"),
        (("trie",), 3, "there is no sweep 'trie'"),
        ((), 2, "nothing was named"),
        (("try", "--group", "g"), 2, "a sweep is all of its jobs"),
    ):
        ran = swept.cli("results", *words)
        assert ran.code == code and says in ran.err, ran.err


def test_hostile_names_and_values_do_no_harm(stoker: StokerHome) -> None:
    sweep(stoker, 'a="\x1b[31mred","=1+1"', r"printf '"
          r'"\302\233evil": 3\n"__proto__": nan\nloss=1\n' "'")  # fmt: skip
    shown = stoker.cli("results", "last", "--minimize", "__proto__")
    assert shown.code == 0 and "\x1b" not in shown.out and "\x9b" not in shown.out
    assert "*" not in shown.out and "none has a value of __proto__" in shown.err
    rows = list(csv.DictReader(io.StringIO(stoker.cli("results", "last", "--csv").out)))
    assert [row["a"] for row in rows] == ["\x1b[31mred", "'=1+1"], "data, but no formula"
    assert rows[0]["__proto__"] == "nan"


def test_show_has_parameters_and_metrics_and_on_a_terminal_a_curve(swept: StokerHome) -> None:
    page = swept.cli("show", "2").out
    assert "parameters  lr=1" in page
    rows = [line.split() for line in page.partition("  metrics\n")[2].splitlines()]
    assert rows[0] == ["METRIC", "LAST", "AT", "LOWEST", "HIGHEST"]
    assert rows[2] == ["loss", "1.1", "3", "1", "1.1"]
    with Terminal(swept.command("show", "2"), swept.env, swept.work) as terminal:
        terminal.until(b"CURVE")
        terminal.until("█▁█".encode())
        assert terminal.wait() == 0


def test_a_job_without_metrics_has_no_such_section(stoker: StokerHome) -> None:
    assert stoker.cli("add", "--gpus", "0", "--", "true").code == 0
    assert stoker.cli("add", "--gpus", "0", "--hold", "--", "true").code == 0
    assert stoker.cli("wait", "1").code == 0
    assert "  metrics\n" not in stoker.cli("show", "1").out + stoker.cli("show", "2").out


def test_lists_of_jobs_and_points_have_a_column_for_a_metric(swept: StokerHome) -> None:
    listed = swept.cli("ls", "--metric", "loss", "--metric", "acc").out.splitlines()
    assert "loss" in listed[0] and "3.1" in listed[1].split() and "0.33" in listed[1].split()
    jobs = json.loads(swept.cli("ls", "--metric", "loss", "--json").out)["jobs"]
    assert [job["metrics"] for job in jobs] == [{"loss": 3.1}, {"loss": 1.1}, {"loss": 2.1}]
    assert "metrics" not in json.loads(swept.cli("ls", "--json").out)["jobs"][0]
    shown = swept.cli("sweep", "show", "try", "--metric", "loss").out.splitlines()
    assert shown[0].split()[:4] == ["ID", "STATE", "lr", "loss"] and "3.1" in shown[1].split()
    text = swept.cli("sweep", "show", "try", "--metric", "loss", "--csv").out
    assert [row["loss"] for row in csv.DictReader(io.StringIO(text))] == ["3.1", "1.1", "2.1"]
    points = json.loads(swept.cli("sweep", "show", "try", "--metric", "loss", "--json").out)
    assert points["points"][0]["metrics"] == {"loss": 3.1}
    for verb in (("ls",), ("sweep", "show", "try")):
        missing = swept.cli(*verb, "--metric", "los")
        assert missing.code == 3 and "did you mean loss" in missing.err


def test_jobs_without_metrics_have_rows_too(stoker: StokerHome) -> None:
    sweep(stoker, "lr=1,2", "true")
    shown = stoker.cli("results", "last")
    assert len(shown.out.splitlines()) == 3 and "no metrics" in shown.err
    nothing = stoker.cli("results", "best", "last")
    assert nothing.code == 3 and "no metrics" in nothing.err


def test_csv_has_no_formula_in_values_and_names(stoker: StokerHome) -> None:
    formulas = ["=1+1", "@x", "-1+1"]
    params = [{"note": text, "=p": n} for n, text in enumerate([*formulas, "-1.5"])]
    stoker.submit_all([
        {"argv": ["true"], "gpus": 0, "hold": True, "group": "g",
         "point": f"{PREFIX}{n}", "params": one} for n, one in enumerate(params)
    ])  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(stoker.stoker("results", "g", "--sort", "id", "--csv"))))
    assert [row["note"] for row in rows] == [*(f"'{text}" for text in formulas), "-1.5"]
    assert [row["'=p"] for row in rows] == ["0", "1", "2", "3"]
    named = stoker.submit("true", gpus=0, hold=True, name="=HYPERLINK(1)")
    assert "'=HYPERLINK(1)" in stoker.stoker("results", str(named), "--csv")


def test_a_failed_point_and_a_diverged_one_are_shown_and_never_best(stoker: StokerHome) -> None:
    script = "echo loss={lr}; test {lr} != 1"
    queued = stoker.cli("sweep", "lr=1,2,-inf,3", "--gpus", "0", "--name", "s", "--", script)
    assert queued.code == 0, queued.err
    assert stoker.cli("wait", "--group", "s").code == 1
    said = found(stoker, "s", "--minimize", "loss")
    assert [row["id"] for row in said["results"]] == [2, 4, 1, 3]
    assert [row["best"] for row in said["results"]] == [True, False, False, False]
    assert said["results"][3]["metrics"]["loss"]["best"] == "-inf"
    best = json.loads(stoker.cli("results", "best", "s", "--minimize", "loss", "--json").out)
    assert [row["id"] for row in best["best"]] == [2]
    text = stoker.cli("results", "s", "--minimize", "loss", "--csv", "--sort", "loss").out
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["id"], row["best"]) for row in rows][:2] == [("2", "1"), ("4", "0")]
    alone = stoker.cli("results", "1", "--minimize", "loss")
    why = "none is best: no point ended well with a finite value of loss"
    assert "*" not in alone.out and why in alone.err
    none = stoker.cli("results", "best", "1", "--minimize", "loss")
    assert none.code == 3 and why in none.err


def test_a_point_of_which_one_run_failed_says_how_many_runs_have_a_value(
    stoker: StokerHome,
) -> None:
    script = "test {lr}{seed} != 12 && echo loss={lr}"
    options = ("--repeat", "seed=3", "--name", "s", "--gpus", "0")
    assert stoker.cli("sweep", "lr=1,2", *options, "--", script).code == 0
    assert stoker.cli("wait", "--group", "s").code == 1
    _, best, other = stoker.cli("results", "s", "--minimize", "loss").out.splitlines()
    assert best.split()[:3] == ["*", "4", "succeeded"] and " 3 " in best
    assert "2 of 3" in other and "2 succeeded, 1 failed" in other


def test_a_running_point_is_marked_as_the_best_so_far(stoker: StokerHome) -> None:
    script = "echo loss={lr}; sleep 600"
    assert stoker.cli("sweep", "lr=1,2", "--name", "s", "--gpus", "0", "--", script).code == 0
    asked = ("results", "s", "--minimize", "loss")
    eventually(lambda: "(*)" in stoker.cli(*asked).out, "a running point is marked")
    assert "(*): the best so far" in stoker.cli(*asked).err
    assert "the best so far" in stoker.cli("results", "best", "s", "--minimize", "loss").err


def test_a_run_that_was_put_back_is_the_best_by_what_it_had_reached_before(
    stoker: StokerHome,
) -> None:
    script = (
        "if [ {x} = 2 ]; then echo step 1 loss=0.5; "
        "elif mkdir $STOKER_CHECKPOINT_DIR/saved; then echo step 1 loss=0.125; exit 75; "
        "else echo step 2 loss=0.75; fi"
    )
    sweep(stoker, "x=1,2", script, "--name", "s", "--requeue-on", "75")
    [first, _] = found(stoker, "s", "--minimize", "loss")["results"]
    loss = first["metrics"]["loss"]
    assert (first["id"], first["best"]) == (1, True)
    assert (loss["best"], loss["best_step"], loss["last"]) == (0.125, 1, 0.75)
    own = found(stoker, "s", "--metric", r"own=loss=(\S+)", "--minimize", "own")["results"][0]
    assert (own["id"], own["metrics"]["own"]["best"]) == (1, 0.125), "read by the command itself"
    shown = stoker.stoker("metrics", "1", "--attempt", "2").splitlines()[1].split()
    assert shown[:5] == ["1", "loss", "2", "1", "0.75"], "that attempt alone"


def test_points_that_another_sweep_has_are_said_to_be_there(swept: StokerHome) -> None:
    again = ("sweep", "lr=3,1,2,4", "--gpus", "0", "--name", "wider", "--", TRAIN)
    told = swept.cli(*again)
    assert "4 points: 1 queued, 3 succeeded before; see `stoker sweep show wider`" in told.err
    assert "3 of them are in try, and in its results: `stoker results try`" in told.err
    swept.stoker("wait", "--group", "wider")
    none = swept.cli("sweep", "lr=3,1", "--gpus", "0", "--name", "less", "--", TRAIN)
    assert "2 points: 0 queued, 2 succeeded before\n" in none.err
    assert "2 of them are in try" in none.err
    same = swept.cli("sweep", "lr=3,1,2", "--gpus", "0", "--name", "try", "--json", "--", TRAIN)
    assert json.loads(same.out)["elsewhere"] == {}


def test_files_that_are_nowhere_are_refused_and_not_taken_for_logs(swept: StokerHome) -> None:
    for verb in (("results", "try", "--minimize", "loss"), ("metrics", "1-3")):
        absent = swept.cli(*verb, "--metrics-from", "runs/nope")
        assert (absent.code, absent.out) == (3, "")
        assert "/runs/nope is not there, nor that of any other job" in absent.err
        braces = swept.cli(*verb, "--metrics-from", "runs/{nope}")
        assert (braces.code, braces.out) == (2, "") and "{nope} is not known" in braces.err
    (swept.work / "runs").mkdir()
    (swept.work / "runs" / "2.csv").write_text("step,loss\n1,0.25\n")
    some = found(swept, "try", "--metrics-from", "runs/{lr}.csv", "--minimize", "loss")
    assert (some["results"][0]["id"], some["results"][0]["metrics"]["loss"]["best"]) == (3, 0.25)


def test_a_metric_and_a_parameter_of_one_name_have_columns_of_their_own(
    stoker: StokerHome,
) -> None:
    sweep(stoker, "lr=3,1,2", "echo lr=0.{lr} loss=$((9 - {lr}))", "--name", "s")
    titles, *rows = stoker.stoker("results", "s", "--sort", "metric_lr", "--reverse").splitlines()
    assert titles.split() == ["ID", "STATE", "lr", "loss", "metric_lr", "TIME"]
    assert [row.split()[0] for row in rows] == ["1", "3", "2"]
    shown = stoker.stoker("sweep", "show", "s", "--metric", "lr").splitlines()[0]
    assert shown.split()[:4] == ["ID", "STATE", "lr", "metric_lr"]
    slip = stoker.cli("results", "s", "--sort", "metri_lr")
    assert slip.code == 2 and "did you mean metric_lr?" in slip.err
