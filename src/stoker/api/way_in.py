"""The way in as a file: a page that leads a browser to a one-time address.

An address on a browser's command line is there for every user of the machine to see, so a browser
is told the name of a file that only its owner can read. Law: the file is gone when its key is.
"""

from __future__ import annotations

import html
import os
from collections.abc import Iterable
from pathlib import Path

from stoker.api.paths import Home, make_private

_NAME_LETTERS = 20


def write_way_in(home: Home, key_hash: str, address: str) -> str:
    """Write the file of a key that was just made; its address as a browser takes it."""
    folder = _folder(home)
    make_private(folder)
    path = os.path.join(folder, _name(key_hash))
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(_PAGE.replace("ADDRESS", html.escape(address)))
    return Path(path).as_uri()


def remove_ways_in(home: Home, good: Iterable[str]) -> None:
    """Remove the files of all keys but those with these hashes."""
    folder = _folder(home)
    kept = {_name(key_hash) for key_hash in good}
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    for name in names:
        if name not in kept:
            try:
                os.unlink(os.path.join(folder, name))
            except FileNotFoundError:
                pass  # Another process was quicker.


def _folder(home: Home) -> str:
    return os.path.join(home.root, "enter")


def _name(key_hash: str) -> str:
    return f"{key_hash[:_NAME_LETTERS]}.html"


_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url=ADDRESS"><title>Stoker</title>
<p><a href="ADDRESS">Enter</a></p>
</html>
"""
