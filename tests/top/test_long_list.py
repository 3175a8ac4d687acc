"""Ten thousand jobs: only what is in sight is asked for, and moving about stays quick."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from stoker.api.client import Client
from stoker.top.feed import View
from stoker_home import StokerHome
from top.live_view import LiveView, drive

MANY = 10_000


def test_ten_thousand_jobs_are_looked_at_through_a_window_and_no_key_waits_for_the_daemon(
    stoker: StokerHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [{"argv": ["true"], "name": f"job-{number}", "hold": True} for number in range(MANY)]
    stoker.submit_all(jobs)
    looked: list[View] = []
    asked_in: list[int] = []
    receive = Client.receive

    def noted(client: Client, timeout_s: float | None = None) -> dict[str, Any]:
        asked_in.append(threading.get_ident())
        return receive(client, timeout_s)

    async def scenario(view: LiveView) -> None:
        look = view.app.feed.look

        def note(proposal: View) -> None:
            looked.append(proposal)
            look(proposal)

        view.app.feed.look = note  # type: ignore[method-assign, assignment]
        await view.until_text("10,000 jobs")
        await each_place_is_right(view)
        await view.press("G")
        await view.until(lambda: view.cursor == MANY)
        await view.press("k", "l")
        await view.until_text(f"log of job {MANY - 1}")
        await view.press("l", "g")
        await view.until(lambda: view.cursor == 1)
        for _ in range(200):
            view.app.action_move(1)
        await view.until_cursor(201)
        assert asked_in and threading.get_ident() not in asked_in
        await view.press("slash")
        await view.type_at_once("job-999")
        await view.until_text("11 jobs")
        await view.until(lambda: view.ids == [1000, *range(9991, MANY + 1)])

    with monkeypatch.context() as patch:
        patch.setattr(Client, "receive", noted)
        drive(stoker, scenario)
    assert looked and all(view.limit < 200 for view in looked)


async def each_place_is_right(view: LiveView) -> None:
    """Go far, and back."""
    await view.until(lambda: len(view.ids) == 14)
    place = 1
    for keys, by in ((["pagedown"] * 12, 1), (["pageup"] * 3, -1), (["pagedown"] * 9, 1)):
        page = view.app.table.rows_in_sight - 1
        await view.press(*keys)
        place += by * len(keys) * page
        await view.until_cursor(place)
        await view.until(lambda: len(view.ids) == 14)
        first = view.ids[0]
        assert first <= place <= first + 13
        assert view.ids == list(range(first, first + 14))
