"""With a desktop `stoker web` opens a browser, and shows the way in to nobody else."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser

from stoker.api.paths import Home
from stoker.api.tokens import KEY_LASTS_MS, Access
from stoker_home import StokerHome
from unit.cli_run import Terminal
from waiting import eventually
from web.page_home import PageHome


def ways_in(home: StokerHome) -> list[Path]:
    return sorted(Path(home.home.root, "enter").glob("*"))


def opened_by(home: StokerHome) -> str:
    """What `stoker web` tells a browser to open, seen in the browser's arguments."""
    seen = home.root / "arguments"
    browser = home.root / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {seen}.new; mv {seen}.new {seen}\n')
    browser.chmod(0o700)
    more = {**home.env, "DISPLAY": ":0", "BROWSER": f"{browser} %s", "SSH_CONNECTION": ""}
    with Terminal(home.work, "web", **more) as terminal:
        assert terminal.wait() == 0, terminal.screen
    eventually(seen.exists, "the browser was started")
    [argument] = seen.read_text().splitlines()
    return argument


def test_the_one_time_key_is_in_no_argument_list(page: PageHome) -> None:
    argument = opened_by(page.home)
    assert argument.startswith("file:///") and "#" not in argument
    path = Path(unquote(urlsplit(argument).path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    text = path.read_text(encoding="utf-8")
    key = text.split("/enter#")[1].split('"')[0]
    assert len(key) > 40 and key not in argument
    page.enter(key)
    assert ways_in(page.home) == [], "it is gone once it was used"


def test_a_browser_gets_in_by_the_file(page: PageHome, browser: Browser) -> None:
    argument = opened_by(page.home)
    with browser.new_context() as context:
        tab = context.new_page()
        referrers: list[str | None] = []
        tab.on("request", lambda request: referrers.append(request.headers.get("referer")))
        tab.goto(argument)
        tab.wait_for_url(f"{page.url}/")
        assert not any(r and "enter" in r for r in referrers)
    assert ways_in(page.home) == []


def test_without_a_desktop_no_file_is_written(page: PageHome) -> None:
    assert "/enter#" in page.home.cli("web").out
    assert ways_in(page.home) == []


def test_the_file_is_removed_when_its_key_is_not_good_any_more(page: PageHome) -> None:
    past = Access(page.home.home, lambda: Access(page.home.home).now_ms() - KEY_LASTS_MS + 3_000)
    past.way_in(key := past.new_key(), f"{page.url}/enter#{key}")
    assert len(ways_in(page.home)) == 1
    eventually(lambda: not ways_in(page.home), "the page has removed it")


@pytest.mark.parametrize("change", ["revoke all", "another key"])
def test_files_of_keys_that_are_gone_go_with_any_change(tmp_path: Path, change: str) -> None:
    now = [1_700_000_000_000]
    access = Access(Home(str(tmp_path)), lambda: now[0])
    access.way_in(old := access.new_key(), f"http://x/enter#{old}")
    if change == "revoke all":
        access.revoke_all()
        assert os.listdir(tmp_path / "enter") == []
    else:
        access.new_key()
        assert len(os.listdir(tmp_path / "enter")) == 1, "it is good still"
        now[0] += KEY_LASTS_MS
        access.new_key()
        assert os.listdir(tmp_path / "enter") == []
