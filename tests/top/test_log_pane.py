"""The log pane: it follows, keeps colours, and lets nothing through that could harm a terminal."""

from __future__ import annotations

import pytest

from stoker.top.app import Top
from stoker.top.log_text import MOST_LINES, LogTail, Pen, styled
from stoker.top.paint import plain
from stoker_home import StokerHome
from top.live_view import LiveView, drive
from waiting import eventually


def test_l_follows_a_log_as_it_grows_and_closes_it(reused: StokerHome) -> None:
    log = reused.work / "out.txt"
    reused.submit("sleep", "600", name="talks", out=str(log))
    reused.until_state(reused.nth(1), "running")

    def say(text: str) -> None:
        with log.open("a", encoding="utf-8") as file:
            file.write(text)

    async def scenario(view: LiveView) -> None:
        await view.until_ids(1)
        await view.press("l")
        await view.until_text("log of job #1, running, following")
        say("one\ntwo")
        await view.until(lambda: view.pane == ["one", "two"])
        say(" and a half\n" + "".join(f"line {number}\n" for number in range(100)))
        await view.until(lambda: view.pane[-1:] == ["line 99"])
        await view.press("k", "k")
        await view.until_text("not following: G goes to the end")
        last = view.pane[-1]
        say("more\n")
        await view.until(lambda: len(view.app.log_pane._all) == 103)
        assert view.pane[-1] == last
        await view.press("g")
        assert view.pane[0] == "one"
        await view.press("space", "pagedown", "G")
        assert view.pane[-1] == "more"
        say("and more\n")
        await view.until(lambda: view.pane[-1:] == ["and more"])
        await view.press("l")
        assert view.pane == []

    drive(reused, scenario)


def test_the_log_of_the_next_attempt_follows_that_of_the_last(reused: StokerHome) -> None:
    reused.submit("sh", "-c", "echo attempt $STOKER_ATTEMPT; exit 1", retries=1)

    async def scenario(view: LiveView) -> None:
        await view.until_ids(1)
        await view.press("l")
        await view.until(lambda: view.pane == ["attempt 2"])
        await view.until_text("failed, exit code 1, attempt 2")

    drive(reused, scenario)


def test_a_job_that_waits_has_no_log_yet(reused: StokerHome) -> None:
    reused.submit("sleep", "600", hold=True)

    async def scenario(view: LiveView) -> None:
        await view.until_ids(1)
        await view.press("l")
        await view.until_text("no log yet")

    drive(reused, scenario)


def test_with_the_keyboard_in_the_list_the_log_goes_along(reused: StokerHome) -> None:
    for number in (1, 2, 3):
        reused.until_final(reused.submit("echo", f"job {number}"))

    async def scenario(view: LiveView) -> None:
        await view.until_ids(3, 2, 1)
        await view.press("l")
        await view.until(lambda: view.pane == ["job 3"])
        await view.press("tab", "j")
        await view.until(lambda: view.pane == ["job 2"])
        await view.press("j")
        await view.until(lambda: view.pane == ["job 1"])

    drive(reused, scenario)


HOSTILE = (
    b"\x1b]0;title\x07\x1b]52;c;cHduZWQ=\x07"  # the title, the clipboard
    b"\x1b[2J\x1b[H\x1b[?1049l\x1bc"  # erase, leave the screen, reset
    b"[bold]\\[red]{markup}<b>&amp; $name "
    b"\xe2\x80\xae\xc2\x9b31m\x00\x07\x08\xff"  # right-to-left, C1, controls, not UTF-8
    b"end\n"
)


def test_hostile_text_is_only_text(reused: StokerHome) -> None:
    log = reused.work / "out.txt"
    log.write_bytes(HOSTILE)
    job_id = reused.submit("sleep", "600", name="[red]<b>", out=str(reused.work / "other.txt"))
    reused.until_pid(job_id)
    (reused.work / "other.txt").write_bytes(HOSTILE)

    async def scenario(view: LiveView) -> None:
        await view.until_ids(1)
        assert "[red]<b>" in view.jobs[0]
        await view.press("l")
        await view.until(lambda: view.pane)
        (line,) = view.pane
        assert line.isprintable()
        assert line.startswith("[bold]\\[red]{markup}<b>&amp; $name ") and line.endswith("end")
        picture = view.app.export_screenshot()
        assert "\x1b" not in picture and "{markup}&lt;b&gt;&amp;amp;" in picture

    drive(reused, scenario)


def test_progress_bars_are_shown_in_their_last_state(reused: StokerHome) -> None:
    reused.until_final(reused.submit("printf", r"a\rb\rdone 1\na\r\nx\ry 50%%"))

    async def scenario(view: LiveView) -> None:
        await view.until_ids(1)
        await view.press("l")
        await view.until(lambda: view.pane == ["done 1", "a", "y 50%"])

    drive(reused, scenario)


def test_a_log_of_a_hundred_megabytes_is_shown_at_once(reused: StokerHome) -> None:
    script = "head -c 100000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo; echo the end"
    reused.until_final(reused.submit("sh", "-c", script))

    async def scenario(view: LiveView) -> None:
        await view.until_ids(1)
        await view.press("l")
        await view.until(lambda: view.pane[-1:] == ["the end"])
        await view.press("g")
        assert view.pane[0] == f"earlier lines: stoker logs --all {reused.nth(1)}"
        assert len(view.app.log_pane._all) < 3 * MOST_LINES

    drive(reused, scenario)


def test_lines_that_are_too_long_for_the_pane_go_on_below(reused: StokerHome) -> None:
    text = "0123456789" * 10 + "火" * 50
    reused.until_final(reused.submit("echo", text))

    async def scenario(view: LiveView) -> None:
        await view.until_ids(1)
        await view.press("l")
        await view.until(lambda: view.pane)
        assert "".join(view.pane) == text
        await view.resize(40, 24)
        await view.until(lambda: all(len(line) <= 40 for line in view.pane))
        assert "".join(view.pane) == text

    drive(reused, scenario)


def test_an_emptied_file_is_read_anew_and_a_missing_one_is_waited_for(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    tail = LogTail(str(path))
    assert not tail.read() and tail.missing
    path.write_text("first\n", encoding="utf-8")
    assert tail.read()
    other = path.with_name("other")
    other.write_text("second\n", encoding="utf-8")
    other.rename(path)
    assert eventually(tail.read)
    assert [plain(line) for line in tail.lines] == ["second"]
    tail.close()


@pytest.mark.parametrize(
    ("raw", "pieces"),
    [
        (b"plain", [("plain", "")]),
        (b"\x1b[31mred\x1b[0m plain", [("red", "fg:1"), (" plain", "")]),
        (b"\x1b[1;92mloud\x1b[22m\x1b[39m.", [("loud", "bold fg:10"), (".", "")]),
        (b"\x1b[38;5;208mx\x1b[48;2;1;2;3my", [("x", "fg:208"), ("y", "fg:208 bg:#010203")]),
        (b"\x1b[38;5mx\x1b[38;2;1mx\x1b[999;;7mz", [("x", ""), ("x", ""), ("z", "reverse")]),
        (b"a\tb", [("a       b", "")]),
        (b"x\x1b[31", [("x31", "")]),
    ],
)
def test_colours_become_styles(raw: bytes, pieces: list[tuple[str, str]]) -> None:
    assert styled(raw, Pen()) == pieces


def test_a_style_lasts_over_the_end_of_a_line() -> None:
    pen = Pen()
    styled(b"\x1b[35m", pen)
    assert styled(b"next", pen) == [("next", "fg:5")]


def test_a_line_without_end_is_cut_and_that_is_said() -> None:
    line = plain(styled(b"x" * 1_000_000, Pen()))
    assert len(line) < 20_000 and line.endswith("bytes more")


def test_the_pane_is_closed_with_the_view(reused: StokerHome) -> None:
    reused.submit("sleep", "600")

    async def scenario(view: LiveView) -> None:
        await view.until_ids(1)
        await view.press("l")
        await view.until_text("log of job #1")

    app = drive(reused, scenario)
    assert isinstance(app, Top) and app.log_pane.job_id is None
