"""What an option of a job is: how it is written, what it means, which fields say it."""

from __future__ import annotations

from stoker.quantities import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Fields = dict[str, Any]  # of the message: see api/messages.py


class Field:
    """One field of the message: its type in words, its limits, and what it is if it is absent."""

    __slots__ = ("default", "kind", "least", "most", "name")

    def __init__(
        self,
        name: str,
        kind: str,
        default: Any = None,
        *,
        least: float | None = None,
        most: float | None = None,
    ) -> None:
        self.name = name
        # int, ints, number (between its limits), flag, text, texts, pairs ({str: str}), margin, or
        # the words that it may be, as in "auto|whole"
        self.kind = kind
        self.default = default
        self.least = least  # of a text or list: the length
        self.most = most


class _None:
    """The value of an option that was said as `none`: the job does not have it."""

    def __bool__(self) -> bool:
        return False


NONE = _None()


def _or_none(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: NONE if text == "none" else convert(text)


def several(values: list[Any]) -> Any:
    """The value of an option that was repeated: `none` takes away what was said before it."""
    if NONE not in values:
        return values
    return values[len(values) - values[::-1].index(NONE) :] or NONE


class JobOption:
    """One option: a flag if it has no `metavar`, else one that takes a value.

    The command line's parser takes it as it is: see `Option` in cli/options.py.
    """

    short = ""
    many = False

    def __init__(
        self,
        name: str,
        help: str,
        metavar: str = "",
        convert: Callable[[str], Any] = plain,
        *,
        group: str,
        fields: tuple[Field, ...],
        to_fields: Callable[[Any], Fields] | None = None,
        take: Callable[[Any], Any] | None = None,
        cleared: bool = False,
        negative: str = "",
        not_in: tuple[str, ...] = (),
        repeat: bool = False,
        choices: tuple[str, ...] = (),
        files: str = "",
        dashes: bool = False,
        executors: bool = False,
    ) -> None:
        self.name = name
        self.key = name.replace("-", "_")
        self.help = help  # in one sentence
        self.metavar = metavar  # an example of its value
        # text, as a person writes it, to its value
        self.convert = _or_none(convert) if cleared else convert
        self.group = group
        self.fields = fields  # of the message
        self.to_fields = to_fields  # its value to these; None: the value is that of the one field
        self.take = take  # a Python value to text, or to its value if it is no text
        self.cleared = cleared  # whether `none` takes it away, also what stoker.toml says
        self.negative = negative  # what its opposite --no-... means
        # Where it can't be said: edit, feed, batch, sweep, shell, call, library.
        self.not_in = not_in
        self.repeat = repeat
        self.choices = (*choices, "none") if choices and cleared else choices  # for completion
        self.files = files  # "file" or "dir": what a shell should offer
        self.dashes = dashes  # its value may begin with --: it is options of another program
        self.executors = executors  # only what starts the job acts on it: see Launch.options

    @property
    def undone_by_no(self) -> bool:
        """Whether --no-NAME is understood."""
        return self.is_flag

    @property
    def is_flag(self) -> bool:
        """Whether it takes no value."""
        return not self.metavar

    @property
    def is_only_text(self) -> bool:
        """Whether no number stands for it: 5 would be a file or a program of that name."""
        return bool(self.files) or self.key == "hook"

    def fields_for(self, value: Any) -> Fields:
        """The fields of the message that say this value."""
        if value is NONE:
            return {}
        if self.to_fields is not None:
            return self.to_fields(value)
        if self.is_flag and not value and not self.negative:
            return {}
        return {self.fields[0].name: value}

    def cleared_fields(self) -> Fields:
        """The fields that take it away again."""
        return {field.name: _fresh(field.default) for field in self.fields}


def _fresh(default: Any) -> Any:
    return default.copy() if isinstance(default, list | dict) else default
