"""The types of fields of messages, as msgspec checks them."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from stoker.api.job_option import Field

Millis = Annotated[int, Meta(ge=0, le=10**15)]
JobId = Annotated[int, Meta(ge=0, le=10**18)]
_Count = Annotated[int, Meta(ge=0, le=1_000_000)]


class CodeAt(Struct, forbid_unknown_fields=True, array_like=True, frozen=True):
    """The git repository of a job's directory, and what was checked out there at a moment."""

    root: Annotated[str, Meta(max_length=4096)]
    commit: Annotated[str, Meta(pattern="^(?:[0-9a-f]{40}|[0-9a-f]{64})$")]
    at_ns: Annotated[int, Meta(ge=0, le=2**62)]


def type_of(field: Field) -> Any:
    """The type of a field of the table, with its limits."""
    least, most = field.least, field.most
    kind: Any
    match field.kind:
        case "int":
            kind = Annotated[int, Meta(ge=least, le=most)]
        case "number":
            kind = Annotated[float, Meta(gt=least, lt=most)]
        case "flag":
            kind = bool
        case "text":
            limits = Meta(min_length=_length(least), max_length=_length(most))
            kind = str if least is most is None else Annotated[str, limits]
        case "texts":
            kind = list[str] if most is None else Annotated[list[str], Meta(max_length=int(most))]
        case "ints":
            kind = list[Annotated[int, Meta(ge=least, le=most)]]
        case "pairs":
            kind = dict[str, str]
        case "margin":
            kind = tuple[_Count, _Count]  # percent, and at least so many MiB
        case words:
            kind = Literal[tuple(words.split("|"))]
    return kind | None if field.default is None else kind


def _length(limit: float | None) -> int | None:
    return None if limit is None else int(limit)
