"""The list of planted bugs: every entry can still be planted, and its runner tells who lives."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mutants.entries import Mutant, all_mutants, misfit
from mutants.run import main

MOST_THAT_MAY_LIVE = 5


@pytest.mark.parametrize("mutant", all_mutants(), ids=lambda mutant: mutant.name)
def test_every_planted_bug_still_has_its_place_and_its_tests(mutant: Mutant) -> None:
    assert misfit(mutant) == ""


def test_few_planted_bugs_may_live_and_each_has_its_reason() -> None:
    assert sum(bool(mutant.lives) for mutant in all_mutants()) <= MOST_THAT_MAY_LIVE


def test_no_two_planted_bugs_have_the_same_name() -> None:
    names = [mutant.name for mutant in all_mutants()]
    assert len(names) == len(set(names))


ENTRY = """
[[mutant]]
what = "{what}"
file = "src/sums.py"
before = "{before}"
after = "{after}"
tests = ["tests/test_sums.py{test}"]
{more}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of two functions, one of which is tested."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # All others only take time.
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_timeout,xdist.plugin")
    for name, text in (
        ("src/sums.py", "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n"),
        (
            "tests/test_sums.py",
            "from sums import add\n\ndef test_add():\n    assert add(1, 2) == 3\n",
        ),
        ("tests/test_false.py", "def test_false():\n    assert False\n"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "tests" / "mutants").mkdir()
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def entry(what: str, before: str, after: str, test: str = "", more: str = "") -> str:
    return ENTRY.format(what=what, before=before, after=after, test=test, more=more)


def told(project: Path, capsys: pytest.CaptureFixture[str], *entries: str) -> tuple[int, list[str]]:
    """The exit code, and what is said of each entry, by name."""
    (project / "tests" / "mutants" / "sums.toml").write_text("".join(entries))
    code = main(["--source", str(project), "-j", "2"])
    table, _, _ = capsys.readouterr().out.partition("not as their entries say")
    return code, table.splitlines()


def test_a_planted_bug_that_is_noticed_or_may_live_is_well(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = 'lives = "it is used nowhere"'
    code, lines = told(
        project,
        capsys,
        entry("wrong sum", "a + b", "a * b"),
        entry("wrong difference", "a - b", "b - a", more=reason),
    )
    assert code == 0 and lines[-1] == "1 noticed, 1 lives, 0 error"
    assert any(line.startswith("  noticed") and "sums: wrong sum" in line for line in lines)
    assert any(line.startswith("  lives") and "wrong difference" in line for line in lines)
    assert "    it is used nowhere" in lines


def test_whatever_is_not_as_its_entry_says_fails_the_run(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines = told(
        project,
        capsys,
        entry("unnoticed", "a - b", "b - a"),
        entry("noticed after all", "a + b", "a * b", more='lives = "nothing tests it"'),
        entry("not there", "a / b", "a * b"),
        entry("there twice", "(a, b)", "(b, a)"),
        entry("no test", "a + b", "a * b", test="::test_gone"),
        entry("no syntax", "a + b", "a +"),
        entry("fails anyhow", "a + b", "a * b").replace("test_sums", "test_false"),
    )
    assert code == 1
    said = {line.split("sums: ")[1]: line[:9] for line in lines if "sums: " in line}
    assert said == {
        "unnoticed": "! lives  ",
        "noticed after all": "! noticed",
        **dict.fromkeys(
            ("not there", "there twice", "no test", "no syntax", "fails anyhow"), "! error  "
        ),
    }
    text = "\n".join(lines)
    for why in ("occurs 0 times", "occurs 2 times", "::test_gone", "did not run", "fails without"):
        assert why in text


def test_an_entry_with_a_wrong_field_is_refused_with_its_place(project: Path) -> None:
    (project / "tests" / "mutants" / "sums.toml").write_text(entry("x", "a", "b", more="test = 1"))
    with pytest.raises(ValueError, match=r"sums\.toml, entry 1: there is no such field: test"):
        all_mutants(project / "tests" / "mutants")
