"""Packages that a Python environment has as a reference to a directory: editable installs.

A job that runs a copy of that directory would import them from the original. PYTHONPATH is searched
first, so the copy of the directory that holds them goes there.
"""

from __future__ import annotations

import ast
import glob
import os
import re

from stoker.submission.surroundings import find_program
from stoker.wholefile import text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# As setuptools writes it: `MAPPING: dict[str, str] = {'pkg': '/home/ada/project/src/pkg'}`.
_MAPPING = re.compile(r"^MAPPING\b[^=\n]*=\s*(\{.*\})\s*$", re.MULTILINE)
_APART = re.compile(r"[\s;&|()'\"`=]+")  # what stands between words of a shell
_MOST_ENTRIES = 10_000


class EditableInstalls:
    """Those below a root: where to search for modules, and names of what is not found so."""

    __slots__ = ("directories", "unhandled")

    def __init__(self) -> None:
        self.directories: list[str] = []
        self.unhandled: list[str] = []


def pythons_named(words: Iterable[str]) -> tuple[str, ...]:
    """The Pythons that a command names, at any place of it, and the environments it activates."""
    return tuple(
        dict.fromkeys(
            part
            for word in words
            for part in _APART.split(word)
            if os.path.basename(part).startswith("python") or part.endswith("/bin/activate")
        )
    )


def editable_installs(
    env: Mapping[str, str], pythons: Sequence[str], cwd: str, root: str
) -> EditableInstalls:
    """What the Python of a job with this environment would import from below `root`.

    Environments in the project count, too: a script may activate one, as `uv run` does.
    """
    found = EditableInstalls()
    prefixes = [*_prefixes(env, pythons, cwd), *_environments_in(cwd), *_environments_in(root)]
    for packages in dict.fromkeys(_package_directories(prefixes)):
        for path in sorted(glob.glob(os.path.join(glob.escape(packages), "*.pth"))):
            for line in text_of(path).splitlines():
                directory = os.path.realpath(line.strip()) if os.path.isabs(line.strip()) else ""
                if _is_below(directory, root) and os.path.isdir(directory):
                    found.directories.append(directory)
        for path in sorted(glob.glob(os.path.join(glob.escape(packages), "*editable*.py"))):
            _look_into(text_of(path), os.path.basename(path), root, found)
    found.directories = list(dict.fromkeys(found.directories))
    found.unhandled = list(dict.fromkeys(found.unhandled))
    return found


def _look_into(text: str, name: str, root: str, found: EditableInstalls) -> None:
    """A finder of a build tool: setuptools' says which package is where."""
    mapping = _MAPPING.search(text)
    if mapping is None:
        if root + "/" in text:
            found.unhandled.append(name)
        return
    try:
        packages = dict(ast.literal_eval(mapping[1]))
    except (ValueError, SyntaxError):
        packages = {}
    for package, place in packages.items():
        directory = os.path.realpath(str(place).removesuffix(".py"))
        if not _is_below(directory, root):
            continue
        inside = "/" + str(package).replace(".", "/")
        if directory.endswith(inside):
            found.directories.append(directory.removesuffix(inside))
        else:
            found.unhandled.append(str(package))


def _prefixes(env: Mapping[str, str], pythons: Sequence[str], cwd: str) -> Iterator[str]:
    """Where the Pythons are installed that a job may mean."""
    yield env.get("VIRTUAL_ENV", "")
    yield env.get("CONDA_PREFIX", "")
    for name in (*pythons, "python", "python3"):
        if name.endswith("/activate"):
            yield os.path.dirname(os.path.dirname(os.path.join(cwd, name)))
        elif path := find_program(name, cwd, env.get("PATH")):
            yield os.path.dirname(os.path.dirname(path))
    yield os.path.join(env["HOME"], ".local") if env.get("HOME") else ""


def _environments_in(directory: str) -> list[str]:
    """The virtual environments in a directory, such as .venv."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    paths = [os.path.join(directory, name) for name in names[:_MOST_ENTRIES]]
    return sorted(path for path in paths if os.path.isfile(os.path.join(path, "pyvenv.cfg")))


def _package_directories(prefixes: Iterable[str]) -> Iterator[str]:
    for prefix in filter(None, prefixes):
        for kind in ("site", "dist"):
            pattern = os.path.join(glob.escape(prefix), "lib", "python3*", f"{kind}-packages")
            yield from sorted(glob.glob(pattern))


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root + "/")
