"""What in a call can't be pickled, by the name that its user knows it by.

Pickle itself names a type ("cannot pickle '_thread.lock' object"), which says little of a function
that uses twenty things. So when it has failed, the parts of the call are tried one by one.
"""

from __future__ import annotations

from asyncio import Future as AsyncioFuture
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from inspect import Parameter, getclosurevars, signature
from types import FunctionType, MethodType
from typing import Any

_MOST_STEPS = 8
_MOST_ITEMS = 1000  # of one list or table: to try each part takes time

Part = tuple[str, Any]  # what it is called, and the thing itself


def refusal(call: Any, error: Exception, can_be_pickled: Callable[[Any], bool]) -> TypeError:
    """What is said of a call that can't be pickled: which part of it, and what to do."""
    name, value = _culprit(_parts_of_call(call), can_be_pickled)
    if isinstance(value, Future | AsyncioFuture):
        return TypeError(
            f"{name} is a future, which can't go to another process; pass its value "
            "(future.result()), and let the job wait for the other one by after=[future]"
        )
    if not name:
        return TypeError(f"the call can't be pickled: {error}")
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    return TypeError(
        f"the call can't be pickled: {name} (a {kind}) can't go to another process: {error}; "
        "make it inside the function, or pass what it is made from"
    )


def _culprit(parts: Iterator[Part], can_be_pickled: Callable[[Any], bool]) -> Part:
    """The innermost part that can't be pickled; without a name if each of them can."""
    name, value = "", None
    for _ in range(_MOST_STEPS):
        found = next((part for part in parts if not can_be_pickled(part[1])), None)
        if found is None:
            break
        inner, value = found
        name = f"{name}{inner}" if inner.startswith((".", "[")) else _of(inner, name)
        if isinstance(value, Future | AsyncioFuture):
            break
        parts = _parts(value)
    return name, value


def _of(inner: str, outer: str) -> str:
    return f"{inner} of {outer}" if outer else inner


def _parts_of_call(call: Any) -> Iterator[Part]:
    said = vars(call)
    target = call.target
    names = _parameters(target)
    calls = [(said.get("_args", ()), said.get("_keywords", {}))]
    calls += [(args, {}) for args in said.get("_calls", ())]
    calls += [((), said.get("_params", {}))]
    for args, keywords in calls:
        for place, value in enumerate(args):
            named = f" ({names[place]})" if place < len(names) else ""
            yield f"argument {place + 1}{named}", value
        for name, value in keywords.items():
            yield f"the argument {name}", value
    yield f"{getattr(target, '__name__', type(target).__name__)}", target


def _parameters(target: Any) -> list[str]:
    plain = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    try:
        return [p.name for p in signature(target).parameters.values() if p.kind in plain]
    except (TypeError, ValueError):
        return []


def _parts(value: Any) -> Iterator[Part]:
    """What a thing is made of, as far as that has names."""
    if isinstance(value, partial):
        yield from ((f"argument {n}", one) for n, one in enumerate(value.args, 1))
        yield from ((f"the argument {name}", one) for name, one in value.keywords.items())
        yield getattr(value.func, "__name__", "the function"), value.func
    elif isinstance(value, MethodType):
        yield "the object", value.__self__
    elif isinstance(value, FunctionType):
        used = getclosurevars(value)
        yield from ((f"the variable {name}", one) for name, one in used.nonlocals.items())
        yield from ((f"the global variable {name}", one) for name, one in used.globals.items())
        defaults = {**(value.__kwdefaults__ or {}), **_defaults(value)}
        yield from ((f"the default of {name}", one) for name, one in defaults.items())
    elif isinstance(value, Mapping):
        items = zip(range(_MOST_ITEMS), value.items(), strict=False)
        yield from ((f"[{key!r}]", one) for _, (key, one) in items)
    elif isinstance(value, list | tuple):
        yield from ((f"[{place}]", one) for place, one in enumerate(value[:_MOST_ITEMS]))
    elif isinstance(value, type):
        yield from ((f".{name}", one) for name, one in vars(value).items() if name[:2] != "__")
    else:
        yield from ((f".{name}", one) for name, one in getattr(value, "__dict__", {}).items())


def _defaults(function: FunctionType) -> dict[str, Any]:
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    return dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
