"""A command with places for the values of a point: `python train.py --lr {lr}`.

Several words are filled in word by word, and a value never becomes more than the part of a word
that it is. One word is for the shell, and values are quoted for it. A parameter that has no place
in the command is appended to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from stoker import output_files
from stoker.errors import UsageError
from stoker.quantities import quoted
from stoker.sweep import shelltext
from stoker.sweep.values import Point, Value, hydra_text

Style: TypeAlias = Literal["flags", "hydra"]
STYLES: tuple[Style, ...] = ("flags", "hydra")

# {{lr}} is the text {lr}, and ${lr} is the shell's own.
_HOLE = re.compile(
    r"\{\{(?P<text>[^{}]*)\}\}"
    r"|(?P<macro>\$\{args(?:_no_hyphens|_no_boolean_flags|_json)?\})"
    r"|(?<!\$)\{(?P<name>[+~]{0,2}[^\W\d][\w.\-/@]*)(?::(?P<form>[^{}]*))?\}"
)
_FORM = re.compile(r"[<>^]?[+ ]?0?\d{0,2}(?:\.\d{1,2})?[defgxsEG%]?")
PORT = "port"  # is left for the executor, which knows a free one when the job starts
POINT = "point"  # {point} is the point's own short name, unless a parameter is called so


@dataclass(frozen=True, slots=True)
class _Hole:
    name: str
    form: str | None


@dataclass(frozen=True, slots=True)
class _Args:
    """All parameters at once, as `${args}` and its kin of a W&B sweep file."""

    macro: str


_Part: TypeAlias = str | _Hole | _Args


def holes_of(text: str, names: Sequence[str], later: Sequence[str]) -> list[_Part]:
    """A text with its holes; a name in braces that is no parameter is taken for a slip.

    Not so one that is filled in `later`: it is left as it is, unless a parameter is called so.
    """
    parts: list[_Part] = []
    place = 0
    for found in _HOLE.finditer(text):
        parts.append(text[place : found.start()])
        place = found.end()
        if found["text"] is not None:
            # Only where a hole would be are doubled braces an escape; {{ x }} is left as it is.
            single = f"{{{found['text']}}}"
            parts.append(single if _HOLE.fullmatch(single) else found[0])
        elif found["macro"] is not None:
            parts.append(_Args(found["macro"][2:-1]))
        elif found["name"] in later and found["name"] not in names and found["form"] is None:
            parts.append(found[0])
        else:
            parts.append(_hole(found["name"], found["form"], names, later))
    parts.append(text[place:])
    return _joined(parts)


def _joined(parts: list[_Part]) -> list[_Part]:
    """The same without empty texts, and with texts side by side as one."""
    joined: list[_Part] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return joined


def _hole(name: str, form: str | None, names: Sequence[str], later: Sequence[str]) -> _Hole:
    if name not in names and name != POINT:
        known = ", ".join((*names, *later))
        raise UsageError(
            f"{{{name}}} is not a parameter of the sweep",
            f"there are {known}; {{{{{name}}}}} stands for the text {{{name}}}"
            if names
            else "name parameters, e.g. lr=0.1,0.01",
        )
    if form is not None and not _FORM.fullmatch(form):
        raise UsageError(
            f"{{{name}:{form}}} can't be understood", f"write e.g. {{{name}:.3g}} or {{{name}:04d}}"
        )
    return _Hole(name, form)


def formatted(value: Value, hole: _Hole) -> str:
    """A value as its place asks for it."""
    if not hole.form:
        return value.text
    data = value.data
    try:
        return format(data if isinstance(data, int | float | str) else value.text, hole.form)
    except (ValueError, TypeError):
        raise UsageError(
            f"{quoted(value.text)} can't be written as {{{hole.name}:{hole.form}}}",
            f"write {{{hole.name}}}",
        ) from None


class Text:
    """A text to be filled in as it is, such as the name of an output file."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        self._parts = holes_of(text, names, output_files.FIELDS)
        has_holes = any(isinstance(part, _Hole) for part in self._parts)
        self.is_fixed = not has_holes and not output_files.has_fields(text)

    def filled(self, point: Point, point_name: str) -> str:
        """The text of one point."""
        return "".join(_raw(part, point, point_name) for part in self._parts)


def _raw(part: _Part, point: Point, point_name: str) -> str:
    match part:
        case str():
            return part
        case _Hole(name=name):
            value = point.get(name)
            return point_name if value is None else formatted(value, part)
        case _Args():
            return f"${{{part.macro}}}"


class Template:
    """A command, ready to be filled in for every point."""

    def __init__(self, words: Sequence[str], names: Sequence[str], style: Style = "flags") -> None:
        self.words = tuple(words)
        self.style = style
        self._names = tuple(names)
        self._parts = [holes_of(word, names, (PORT,)) for word in words]
        self.appended = self._appended()
        if len(words) > 1:
            for parts in self._parts:
                if len(parts) > 1 and any(isinstance(part, _Args) for part in parts):
                    raise UsageError("${args} stands for several words", "make it a separate word")
        self._fill = self._for_shell() if len(words) == 1 else self._by_words
        plain = [_plain_word(parts, self._names) for parts in self._parts]
        if len(words) > 1 and not self.appended and None not in plain:
            named = [(place, word[1]) for place, word in enumerate(plain) if word is not None]
            self._fixed_words = [word[0] for word in plain if word is not None]
            self._holes = [(place, name) for place, name in named if name is not None]
            self._fill = self._by_plain_words

    @property
    def key(self) -> list[str]:
        """What makes this command another one than any other."""
        return ["shell" if len(self.words) == 1 else "argv", self.style, *self.words]

    @property
    def may_refuse(self) -> bool:
        """Whether there may be a point that it can't be filled in for."""
        holes = [part for word in self._parts for part in word if isinstance(part, _Hole)]
        return len(self.words) == 1 or any(hole.form for hole in holes)

    @property
    def has_fixed_program(self) -> bool:
        """Whether the first of its words is the same for all points."""
        return all(isinstance(part, str) for part in self._parts[0])

    def filled(self, point: Point, point_name: str) -> dict[str, Any]:
        """The fields of a job request that are the point's command."""
        return self._fill(point, point_name)

    def _appended(self) -> tuple[str, ...]:
        parts = [part for word in self._parts for part in word]
        if any(isinstance(part, _Args) for part in parts):
            return ()
        used = {part.name for part in parts if isinstance(part, _Hole)}
        return tuple(name for name in self._names if name not in used)

    def _appended_words(self, point: Point) -> list[str]:
        words: list[str] = []
        for name in self.appended:
            if self.style == "hydra":
                words.append(f"{name}={hydra_text(point[name])}")
            else:
                words += [f"--{name}", point[name].text]
        return words

    # --- several words ---

    def _by_plain_words(self, point: Point, point_name: str) -> dict[str, Any]:
        """The usual command: each word is itself, or the value of a parameter."""
        words = self._fixed_words.copy()
        for place, name in self._holes:
            words[place] = point[name].text
        return {"argv": words}

    def _by_words(self, point: Point, point_name: str) -> dict[str, Any]:
        words: list[str] = []
        for parts in self._parts:
            if len(parts) == 1:
                part = parts[0]
                if isinstance(part, str):
                    words.append(part)
                    continue
                if isinstance(part, _Args):
                    words += _all_arguments(part.macro, point)
                    continue
                if part.form is None and part.name in point:
                    words.append(point[part.name].text)
                    continue
            words.append("".join(_raw(part, point, point_name) for part in parts))
        if self.appended:
            words += self._appended_words(point)
        return {"argv": words}

    # --- one string for the shell ---

    def _for_shell(self) -> Callable[[Point, str], dict[str, Any]]:
        if self.appended and not shelltext.is_one_command(self.words[0]):
            raise UsageError(
                f"{self.appended[0]} is not used in that shell command",
                f"write {{{self.appended[0]}}} where its value belongs",
            )
        quotes: list[str | None] = []
        text = ""
        for part in self._parts[0]:
            quotes.append(None if isinstance(part, str) else shelltext.quoting_at(text, len(text)))
            # A letter stands for the value, so that what comes later is read in its light.
            text += part if isinstance(part, str) else "x"
        parts = list(zip(self._parts[0], quotes, strict=True))

        def fill(point: Point, point_name: str) -> dict[str, Any]:
            pieces = []
            for part, open_quotes in parts:
                match part:
                    case str():
                        pieces.append(part)
                    case _Args(macro=macro):
                        if open_quotes != "":
                            raise UsageError(
                                f"${{{macro}}} stands for several words",
                                "write it without quotes around it",
                            )
                        words = _all_arguments(macro, point)
                        pieces.append(" ".join(shelltext.in_quotes(word) for word in words))
                    case _Hole(name=name):
                        value = _raw(part, point, point_name)
                        pieces.append(shelltext.put_in(value, open_quotes, name))
            words = self._appended_words(point)
            return {"shell": " ".join(["".join(pieces), *map(shelltext.in_quotes, words)])}

        return fill


def _plain_word(parts: Sequence[_Part], names: Sequence[str]) -> tuple[str, str | None] | None:
    """A word that is a text, or (as its second) a parameter as it is; None for any other."""
    match parts:
        case [str(text)]:
            return text, None
        case [_Hole(name=name, form=form)] if not form and name in names:
            return "", name
    return None


def _all_arguments(macro: str, point: Point) -> list[str]:
    if macro == "args":
        return [f"--{name}={value.text}" for name, value in point.items()]
    if macro == "args_no_hyphens":
        return [f"{name}={value.text}" for name, value in point.items()]
    if macro == "args_json":
        return [json.dumps({name: value.data for name, value in point.items()})]
    assert macro == "args_no_boolean_flags"
    words = []
    for name, value in point.items():
        if value.data is True:
            words.append(f"--{name}")
        elif value.data is not False:
            words.append(f"--{name}={value.text}")
    return words
