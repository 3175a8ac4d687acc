"""A daemon that goes away is shown, and found again by itself."""

from __future__ import annotations

import asyncio

from stoker_home import StokerHome
from top.live_view import LiveView, drive


def test_a_daemon_that_was_stopped_is_waited_for_and_not_brought_back(stoker: StokerHome) -> None:
    log = stoker.work / "out.txt"
    stoker.submit("sleep", "600", name="goes-on", out=str(log))
    stoker.until_pid(1)

    async def scenario(view: LiveView) -> None:
        await view.until_ids(1)
        await view.press("l")
        await view.until_text("running, following")
        await asyncio.to_thread(stoker.stoker, "daemon", "stop")
        await view.until_text("the daemon was stopped; `stoker daemon start` brings it back")
        assert view.ids == [1], "what was known stays on the screen"
        log.write_text("still here\n", encoding="utf-8")
        await view.until(lambda: view.pane == ["still here"], "its log is followed")
        await view.press("l")
        await view.press("h")
        await view.until_text("only waiting jobs")
        await view.press("c", "y")
        await view.until(lambda: "daemon" in view.app.message, "the order can't be given")
        assert stoker.daemons() == []
        await asyncio.to_thread(stoker.start)
        await view.until_gone("the daemon was stopped")
        await asyncio.to_thread(stoker.submit, "true", name="new")
        await view.until(lambda: 2 in view.ids)

    drive(stoker, scenario)
    assert stoker.job(1)["state"] == "running"


def test_a_daemon_that_died_is_started_again(stoker: StokerHome) -> None:
    stoker.submit("sleep", "600", gpus=0)

    async def scenario(view: LiveView) -> None:
        await view.until_ids(1)
        before = stoker.daemon_pid()
        await asyncio.to_thread(stoker.kill_daemon)
        await view.until(lambda: any(pid != before for pid in stoker.daemons()))
        await asyncio.to_thread(stoker.start)
        await asyncio.to_thread(stoker.submit, "sleep", "600", gpus=0)
        await view.until_ids(1, 2)
        assert not view.app.lost

    drive(stoker, scenario)


def test_the_view_starts_a_daemon_if_there_is_none(home: StokerHome) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until_text("no jobs")

    drive(home, scenario)
    assert home.call("hello")["pid"]
