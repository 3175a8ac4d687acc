"""YAML text to plain values, without the traps that YAML 1.1 sets for a sweep.

Only this file imports PyYAML, which is an extra. `1e-4` is a number, and a key that is there twice
is refused instead of the first being forgotten.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from stoker.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Hashable

# YAML 1.2's: the exponent needs neither a dot before it nor a sign.
_FLOAT = re.compile(r"^[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?$")


def loaded(text: str) -> object:
    """The value of a YAML document."""
    try:
        import yaml
    except ImportError:
        from stoker.installing import install_command

        raise UsageError(
            "reading YAML needs the package PyYAML",
            f"run: {install_command('PyYAML')}, or write TOML",
        ) from None

    class Loader(yaml.SafeLoader):
        """The safe loader with the two differences."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
            """Refuse repeated keys."""
            seen = set()
            for key_node, _ in node.value:
                key = key_node.value if isinstance(key_node.value, str) else None
                if key is not None and key != "<<" and key in seen:
                    raise UsageError(
                        f"the key {key} occurs twice (line {key_node.start_mark.line + 1})",
                        "keep one of them",
                    )
                seen.add(key)
            return super().construct_mapping(node, deep)

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise UsageError(f"it is not YAML: {_first_words(error)}", "fix that line") from None
    except (RecursionError, ValueError):
        raise UsageError("it can't be understood as YAML", "write plain keys and values") from None


def _first_words(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "it can't be understood"
    return f"{problem} (line {mark.line + 1})" if mark is not None else str(problem)
