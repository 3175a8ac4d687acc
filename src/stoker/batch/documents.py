"""Lists of jobs in YAML, JSON or JSON lines, each entry with its line.

All values become text again, as they were written: YAML would make a number of 22:00. Nothing
but text, lists of text and tables of text is taken, so no document can unfold without end.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from stoker.batch.entries import Complaints, Entry, Value, option_key
from stoker.errors import UsageError
from stoker.quantities import quoted

if TYPE_CHECKING:
    import yaml

Fields = dict[str, Value | None]


def json_lines(text: str, source: str) -> list[Entry]:
    """One object a line; empty lines are passed over."""
    complaints = Complaints(source)
    entries = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            entries.append(_entry(number, _json_fields(_json(line))))
        except UsageError as error:
            complaints.add(number, error)
    complaints.raise_any()
    return entries


def json_list(text: str, source: str) -> list[Entry]:
    """A list of objects; JSON does not tell lines, so an entry is known by where it opens."""
    complaints = Complaints(source)
    entries = []
    decoder = json.JSONDecoder(object_pairs_hook=_unique)
    at = _skip(text, 0)
    if text[at : at + 1] != "[":
        raise UsageError(f"{source} is not a list of jobs", 'write [{"command": "..."}, ...]')
    at = _skip(text, at + 1)
    while text[at : at + 1] != "]":
        line = text.count("\n", 0, at) + 1
        try:
            value, at = decoder.raw_decode(text, at)
        except ValueError as error:
            raise UsageError(f"{source}, line {line}: {_trouble(error)}", "fix it") from None
        try:
            entries.append(_entry(line, _json_fields(value)))
        except UsageError as error:
            complaints.add(line, error)
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != "]":
            line = text.count("\n", 0, at) + 1
            raise UsageError(f"{source}, line {line}: a comma or ] is missing", "fix it")
    complaints.raise_any()
    return entries


def yaml_list(text: str, source: str) -> list[Entry]:
    """A list of jobs; or a table with `jobs`, and `defaults` for all of them."""
    try:
        import yaml
    except ImportError:
        from stoker.installing import install_command

        raise UsageError(
            "reading YAML needs the package PyYAML",
            f"run: {install_command('PyYAML')}, or write JSON lines",
        ) from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{source}, line {mark.line + 1}" if mark is not None else source
        what = getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
        raise UsageError(f"{where}: {what}", "fix it") from None
    except RecursionError:
        raise UsageError(f"{source} is nested too deeply", "write a list of jobs") from None
    return _yaml_entries(root, source)


def _yaml_entries(root: yaml.Node | None, source: str) -> list[Entry]:
    import yaml

    jobs, defaults = root, Fields()
    complaints = Complaints(source)
    if isinstance(root, yaml.MappingNode):
        tables = {key.value: value for key, value in root.value}
        unknown = [str(key) for key in tables if key not in ("jobs", "defaults")]
        if unknown or "jobs" not in tables:
            raise UsageError(
                f"{source} is not a list of jobs",
                "write a list of `- command: ...`, or `jobs:` with such a list",
            )
        jobs = tables["jobs"]
        if "defaults" in tables:
            try:
                defaults = _yaml_fields(tables["defaults"])
            except UsageError as error:
                complaints.add(tables["defaults"].start_mark.line + 1, error)
    if not isinstance(jobs, yaml.SequenceNode):
        raise UsageError(f"{source} is not a list of jobs", "write a list of `- command: ...`")
    entries = []
    for node in jobs.value:
        line = node.start_mark.line + 1
        try:
            entries.append(_entry(line, defaults | _yaml_fields(node)))
        except UsageError as error:
            complaints.add(line, error)
    complaints.raise_any()
    return entries


# ---------------------------------------------------------------------- values


def _entry(line: int, fields: Fields) -> Entry:
    values = {key: value for key, value in fields.items() if value is not None}
    command = values.pop("command", None)
    if command is None:
        raise UsageError("there is no command", "write one: command: python train.py")
    if isinstance(command, dict):
        raise UsageError("the command is a table", "write it as text, or as a list of words")
    return Entry(line, command, values)


def _put(fields: Fields, name: str, value: Value | None) -> None:
    key = option_key(name)
    if key in fields:
        raise UsageError(f"{quoted(name)} occurs twice", "write it once")
    fields[key] = value


def _json(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise UsageError(_trouble(error), 'write e.g. {"command": "python train.py"}') from None


def _trouble(error: Exception) -> str:
    return f"not JSON: {getattr(error, 'msg', None) or error}"


def _skip(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\t", "\r", "\n"):
        at += 1
    return at


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _json_fields(value: object) -> Fields:
    if not isinstance(value, dict):
        raise UsageError("not an object", 'write e.g. {"command": "python train.py"}')
    fields: Fields = {}
    for name, one in value.items():
        _put(fields, name, _json_value(name, one))
    return fields


def _json_value(name: str, value: object) -> Value | None:
    if isinstance(value, list):
        return [_json_text(name, item) for item in value]
    if isinstance(value, dict):
        return {key: _json_text(name, item) for key, item in value.items()}
    return None if value is None else _json_text(name, value)


def _json_text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise UsageError(f"{quoted(name)} holds something that is not text", "write text or a number")


def _yaml_fields(node: yaml.Node, *, merges: bool = True) -> Fields:
    """A table of options, with those that `<<` names; one that names another is not followed."""
    import yaml

    if not isinstance(node, yaml.MappingNode):
        if merges:
            raise UsageError("not a table of options", "write e.g. `- command: python train.py`")
        raise UsageError("<< refers to something that is not a table", "refer to a table")
    own: Fields = {}
    merged: Fields = {}
    for key, value in node.value:
        if merges and key.tag == "tag:yaml.org,2002:merge":
            for part in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                merged = _yaml_fields(part, merges=False) | merged
        else:
            _put(own, _yaml_text("a key", key), _yaml_value(value))
    return merged | own


def _yaml_value(node: yaml.Node) -> Value | None:
    import yaml

    if isinstance(node, yaml.SequenceNode):
        return [_yaml_text("a list", item) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        return {_yaml_text("a key", k): _yaml_text("a table", v) for k, v in node.value}
    return None if node.tag == "tag:yaml.org,2002:null" else _yaml_text("a value", node)


def _yaml_text(what: str, node: yaml.Node) -> str:
    import yaml

    if not isinstance(node, yaml.ScalarNode):
        raise UsageError(f"{what} is nested too deeply", "write text, a list or a table of text")
    return str(node.value)
