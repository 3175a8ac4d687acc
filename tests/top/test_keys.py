"""Every key of the live view, against a real daemon."""

from __future__ import annotations

import pytest

from stoker_home import StokerHome
from top.live_view import LiveView, drive
from waiting import eventually


@pytest.fixture
def busy(reused: StokerHome) -> StokerHome:
    """Job 1 runs on all GPUs, 2 to 6 wait, 7 has failed."""
    failed = {"argv": ["sh", "-c", "echo oh no; exit 3"], "name": "broken", "gpus": 0}
    reused.submit("sleep", "600", name="runs", gpus=4)
    waiting = [{"argv": ["sleep", "600"], "name": f"waits-{number}"} for number in range(2, 7)]
    reused.submit_all([*waiting, failed])
    reused.until_state(reused.nth(1), "running")
    reused.until_final(reused.nth(7))
    return reused


def test_j_and_k_and_the_arrows_move_the_cursor(busy: StokerHome) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until_ids(1, 2, 3, 4, 5, 6, 7)
        assert view.cursor == 1
        await view.press("j", "j", "down")
        assert view.cursor == 4
        await view.press("k", "up")
        assert view.cursor == 2
        await view.press("G")
        assert view.cursor == 7
        await view.press("g")
        assert view.cursor == 1
        await view.press("end", "pageup", "k")
        assert view.cursor == 1
        await view.press("pagedown", "j")
        assert view.cursor == 7

    drive(busy, scenario)


def test_the_cursor_stays_with_its_job_when_the_list_moves(busy: StokerHome) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until(lambda: len(view.ids) == 7)
        await view.press("j", "j", "j")
        assert view.cursor == 4
        busy.call("edit", select={"ids": [str(busy.nth(6))]}, changes={"priority": -5})
        await view.until_ids(1, 6, 2, 3, 4, 5, 7)
        assert view.cursor == 4

    drive(busy, scenario)


def test_until_it_is_moved_the_cursor_stays_at_the_top(busy: StokerHome) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until(lambda: len(view.ids) == 7)
        busy.submit("sleep", "600", gpus=0)
        await view.until(lambda: view.ids[:2] == [1, 8])
        busy.call("cancel", select={"ids": [str(busy.nth(1))]})
        await view.until(lambda: view.ids[0] != 1)
        assert view.cursor == view.ids[0]

    drive(busy, scenario)


def test_a_filter_narrows_the_list_letter_by_letter(busy: StokerHome) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until(lambda: len(view.ids) == 7)
        await view.press("/", "w", "a")
        await view.until_ids(2, 3, 4, 5, 6)
        await view.press("i", "t", "s", "-", "4")
        await view.until_ids(4)
        await view.press("enter")
        assert not view.app.filter_line.display
        await view.until_text("filter: waits-4")
        await view.press("escape")
        await view.until(lambda: len(view.ids) == 7)

    drive(busy, scenario)


def test_letters_that_come_together_with_the_slash_are_no_commands(busy: StokerHome) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until(lambda: len(view.ids) == 7)
        await view.press("slash")
        await view.type_at_once("roken-c+qjh")
        await view.until(lambda: view.app.filter_line.text == "roken-c+qjh")
        await view.press("ctrl+u")
        await view.type_at_once("broke")
        await view.until_ids(7)
        await view.press("escape")
        await view.until(lambda: len(view.ids) == 7)
        assert view.app.is_running and not view.app.message

    drive(busy, scenario)
    assert busy.job(busy.nth(1))["state"] == "running"


def test_a_filter_is_that_of_the_command_line_and_tells_slips(busy: StokerHome) -> None:
    busy.submit("sleep", "600", name="x", group="sweep")

    async def scenario(view: LiveView) -> None:
        await view.until(lambda: len(view.ids) == 8)
        for typed, ids in (
            ("state:fail", [7]),
            ("state:running,failed", [1, 7]),
            ("group:sweep", [8]),
            ("user:tester waits-2", [2]),
            ("user:nobody", []),
            ("-state:waiting -name:x", [1, 7]),
            ("gpu:0", [1]),
        ):
            await view.press("slash")
            await view.type_at_once(typed)
            await view.until_ids(*ids)
            await view.press("escape")
            await view.until(lambda: len(view.ids) == 8)
        await view.press("slash")
        await view.type_at_once("state:failed stat:x")
        await view.until_text("there is no filter 'stat:'; did you mean state:")
        await view.press("ctrl+w")
        await view.until_gone("did you mean")
        await view.until_ids(7)

    drive(busy, scenario)


def test_s_sorts_by_the_next_column_and_capital_s_turns_round(busy: StokerHome) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until(lambda: len(view.ids) == 7)
        await view.press("s")
        await view.until_text("by id")
        await view.press("S")
        await view.until_ids(7, 6, 5, 4, 3, 2, 1)
        await view.until_text("by id, backwards")
        await view.press("s")
        await view.until_text("by name")
        await view.until_ids(7, 1, 2, 3, 4, 5, 6)
        busy.submit_all([{"argv": ["true"], "name": name} for name in ("waits-10", "Waits-1")])
        await view.until_ids(7, 1, 9, 2, 3, 4, 5, 6, 8)

    drive(busy, scenario)


def test_enter_shows_all_about_a_job_and_escape_closes_it(busy: StokerHome) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until(lambda: len(view.ids) == 7)
        await view.press("j", "enter")
        await view.until(lambda: f"job {busy.nth(2)} (waits-2)" in view.pane)
        assert any(line.startswith("why: needs 1 GPU, 0 of 4 free") for line in view.pane)
        await view.press("G")
        await view.until(lambda: any("waited" in line for line in view.pane))
        await view.press("tab", "k")  # With the keyboard in the list, the pane goes along.
        await view.until(lambda: f"job {busy.nth(1)} (runs)" in view.pane)
        await view.press("escape")
        assert view.pane == []

    drive(busy, scenario)


def test_c_asks_and_only_y_stops_the_job(busy: StokerHome) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until(lambda: len(view.ids) == 7)
        for no in ("n", "escape", "q"):
            await view.press("c")
            await view.until_text("Stop job #1 (runs)?")
            await view.press("enter", "space", no)
            await view.until_gone("Stop job #1")
        assert busy.job(busy.nth(1))["state"] == "running"
        first = str(busy.nth(1))
        busy.submit_all([{"argv": ["true"], "name": "eval", "after": [first]}] * 9)
        busy.submit("true", name="cleans up", after_any=[first])
        await view.press("c")
        await view.until_text("9 jobs that require this will be skipped:")
        await view.until_text("job #8 (eval)")
        await view.until_text("and 1 more")
        await view.until_text("y stop it")
        await view.press("y")
        await view.until_text("cancelling job #1")

    drive(busy, scenario)
    assert busy.until_final(busy.nth(1))[0]["state"] == "cancelled"


def test_a_job_that_waits_is_asked_about_too(busy: StokerHome) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until(lambda: len(view.ids) == 7)
        await view.press("j", "c")
        await view.until_text("Remove job #2 (waits-2) from the queue?")
        await view.press("y")
        await view.until_text("cancelling job #2")

    drive(busy, scenario)
    assert busy.job(busy.nth(2))["state"] == "cancelled"


def test_marked_jobs_are_cancelled_together(busy: StokerHome) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until(lambda: len(view.ids) == 7)
        await view.press("space", "space", "j", "space", "k", "k", "k", "space")
        await view.until_text("2 marked")  # 1, 2 and 4 were, and 2 is not any more.
        assert [row[0] for row in view.jobs] == ["●", " ", " ", "●", " ", " ", " "]
        await view.press("c")
        await view.until_text("Cancel 2 jobs, 1 of them running?")
        await view.press("y")
        await view.until_text("cancelling jobs #1, #4")
        await view.until_gone("marked")

    drive(busy, scenario)
    assert busy.until_final(busy.nth(1), busy.nth(4))[1]["state"] == "cancelled"
    assert busy.job(busy.nth(3))["state"] != "cancelled"


def test_escape_forgets_the_filter_and_then_the_marks(busy: StokerHome) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until(lambda: len(view.ids) == 7)
        await view.press("j", "space", "slash", *"waits-2", "enter")
        await view.until_ids(2)
        assert view.jobs[0].startswith("●")
        await view.press("escape")
        await view.until(lambda: len(view.ids) == 7)
        await view.until_text("1 marked")
        await view.press("escape")
        await view.until_gone("marked")

    drive(busy, scenario)


def test_r_queues_a_job_again_that_has_ended(busy: StokerHome) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until(lambda: len(view.ids) == 7)
        await view.press("G", "r")
        await view.until_text("queued again: job #7")
        await view.press("g", "r")
        await view.until_text("job #1 (runs) is running: only finished jobs can be retried")
        await view.until_text("q quit")  # A message hides no keys.

    drive(busy, scenario)
    eventually(lambda: busy.job(busy.nth(7))["attempt"] == 2, "it has run again")


def test_z_suspends_and_lets_go_on(busy: StokerHome) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until(lambda: len(view.ids) == 7)
        await view.press("g", "z")
        await view.until_text("suspended: job #1")
        assert busy.job(busy.nth(1))["suspended_at_ms"]
        await view.until_text("suspended for")
        await view.press("z")
        await view.until_text("resumed: job #1")
        assert busy.job(busy.nth(1))["suspended_at_ms"] is None
        await view.press("j", "z")
        await view.until_text("only running jobs can be suspended")

    drive(busy, scenario)


def test_h_holds_and_releases(busy: StokerHome) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until(lambda: len(view.ids) == 7)
        await view.press("j", "h")
        await view.until_text("held job #2")
        assert busy.job(busy.nth(2))["state"] == "held"
        await view.until_ids(1, 3, 4, 5, 6, 2, 7)
        assert view.cursor == 2
        await view.press("h")
        await view.until_text("released job #2")
        await view.press("g", "h")
        await view.until_text("only waiting jobs can be held")

    drive(busy, scenario)
    assert busy.job(busy.nth(2))["state"] == "waiting"


def test_p_pauses_and_resumes_the_queue_or_a_group(busy: StokerHome) -> None:
    busy.submit("sleep", "600", name="x", group="night")

    async def scenario(view: LiveView) -> None:
        await view.until(lambda: len(view.ids) == 8)
        await view.press("P")
        await view.until_text("in no group; p pauses the queue")
        await view.press("p")
        await view.until_text("PAUSED: nothing new starts")
        await view.press("p")
        await view.until_text("resumed: the whole queue")
        await view.until_gone("PAUSED")
        await view.press(*"jjjjjj")
        await view.until_cursor(8)
        await view.press("P")
        await view.until_text("group night paused")
        await view.press("P")
        await view.until_text("resumed: group night")

    drive(busy, scenario)


def test_d_drains_the_gpus_that_are_typed_and_takes_them_back(busy: StokerHome) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until(lambda: len(view.ids) == 7)
        await view.press("d")
        await view.until_text("GPUs to drain or to resume: 0,1,2,3")  # those of job 1
        await view.press("ctrl+u", *"1-2", "enter")
        await view.until_text("draining GPU 1, 2")
        await view.until(lambda: sum("drained" in line for line in view.lines) == 2)
        await view.press("d", "ctrl+u", "9", "enter")
        await view.until_text("there is no GPU 9; the GPUs are: 0, 1, 2, 3")
        await view.press("d", "escape")
        await view.press("d", "ctrl+u", *"1,2", "enter")
        await view.until_text("resumed GPU 1, 2")
        await view.until_gone("drained")

    drive(busy, scenario)


def test_plus_and_minus_move_a_job_in_the_queue(busy: StokerHome) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until(lambda: len(view.ids) == 7)
        await view.press("j", "j", "plus")
        await view.until_text("sooner: job #3 (priority -1)")
        await view.until_ids(1, 3, 2, 4, 5, 6, 7)
        await view.press("minus")
        await view.until_text("later: job #3 (priority 0)")
        await view.until_ids(1, 2, 3, 4, 5, 6, 7)
        await view.press("minus")
        await view.until_ids(1, 2, 4, 5, 6, 3, 7)

    drive(busy, scenario)
    assert busy.job(busy.nth(3))["priority"] == 1


def test_what_the_daemon_refuses_is_told(busy: StokerHome) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until(lambda: len(view.ids) == 7)
        await view.press("j")
        await view.press("c")
        await view.until_text("from the queue?")
        busy.call("cancel", select={"ids": [str(busy.nth(2))]})
        await view.press("y")
        await view.until_text("job #2 has ended already (cancelled)")

    drive(busy, scenario)


def test_question_mark_shows_every_key(busy: StokerHome) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until(lambda: len(view.ids) == 7)
        await view.press("?")
        await view.until_text("sort by the next column")
        shown = "\n".join(view.lines)
        for key in ("q", "/", "j k", "Enter", "Esc", "Space", "p  P", "+  -", *"slcrhed"):
            assert key in shown
        await view.press("c", "r", "h")  # Nothing but closing is meant by keys here.
        await view.press("q")
        await view.until_gone("sort by the next column")
        assert view.app.is_running

    drive(busy, scenario)
    assert busy.job(busy.nth(1))["state"] == "running"


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_q_and_ctrl_c_quit_and_leave_the_jobs_alone(busy: StokerHome, key: str) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until(lambda: len(view.ids) == 7)
        await view.press(key)
        await view.until(lambda: not view.app.is_running)

    assert drive(busy, scenario).return_code == 0
    assert busy.job(busy.nth(1))["state"] == "running"


def test_keys_on_an_empty_list_do_no_harm(reused: StokerHome) -> None:
    async def scenario(view: LiveView) -> None:
        await view.until_text("no jobs")
        await view.press(*"jkGgcrhlsS", "plus", "minus", "space", "enter", "escape", "tab")
        await view.press("pageup", "pagedown", "ctrl+l")
        reused.submit("sleep", "600", name="first")
        await view.until_ids(1)
        assert view.pane == [] and view.cursor == 1

    drive(reused, scenario)
