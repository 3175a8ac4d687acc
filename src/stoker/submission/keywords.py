"""The options of a job as keywords of Python: those of the table, with underscores for dashes."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

from stoker.api.job_options import BY_KEY, fields_of, value_of
from stoker.errors import UsageError
from stoker.quantities import quoted
from stoker.submission.surroundings import absolute_paths
from stoker.text.suggest import nearest

Fields = dict[str, Any]


def job_fields(options: Mapping[str, Any], here: str | None = None) -> Fields:
    """The fields of a job for these options; one that is None counts as not given."""
    fields = fields_of(values_of(options))
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
            raise UsageError(f"{name}: {error.message}", error.hint) from None
    return values


def unknown_option(name: str, known: Iterable[str], see: str) -> UsageError:
    """That there is no such option, and which was meant; else where to look."""
    guess = nearest(name, list(known))
    return UsageError(
        f"a job has no option {quoted(name)}", f"did you mean {guess}?" if guess else see
    )


def call_fields(options: Mapping[str, Any]) -> Fields:
    """The same for a job that is a call and not a command."""
    fields = job_fields(options)
    if fields.get("gpu_arg"):
        raise UsageError(
            "a call has no command line for gpu_arg to append to",
            "the call finds its GPUs in CUDA_VISIBLE_DEVICES and STOKER_GPUS",
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
