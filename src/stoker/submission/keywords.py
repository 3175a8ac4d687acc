"""The values of job options from Python and from files, by the table of options."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from stoker.api.job_option import JobOption, several
from stoker.api.job_options import BY_KEY, Taken, fields_of
from stoker.errors import StokerError, UsageError
from stoker.quantities import plain, quoted
from stoker.submission.surroundings import absolute_paths, with_project
from stoker.text.suggest import meant

Fields = dict[str, Any]
Said = TypeVar("Said", bound=StokerError)


def job_fields(
    options: Mapping[str, Any],
    here: str | None = None,
    front_end: str = "",
    words: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
) -> Fields:
    """The fields of a job for these options; one that is None counts as not given.

    For a front end that is named, the defaults of the project count, too. `more` are fields that
    were said as such: they come before all others.
    """
    try:
        values = values_of(options)
        if front_end:
            values = with_project(values, here or os.getcwd(), front_end, words, more)
        fields = fields_of(values)
    except UsageError as error:
        raise in_keywords(error) from None
    if more:
        env = {**fields.get("env", {}), **more.get("env", {})}
        fields |= {**more, **({"env": env} if env else {})}
    if options.get("params") is not None:
        fields["params"] = {str(k): _plain(v) for k, v in dict(options["params"]).items()}
    if "cwd" in fields or "out" in fields or "err" in fields:
        absolute_paths(fields, here if here is not None else os.getcwd())
    return fields


def values_of(options: Mapping[str, Any]) -> Fields:
    """The values of the options of the table that are named here."""
    values = {}
    for name, said in options.items():
        if name not in BY_KEY:
            if name == "params":
                continue
            raise unknown_option(name, BY_KEY, f"the options are {', '.join(BY_KEY)}")
        if said is None:
            continue
        try:
            values[name] = value_of(BY_KEY[name], said)
        except UsageError as error:
            raise UsageError(f"{name}: {error.message}", error.hint).about(name) from None
    return values


def unknown_option(name: str, known: Iterable[str], see: str) -> UsageError:
    """That there is no such option, and which was meant; else where to look."""
    options = {f"--{key.replace('_', '-')}": key for key in known}
    guess = options.get(meant(name, list(options)), "")
    return UsageError(
        f"a job has no option {quoted(name)}", f"did you mean {guess}?" if guess else see
    )


def check_keywords(options: Mapping[str, Any], function: Callable[..., Any]) -> None:
    """Refuse what is a keyword neither of a job nor of this function; name the nearest of both."""
    for name in options:
        if not is_option(name):
            known = [*own_keywords(function), *BY_KEY]
            raise unknown_option(name, known, f"the options are {', '.join(BY_KEY)}")


def own_keywords(function: Callable[..., Any]) -> list[str]:
    """The names by which a function takes its arguments."""
    from inspect import Parameter, signature  # Few errors get here.

    named = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    found = [one.name for one in signature(function).parameters.values() if one.kind in named]
    return [name for name in found if name != "self"]


def in_keywords(error: Said) -> Said:
    """The same error for a user of Python or HTTP: `mem="8G"` where it says `--mem 8G`.

    What is in backticks is a command to be typed, and stays as it is.
    """
    if error.as_typed is None:
        error.as_typed = error.message, error.hint
        error.option = error.option or _first_named(error.message) or _first_named(error.hint)
    error.message, error.hint = _in_keywords(error.message), _in_keywords(error.hint)
    return error


def _first_named(text: str) -> str:
    """The key of the first option in a text, if there is one."""
    if "--" not in text:
        return ""
    import re  # Few errors get here.

    named = re.findall(r"--([a-z]+(?:-[a-z]+)*)", "".join(text.split("`")[::2]))
    keys = (name.replace("-", "_") for name in named)
    return next((key for key in keys if key in BY_KEY), "")


def _in_keywords(text: str) -> str:
    if "--" not in text:
        return text
    import re  # Few errors get here.

    def keyword(found: re.Match[str]) -> str:
        key, value = found[1].replace("-", "_"), found[2]
        if key not in BY_KEY:
            return found[0]
        if value is None:
            return key
        return f"{key}={value}" if value.replace(".", "", 1).isdigit() else f'{key}="{value}"'

    option = r"--([a-z]+(?:-[a-z]+)*)(?: (auto|whole|local|slurm|\d\w*(?:[.,]\d\w*)*%?))?"
    parts = text.split("`")
    parts[::2] = [re.sub(option, keyword, part) for part in parts[::2]]
    return "`".join(parts)


def call_fields(options: Mapping[str, Any]) -> Fields:
    """The same for a job that is a call and not a command."""
    fields = job_fields(options, front_end="call")
    if fields.get("gpu_arg"):
        raise UsageError(
            "a call has no command line for gpu_arg to append to",
            "the call finds its GPUs in CUDA_VISIBLE_DEVICES and STOKER_GPUS",
        )
    if "freeze" in fields:
        raise UsageError(
            "a call imports its modules from where this program has them, so freeze has no effect",
            "queue a command with freeze, e.g. Client().add",
        )
    return fields


def is_option(name: str) -> bool:
    """True if a job has such an option."""
    return name in BY_KEY or name == "params"


def _plain(value: Any) -> Any:
    """The value itself if JSON has a form for it, else its text: it is only to be shown."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return str(value)


# --- single values --------------------------------------------------------------------------------


def value_of(option: JobOption, said: Any) -> Any:
    """The value of an option that was said as a person writes it, or as the thing that it means.

    Text is read as the command line reads it. A list is one of its parts, a table one of names and
    values; numbers, paths, timedeltas, datetimes and futures are taken for what they are.
    """
    try:
        if option.take is not None:
            said = option.take(said)
            if isinstance(said, Taken):
                return said.value
        if option.repeat:
            return several([option.convert(plain(text)) for text in _several(said)])
    except TypeError:  # It is not one of the things that this option may be.
        example = f"write e.g. {option.metavar}"
        raise UsageError(f"{quoted(str(said))} is not understood", example) from None
    if option.is_flag:
        return _flag(said)
    return option.convert(plain(_text(option, said)))


def _text(option: JobOption, said: Any) -> str:
    if isinstance(said, str):
        return said
    if isinstance(said, os.PathLike):
        return os.fsdecode(said)
    if isinstance(said, dict):
        raise UsageError("this can't be a table", f"write e.g. {option.metavar}")
    if option.is_only_text:
        raise UsageError(f"{quoted(str(said))} is not text", f"write e.g. {option.metavar!r}")
    if isinstance(said, list | tuple):
        return ",".join(str(one) for one in said)
    return str(said)


def _several(said: Any) -> Iterable[str]:
    """K=V;K=V, a list of K=V, or a table."""
    items = getattr(said, "items", None)
    if items is not None:
        return [f"{key}={one}" for key, one in items()]
    if isinstance(said, str):
        return [part.strip() for part in said.split(";") if part.strip()]
    return [str(one) for one in said]


_TRUE = frozenset(("yes", "true", "on", "1", "y", "t"))
_FALSE = frozenset(("no", "false", "off", "0", "n", "f", ""))


def _flag(said: Any) -> bool:
    if said in (True, False):  # 1 and 0 are these, too.
        return bool(said)
    text = said.strip().lower() if isinstance(said, str) else str(said)
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise UsageError(f"{quoted(text)} is neither yes nor no", "write yes or no")
