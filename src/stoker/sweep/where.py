"""`--where`: an expression over a point's parameters that says whether the point is wanted.

Nothing is ever handed to Python to run: the expression is read as a tree, every node must be one of
those named here, and our own functions work it out. No attribute, no call but five, no loop, and
no number or text that grows without bound.
"""

from __future__ import annotations

import ast
import operator
import re
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from stoker.errors import UsageError
from stoker.quantities import quoted
from stoker.sweep.values import Data

MOST_CHARS = 2000
_MOST_BITS = 2048  # of a whole number on the way; no learning rate is larger
_MOST_ROUNDING = 30

_Names: TypeAlias = Mapping[str, Data]
_Step: TypeAlias = Callable[[_Names], Any]


class _CantSay(Exception):
    """The expression makes no sense for a point; the text says why."""


class Where:
    """An expression that was understood; call it with the values of a point."""

    def __init__(self, text: str, parameters: Collection[str]) -> None:
        self.text = text
        self._names = {_spoken(name): name for name in parameters} | {n: n for n in parameters}
        try:
            self._decide = self._step(_tree(text))
        except RecursionError:
            raise self._refusal("it is nested too deeply") from None

    def __call__(self, values: _Names) -> bool:
        """Whether the point is wanted."""
        try:
            answer = self._decide(values)
        except _CantSay as error:
            raise self._refusal(str(error)) from None
        except ZeroDivisionError:
            raise self._refusal("it divides by zero") from None
        except (ArithmeticError, ValueError):
            raise self._refusal("a number becomes too large") from None
        except TypeError:
            raise self._refusal("it compares text with a number or similar") from None
        except RecursionError:
            raise self._refusal("it is nested too deeply") from None
        if not isinstance(answer, bool):
            raise self._refusal("it is neither true nor false")
        return answer

    def _refusal(self, why: str) -> UsageError:
        return UsageError(
            f"--where {quoted(self.text)}: {why}", "write a condition such as 'bs * accum <= 256'"
        )

    # --- from a tree to functions ---

    def _step(self, node: ast.expr) -> _Step:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None as constant):
                return lambda _: constant
            case ast.Name(id=name):
                return self._name(name)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                steps = [self._step(part) for part in parts]
                return lambda names: [step(names) for step in steps]
            case ast.UnaryOp(op=sign, operand=operand):
                return self._unary(sign, self._step(operand))
            case ast.BoolOp(op=joint, values=parts):
                steps = [self._step(part) for part in parts]
                if isinstance(joint, ast.And):
                    return lambda names: all(step(names) for step in steps)
                return lambda names: any(step(names) for step in steps)
            case ast.BinOp(left=left, op=sign, right=right):
                return self._arithmetic(self._step(left), sign, self._step(right))
            case ast.Compare(left=left, ops=signs, comparators=parts):
                return self._comparison([self._step(part) for part in (left, *parts)], signs)
            case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]) if name in _FUNCTIONS:
                function = _FUNCTIONS[name]
                steps = [self._step(part) for part in parts]
                return lambda names: function(*[step(names) for step in steps])
        raise self._refusal(f"{_named(node)} is not allowed in it")

    def _name(self, name: str) -> _Step:
        parameter = self._names.get(name)
        if parameter is None:
            if name.lower() in ("true", "false"):
                constant = name.lower() == "true"
                return lambda _: constant
            known = ", ".join(sorted(self._names))
            raise UsageError(
                f"--where {quoted(self.text)}: there is no parameter {name}",
                f"the parameters are {known}" if known else "name a parameter of the sweep",
            )
        return lambda names: names[parameter]

    def _unary(self, sign: ast.unaryop, step: _Step) -> _Step:
        if isinstance(sign, ast.Not):
            return lambda names: not step(names)
        if isinstance(sign, ast.USub):
            return lambda names: -_number(step(names))
        if isinstance(sign, ast.UAdd):
            return lambda names: _number(step(names))
        raise self._refusal("~ is not allowed in it")

    def _arithmetic(self, left: _Step, sign: ast.operator, right: _Step) -> _Step:
        work = _ARITHMETIC.get(type(sign))
        if work is None:
            raise self._refusal(f"{type(sign).__name__} is not allowed in it")
        return lambda names: work(_number(left(names)), _number(right(names)))

    def _comparison(self, steps: list[_Step], signs: list[ast.cmpop]) -> _Step:
        works = []
        for sign in signs:
            work = _COMPARISONS.get(type(sign))
            if work is None:
                raise self._refusal("`is` is not allowed in it, but == is")
            works.append(work)

        def compare(names: _Names) -> bool:
            left = steps[0](names)
            for work, step in zip(works, steps[1:], strict=True):
                right = step(names)
                if not work(left, right):
                    return False
                left = right
            return True

        return compare


def _tree(text: str) -> ast.expr:
    if len(text) > MOST_CHARS:
        raise UsageError(f"--where has {len(text)} characters", f"at most {MOST_CHARS}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(
            f"--where {quoted(text)} can't be understood",
            "write a condition such as 'bs * accum <= 256'",
        ) from None


def _spoken(name: str) -> str:
    """How an expression names a parameter such as batch-size or model.depth: with underscores."""
    return re.sub(r"\W", "_", name)


def _named(node: ast.expr) -> str:
    match node:
        case ast.Attribute():
            return "an attribute (a dot)"
        case ast.Call(func=ast.Name(id=name)):
            return f"{name}(...)"
        case ast.Subscript():
            return "an index"
    return type(node).__name__


def _number(value: Any) -> Any:
    if not isinstance(value, int | float):
        raise _CantSay(f"{quoted(str(value))} is not a number")
    return value


def _multiplied(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int) and a.bit_length() + b.bit_length() > _MOST_BITS:
        raise OverflowError
    return a * b


def _powered(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int) and a.bit_length() * abs(b) > _MOST_BITS:
        raise OverflowError
    result = a**b
    if isinstance(result, complex):
        raise _CantSay("it takes the root of a negative number")
    return result


def _rounded(value: Any, digits: Any = None) -> Any:
    if digits is None:
        return round(_number(value))
    if not isinstance(digits, int) or abs(digits) > _MOST_ROUNDING:
        raise _CantSay("it rounds to too many digits")
    return round(_number(value), digits)


def _contains(value: Any, many: Any) -> bool:
    if isinstance(many, str) and not isinstance(value, str):
        raise _CantSay("only text can be in a text")
    if not isinstance(many, str | list):
        raise _CantSay(f"nothing can be in {quoted(str(many))}")
    return value in many


_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: _multiplied,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _powered,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: _contains,
    ast.NotIn: lambda value, many: not _contains(value, many),
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": lambda value: abs(_number(value)),
    "len": len,
    "round": _rounded,
}
