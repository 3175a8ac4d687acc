"""`simple_hypersearch` beside the real one: the same commands for the same arguments."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.compat.simple_hypersearch import commands, main
from stoker_home import SRC, StokerHome, lines_of

REAL = Path(__file__).parents[2] / ".venv-peers" / "bin" / "simple_hypersearch"
PATTERN = "python3 train_dnn.py --lr {lr} --batch_size {bs}"
GRID = ("-p", "lr", "0.001", "0.0005", "0.0001", "-p", "bs", "32", "64", "128")


def printed(command: list[str], *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [*command, *words],
        capture_output=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": SRC, "LANG": "C.UTF-8"},
        timeout=120,
    )
    return done.returncode, done.stdout.decode()


def ours(*words: str) -> tuple[int, str]:
    return printed([sys.executable, "-m", "stoker.compat.simple_hypersearch"], *words)


@pytest.fixture
def real() -> list[str]:
    if not REAL.exists():
        pytest.skip("the real simple_hypersearch is not installed; `make test` does that")
    return [str(REAL)]


@pytest.mark.parametrize(
    "words",
    [
        (PATTERN, "--sampling-mode", "grid", *GRID),
        (PATTERN, "--sampling-mode", "grid", "--n-samples", "5", *GRID),
        (PATTERN, "--seed", "0", *GRID),
        (PATTERN, "--seed", "7", "--n-samples", "5", *GRID),
        (PATTERN, "--sampling-mode", "shuffled_grid", "--seed", "123", *GRID),
        (PATTERN, "--n-samples", "0", *GRID),
        (PATTERN, "--n-samples", "100", "--seed", "1", *GRID),
        ("x {a} {a:>4} {{}} {{a}}", "--seed", "1", "-p", "a", "1", "22"),
        ("x {a}", "--sampling-mode", "grid", "-p", "a", "-1", "-0.5", "1e-3"),
        ("x {a} {b}", "--seed", "5", "--parameter", "a", "1", "--parameter", "b", "x", "y z"),
        ("x {a} {b}", "--seed", "5", "-p", "a", "1", "2", "-p", "b", "3", "-p", "a", "7", "8"),
        (
            "x {a} '{b}' | cat > \"$F\"",
            "--seed",
            "2",
            "-p",
            "a",
            "é",
            "%",
            "-p",
            "b",
            "it's",
            "$(y)",
        ),
        ("no place at all", "--sampling", "grid", "-p", "a", "1", "2"),
    ],
)
def test_the_output_is_that_of_the_real_one(real: list[str], words: tuple[str, ...]) -> None:
    assert ours(*words) == printed(real, *words)


def test_without_a_seed_the_order_is_random_and_the_commands_are_the_same(real: list[str]) -> None:
    values = [str(n) for n in range(200)]
    outputs = [run("x {a}", "-p", "a", *values)[1].splitlines() for run in (ours, ours)]
    assert outputs[0] != outputs[1]
    _, theirs = printed(real, "x {a}", "-p", "a", *values)
    assert Counter(outputs[0]) == Counter(outputs[1]) == Counter(theirs.splitlines())


@settings(max_examples=25)
@given(
    st.dictionaries(
        st.sampled_from(["lr", "bs", "seed", "model"]),
        st.lists(st.text("ab1.é '", min_size=1, max_size=4), min_size=1, max_size=4),
        min_size=1,
    ),
    st.integers(0, 1000),
    st.none() | st.integers(0, 20),
)
def test_any_search_with_a_seed_prints_what_the_real_one_prints(
    parameters: dict[str, list[str]], seed: int, most: int | None
) -> None:
    if not REAL.exists():
        pytest.skip("the real simple_hypersearch is not installed; `make test` does that")
    pattern = "run " + " ".join(f"--{name} {{{name}}}" for name in parameters)
    words = [pattern, "--seed", str(seed)]
    words += [] if most is None else ["--n-samples", str(most)]
    for name, values in parameters.items():
        words += ["-p", name, *values]
    made = list(commands(pattern, parameters, shuffled=True, seed=seed, most=most))
    assert "".join(f"{line}\n" for line in made) == printed([str(REAL)], *words)[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "command_pattern"),
        (["x {lr}"], "no parameter was given"),
        (["x {lr}", "-p", "lr"], "-p lr has no values"),
        (["x {lr} {bs}", "-p", "lr", "1"], "{bs} in the command pattern has no values"),
        (["x {}", "-p", "lr", "1"], "can't be understood"),
        (["x {lr", "-p", "lr", "1"], "can't be understood"),
        (["x {lr.y}", "-p", "lr", "1"], "can't be understood"),
        (["x {lr:d}", "-p", "lr", "1"], "can't be understood"),
        (["x {lr}", "--n-samples", "-1", "-p", "lr", "1"], "is negative"),
        (["x {lr}", "--n-samples", "few", "-p", "lr", "1"], "few"),
        (["x {lr}", "--sampling-mode", "bayes", "-p", "lr", "1"], "bayes"),
        (["x {a}" * 9, *[w for n in "abcdefgh" for w in ("-p", n, *"123456789")]], "too many"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    code = main(words)
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert captured.err.count("\n") == 1
    assert said in captured.err


def test_a_reader_that_has_had_enough_ends_it_quietly() -> None:
    script = '"$0" -m stoker.compat.simple_hypersearch "x {a}" -p a $(seq 2000) | head -n 1'
    done = subprocess.run(
        ["/bin/sh", "-c", script, sys.executable],
        capture_output=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": SRC},
    )
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == b""


# ---------------------------------------------------------------------- the description

# A stand-in that records its arguments and the GPU that it saw.
TRAIN = """\
import os, sys
with open(os.environ["RECORD"], "a") as record:
    record.write(os.environ["CUDA_VISIBLE_DEVICES"] + " " + " ".join(sys.argv[1:]) + "\\n")
"""
COMBINATIONS = [
    f"--lr {lr} --batch_size {bs}" for lr in ("0.001", "0.0005", "0.0001") for bs in (32, 64, 128)
]


@pytest.mark.parametrize(
    ("line", "count"),
    [
        (
            'simple_hypersearch "python3 train_dnn.py --lr {lr} --batch_size {bs}" '
            "-p lr 0.001 0.0005 0.0001 -p bs 32 64 128 | simple_gpu_scheduler --gpus 0,1,2",
            9,
        ),
        (
            'simple_hypersearch "python3 train_dnn.py --lr {lr} --batch_size {bs}" --n-samples 5 '
            "-p lr 0.001 0.0005 0.0001 -p bs 32 64 128 | simple_gpu_scheduler --gpus 0,1,2",
            5,
        ),
    ],
)
def test_the_searches_of_the_description_run_as_written(
    home: StokerHome, line: str, count: int
) -> None:
    (home.work / "train_dnn.py").write_text(TRAIN)
    bin_directory = home.root / "bin"
    bin_directory.mkdir()
    for tool in ("simple_hypersearch", "simple_gpu_scheduler"):
        script = bin_directory / tool
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stoker.compat.{tool} "$@"\n')
        script.chmod(0o755)
    record = home.root / "record"
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=home.work,
        env=home.env | {"PATH": f"{bin_directory}:{home.env['PATH']}", "RECORD": str(record)},
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done
    gpus, arguments = zip(*(run.split(" ", 1) for run in lines_of(record)), strict=True)
    assert set(gpus) <= {"0", "1", "2"}
    assert len(set(arguments)) == len(arguments) == count
    assert set(arguments) <= set(COMBINATIONS)


def test_the_same_search_as_a_sweep(stoker: StokerHome) -> None:
    (stoker.work / "train_dnn.py").write_text(TRAIN)
    record = stoker.root / "record"
    stoker.env["RECORD"] = str(record)
    name = stoker.stoker("sweep", "--on", "0,1,2", *GRID, "--", PATTERN).strip()
    stoker.stoker("wait", "--group", name)
    runs = [run.split(" ", 1) for run in lines_of(record)]
    assert sorted(arguments for _, arguments in runs) == sorted(COMBINATIONS)
    assert {gpu for gpu, _ in runs} <= {"0", "1", "2"}
