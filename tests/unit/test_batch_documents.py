"""Lists of jobs in YAML, JSON and JSON lines."""

from __future__ import annotations

import sys

import pytest

from stoker.batch.documents import json_lines, json_list, yaml_list
from stoker.errors import UsageError


def test_a_yaml_list_gives_an_entry_for_each_job_with_its_line() -> None:
    text = """\
# my jobs
- name: first
  out: first.txt
  command: python -u blah.py

- {jobname: second, outfile: second.txt, command: [ls, -l], gpus: 2}
"""
    first, second = yaml_list(text, "jobs.yaml")
    assert (first.line, second.line) == (2, 6)
    assert first.command == "python -u blah.py"
    assert first.values == {"name": "first", "out": "first.txt"}
    assert second.command == ["ls", "-l"]
    assert second.values == {"name": "second", "out": "second.txt", "gpus": "2"}


def test_yaml_values_stay_as_they_were_written() -> None:
    text = "- {command: x, at: 22:00, mem: 1e3, hold: yes, env: {A: on, B: 010, C: '~'}, cwd: ~}"
    (entry,) = yaml_list(text, "jobs.yaml")
    assert entry.values == {
        "at": "22:00",
        "mem": "1e3",
        "hold": "yes",
        "env": {"A": "on", "B": "010", "C": "~"},
    }


def test_yaml_defaults_and_merges_are_for_the_jobs_that_say_nothing_else() -> None:
    text = """\
defaults: &all {gpus: 1, mem: 8G}
jobs:
  - command: a
  - {command: b, gpus: 2}
  - {<<: *all, command: c, mem: 4G}
"""
    a, b, c = yaml_list(text, "jobs.yaml")
    assert a.values == {"gpus": "1", "mem": "8G"}
    assert b.values == {"gpus": "2", "mem": "8G"}
    assert c.values == {"gpus": "1", "mem": "4G"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- name: x\n", "line 1: there is no command"),
        ("- command: a\n- 7\n", "line 2: not a table"),
        ("- command: a\n  command: b\n", "line 1: 'command' occurs twice"),
        ("- command: a\n- command: {a: b}\n", "line 2: the command is a table"),
        ("- command: [[a]]\n", "line 1: a list is nested too deeply"),
        ("- command: a\n  b: [\n", "line 3:"),
        ("command: a\n", "is not a list of jobs"),
        ("hello", "is not a list of jobs"),
        ("- command: 'a\n", "line 2:"),
    ],
)
def test_bad_yaml_is_named_by_its_line(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        yaml_list(text, "jobs.yaml")
    assert said in caught.value.message
    assert "\n" not in caught.value.message


def test_a_yaml_document_can_not_unfold_without_end() -> None:
    layers = ["a0: &a0 [x, x]"]
    layers += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    with pytest.raises(UsageError):
        yaml_list("\n".join(layers) + "\njobs: [{command: *a39}]\n", "jobs.yaml")


def test_without_pyyaml_a_yaml_file_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(UsageError) as caught:
        yaml_list("- command: a\n", "jobs.yaml")
    assert "PyYAML" in caught.value.message
    assert "JSON lines" in caught.value.hint


def test_json_lines_give_an_entry_for_each_line() -> None:
    text = '{"command": "a", "gpus": 0.5, "hold": true}\n\n{"command": ["b", "c"], "mem": null}\r\n'
    first, second = json_lines(text, "jobs.jsonl")
    assert (first.line, second.line) == (1, 3)
    assert first.values == {"gpus": "0.5", "hold": "true"}
    assert (second.command, second.values) == (["b", "c"], {})


def test_a_json_list_gives_an_entry_for_each_object() -> None:
    text = '[\n {"command": "a"},\n {"command": "b", "on": [0, 1]}\n]\n'
    first, second = json_list(text, "jobs.json")
    assert (first.line, second.line) == (2, 3)
    assert second.values == {"on": ["0", "1"]}
    assert json_list("[]", "jobs.json") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 1: not JSON"),
        ('{"command": "a"}\n[1]', "line 2: not an object"),
        ('{"command": "a", "command": "b"}', "line 1: not JSON: a key occurs twice"),
        ('{"command": "a"}\n{"gpus": 1}', "line 2: there is no command"),
        ('{"command": "a", "env": {"A": [1]}}', "line 1: 'env' holds something that is not text"),
    ],
)
def test_bad_json_lines_are_named(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        json_lines(text, "jobs.jsonl")
    assert said in caught.value.message


@pytest.mark.parametrize("text", ["", "{}", "[", "[1 2]", '[{"command": "a"} {"command": "b"}]'])
def test_a_bad_json_list_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        json_list(text, "jobs.json")
