"""Sweep files: W&B's keys in YAML and TOML, and what is said of those that can't be followed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import UsageError
from stoker.installing import install_command
from stoker.search.fromfile import read_file
from stoker.search.spec import until_of
from stoker.sweep import filesearch, sweepfile
from stoker.sweep.axes import Choice, Drawn, Listed, Numbers
from stoker.sweep.points import Space
from stoker.sweep.sweepfile import SweepFile


def read(tmp_path: Path, text: str, name: str = "sweep.yaml", **environ: str) -> SweepFile:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return sweepfile.read(str(path), environ)


def understood(parameters: object, **keys: Any) -> SweepFile:
    return sweepfile.understood({"parameters": parameters, **keys}, {})


def numbers_of(**spec: object) -> Numbers:
    [axis] = understood({"x": spec}).axes
    assert isinstance(axis, Drawn)
    assert isinstance(axis.distribution, Numbers)
    return axis.distribution


YAML = """
program: train.py
method: random
run_cap: 12
name: my-sweep
metric: {name: loss, goal: minimize}
parameters:
  lr: {distribution: log_uniform_values, min: 1e-6, max: 1.0e-2}
  bs: {values: [16, 32]}
  opt: {value: adam}
  drop: {min: 0.0, max: 0.5}
  depth: {min: 2, max: 8}
command:
  - ${env}
  - ${interpreter}
  - ${program}
  - --data=${envvar:DATA}
  - ${args}
"""

TOML = """
program = "train.py"
method = "random"
run_cap = 12
name = "my-sweep"
command = ["${env}", "${interpreter}", "${program}", "--data=${envvar:DATA}", "${args}"]
[metric]
name = "loss"
goal = "minimize"
[parameters]
lr = {distribution = "log_uniform_values", min = 1e-6, max = 1.0e-2}
bs = {values = [16, 32]}
opt = {value = "adam"}
drop = {min = 0.0, max = 0.5}
depth = {min = 2, max = 8}
"""


@pytest.mark.parametrize(("name", "text"), [("s.yaml", YAML), ("s.yml", YAML), ("s.toml", TOML)])
def test_yaml_and_toml_say_the_same(tmp_path: Path, name: str, text: str) -> None:
    file = read(tmp_path, text, name, DATA="/data")
    assert file.method == "random"
    assert (file.run_cap, file.name, list(file.of_search)) == (12, "my-sweep", ["metric"])
    assert file.command == ("/usr/bin/env", "python", "train.py", "--data=/data", "${args}")
    lr, bs, opt, drop, depth = file.axes
    assert lr == Drawn("lr", Numbers("log", 1e-6, 1e-2))
    assert isinstance(bs, Listed) and [row[0].data for row in bs.rows] == [16, 32]
    assert isinstance(opt, Listed) and [row[0].text for row in opt.rows] == ["adam"]
    assert drop == Drawn("drop", Numbers("uniform", 0.0, 0.5))
    assert depth == Drawn("depth", Numbers("uniform", 2, 8, whole=True))


def test_an_exponent_is_a_number_in_yaml_with_or_without_a_dot(tmp_path: Path) -> None:
    text = "parameters: {lr: {values: [1e-4, 1E5, 1.5e-3, -2e-1, '1e-4', 1e-x]}}"
    [axis] = read(tmp_path, text).axes
    assert isinstance(axis, Listed)
    assert [row[0].data for row in axis.rows] == [1e-4, 1e5, 1.5e-3, -0.2, "1e-4", "1e-x"]


def test_every_distribution_of_real_values_is_known() -> None:
    assert numbers_of(distribution="uniform", min=1, max=2) == Numbers("uniform", 1, 2)
    assert numbers_of(distribution="q_uniform", min=0, max=1, q=0.1).step == 0.1
    assert numbers_of(distribution="int_uniform", min=1, max=9).whole
    assert numbers_of(distribution="log_uniform_values", min=0.1, max=1).shape == "log"
    assert numbers_of(distribution="q_log_uniform_values", min=1, max=512).step == 1.0
    assert numbers_of(distribution="inv_log_uniform_values", min=1, max=2).shape == "inverse-log"
    assert numbers_of(distribution="normal", mu=3, sigma=2) == Numbers("normal", 3, 2)
    assert numbers_of(distribution="q_normal").step == 1.0
    assert numbers_of(distribution="log_normal", mu=0, sigma=1).shape == "log-normal"
    assert numbers_of(distribution="q_log_normal").step == 1.0
    assert numbers_of(distribution="beta", a=2, b=5) == Numbers("beta", 2, 5)
    assert numbers_of(distribution="q_beta", a=2, b=5, q=0.1).step == 0.1
    assert numbers_of(mu=1) == Numbers("normal", 1, 1.0)


def test_values_may_have_probabilities() -> None:
    [axis] = understood({"x": {"values": ["a", "b"], "probabilities": [0.9, 0.1]}}).axes
    assert isinstance(axis, Drawn)
    assert isinstance(axis.distribution, Choice)
    assert axis.distribution.weights == (0.9, 0.1)


def test_nested_parameters_have_names_with_dots() -> None:
    file = understood({"opt": {"parameters": {"lr": {"value": 1}, "name": {"value": "sgd"}}}})
    assert [axis.names for axis in file.axes] == [("opt.lr",), ("opt.name",)]


def test_truths_and_nothing_are_written_as_wandb_writes_them() -> None:
    [axis] = understood({"x": {"values": [True, None, [1, 2], 0.5, "a b"]}}).axes
    assert isinstance(axis, Listed)
    assert [row[0].text for row in axis.rows] == ["True", "None", "[1, 2]", "0.5", "a b"]


def test_a_program_alone_has_the_usual_command() -> None:
    file = understood({"x": {"value": 1}}, program="train.py")
    assert file.command == ("/usr/bin/env", "python", "train.py", "${args}")
    assert understood({"x": {"value": 1}}).command == ()
    assert understood({"x": {"value": 1}}, command="train {x}").command == ("train {x}",)


def test_bayes_is_a_search_and_other_methods_are_not() -> None:
    metric = {"name": "loss"}
    file = understood({"x": {"value": 1}}, method="bayes", metric=metric, project="p")
    assert file.is_search and file.of_search == {"metric": metric}
    assert file.without_effect == ("project",)
    assert not understood({"x": {"value": 1}}, method="random", metric=metric).is_search


METRIC = {"name": "loss"}


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ({"min_iter": 3}, (3, None, 3)),
        ({"min_iter": 3, "eta": 2.0}, (3, None, 2)),
        ({"max_iter": 27, "s": 2}, (3, 27, 3)),
        ({"max_iter": 27, "s": 9}, (1, 27, 3)),
        ({"max_iter": 27}, (1, 27, 3)),
        ({"min_iter": 2, "max_iter": 16, "eta": 4}, (2, 16, 4)),
    ],
)
def test_hyperband_of_a_file_has_its_numbers(
    said: dict[str, object], means: tuple[int, int | None, int]
) -> None:
    found = filesearch.hyperband({"type": "hyperband", **said})
    assert (found.min_steps, found.max_steps, found.eta) == means
    assert found.without_effect == ()


def test_what_hyperband_has_of_its_own_at_wandb_is_told() -> None:
    found = filesearch.hyperband({"type": "hyperband", "min_iter": 3, "strict": True})
    assert found.without_effect == ("early_terminate.strict",)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "neither min_iter nor max_iter"),
        ({"type": "envelope"}, "there is no type 'envelope'"),
        ({"min_iter": 3, "s": 2}, "s is about max_iter"),
        ({"min_iter": 3, "eta": 2.5}, "eta: '2.5' is not a whole number of at least 2"),
        ({"min_iter": 3, "eta": 1}, "at least 2"),
        ({"min_iter": True}, "min_iter: 'True' is not"),
        ({"min_iter": 9, "max_iter": 3}, "max_iter is less than min_iter"),
        ({"min_iter": 3, "patience": 1}, "there is no key 'patience'"),
    ],
)
def test_an_early_terminate_that_can_not_be_followed_is_refused(
    said: dict[str, object], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        filesearch.hyperband({"type": "hyperband", **said})


@pytest.mark.parametrize(
    ("said", "means"),
    [
        (METRIC, ("loss", "min", None)),
        ({**METRIC, "goal": "maximize", "target": 1}, ("loss", "max", 1.0)),
    ],
)
def test_the_metric_of_a_file_is_what_is_searched_for(
    said: object, means: tuple[object, ...]
) -> None:
    found = filesearch.metric(said)
    assert (found.name, found.goal, found.target) == means


@pytest.mark.parametrize("goal", ["minimize", "maximize"])
def test_the_target_of_a_file_is_where_its_search_ends(goal: str) -> None:
    metric = {**METRIC, "goal": goal, "target": 0.5}
    file = understood({"x": {"min": 0.0, "max": 1.0}}, method="bayes", metric=metric)
    found = read_file(file, "sweep.yaml", has_goal=False)
    assert found.until is not None
    assert until_of(found.until, found.objectives) == ("loss", 0.5)
    own = read_file(file, "sweep.yaml", has_goal=True)
    assert (own.objectives, own.until, own.ignored) == ([], None, ["metric"]), "that is told"


def test_lists_of_a_bayes_file_are_choices_and_single_values_stay() -> None:
    params = {"x": {"values": [1, 2]}, "y": {"value": 3}, "z": {"min": 0.0, "max": 1.0}}
    for method, kinds in (("bayes", [Drawn, Listed, Drawn]), ("random", [Listed, Listed, Drawn])):
        file = understood(params, method=method, metric=METRIC)
        found = read_file(file, "sweep.yaml", has_goal=False).choosable(Space(tuple(file.axes)))
        assert [type(axis) for axis in found.axes] == kinds


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (None, "bayes needs a metric"),
        ({"goal": "minimize"}, "bayes needs a metric"),
        ({**METRIC, "goal": "least"}, "there is no goal 'least'"),
        ({**METRIC, "target": "0.3"}, "the target '0.3' is no number"),
        ({**METRIC, "impute": "best"}, "there is no key 'impute'"),
    ],
)
def test_a_metric_that_can_not_be_followed_is_refused(said: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        filesearch.metric(said)


def test_bounds_that_are_exponents_are_refused_with_the_real_ones() -> None:
    with pytest.raises(UsageError, match="exponents") as caught:
        understood({"lr": {"distribution": "log_uniform", "min": -9.21, "max": -2.3}})
    assert "log_uniform_values" in caught.value.hint
    assert "min: 0.0001, max: 0.1" in caught.value.hint


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], "no keys"),
        ({}, "no parameters"),
        ({"parameters": {}}, "no parameters"),
        ({"parameters": {"x": 3}}, "says nothing about its values"),
        ({"parameters": {"x": {}}}, "has no values"),
        ({"parameters": {"x": {"values": []}}}, "not a list of values"),
        ({"parameters": {"x": {"values": 3}}}, "not a list of values"),
        ({"parameters": {"x": {"value": 1, "min": 2}}}, "takes no min"),
        ({"parameters": {"x": {"min": 1}}}, "has no values"),
        ({"parameters": {"x": {"min": "a", "max": 2}}}, "not a number"),
        ({"parameters": {"x": {"min": True, "max": 2}}}, "not a number"),
        ({"parameters": {"x": {"distribution": "uniform", "min": 1}}}, "max is missing"),
        ({"parameters": {"x": {"distribution": "cauchy"}}}, "no distribution"),
        ({"parameters": {"x": {"vales": [1]}}}, "no key 'vales'"),
        ({"parameters": {"x": {"values": [1, 2], "probabilities": [1]}}}, "probabilities"),
        ({"parameters": {"x": {"values": [1], "probabilities": ["a"]}}}, "probabilities"),
        ({"parameters": {"x y": {"value": 1}}}, "parameter's name"),
        ({"parameters": {"x": {"values": ["a\0"]}}}, "NUL"),
        ({"parameters": {"x": {"distribution": "q_uniform", "min": 0, "max": 1, "q": 0}}}, "step"),
        ({"parameters": {"x": {"distribution": "beta", "a": 0, "b": 1}}}, "above 0"),
        ({"parameters": {"x": {"value": 1}}, "method": "gird"}, "no method"),
        ({"parameters": {"x": {"value": 1}}, "methd": "grid"}, "no key 'methd'"),
        ({"parameters": {"x": {"value": 1}}, "run_cap": 0}, "run_cap"),
        ({"parameters": {"x": {"value": 1}}, "name": 3}, "not text"),
        ({"parameters": {"x": {"value": 1}}, "command": []}, "neither a list"),
        ({"parameters": {"x": {"value": 1}}, "command": [{}]}, "not a word"),
        ({"parameters": {"x": {"value": 1}}, "command": ["${program}"]}, "${program}"),
        ({"parameters": {"x": {"value": 1}}, "command": ["${args_json_file}"]}, "args_json_file"),
        ({"parameters": {"x": {"value": 1}}, "command": ["${envvar:NOPE}"]}, "NOPE"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(content: object, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        sweepfile.understood(content, {})
    assert said in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("s.yaml", "a: [1", "not YAML"),
        ("s.yaml", "parameters:\n  x: {value: 1}\n  x: {value: 2}", "x occurs twice (line 3)"),
        ("s.yaml", "!!python/object/apply:os.system ['true']", "not YAML"),
        ("s.yaml", "", "no keys"),
        ("s.toml", "a = ", "not TOML"),
        ("s.json", "{}", ".yaml, .yml or .toml"),
    ],
)
def test_a_file_that_cant_be_read_is_named_with_its_line(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text, name)
    assert said in caught.value.message
    assert name in caught.value.message
    assert "\n" not in caught.value.message


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        sweepfile.read(str(tmp_path / "none.yaml"), {})
    (tmp_path / "bad.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="UTF-8"):
        sweepfile.read(str(tmp_path / "bad.yaml"), {})


def test_without_pyyaml_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(UsageError, match="PyYAML") as caught:
        read(tmp_path, "a: 1")
    assert caught.value.hint == f"run: {install_command('PyYAML')}, or write TOML"
    assert read(tmp_path, TOML, "s.toml", DATA="x").name == "my-sweep"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["parameters", "x", "values", "min", "max", "command", "method"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_any_content_is_a_sweep_or_a_usage_error(content: object) -> None:
    for one in (content, {"parameters": content}, {"parameters": {"x": content}}):
        try:
            sweepfile.understood(one, {})
        except UsageError:
            pass
