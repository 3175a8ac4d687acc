"""The exact command that installs what is missing, for the interpreter that runs this.

Every message about a missing library gets its command here: a bare `pip` may belong to another
interpreter, and Stoker itself is on no package index. It is called only when something is missing,
so what it imports costs nothing otherwise.
"""

from __future__ import annotations

import re
import shlex
import sys

_PROJECT = "stoker-gpu"


def install_command(*packages: str) -> str:
    """The command that installs these packages, in the versions that Stoker needs."""
    return f"{_installer()} {shlex.join(_requirement(package) for package in packages)}"


def reinstall_command() -> str:
    """The command that brings back files of Stoker that were deleted."""
    return f"{_installer()} --force-reinstall --no-deps {_source()}"


def too_old(*packages: str) -> str:
    """In words, which of these packages are too old for Stoker; empty if none is."""
    names = {name.lower() for name in packages}
    return ", ".join(
        f"{name} {found} is too old"
        for name, found, _ in wrong_libraries()
        if found and name.lower() in names
    )


def wrong_libraries() -> tuple[tuple[str, str, str], ...]:
    """What Stoker needs and is missing ("") or too old: its name, the version, and the least."""
    from importlib.metadata import PackageNotFoundError, requires, version

    wrong = []
    try:
        needed = requires(_PROJECT) or []
    except PackageNotFoundError:
        needed = []  # It runs from its source, and what it needs is not written down.
    for line in needed:
        requirement, _, marker = line.partition(";")
        name, _, least = requirement.replace(" ", "").partition(">=")
        if "extra" in marker:
            continue
        try:
            found = version(name)
        except PackageNotFoundError:
            found = ""
        if not found or _numbers(found) < _numbers(least):
            wrong.append((name, found, least))
    return tuple(wrong)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version.partition("+")[0])]


def _installer() -> str:
    from importlib.util import find_spec

    python = shlex.quote(sys.executable)
    if find_spec("pip") is None:  # as in environments that uv makes
        return f"uv pip install --python {python}"
    return f"{python} -m pip install"


def _requirement(package: str) -> str:
    """The package with the version that Stoker's own metadata asks for, if it can be read."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        own = requires(_PROJECT) or []
    except PackageNotFoundError:
        own = []
    for line in own:
        wanted = line.partition(";")[0].replace(" ", "")
        if re.match(r"[\w.-]+", wanted).group().lower() == package.lower():  # type: ignore[union-attr]
            return wanted
    return package


def _source() -> str:
    """Where Stoker was installed from."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        record = json.loads(distribution(_PROJECT).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        record = {}
    url = record.get("url", _PROJECT)
    editable = record.get("dir_info", {}).get("editable", False)
    return ("--editable " if editable else "") + shlex.quote(url.removeprefix("file://"))
