"""The words of a filter as conditions of SQL; see api.job_filter for what they mean.

Values travel as SQL parameters; the only text put into a query is written in this file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from stoker.core.model import ACTIVE, FINAL

# A key, values of which any may match, and whether none of them may: api.job_filter.Term.
Term = tuple[str, tuple[str, ...], bool]

_COMMAND = (
    "coalesce(json_extract(j.launch, '$.shell'),"
    " (SELECT group_concat(value, ' ') FROM json_each(j.launch, '$.argv')))"
)
# Of a word without spaces, and without letters that JSON writes otherwise: what is not in the
# JSON of a launch is not in its command either, and taking that apart is slow.
_HAS = "{place} LIKE '%' || :{{key}}_part || '%' ESCAPE '\\'"
_IS_PLAIN = re.compile(r"[!#-\[\]-~]+")
_LATEST = "(SELECT 1 FROM attempts AS t{source} WHERE t.job_id = j.id AND t.number = j.attempt"
_HAS_GPUS = ", ".join(f"'{state}'" for state in sorted(ACTIVE | FINAL))
# A name may have the letters of a pattern in it, and then still means itself.
_LIKE_ITSELF = "({column} = :{key} OR {column} GLOB :{key})"
_CONDITIONS = {
    "state": "j.state = :{key}",
    "group": _LIKE_ITSELF.replace("{column}", 'j."group"'),
    "name": _LIKE_ITSELF.replace("{column}", "j.name"),
    "user": _LIKE_ITSELF.replace("{column}", "j.user"),
    "gpu": f"j.state IN ({_HAS_GPUS}) AND EXISTS "
    + _LATEST.format(source=", json_each(t.gpus) AS g")
    + " AND g.value = :{key})",
    "since": "max(j.submitted_at_ms, coalesce(j.queued_again_at_ms, 0), coalesce(j.ended_at_ms, 0))"
    " >= CAST(:{key} AS INTEGER) OR EXISTS "
    + _LATEST.format(source="")
    + " AND coalesce(t.started_at_ms, t.placed_at_ms) >= CAST(:{key} AS INTEGER))",
    "text": " OR ".join(_HAS.format(place=place) for place in ("j.name", 'j."group"', _COMMAND))
    + " OR CAST(j.id AS TEXT) = :{key}",
    "plain": " OR ".join(_HAS.format(place=place) for place in ("j.name", 'j."group"'))
    + f" OR ({_HAS.format(place='j.launch')} AND {_HAS.format(place=_COMMAND)})"
    + " OR CAST(j.id AS TEXT) = :{key}",
}


def conditions(terms: Sequence[Term]) -> tuple[list[str], dict[str, Any]]:
    """A condition for each term, of jobs as `j`, and the parameters of all."""
    found: list[str] = []
    values: dict[str, Any] = {}
    for place, (key, wanted, negated) in enumerate(terms):
        each = {f"term{place}_{number}": value for number, value in enumerate(wanted)}
        either = " OR ".join(
            f"({_CONDITIONS[_kind(key, value)].format(key=name)})" for name, value in each.items()
        )
        # What a job does not have matches nothing, and so matches "not this".
        found.append(f"NOT coalesce(({either}), 0)" if negated else f"({either})")
        values |= each
        if key == "text":
            values |= {f"{name}_part": _escaped(value) for name, value in each.items()}
    return found, values


def _kind(key: str, value: str) -> str:
    return "plain" if key == "text" and _IS_PLAIN.fullmatch(value) else key


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
