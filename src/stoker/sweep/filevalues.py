"""The parameters of a sweep file: lists of values, constants, and W&B's distributions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from stoker.errors import UsageError
from stoker.quantities import quoted
from stoker.sweep import axes
from stoker.sweep.axes import Axis
from stoker.sweep.values import from_data, parameter_name

_KEYS = frozenset(
    {
        "value", "values", "probabilities", "min", "max", "distribution", "q", "mu", "sigma",
        "a", "b", "parameters",
    }
)  # fmt: skip

# In these, W&B takes the bounds for exponents of e.
_WITH_EXPONENTS = {
    "log_uniform": "log_uniform_values",
    "q_log_uniform": "q_log_uniform_values",
    "inv_log_uniform": "inv_log_uniform_values",
}
DISTRIBUTIONS = (
    "constant", "categorical", "categorical_w_probabilities", "uniform", "q_uniform",
    "int_uniform", "log_uniform_values", "q_log_uniform_values", "inv_log_uniform_values",
    "normal", "q_normal", "log_normal", "q_log_normal", "beta", "q_beta",
)  # fmt: skip


def axes_from(parameters: Mapping[Any, Any], prefix: str = "") -> Iterator[Axis]:
    """An axis for each parameter; nested ones are named with dots, as in model.depth."""
    for key, spec in parameters.items():
        name = parameter_name(prefix + str(key))
        if not isinstance(spec, Mapping):
            raise UsageError(
                f"{name}: {quoted(str(spec))} says nothing about its values",
                f"write {name}: {{values: [...]}} or {name}: {{value: ...}}",
            )
        fields = {str(field): value for field, value in spec.items()}
        unknown = sorted(fields.keys() - _KEYS)
        if unknown:
            raise UsageError(
                f"{name}: there is no key {quoted(unknown[0])}",
                f"the keys are {', '.join(sorted(_KEYS))}",
            )
        if "parameters" in fields:
            if len(fields) > 1 or not isinstance(fields["parameters"], Mapping):
                raise UsageError(
                    f"{name}: parameters can't have other keys beside it",
                    "move them into it, or give them a name of their own",
                )
            yield from axes_from(fields["parameters"], f"{name}.")
        else:
            yield _axis(name, fields)


def _axis(name: str, fields: dict[str, Any]) -> Axis:
    distribution = fields.pop("distribution", None) or _implied(name, fields)
    if distribution in _WITH_EXPONENTS:
        raise UsageError(
            f"{name}: the bounds of {distribution} are exponents",
            _with_real_bounds(_WITH_EXPONENTS[distribution], fields),
        )
    if distribution not in DISTRIBUTIONS:
        raise UsageError(
            f"{name}: there is no distribution {quoted(str(distribution))}",
            f"there are {', '.join(DISTRIBUTIONS)}",
        )
    take = _Taken(name, fields)
    step = take.number("q", 1.0) if distribution.startswith("q_") else None
    match distribution.removeprefix("q_"):
        case "constant":
            axis: Axis = axes.listed((name,), [(from_data(take.any("value")),)])
        case "categorical" | "categorical_w_probabilities":
            axis = _categorical(name, take)
        case "uniform":
            axis = axes.uniform(name, take.number("min"), take.number("max"), step)
        case "int_uniform":
            axis = axes.whole_numbers(name, take.number("min"), take.number("max"))
        case "log_uniform_values":
            axis = axes.log_uniform(name, take.number("min"), take.number("max"), step)
        case "inv_log_uniform_values":
            low, high = take.number("min"), take.number("max")
            axis = axes.log_uniform(name, low, high, inverse=True)
        case "normal":
            axis = axes.normal(name, take.number("mu", 0.0), take.number("sigma", 1.0), step)
        case "log_normal":
            mean, deviation = take.number("mu", 0.0), take.number("sigma", 1.0)
            axis = axes.normal(name, mean, deviation, step, log=True)
        case _:
            axis = axes.beta(name, take.number("a"), take.number("b"), step)
    take.nothing_else(distribution)
    return axis


def _implied(name: str, fields: dict[str, Any]) -> str:
    """The distribution that is meant where none is named."""
    if "value" in fields:
        return "constant"
    if "values" in fields:
        return "categorical"
    if "min" in fields and "max" in fields:
        whole = all(
            isinstance(fields[key], int) and not isinstance(fields[key], bool)
            for key in ("min", "max")
        )
        return "int_uniform" if whole else "uniform"
    if "mu" in fields or "sigma" in fields:
        return "normal"
    raise UsageError(f"{name} has no values", f"write {name}: {{values: [...]}}, or min and max")


def _with_real_bounds(better: str, fields: dict[str, Any]) -> str:
    said = f"write distribution: {better} with the values themselves"
    try:
        low, high = math.exp(fields["min"]), math.exp(fields["max"])
    except (KeyError, TypeError, OverflowError):
        return said
    return f"{said}, here min: {low:.3g}, max: {high:.3g}"


def _categorical(name: str, take: _Taken) -> Axis:
    values = take.any("values")
    if not isinstance(values, list) or not values:
        raise UsageError(f"{name}: values is not a list of values", "write values: [0.1, 0.01]")
    found = [from_data(value) for value in values]
    weights = take.any("probabilities", None)
    if weights is None:
        return axes.listed((name,), [(value,) for value in found])
    if not isinstance(weights, list) or not all(_is_number(weight) for weight in weights):
        raise UsageError(f"{name}: probabilities is not a list of numbers", "write [0.9, 0.1]")
    return axes.choice(name, found, [float(weight) for weight in weights])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_MISSING = object()


class _Taken:
    """The fields of a parameter, each of which must be wanted by its distribution."""

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        self._name = name
        self._left = dict(fields)

    def any(self, key: str, default: Any = _MISSING) -> Any:
        """A field as it is."""
        value = self._left.pop(key, default)
        if value is _MISSING:
            raise UsageError(f"{self._name}: {key} is missing", f"write {key}: ...")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A field that is a number."""
        value = self.any(key, _MISSING if default is None else default)
        if not _is_number(value):
            raise UsageError(
                f"{self._name}: {key} {quoted(str(value))} is not a number", f"write {key}: 0.1"
            )
        number: float = value
        return number

    def nothing_else(self, distribution: str) -> None:
        """Refuse fields that the distribution has no use for."""
        for key in self._left:
            raise UsageError(f"{self._name}: {distribution} takes no {key}", "leave it out")
