"""Metrics are found in the output of real trainings, and hostile output does no harm."""

from __future__ import annotations

import math
import re
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stoker.errors import UsageError
from stoker.metrics.extractor import MOST_NAMES, Extractor
from stoker.metrics.patterns import TooSlow, patience, read_pattern
from stoker.metrics.plain_lines import LONGEST_LINE
from stoker.metrics.shapes import plan_of

SAID = Path(__file__).parent / "training_said"
Series = dict[str, list[tuple[float | None, float]]]


def extracted(*pieces: bytes, metrics: tuple[str, ...] = ()) -> Series:
    extractor = Extractor([read_pattern(metric) for metric in metrics])
    found: Series = {}
    for batch in [*map(extractor.feed, pieces), extractor.end()]:
        for name, points in batch:
            found.setdefault(name, []).extend(points)
    return found


def said(name: str) -> Series:
    return extracted((SAID / f"{name}.txt").read_bytes())


def rounded(points: list[tuple[float | None, float]]) -> list[tuple[float | None, float]]:
    return [(None if step is None else round(step, 3), value) for step, value in points]


# ---------------------------------------------------------------------- many lines at once


def test_lines_that_alternate_in_any_way_are_found_together_as_one_by_one() -> None:
    rule = b"-" * 20 + b"\n"
    table = b"%b| fps | %d |\n| loss | 0.%d |\n| loss | 1%d.5 |\n%b"
    tables = [table % (rule, n, n, n, rule) for n in range(10, 40)]
    prose = [b"loading the %b\n" % (b"layer " * n) for n in range(20)]
    prose += [b"now with %b loss=0.%d\n" % (b"more " * n, n) for n in range(20)]
    prose += [b"of %b we have loss: nan\n" % (b"this " * n) for n in range(5)]
    for lines in (tables, [*tables[:7], b"loss=0.125\n", *tables[7:]], prose):
        whole = b"".join(lines)
        found = extracted(whole, whole)  # The second time, the lines are known.
        assert same(found, extracted(*(whole + whole).splitlines(keepends=True)))
        assert len(found["loss"]) == 2 * sum(line.count(b"loss") for line in lines)


# ---------------------------------------------------------------------- what real trainings print


def test_bars_of_lines_are_taken_at_once_however_far_they_are() -> None:
    line = "Epoch 0 {}╸{} {}/40 0:00:01 train_loss: 0.{:02d}\n"
    extractor = Extractor()
    with pytest.MonkeyPatch.context() as patch:
        seen: list[bytes] = []

        def looked_at(line: bytes) -> object:
            seen.append(line)
            return plan_of(line)

        patch.setattr("stoker.metrics.extractor.plan_of", looked_at)
        lines = [line.format("━" * n, "━" * (39 - n), n, n) for n in range(1, 40)]
        [found] = extractor.feed("".join(lines).encode())
    assert (found.name, len(found.points)) == ("train_loss", 39)
    assert len(seen) == 3, "three lines tell what the others mean"


def test_plain_prints() -> None:
    found = said("prints")
    assert found["loss"][:2] == [(1, 0.9), (2, 0.7)]
    assert found["loss"][2][0] == 3 and math.isnan(found["loss"][2][1])
    assert found["loss"][3:] == [(4, 0.5125), (None, 0.312)]
    assert found["lr"] == [(1, 1e-3), (2, 1e-3), (3, 5e-4)]
    assert found["val_loss"] == [(None, 0.31)]
    assert found["Train_Loss"] == [(None, 0.41)]
    assert found["Val_Loss"] == [(None, math.inf)]
    assert found["Val_Acc"] == [(None, 85.2)]
    assert found["final_loss"] == [(None, 0.3)]
    assert len(found) == 7, "no time, no date, no device and no duration is a metric"


def test_a_pytorch_script() -> None:
    found = said("pytorch")
    losses = [3.1823, 6.4398, 1.8267, 1.4152, 1.41516, 0.5685, 1.0559, 0.3212, 0.2939, 0.293881]
    losses += [0.1201, 0.1879, 0.0618, 0.0631, 0.06311]
    steps = [0.25, 0.5, 0.75, 1, 1, 1.25, 1.5, 1.75, 2, 2, 2.25, 2.5, 2.75, 3, 3]
    assert found["Loss"] == list(zip(steps, losses, strict=True))
    assert [value for _, value in found["Average_loss"]] == [1.4152, 0.2939, 0.0631]
    assert [value for _, value in found["Accuracy"]] == [50 / 64, 51 / 64, 52 / 64]


def test_the_trainer_of_hugging_face() -> None:
    found = said("hf_trainer")
    assert found["loss"] == [
        (0.5, 5.696), (1, 5.431), (1.5, 5.799), (2, 5.323), (2.5, 3.582), (3, 7.538),
    ]  # fmt: skip
    assert found["eval_loss"] == [(1, 5.889), (2, 5.887), (3, 5.886)]
    assert found["learning_rate"][-1] == (3, 2.083e-06)
    assert found["train_loss"] == [(3, 5.562)]


def test_the_older_form_of_the_trainer_has_bare_numbers() -> None:
    line = b"{'loss': 0.5, 'grad_norm': 1.25, 'learning_rate': 4.9e-05, 'epoch': 1.0}\n"
    assert extracted(line) == {
        "loss": [(1, 0.5)], "grad_norm": [(1, 1.25)], "learning_rate": [(1, 4.9e-05)],
    }  # fmt: skip


def test_keras_bars_and_its_lines_without_bars() -> None:
    found = said("keras")
    assert rounded(found["loss"]) == [
        (0.167, 0.7878), (1, 0.7623), (1.167, 0.7331), (2, 0.761), (2.167, 0.8491), (3, 0.7592),
        (1, 0.758), (2, 0.7564),
    ]  # fmt: skip
    assert found["val_loss"] == [(1, 0.6405), (2, 0.6396), (3, 0.6389), (1, 0.6381), (2, 0.6375)]


def test_a_bar_of_older_keras() -> None:
    output = (
        b"Epoch 3/10\n"
        b" 450/1000 [============>.................] - ETA: 0s - loss: 0.3 - acc: 0.8\r"
        b"1000/1000 [==============================] - 2s 2ms/step - loss: 0.2 - val_loss: 0.4\n"
    )
    assert extracted(output) == {
        "loss": [(2.45, 0.3), (3, 0.2)], "acc": [(2.45, 0.8)], "val_loss": [(3, 0.4)],
    }  # fmt: skip


def test_lightning_with_tqdm_bars() -> None:
    found = said("lightning_tqdm")
    losses = found["train_loss"]
    assert losses[:3] == [(0.125, 4.74), (0.25, 5.69), (0.375, 2.16)], "one point for each step"
    assert losses[-1] == (3, 0.00101)
    assert found["val_loss"][0] == (1, 0.211) and found["val_loss"][-1] == (3, 0.000589)
    assert set(found) == {"train_loss", "val_loss"}


def test_lightning_with_rich_bars_to_a_file() -> None:
    found = said("lightning_rich")
    assert found["train_loss"] == [(2, 0.001)] and found["val_loss"] == [(2, 0.001)]


def test_tqdm_with_a_postfix() -> None:
    found = said("tqdm")
    assert set(found) == {"loss", "acc"}
    assert found["loss"][:4] == [(0, 1), (0.05, 0.5), (0.1, 0.333), (0.15, 0.25)]
    assert found["loss"][-1] == (2, 0.025)
    assert [step for step, _ in found["loss"]] == sorted(step or 0 for step, _ in found["loss"])


def test_bars_that_say_no_epoch_are_counted_on() -> None:
    bar = "%3d%%|%-10s| %d/8 [00:01<00:01, 2.0it/s, loss=%d]\r"
    said = [(25, "##", 2, 5), (100, "#" * 10, 8, 9), (25, "##", 2, 1)]
    bars = [(bar % one).encode() for one in said]
    assert extracted(*bars) == {"loss": [(2, 5), (8, 9), (10, 1)]}


def test_accelerate() -> None:
    found = said("accelerate")
    assert [step for step, _ in found["loss"]] == list(range(1, 13))
    assert found["loss"][0] == (1, 4.4626) and found["loss"][-1] == (12, 0.0524)
    assert found["mse"][1] == (1, 0.22008588910102844)
    assert found["perplexity"] == [(0, 2.5), (1, 1.5), (2, 0.5)]


def test_json_lines() -> None:
    found = said("json_lines")
    assert found["loss"] == [(1, 0.5), (2, -math.inf)]
    assert math.isnan(found["val/acc@1"][0][1])
    assert set(found) == {"loss", "val/acc@1"}


@pytest.mark.parametrize(
    "line",
    [
        "started at 12:30:45", "date: 2026-11-18", "date: 11/18/2026", "took: 12.5s",
        "version: 1.2.3", "train.py:42: UserWarning", "http://host:8080/x", "size=1,234",
        "runtime = 0:00:12.34", "sha=12ab34", "Epoch 3", "ETA: 0s", "loss: none", "loss=0x1f",
        "a7bfc12: 0.3", "a7bfc12... = 0.3", "a7bfc12\u2026: 0.3", f"{'c0ffee' * 7}: 1",
        "'a7bfc12f-0000-1000-80b7-00000000beef': 0.3",
    ],
)  # fmt: skip
def test_what_is_no_metric(line: str) -> None:
    assert extracted(line.encode()) == {}


def test_names_that_differ_by_a_digit_are_different_metrics() -> None:
    output = b"top1: 0.5 top5: 0.9\ntop1: 0.6 top5: 0.8\nlayer1.loss=1 layer2.loss=2\n"
    assert extracted(output) == {
        "top1": [(None, 0.5), (None, 0.6)], "top5": [(None, 0.9), (None, 0.8)],
        "layer1.loss": [(None, 1)], "layer2.loss": [(None, 2)],
    }  # fmt: skip


# ---------------------------------------------------------------------- in pieces

LINES = st.sampled_from(
    [
        b"step 7 loss=0.31 lr=1e-4", b"Epoch 3/10", b"{'loss': 0.5, 'epoch': 1.0}",
        b" 45%|####5     | 450/1000 [00:12<00:15, 36.5it/s, loss=0.312]", b"val_loss: nan",
        b"8/9 [====>.....] - ETA: 0s - loss: 0.3", b"noise without a number", b"", b"\xff\x00=3",
        b'{"step": 3, "loss": -Infinity}', b"top1: 0.5", b"x" * (LONGEST_LINE + 1) + b" loss=1",
    ]
)  # fmt: skip
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])
COLOURS = st.sampled_from([b"\x1b[1m", b"\x1b[0;32m", b"\x1b[K", b"\x1b[?25l", b"\x1b]0;title\x07"])


def same(one: Series, other: Series) -> bool:
    return repr(sorted(one.items())) == repr(sorted(other.items()))  # nan is not equal to itself


@given(st.lists(st.tuples(LINES, ENDS), max_size=30), st.data())
def test_however_the_output_is_cut_the_series_are_those_of_the_whole(
    lines: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    whole = b"".join(line + end for line, end in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=20)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert same(extracted(*pieces), extracted(whole))


@given(st.lists(LINES.filter(lambda line: len(line) < 200), max_size=10), st.data())
def test_line_ends_of_any_kind_and_colours_anywhere_change_nothing(
    lines: list[bytes], data: st.DataObject
) -> None:
    plain = b"".join(line + b"\n" for line in lines)
    fancy = b""
    for line in lines:
        for place in sorted(
            data.draw(st.lists(st.integers(0, len(line)), max_size=3)), reverse=True
        ):
            line = line[:place] + data.draw(COLOURS) + line[place:]
        fancy += line + data.draw(ENDS)
    assert same(extracted(fancy), extracted(plain))


@given(st.binary(max_size=2000), st.integers(1, 50))
@example(b"loss=1\x1b", 3)
@example(b"\x1b]0;never ended loss=1\n", 4)
def test_binary_output_does_no_harm_and_cuts_do_not_change_it(output: bytes, size: int) -> None:
    pieces = [output[at : at + size] for at in range(0, len(output), size)]
    assert same(extracted(*pieces), extracted(output))


# ---------------------------------------------------------------------- hostile output


def test_a_line_without_an_end_takes_no_memory_and_is_left_out() -> None:
    extractor = Extractor()
    piece = b"loss=1 " * (1 << 17)
    for _ in range(100):
        assert extractor.feed(piece) == []
    assert len(extractor._pending) <= LONGEST_LINE
    assert extractor.feed(b"\nloss=2\n")[0].points == [(None, 2)]


def test_a_log_with_ever_new_names_and_shapes_takes_bounded_memory() -> None:
    extractor = Extractor()
    for start in range(0, 20_000, 1000):
        extractor.feed(
            b"".join(b"name%d_%s=1\n" % (n, b"x" * (n % 90)) for n in range(start, start + 1000))
        )
    assert len(extractor._names) == MOST_NAMES
    assert extractor._known_bytes < 8 << 20


def test_names_with_markup_are_none_and_names_of_javascript_are_only_names() -> None:
    assert extracted(b"'<img src=x onerror=alert(1)>': 3\n") == {}
    assert extracted(b'{"__proto__": 3, "constructor": 4}\n') == {
        "__proto__": [(None, 3)], "constructor": [(None, 4)],
    }  # fmt: skip


def test_many_digits_are_no_number() -> None:
    assert extracted(b"loss=" + b"9" * 5000 + b"\n") == {}


# ---------------------------------------------------------------------- the user's own


def test_a_pattern_of_the_user_finds_what_has_no_usual_shape() -> None:
    output = b"step 4 loss=9\nthe final loss was 0.25, at last\n"
    assert extracted(output, metrics=(r"final=final loss was (\S+)",)) == {
        "loss": [(4, 9)], "final": [(None, 0.25)],
    }  # fmt: skip


def test_a_pattern_replaces_the_metric_of_that_name_and_may_say_the_step() -> None:
    output = b"loss=9\nat 7 we lost 3.5%\nat 8 we lost nothing\n"
    pattern = r"loss=at (?P<step>\d+) we lost (?P<value>\S+)"
    assert extracted(output, metrics=(pattern,)) == {"loss": [(7, 3.5)]}


@pytest.mark.parametrize("text", ["loss", "=x(.)", "loss=", "loss=(", "loss=final"])
def test_a_wrong_pattern_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(r"--metric 'loss=final loss (\S+)'")):
        read_pattern(text)


def test_a_pattern_that_backtracks_for_ever_is_given_up() -> None:
    began = time.monotonic()
    with pytest.raises(TooSlow), patience(0.2):
        extracted(b"x" * 60 + b"!\n", metrics=(r"loss=(x+x+)+(\d)",))
    assert time.monotonic() - began < 60
