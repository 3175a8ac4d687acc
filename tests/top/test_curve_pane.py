"""The curve beside the log: there if the job has metrics, live, and one metric at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import pytest

from stoker.metrics.asking import Curve, curve_of
from stoker.metrics.series import Series
from stoker.top.curve_lines import curve_lines
from stoker.top.paint import BLOCKS, LETTERS, plain, width
from stoker_home import StokerHome
from top.live_view import LiveView, drive

TRAINING = "; ".join(f"echo epoch {n} loss={1 / n:.3f} acc={n / 9:.3f} lr=0.1" for n in (1, 2, 4))


def head(view: LiveView) -> str:
    return plain(view.app.curve_pane.shown[0]) if view.app.curve_pane.shown else ""


def test_a_curve_is_beside_the_log_where_there_is_room_and_else_below(reused: StokerHome) -> None:
    reused.until_final(reused.submit("sh", "-c", TRAINING))

    async def scenario(view: LiveView) -> None:
        await view.until_ids(1)
        await view.press("l")
        await view.until(lambda: "loss 0.25 at step 4" in head(view))
        log, curve = view.app.log_pane.region, view.app.curve_pane.region
        assert curve.y == log.y and curve.x == log.right and curve.right == 120
        assert curve.height == log.height and log.width > curve.width > 40
        await view.resize(80, 24)
        await view.until(lambda: view.app.curve_pane.region.y >= view.app.log_pane.region.bottom)
        curve = view.app.curve_pane.region
        assert curve.width == 80 and curve.bottom == view.app.foot.region.y
        await view.until(lambda: len(view.app.curve_pane.shown) == curve.height >= 4)
        assert view.app.log_pane.size.height >= 5
        picture = "\n".join(view.lines)
        assert "loss 0.25" in picture and "epoch 4" in picture

    drive(reused, scenario, 120, 40)


def test_m_shows_one_metric_after_the_other_and_then_none(reused: StokerHome) -> None:
    reused.until_final(reused.submit("sh", "-c", TRAINING))

    async def scenario(view: LiveView) -> None:
        await view.until_ids(1)
        await view.press("m")  # It opens the log, too.
        for name in ("loss 0.25", "acc 0.444", "lr 0.1"):
            await view.until(lambda name=name: name in head(view), name)  # type: ignore[misc]
            await view.press("m")
        assert not view.app.curve_pane.display and view.pane[-1].startswith("epoch 4")
        await view.press("m")
        await view.until(lambda: "loss 0.25" in head(view))
        await view.press("l")
        assert not view.app.curve_pane.display and not view.app.output.display

    drive(reused, scenario, 120, 40)


def test_a_curve_grows_with_its_job(reused: StokerHome) -> None:
    log = reused.work / "out.txt"
    reused.submit("sleep", "600", out=str(log))
    reused.until_pid(reused.nth(1))

    def say(epoch: int, loss: float) -> None:
        with log.open("a", encoding="utf-8") as file:
            file.write(f"epoch {epoch} loss={loss}\n")

    async def scenario(view: LiveView) -> None:
        await view.until_ids(1)
        await view.press("l")
        await view.until_text("log of job #1, running, following")
        say(1, 0.9)
        say(2, 0.7)
        await view.until(lambda: "loss 0.7 at step 2" in head(view))
        say(3, 0.4)
        await view.until(lambda: "loss 0.4 at step 3" in head(view))

    drive(reused, scenario, 120, 40)


def test_without_a_metric_there_is_no_pane_and_m_says_so(reused: StokerHome) -> None:
    reused.until_final(reused.submit("sh", "-c", TRAINING))
    reused.until_final(reused.submit("echo", "nothing to measure"))

    async def scenario(view: LiveView) -> None:
        await view.until_ids(2, 1)
        await view.press("l")
        await view.until(lambda: view.pane == ["nothing to measure"])
        assert view.app.log_pane.size.width == 120 and not view.app.curve_pane.display
        await view.press("m")
        await view.until_text("job #2 has no metrics so far")
        await view.press("tab", "j")
        await view.until(lambda: "loss 0.25" in head(view))
        await view.press("k")
        await view.until(lambda: not view.app.curve_pane.display)
        assert view.app.log_pane.size.width == 120

    drive(reused, scenario, 120, 40)


def of(values: Sequence[float], name: str) -> Curve:
    series = Series()
    series.extend(enumerate(values, 1))
    return curve_of(1, 1, name, series)


def test_a_curve_has_its_highest_and_lowest_value_its_steps_and_the_other_metrics_below() -> None:
    curves = [of([0.5], "acc"), of([4, 3, 2, 1], "loss"), of([7], "lr")]
    lines = [plain(line).rstrip() for line in curve_lines(curves, 1, 40, 10, BLOCKS)]
    head, *rows, steps = lines[:10]
    assert head == "loss 1 at step 4  2 of 3, m: next" and len(rows) == 8
    lines = [plain(line).rstrip() for line in curve_lines(curves, 1, 40, 20, BLOCKS)]
    assert [line[:9].strip() for line in lines[1:13]] == ["4", *[""] * 10, "1"]
    assert lines[1][10:] == "█" * 7 and lines[12][10:] == "█" * 21 + "▁" * 7
    assert lines[13] == " " * 10 + "1" + " " * 26 + "4" == steps
    assert [line.split() for line in lines[14:]] == [[], ["0.5", "acc"], ["7", "lr"]]


@pytest.mark.parametrize("values", [[1.0], [math.nan], [math.inf, -1e308, 1e308], [0.5] * 50])
def test_a_curve_of_any_values_fits_a_pane_of_any_size(values: list[float]) -> None:
    curves = [of(values, "[red]\x1b[2Jワイド" * 5)] * 3
    sizes = product((0, 1, 5, 13, 20, 44, 200), (0, 1, 2, 3, 4, 5, 9, 30), (BLOCKS, LETTERS))
    for columns, rows, glyphs in sizes:
        lines = curve_lines(curves, 1, columns, rows, glyphs)
        assert len(lines) <= rows
        assert all(width(line) in (0, columns) for line in lines)
        assert all(plain(line).isprintable() for line in lines)
        drawn = "".join(plain(line) for line in lines[1:15])
        assert glyphs is BLOCKS or drawn.isascii()
