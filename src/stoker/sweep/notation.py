"""Parameters as they are written on the command line: `lr=0.1,0.01`, `bs=range(16,65,16)`.

A comma separates values unless it stands in brackets or quotes. A value in quotes is text whatever
it looks like; `name(...)` is a function; `[a,b]` is one value, a list.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from stoker.errors import UsageError
from stoker.quantities import quoted
from stoker.sweep import axes
from stoker.sweep.axes import MOST_VALUES, Axis
from stoker.sweep.values import Value, from_text, number_from, parameter_name

_CALL = re.compile(r"([A-Za-z_]\w*)\((.*)\)", re.DOTALL)
_OPENING = {"(": ")", "[": "]", "{": "}"}
_QUOTES = "\"'"
_DISTRIBUTIONS = ("uniform", "loguniform", "randint", "normal", "choice")
FUNCTIONS = (*_DISTRIBUTIONS, "range", "zip")
_MOST_DEPTH = 20
_MOST_DIGITS = 17  # as far as a range of whole numbers needs no closer look


def parsed(word: str) -> Axis:
    """The axis that one word of a command line describes."""
    name, equals, text = word.partition("=")
    if not equals:
        raise UsageError(
            f"{quoted(word)} is not NAME=VALUES",
            "write e.g. lr=0.1,0.01; the command comes after --",
        )
    name = parameter_name(name.strip())
    pieces = split(text)
    call = _call(pieces[0]) if len(pieces) == 1 else None
    if call is not None:
        function, arguments = call
        if function == "zip":
            return _zipped(name, arguments)
        if function in _DISTRIBUTIONS:
            return _drawn(name, function, arguments)
    return axes.listed((name,), [(value,) for value in _values(name, pieces)])


def of_words(words: Sequence[str]) -> Axis:
    """The axis of the older form, `-p NAME VALUE...`: every word is one value as it stands."""
    name, *values = words
    if not values:
        raise UsageError(f"-p {name} has no values", f"write e.g. -p {name} 0.1 0.01")
    return axes.listed((parameter_name(name),), [(from_text(text),) for text in values])


def split(text: str) -> list[str]:
    """The pieces of a list, at commas that are in no brackets and no quotes."""
    pieces: list[str] = []
    closers: list[str] = []
    start = place = 0
    begins = True  # A quote counts only where a value begins, so that it's stays what it is.
    while place < len(text):
        letter = text[place]
        if begins and letter in _QUOTES:
            place = _end_of_quotes(text, place)
            begins = False
            continue
        if letter in _OPENING:
            closers.append(_OPENING[letter])
            if len(closers) > _MOST_DEPTH:
                raise UsageError(f"{quoted(text)} is nested too deeply", "put it in quotes")
        elif closers and letter == closers[-1]:
            closers.pop()
        elif letter in ")]}":
            raise _unbalanced(text)
        elif letter == "," and not closers:
            pieces.append(text[start:place].strip())
            start = place + 1
        begins = letter in ",([{=" or (begins and letter.isspace())
        place += 1
    if closers:
        raise _unbalanced(text)
    pieces.append(text[start:].strip())
    return pieces


def _end_of_quotes(text: str, start: int) -> int:
    place = start + 1
    while place < len(text) and text[place] != text[start]:
        place += 2 if text[place] == "\\" else 1
    if place >= len(text):
        raise UsageError(f"{quoted(text)} has a quote that does not end", "close it")
    return place + 1


def _unbalanced(text: str) -> UsageError:
    return UsageError(
        f"the brackets of {quoted(text)} don't match", 'put text in quotes, e.g. x=":)"'
    )


def _call(piece: str) -> tuple[str, list[str]] | None:
    """The function and its arguments, if a piece is a call of one."""
    found = _CALL.fullmatch(piece)
    if found is None:
        return None
    function, inside = found.groups()
    try:
        arguments = split(inside) if inside.strip() else []
    except UsageError:
        return None  # f(a)(b) is text: the first bracket is not closed by the last.
    if function not in FUNCTIONS:
        raise UsageError(
            f"there is no function {quoted(function)}",
            f"there are {', '.join(FUNCTIONS)}; put plain text in quotes",
        )
    return function, arguments


def _refuse_dots(name: str, piece: str) -> None:
    """`1..1000` is how other languages write a range; as text it is hardly meant."""
    first, dots, last = piece.partition("..")
    if dots and first.isdecimal() and last.isdecimal():
        raise UsageError(
            f"{name}: {quoted(piece)} is not understood",
            f"for the numbers {first} to {last} write range({int(first)},{int(last) + 1})",
        )


def _values(name: str, pieces: Sequence[str]) -> list[Value]:
    values: list[Value] = []
    for piece in pieces:
        call = _call(piece)
        if call is None:
            _refuse_dots(name, piece)
            values.append(_value(name, piece))
        elif call[0] == "range":
            values += _range(name, call[1])
        else:
            raise UsageError(
                f"{name}: {call[0]}(...) can't stand beside other values",
                f"write {name}={piece} alone",
            )
    return values


def _value(name: str, piece: str) -> Value:
    if not piece:
        raise UsageError(f"{name} has an empty value", f'write {name}="" for empty text')
    if piece[0] in _QUOTES:
        if _end_of_quotes(piece, 0) != len(piece):
            raise UsageError(
                f"{name}: {quoted(piece)} continues after its quotes", "quote all of it"
            )
        text = re.sub(r"\\(.)", r"\1", piece[1:-1], flags=re.DOTALL)
        return Value(text, text)
    if piece[0] == "[" and piece[-1] == "]":
        inside = split(piece[1:-1]) if piece[1:-1].strip() else []
        return Value([_value(name, one).data for one in inside], piece)
    return from_text(piece)


def _range(name: str, arguments: Sequence[str]) -> list[Value]:
    """As Python's: the end is not part of it. Steps may be fractions, and stay exact."""
    numbers = [Decimal(text) for text in arguments if number_from(text) is not None]
    if len(numbers) != len(arguments) or not 1 <= len(numbers) <= 3:
        raise UsageError(f"{name}: range takes one to three numbers", "write e.g. range(16,65,16)")
    start, stop = (Decimal(0), numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
    step = numbers[2] if len(numbers) == 3 else Decimal(1)
    if step == 0:
        raise UsageError(f"{name}: a range with a step of 0 never ends", "write another step")
    count = math.ceil((Fraction(stop) - Fraction(start)) / Fraction(step))
    if count <= 0:
        raise UsageError(f"{name}: the range is empty", "the end is not part of it")
    if count > MOST_VALUES:
        raise UsageError(f"{name}: the range has too many values", f"at most {MOST_VALUES}")
    if start == int(start) and step == int(step) and max(abs(start), abs(stop)) < 10**_MOST_DIGITS:
        first, by = int(start), int(step)
        return [Value(n, str(n)) for n in range(first, first + count * by, by)]
    return [_of_decimal(start + place * step) for place in range(count)]


def _of_decimal(number: Decimal) -> Value:
    text = f"{number:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return from_text(text if text not in ("-0", "") else "0")


def _drawn(name: str, function: str, arguments: Sequence[str]) -> Axis:
    if function == "choice":
        return axes.choice(name, _values(name, arguments))
    numbers = [number_from(text) for text in arguments]
    if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
        raise UsageError(
            f"{name}: {function} takes two numbers",
            "write normal(MEAN,DEVIATION)"
            if function == "normal"
            else f"write {function}(LOW,HIGH)",
        )
    a, b = numbers[0], numbers[1]
    if function == "randint":
        return axes.whole_numbers(name, a, b)
    if function == "normal":
        return axes.normal(name, a, b)
    return axes.uniform(name, a, b) if function == "uniform" else axes.log_uniform(name, a, b)


def _zipped(label: str, arguments: Sequence[str]) -> Axis:
    """`zip(model=[vit,resnet],opt=[adamw,sgd])`: the first of each together, then the second."""
    columns: dict[str, list[Value]] = {}
    for argument in arguments:
        name, equals, text = argument.partition("=")
        text = text.strip()
        if not equals or not text:
            raise UsageError(
                f"{label}: {quoted(argument)} is not NAME=[VALUES]",
                "write e.g. zip(model=[vit,resnet],opt=[adamw,sgd])",
            )
        name = parameter_name(name.strip())
        if name in columns:
            raise UsageError(f"{label}: {name} occurs twice", "name each parameter once")
        whole_list = text[0] == "[" and text[-1] == "]"
        columns[name] = _values(name, split(text[1:-1] if whole_list else text))
    if not columns:
        raise UsageError(f"{label}: zip has no parameters", "write e.g. zip(a=[1,2],b=[3,4])")
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{name} has {count}" for name, count in lengths.items())
        raise UsageError(
            f"{label}: zip needs the same number of values for each, but {sizes}",
            "add or remove some",
        )
    return axes.listed(tuple(columns), list(zip(*columns.values(), strict=True)))
