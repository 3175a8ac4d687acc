"""What is to change of a job that is queued: only the fields that were named."""

from __future__ import annotations

from stoker.api.job_option import NONE
from stoker.api.job_options import BY_KEY, fields_of
from stoker.errors import Failed, StokerError
from stoker.text.ids import ids_by_reason

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


def not_queued(job_id: int, state: str) -> Failed:
    """That a job has started, or has ended."""
    return Failed(f"job {job_id} is {state}", "only a job that waits or is held can be edited")


def none_changed(left_out: dict[str, list[int]], refusal: StokerError) -> StokerError:
    """Why none of several jobs could be changed, by reason; `refusal` is that of the first.

    What was said once of all of them, as that there is no such GPU, is not said of each.
    """
    if sum(map(len, left_out.values())) == 1 or list(left_out) == [refusal.message]:
        return refusal
    return type(refusal)(f"nothing was changed: {ids_by_reason(left_out)}", refusal.hint)


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
