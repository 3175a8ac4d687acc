"""What is to change of a job that is queued: only the fields that were named."""

from __future__ import annotations

from stoker.api.job_options import BY_KEY, NONE, fields_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

# What one field says, another takes back: a count of GPUs a share, a shell command a list of words.
_INSTEAD: dict[str, dict[str, Any]] = {
    "share": {"gpus": None},
    "gpus": {"share": None},
    "shell": {"argv": []},
    "argv": {"shell": None},
}


def changed_fields(
    values: Mapping[str, Any], command: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The fields that say these values of options, take away those that are NONE, set a command."""
    fields = {**fields_of(values), **(command or {})}
    for key, value in values.items():
        if value is NONE:
            fields |= BY_KEY[key].cleared_fields()
        elif value is False and key == "on_cluster":  # It undoes what was said at its submission.
            fields.setdefault("executor", "local")
        elif value is False:
            fields[BY_KEY[key].fields[0].name] = False
    for name in list(fields):
        for other, empty in _INSTEAD.get(name, {}).items():
            fields.setdefault(other, empty)
    return fields
