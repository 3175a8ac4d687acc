"""Stoker's own environment, and a PATH for jobs that does not lead into it.

Somebody who puts the programs of a virtual environment with nothing but Stoker on PATH wants the
command `stoker`, and not a `python` without the libraries of their training. An environment that is
activated, or in which there is anything else, is the user's own and is left alone.

Law: nothing slow is imported, and this only where PATH may lead there: then a few files are read.
"""

from __future__ import annotations

import os
import sys

from stoker.api.paths import make_private
from stoker.errors import StokerError

_PROJECT = "stoker_gpu"
_INSTALLERS = frozenset(("pip", "setuptools", "wheel", "uv"))
_FOR_WORK_ON_STOKER = ("test", "lint")  # extras: an environment with these is a developer's
# A job may queue jobs, by commands that it would not find any more.
_COMMANDS = ("stoker", "simple_gpu_scheduler", "simple_hypersearch")


def path_for_jobs(path: str, active: str | None, commands: str, prefix: str = sys.prefix) -> str:
    """PATH with `commands` in the place of Stoker's own environment; `active` is VIRTUAL_ENV.

    The directory `commands` is made, with links to Stoker's commands, if it is needed.
    """
    own = os.path.realpath(os.path.join(prefix, "bin"))
    parts = path.split(":")
    where = [number for number, part in enumerate(parts) if os.path.realpath(part or ".") == own]
    if not where or (active and os.path.realpath(active) == os.path.realpath(prefix)):
        return path
    if not has_only_stoker(_site_packages(prefix)):
        return path
    if _has_links(commands, own):
        parts[where.pop(0)] = commands
    return ":".join(part for number, part in enumerate(parts) if number not in where) or os.defpath


def _has_links(directory: str, programs: str) -> bool:
    """Whether Stoker's commands are in the directory; they are put there if they are not."""
    try:
        make_private(os.path.dirname(directory))
        make_private(directory)
        for name in _COMMANDS:
            link, program = os.path.join(directory, name), os.path.join(programs, name)
            if os.path.realpath(link) != program and os.path.exists(program):
                made = f"{link}.{os.getpid()}"
                os.symlink(program, made)
                os.replace(made, link)
    except (OSError, StokerError):
        return False
    return True


def _site_packages(prefix: str) -> str:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return os.path.join(prefix, "lib", version, "site-packages")


def has_only_stoker(site_packages: str) -> bool:
    """Whether all that is installed there is Stoker, what it needs, and what installs it."""
    try:
        names = os.listdir(site_packages)
    except OSError:
        return False
    installed = {_plain(name.split("-")[0]): name for name in names if name.endswith(".dist-info")}
    if _PROJECT not in installed:
        return False
    needed: set[tuple[str, str]] = set()
    found = [(_PROJECT, "")]
    while found:
        one = found.pop()
        if one in needed or one[0] not in installed:
            continue
        needed.add(one)
        metadata = os.path.join(site_packages, installed[one[0]], "METADATA")
        found += _needs_of(metadata, *one)
    return not set(installed) - {name for name, _ in needed} - _INSTALLERS


def _needs_of(metadata: str, package: str, extra: str) -> list[tuple[str, str]]:
    """The packages that one needs, each with an extra of it; of Stoker all extras count."""
    needs = []
    try:
        with open(metadata, encoding="utf-8", errors="replace") as file:
            for line in file:
                if not line.strip():
                    break  # The rest is its description.
                key, _, said = line.partition(": ")
                if key != "Requires-Dist":
                    continue
                requirement, _, marker = said.partition(";")
                of_extra = _extra_in(marker)
                wanted = (
                    of_extra not in _FOR_WORK_ON_STOKER
                    if package == _PROJECT
                    else of_extra in ("", extra)
                )
                if wanted:
                    name, *extras = _words(requirement)
                    needs += [(name, one) for one in ("", *extras)]
    except OSError:
        pass
    return needs


def _extra_in(marker: str) -> str:
    """The extra that a marker names, as in `extra == "amd"`."""
    _, named, rest = marker.partition("extra == ")
    return rest[1:].split(rest[0])[0] if named and rest else ""


def _words(requirement: str) -> list[str]:
    """`uvicorn[standard] >=0.29`: the name, and the extras."""
    end = min((at for at in map(requirement.find, " (<>=!~") if at >= 0), default=None)
    name, _, extras = requirement[:end].strip().rstrip("]").partition("[")
    return [_plain(name), *(one.strip() for one in extras.split(",") if one.strip())]


def _plain(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")
