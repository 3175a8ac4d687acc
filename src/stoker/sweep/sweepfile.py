"""A sweep in a file, YAML or TOML, with the keys that a W&B sweep file has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.errors import UsageError
from stoker.quantities import quoted
from stoker.sweep.axes import Axis
from stoker.sweep.filevalues import axes_from

# Keys that describe the sweep to W&B's server, and those that say something of a search alone.
_WITHOUT_EFFECT = frozenset({"project", "entity", "description"})
_OF_SEARCHES = frozenset({"metric", "early_terminate"})
_KEYS = frozenset({"method", "parameters", "command", "program", "run_cap", "name"})
_METHODS = ("grid", "random", "bayes")
_USUAL_COMMAND = ("${env}", "${interpreter}", "${program}", "${args}")
_MACRO = re.compile(r"\$\{(env|interpreter|program|args_json_file|envvar:[^{}]*)\}")
_MOST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SweepFile:
    """What a file says."""

    axes: tuple[Axis, ...]
    method: str
    run_cap: int | None
    command: tuple[str, ...]  # empty if the file names none
    name: str | None
    without_effect: tuple[str, ...]  # keys that it has and that change nothing here
    of_search: Mapping[str, Any]  # keys that it has and that are about a search: see filesearch

    @property
    def is_search(self) -> bool:
        """Whether each of its points is to be chosen by the results of those before."""
        return self.method == "bayes"


def read(path: str, environ: Mapping[str, str]) -> SweepFile:
    """Read and check a file; what is wrong with it is said in one line with its name."""
    try:
        content = Path(path).read_bytes()[: _MOST_BYTES + 1]
    except OSError as error:
        raise UsageError(
            f"can't read {quoted(path)}: {error.strerror}", "name a file that can be read"
        ) from None
    if len(content) > _MOST_BYTES:
        raise UsageError(f"{quoted(path)} is too large for a sweep file", "name a sweep file")
    try:
        return understood(_loaded(path, content), environ)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}", error.hint) from None


def _loaded(path: str, content: bytes) -> object:
    kind = Path(path).suffix.lower()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError("it is not valid UTF-8", "save it as UTF-8") from None
    if kind == ".toml":
        import tomllib

        try:
            return tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise UsageError(f"it is not TOML: {_one_line(error)}", "fix that line") from None
    if kind not in (".yaml", ".yml"):
        raise UsageError("a sweep file ends in .yaml, .yml or .toml", "rename it")
    from stoker.sweep.yamltext import loaded

    return loaded(text)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def understood(content: object, environ: Mapping[str, str]) -> SweepFile:
    """What a file's content means."""
    if not isinstance(content, dict):
        raise UsageError("it has no keys", "write at least `parameters:`")
    keys = {str(key): value for key, value in content.items()}
    unknown = sorted(keys.keys() - _KEYS - _WITHOUT_EFFECT - _OF_SEARCHES)
    if unknown:
        raise UsageError(
            f"there is no key {quoted(unknown[0])}", f"the keys are {', '.join(sorted(_KEYS))}"
        )
    method = keys.get("method", "grid")
    if method not in _METHODS:
        raise UsageError(f"there is no method {quoted(str(method))}", "write grid, random or bayes")
    parameters = keys.get("parameters")
    if not isinstance(parameters, dict) or not parameters:
        raise UsageError("it has no parameters", "write e.g. parameters: {lr: {values: [0.1]}}")
    return SweepFile(
        tuple(axes_from(parameters)),
        method,
        _run_cap(keys.get("run_cap")),
        _command(keys.get("command"), keys.get("program"), environ),
        _text(keys, "name"),
        tuple(sorted(keys.keys() & _WITHOUT_EFFECT)),
        {key: keys[key] for key in sorted(keys.keys() & _OF_SEARCHES)},
    )


def _text(keys: dict[str, Any], key: str) -> str | None:
    value = keys.get(key)
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{key}: {quoted(str(value))} is not text", "put it in quotes")
    return value


def _run_cap(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"run_cap: {quoted(str(value))} is not a count", "write e.g. 40")
    return value


def _command(command: object, program: object, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The words of the command, its macros replaced, those for the parameters aside."""
    if program is not None and not isinstance(program, str):
        raise UsageError(f"program: {quoted(str(program))} is not text", "write e.g. train.py")
    if command is None:
        words: Sequence[object] = _USUAL_COMMAND if program is not None else ()
    elif isinstance(command, str):
        words = (command,)
    elif isinstance(command, list) and command:
        words = command
    else:
        raise UsageError("command: it is neither a list nor text", "write a list of words")

    def replaced(match: re.Match[str]) -> str:
        macro = match[1]
        if macro == "env":
            return "/usr/bin/env"
        if macro == "interpreter":
            return "python"
        if macro == "program":
            if program is None:
                raise UsageError("the command has ${program}", "write program: train.py too")
            return program
        if macro == "args_json_file":
            raise UsageError(
                "${args_json_file} is not supported", "use ${args_json}, ${args} or {placeholders}"
            )
        name = macro.removeprefix("envvar:")
        if name not in environ:
            raise UsageError(f"the environment has no {name}", f"set {name}, or leave it out")
        return environ[name]

    made = []
    for word in words:
        if isinstance(word, dict | list) or word is None:
            raise UsageError(f"command: {quoted(str(word))} is not a word", "put it in quotes")
        made.append(_MACRO.sub(replaced, str(word)))
    return tuple(made)
